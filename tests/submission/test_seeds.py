"""The seeds of a run: public from the root seed, or keyed with the evaluator's secret."""

from __future__ import annotations

import stat
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from a2perf.errors import ConfigError
from a2perf.submission.evaluator import seed_secret
from a2perf.submission.evaluator.playing.seeds import RunSeeds, read_seed_file, spawn_seeds

SECRET = bytes(range(32))


def keyed(secret: bytes = SECRET, root: int = 7, *, env_id: str = "Env-v0", evaluates: bool = True) -> RunSeeds:
    return RunSeeds.keyed(secret, root, domain="some_domain", env_id=env_id, evaluates=evaluates)


@pytest.mark.parametrize("draw", [RunSeeds(7).draw, keyed().draw], ids=["public", "keyed"])
def test_longer_list_starts_with_the_shorter_one(draw: Callable[..., list[int]]) -> None:
    assert draw("episodes", 10)[:4] == draw("episodes", 4)


@pytest.mark.parametrize("made", [RunSeeds, lambda root: keyed(root=root)], ids=["public", "keyed"])
def test_purposes_streams_and_roots_give_different_seeds(made: Callable[[int], RunSeeds]) -> None:
    lists = [
        made(7).draw("episodes", 50),
        made(7).draw("latency", 50),
        made(8).draw("episodes", 50),
        made(7).draw("episodes", 50, stream=1),
        made(7).draw("participant", 50),
    ]
    assert len({seed for seeds in lists for seed in seeds}) == 250
    assert all(0 <= seed < 2**31 for seeds in lists for seed in seeds)


def test_scheme_1_never_changes() -> None:
    # recorded bundles are repeated with these numbers
    assert (
        spawn_seeds(0, "episodes", 2) == RunSeeds(0).draw("episodes", 2) == RunSeeds.recorded(0, {}).draw("episodes", 2)
    )
    assert spawn_seeds(1, "episodes", 3) == [892990638, 1428411695, 148272339]


def test_scheme_2_never_changes() -> None:
    assert keyed().draw("episodes", 3) == [126741906, 466297336, 1635688750]
    assert keyed().draw("participant", 1) == [2027169984]


def test_keys_depend_on_secret_root_seed_and_task_and_not_on_each_other() -> None:
    first = keyed()
    assert keyed().keys == first.keys
    others = [keyed(bytes(32)), keyed(root=8), keyed(env_id="Other-v0")]
    evaluation = {first.keys["evaluation"], *(other.keys["evaluation"] for other in others)}
    assert len(evaluation) == 4
    assert first.keys["participant"] not in evaluation
    # the participant's seed is that of its training, on whatever task it is evaluated
    assert keyed(env_id="Other-v0").keys["participant"] == first.keys["participant"]
    assert set(keyed(evaluates=False).keys) == {"participant"}


@pytest.mark.parametrize("purpose", ["episodes", "latency"])
@pytest.mark.parametrize("made", [RunSeeds(3), keyed()], ids=["public", "keyed"])
def test_unending_seeds_go_on_from_the_drawn_ones(made: RunSeeds, purpose: str) -> None:
    unending = made.unending(purpose)
    found = [next(unending) for _ in range(150)]
    assert found == made.draw(purpose, 150)
    assert len(set(found)) == 150


def test_record_gives_the_same_seeds_back_without_the_secret() -> None:
    record = keyed().record()
    assert RunSeeds.recorded(7, record).draw("episodes", 9) == keyed().draw("episodes", 9)
    assert SECRET.hex() not in str(record)
    assert RunSeeds(7).record() == {"scheme": 1}


@pytest.mark.parametrize("record", [{"scheme": 3}, {"scheme": 2}, {"scheme": 2, "keys": {"evaluation": "xyz"}}])
def test_damaged_record_is_refused(record: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match="cannot be used"):
        RunSeeds.recorded(7, record)


def test_training_reveals_no_key_of_the_evaluation() -> None:
    with pytest.raises(ConfigError, match="no key for the evaluation"):
        RunSeeds.recorded(7, keyed(evaluates=False).record()).draw("episodes", 1)


# --- the secret -------------------------------------------------------------------------------------------------------


@pytest.fixture
def secret_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    file = tmp_path / "new" / "secret"
    monkeypatch.setenv(seed_secret.VARIABLE, str(file))
    return file


def test_secret_is_made_once_for_its_user_alone(secret_file: Path) -> None:
    first = seed_secret.read()
    assert seed_secret.read() == first == secret_file.read_bytes()
    assert len(first) == seed_secret.BYTES
    assert stat.S_IMODE(secret_file.stat().st_mode) == 0o600
    assert [path.name for path in secret_file.parent.iterdir()] == ["secret"]


def test_runs_that_make_the_secret_at_the_same_time_share_one(secret_file: Path) -> None:
    found: list[bytes] = []
    start = threading.Barrier(8)

    def read() -> None:
        start.wait(300)
        found.append(seed_secret.read())

    threads = [threading.Thread(target=read) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(300)
    assert len(found) == 8
    assert len(set(found)) == 1


def test_secret_that_others_can_read_or_that_is_short_is_refused(secret_file: Path) -> None:
    seed_secret.read()
    secret_file.chmod(0o644)
    with pytest.raises(ConfigError, match="other users may read"):
        seed_secret.read()
    secret_file.chmod(0o600)
    secret_file.write_bytes(b"short")
    with pytest.raises(ConfigError, match="has 5 bytes"):
        seed_secret.read()
    with pytest.raises(ConfigError, match="cannot be used"):
        seed_secret.read(secret_file / "below")


# --- the organizer's file ---------------------------------------------------------------------------------------------


def test_seed_file_is_read_in_order_with_comments(tmp_path) -> None:
    path = tmp_path / "seeds.txt"
    path.write_text("# private\n12\n\n7  # second\n99\n")
    assert read_seed_file(path, 2) == [12, 7]
    with pytest.raises(ConfigError, match="cannot be read"):
        read_seed_file(tmp_path / "none.txt", 1)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("1\n2\n", "has 2 seeds, but the run has 3 episodes"),
        ("1\nx\n", "line 2: 'x' is not a seed"),
        ("-1\n", "line 1: '-1' is not a seed"),
        ("5\n6\n5\n", "line 3: seed 5 is repeated"),
    ],
)
def test_bad_seed_file_names_the_line(tmp_path, content: str, message: str) -> None:
    path = tmp_path / "seeds.txt"
    path.write_text(content)
    with pytest.raises(ConfigError, match=message):
        read_seed_file(path, 3)
