"""``overrides.txt``: what a submission says instead of packages whose demands nothing else can live with."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from a2perf.errors import ConfigError, SubmissionError
from a2perf.submission.evaluator import python_env
from tests.submission import wheels

pytestmark = pytest.mark.usefixtures("own_cache", "without_byte_code")


@pytest.fixture
def wheelhouse(tmp_path: Path) -> Path:
    """Two versions of ``toy``, and ``stubborn``, which pins the old one and wants a package that does not exist."""
    folder = wheels.toy_wheelhouse(tmp_path / "wheels")
    wheels.write_wheel(folder, "stubborn", "1.0", needs=["toy==1.0", "nowhere>=3"])
    return folder


def recipe(folder: Path, wheelhouse: Path, overrides: str | None) -> python_env.Recipe:
    return wheels.recipe(folder, "stubborn\ntoy\n", wheelhouse, overrides=overrides)


REPLACING = 'toy==2.0\nnowhere; python_version < "3"\n'


def test_an_override_replaces_a_pin_and_removes_a_requirement(tmp_path: Path, wheelhouse: Path) -> None:
    with (
        pytest.raises(ConfigError, match="nowhere"),
        python_env.environment(recipe(tmp_path / "pinned", wheelhouse, ""), tmp_path / "pinned.log"),
    ):
        pass
    with python_env.environment(recipe(tmp_path / "s", wheelhouse, REPLACING), tmp_path / "log") as env:
        assert env.record.packages["toy"] == "2.0"
        assert env.record.packages["stubborn"] == "1.0"
        assert "nowhere" not in env.record.packages


def test_overrides_are_part_of_the_key_and_an_empty_file_is_none(tmp_path: Path, wheelhouse: Path) -> None:
    keys = [
        recipe(tmp_path / str(number), wheelhouse, text).key
        for number, text in enumerate([REPLACING, '# says\nnowhere; python_version < "3"\n\ntoy==2.0\n', "toy==1.0\n"])
    ]
    assert keys[0] == keys[1] != keys[2]
    without = recipe(tmp_path / "without", wheelhouse, None)
    assert recipe(tmp_path / "empty", wheelhouse, "# nothing\n").key == without.key != keys[0]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("numpy==1.20", "overrides.txt:1: numpy==1.20 would override a requirement of a2perf"),
        ("--pre", "overrides.txt:1: '--pre' is not an override"),
    ],
)
def test_what_may_not_be_overridden(tmp_path: Path, wheelhouse: Path, line: str, said: str) -> None:
    with (
        pytest.raises(SubmissionError, match=re.escape(said)),
        python_env.environment(recipe(tmp_path / "s", wheelhouse, f"{line}\n"), tmp_path / "log"),
    ):
        pass
