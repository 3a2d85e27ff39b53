"""The scripted solver of websites: a submission that a2perf runs, and every level solved from observations alone."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import gymnasium
import pytest

from a2perf.submission.evaluator.folder_problems import problems


@pytest.fixture
def solver(repository: Path, monkeypatch: pytest.MonkeyPatch):
    """The module that reads pages."""
    monkeypatch.syspath_prepend(str(repository / "examples" / "web_solver"))
    import reader

    yield reader
    sys.modules.pop("reader", None)


@pytest.mark.parametrize("level", [1, 2, 3])
def test_every_website_is_solved_from_its_observations(solver, level: int) -> None:
    env = gymnasium.make(f"WebNavigation-Difficulty-0{level}-v0", num_websites=100)
    reader = solver.Reader()
    for number in range(20):
        observation, _ = env.reset(seed=number, options={"design": number * 5})
        total, ended, cut_off = 0.0, False, False
        while not (ended or cut_off):
            observation, reward, ended, cut_off, info = env.step(reader.choose(observation))
            total += reward
        assert info["reason"] == "solved"
        site = env.unwrapped.site
        perfect = 2 - 0.05 * (len(site.fields) + site.pages - 1)
        # a button that leads nowhere looks like the right one, and costs a step
        decoys = sum(node.role.name in ("NEXT", "SUBMIT") and node.target < 0 for node in site.nodes)
        assert perfect - 0.05 * decoys - 1e-6 <= total <= perfect + 1e-6


@pytest.mark.parametrize("order", ["given", "reversed"])
@pytest.mark.parametrize("depth", [1, 2, 3])
def test_every_composition_is_solved_from_its_observations(solver, depth: int, order: str) -> None:
    env = gymnasium.make(f"WebNavigation-Composed-0{depth}-v0", num_websites=100, order=order, disable_env_checker=True)
    reader = solver.Reader()
    for seed in range(3):
        observation, info = env.reset(seed=seed)
        over = False
        while not over:
            observation, _, terminated, truncated, info = env.step(reader.choose(observation))
            over = terminated or truncated
        assert (info["reason"], info["subtasks_solved"]) == ("solved", 2**depth)


def test_it_runs_as_a_submission(repository: Path, tmp_path: Path) -> None:
    folder = repository / "examples" / "web_solver"
    assert not problems(folder)
    done = subprocess.run(
        [
            sys.executable, "-c", "from a2perf.cli import launch_main; launch_main()",
            "--submission", str(folder), "--domain", "web_navigation",
            "--gin_config", "difficulty_level_2_num_websites_5/inference.gin", "--root_dir", str(tmp_path),
            "--gin_bindings", "Submission.num_inference_steps = 20",
            "--gin_bindings", "Submission.num_inference_episodes = 3",
        ],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    rollouts = json.loads((tmp_path / "inference" / "metrics" / "rollouts.json").read_text())
    assert all(episode["episode_return"] > 1.5 for episode in rollouts["episodes"])
