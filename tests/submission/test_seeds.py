"""One root seed, spawned per purpose."""

import pytest

from a2perf.errors import ConfigError
from a2perf.submission.seeds import read_seed_file, spawn_seeds


def test_longer_list_starts_with_the_shorter_one() -> None:
    assert spawn_seeds(7, "episodes", 10)[:4] == spawn_seeds(7, "episodes", 4)


def test_purposes_streams_and_roots_give_different_seeds() -> None:
    lists = [
        spawn_seeds(7, "episodes", 50),
        spawn_seeds(7, "latency", 50),
        spawn_seeds(8, "episodes", 50),
        spawn_seeds(7, "episodes", 50, stream=1),
    ]
    assert len({seed for seeds in lists for seed in seeds}) == 200
    assert all(0 <= seed < 2**31 for seeds in lists for seed in seeds)


def test_seed_file_is_read_in_order_with_comments(tmp_path) -> None:
    path = tmp_path / "seeds.txt"
    path.write_text("# private\n12\n\n7  # second\n99\n")
    assert read_seed_file(path, 2) == [12, 7]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("1\n2\n", "holds 2 seeds, the run needs 3"),
        ("1\nx\n", "line 2: 'x' is no seed"),
        ("-1\n", "line 1: '-1' is no seed"),
        ("5\n6\n5\n", "line 3: seed 5 stands there twice"),
    ],
)
def test_bad_seed_file_names_the_line(tmp_path, content: str, message: str) -> None:
    path = tmp_path / "seeds.txt"
    path.write_text(content)
    with pytest.raises(ConfigError, match=message):
        read_seed_file(path, 3)


def test_missing_seed_file_is_a_configuration_error(tmp_path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        read_seed_file(tmp_path / "none.txt", 1)
