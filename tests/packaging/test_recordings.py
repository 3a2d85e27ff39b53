"""The list of recordings (``results/record.py``) and what is shipped agree with each other and with the protocols."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest

from a2perf.metrics import protocol as protocols
from tests.scripts import load_script

REPOSITORY = Path(__file__).resolve().parents[2]
SCRIPTS = sorted(path.stem for path in (REPOSITORY / "results").glob("*.py"))


def load(name: str, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(REPOSITORY / "results"))
    return load_script(REPOSITORY / "results" / f"{name}.py", monkeypatch)


@pytest.mark.parametrize("name", SCRIPTS)
def test_every_script_of_the_results_can_be_imported(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert load(name, monkeypatch).__doc__


def test_every_shipped_recording_can_be_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    script = load("record", monkeypatch)
    shipped = {path.relative_to(script.SHIPPED).with_suffix("").as_posix() for path in script.SHIPPED.rglob("*.zip")}
    assert shipped <= {recording.name for recording in script.RECORDINGS}


def test_every_recording_names_an_example_and_tasks_of_its_protocol(monkeypatch: pytest.MonkeyPatch) -> None:
    script = load("record", monkeypatch)
    for recording in script.RECORDINGS:
        assert (REPOSITORY / script.folder_of(recording.name) / "train.py").is_file(), recording.name
        name = recording.flags[recording.flags.index("--protocol") + 1] if "--protocol" in recording.flags else "v2"
        protocol = protocols.load(name)
        assert {protocol.ranked_task(task) for task in recording.tasks} <= set(protocol.tasks), recording.name
