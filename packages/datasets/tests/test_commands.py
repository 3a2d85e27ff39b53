"""``a2perf datasets``: what it prints, and how it refuses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import h5py
import pytest

from a2perf.cli import main
from packages.datasets.tests.toys import Write
from tests.cli import test_help_and_errors

Told = tuple[int, str, str]


@pytest.fixture
def a2perf(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Runs a command on the datasets of the test; returns its status and what it printed."""
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "datasets"))

    def call(*arguments: object) -> Told:
        group = () if arguments[0] == "validate" else ("datasets",)
        with pytest.raises(SystemExit) as ended:
            main([*group, *map(str, arguments)])
        printed = capsys.readouterr()
        return int(ended.value.code or 0), printed.out, printed.err

    return call


def test_a_data_set_is_listed_and_inspected(a2perf: Any, write: Write, tmp_path: Path) -> None:
    assert a2perf("list")[1].startswith("no dataset in")
    write()
    assert a2perf("list")[1] == "toys/boxes/made-v0  3 episodes, 8 steps\n"
    status, printed, _ = a2perf("list", "toys/boxes/made-v0", "--json")
    found = json.loads(printed)
    assert status == 0
    assert (found["episodes"], found["steps"]) == (3, 8)
    assert found["returns"]["median"] == 6.0
    assert found["lengths"] == {"min": 1, "mean": 8 / 3, "max": 4}
    assert found["observations"]["observation/grid"] == "int32 (32, 20)"
    assert found["training_sample_cost_kwh"] == 2.0
    assert found["cost"]["per_sample_kwh"] == 2.25 / 8
    assert sum(found["return_histogram"]["counts"]) == 3
    text = a2perf("list", "toys/boxes/made-v0")[1]
    assert "3 episodes" not in text.splitlines()[0]
    (tmp_path / "datasets" / "toys" / "boxes" / "made-v0" / "data" / "metadata.json").write_text("{")
    assert "metadata.json cannot be read" in a2perf("list")[1]
    assert "policy        scripted: 3 episodes, training 2 kWh (given)" in text
    assert "generating    0.25 kWh (measured)" in text


def test_validate_ends_with_1_when_anything_is_wrong(a2perf: Any, write: Write) -> None:
    whole, damaged = write("toys/whole-v0"), write("toys/damaged-v0")
    with h5py.File(damaged.file, "a") as stream:
        stream["episode_1/rewards"][0] = 2.0
    assert a2perf("validate", whole.id)[:2] == (0, "toys/whole-v0: SUCCESS\n")
    status, printed, _ = a2perf("validate", whole.id, damaged.id)
    assert status == 1
    assert "toys/damaged-v0: INVALID" in printed
    assert f"{damaged.file}, /episode_1/rewards: the hash of the values differs from the recorded one" in printed


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("generate", "--task", "dog_pace"), "no policy was given"),
        (("generate", "--submission", "random"), "no task was given"),
        (
            ("generate", "--submission", "random", "--task", "dog_pase"),
            "any domain; did you mean 'dog_pace'",
        ),
        (("generate", "--submission", "nowhere", "--task", "dog_pace"), "nowhere is not a submission"),
        (("generate", "--submission", "random", "--task", "dog_pace", "--level", "expert"), "need each other"),
        (("generate", "--submission", "random", "--task", "dog_pace", "--id", "a b"), "not a dataset name"),
        (("generate", "--submission", "random", "--task", "dog_pace", "--env-arg", "x"), "is not name=value"),
        (("list", "toys/nothing-v0"), "no dataset toys/nothing-v0"),
        (("generate", "--root-dir", ".", "--task", "dog_pace"), "contains no training run"),
    ],
)
def test_what_makes_no_sense_is_refused_with_2(
    a2perf: Any, arguments: tuple[str, ...], words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    status, _, said = a2perf(*arguments)
    assert status == 2
    assert words in said
    assert "Traceback" not in said


def test_examples_of_the_help_have_options_that_exist() -> None:
    test_help_and_errors.test_help_of_main_commands_shows_examples_whose_options_exist("datasets")
