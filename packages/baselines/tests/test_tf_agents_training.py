"""Every trainer of TF-Agents learns for a few steps, so that each change runs them; the slow tests look closer."""

from __future__ import annotations

import importlib
from pathlib import Path

import numpy as np
import pytest

from a2perf_baselines import learning
from tests.event_logs import event_files_below, read_event_file

pytestmark = pytest.mark.group("tf_agents")

TOY = "CircuitTraining-ToyMacro-v0"
TROT = "QuadrupedLocomotion-SyntheticTrot-v0"
TRAINERS = {
    "tf_agents_ppo": (TOY, {"total_steps": "80", "members": "2", "rows": "20", "epochs": "1", "evaluate_every": "40"}),
    "tf_agents_sac": (
        TROT,
        {
            "total_steps": "24",
            "evaluate_every": "12",
            "learning_starts": "8",
            "members": "1",
            "rows": "4",
            "mode": "train",
            "buffer_size": "40",
            "batch_size": "8",
        },
    ),
    "tf_agents_ddqn": (
        TOY,
        {"total_steps": "80", "learning_starts": "32", "evaluate_every": "40", "evaluation_episodes": "1"},
    ),
    "tf_agents_bc": (
        TOY,
        {"rounds": "2", "moves": "60", "replace_every": "20", "updates": "4", "batch_size": "4"},
    ),
}


@pytest.mark.parametrize("example", TRAINERS)
def test_a_tiny_training_run_writes_a_curve_and_a_policy(
    example: str, repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    env_id, settings = TRAINERS[example]
    for name, value in {
        "A2PERF_ENV_ID": env_id,
        "A2PERF_ENV_KWARGS": "{}",
        "A2PERF_ARTIFACTS": str(tmp_path),
        "ROOT_DIR": str(tmp_path),
        "SEED": "1",
    }.items():
        monkeypatch.setenv(name, value)
    monkeypatch.syspath_prepend(str(repository / "packages" / "baselines" / "examples" / example))
    importlib.import_module("train").train(**settings, layers="16:16")
    series = [read_event_file(path).scalars["Metrics/AverageReturn"] for path in event_files_below(tmp_path)]
    steps = np.concatenate([one.steps for one in series])
    assert len(steps) >= 2
    assert (np.diff(steps) > 0).all()
    assert np.isfinite(np.concatenate([one.values for one in series])).all()
    assert (tmp_path / "policies" / "greedy_policy" / "saved_model.pb").is_file()


DOMAINS = {
    "web": "web_navigation",
    "WebNavigation": "web_navigation",
    "dog": "quadruped_locomotion",
    "quadruped": "quadruped_locomotion",
}


@pytest.mark.parametrize("example", TRAINERS)
def test_every_settings_file_is_valid(example: str, repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = repository / "packages" / "baselines" / "examples" / example
    monkeypatch.syspath_prepend(str(folder))
    files = sorted((folder / "configs").glob("*.gin"))
    assert files
    for file in files:
        name = file.stem.removeprefix("published_")
        domain = next((value for word, value in DOMAINS.items() if name.startswith(word)), "circuit_training")
        module = importlib.import_module(domain if (folder / f"{domain}.py").is_file() else "train")
        settings = learning.read_settings(module.Settings, {"config": file.stem}, folder)
        assert file.stem == name or settings != module.Settings(), f"{file.name} changes nothing"
