"""A submission to a protocol with a language model."""

from __future__ import annotations

from pathlib import Path

import pytest

from a2perf.errors import ConfigError
from packages.agents.tests.test_relay_runs import AGENT
from tests.launch.test_submit import IDLE, Conductor, MadeRuns, asked, plan, submit


@pytest.fixture
def entry(tmp_path: Path) -> Path:
    made = tmp_path / "entry"
    made.mkdir()
    for name, text in {"__init__.py": "", "requirements.txt": "", "train.py": IDLE, "inference.py": AGENT}.items():
        (made / name).write_text(text)
    return made


def test_language_models_of_a_submission_are_recorded_and_cannot_change(entry: Path, tmp_path: Path) -> None:
    file = tmp_path / "model.toml"
    file.write_text('endpoint = "http://127.0.0.1:1/v1"\nmodels = ["small"]\n')
    wanted = asked(entry, model=str(file))
    assert f"--model {file}" in " ".join(plan(wanted, tmp_path / "out")[0].command.argv)
    record, _ = submit(wanted, tmp_path / "out", Conductor(MadeRuns()))
    assert record.models == ["small"]
    assert record.citation.startswith("entry with small (sha256 ")
    file.write_text('endpoint = "http://127.0.0.1:1/v1"\nmodels = ["large"]\n')
    other = asked(entry, model=str(file))
    with pytest.raises(ConfigError, match=r"--model was \['small'\], now \['large'\]"):
        submit(other, tmp_path / "out", Conductor(MadeRuns()))
