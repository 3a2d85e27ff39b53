"""Generating with real policies and environments: the same bytes for any number of processes and after SIGKILL."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from gymnasium import spaces

from a2perf.domains.registry import get_domain
from a2perf.errors import ConfigError, SubmissionError, UserError
from a2perf.submission.evaluator.progress import RunProgress
from a2perf_datasets import OfflineDataset, open_dataset
from a2perf_datasets.assembly import DatasetResult
from a2perf_datasets.generate import generate, random_policy, submission_policy
from a2perf_datasets.noise import ActionNoise
from a2perf_datasets.plan import Plan, blocks_of, dataset_plan, draw_with_replacement, episode_seed
from a2perf_datasets.validation import problems_of
from tests.made_submissions import policy, write_submission
from tests.waiting import Child, until

QUIET = RunProgress(quiet=True)


def request(name: str, domain: str, task_name: str, episodes: int, *policies, **fields) -> Plan:
    """Returns the plan of a dataset with episodes of a task."""
    task = get_domain(domain).task(task_name)
    fields["env_kwargs"] = {**task.kwargs, **fields.get("env_kwargs", {})}
    return dataset_plan(
        name,
        *(policies or [random_policy()]),
        episodes=episodes,
        seed=3,
        domain=domain,
        task=task.name,
        env_id=task.env_id,
        **fields,
    )


def content(made: DatasetResult) -> bytes:
    """Returns the bytes of the episodes' file."""
    return (made.folder / "data" / "main_data.hdf5").read_bytes()


@pytest.mark.slow
def test_two_processes_make_the_same_bytes_as_one(repository: Path, tmp_path: Path) -> None:
    asked = request(
        "quadrupeds/trot-v0",
        "quadruped_locomotion",
        "synthetic_trot",
        7,
        submission_policy(repository / "examples" / "minimal", {}),
        env_kwargs={"mode": "train"},
    )
    one = generate(asked, tmp_path / "one", processes=1, progress=QUIET)
    two = generate(asked, tmp_path / "two", processes=2, progress=QUIET)
    assert content(one) == content(two)
    data = OfflineDataset(two.folder / "data")
    assert problems_of(data) == []
    assert data.seeds.tolist() == [episode_seed(3, index) for index in range(7)]
    assert data.observation_space.shape == (160,)
    found = data.transitions()
    assert found.observations.dtype == found.actions.dtype == np.float32
    assert found.actions.shape == (data.step_count, 12)
    assert (np.abs(found.actions) <= np.float32(2 * np.pi)).all()
    assert two.record.policies[0].submission == "minimal"
    assert two.record.cost.generation.kwh > 0
    assert two.record.cost.per_sample_kwh is None  # nobody knows what the policy took
    assert two.record.sandbox is not None
    assert not list((tmp_path / "two").rglob("*.making"))


def test_a_solver_of_websites_is_kept_with_its_masks(repository: Path, tmp_path: Path) -> None:
    solver = submission_policy(repository / "examples" / "web_solver", {})
    asked = request(
        "web/solver-v0", "web_navigation", "difficulty_level_1_num_websites_1", 3, solver, infos=["action_mask"]
    )
    made = generate(asked, tmp_path, progress=QUIET)
    data = OfflineDataset(made.folder / "data")
    assert problems_of(data) == []
    assert made.record.returns.mean == pytest.approx(1.9)
    found = data.transitions(infos=("action_mask",), keys=["dom_elements", "time_step"])
    assert found.observations["dom_elements"].shape == (data.step_count, 250, 5, 10)
    assert found.observations["dom_elements"].dtype == np.int32
    assert found.infos["action_mask"].dtype == np.int8
    assert found.infos["action_mask"][np.arange(len(found)), found.actions].all()  # each action was allowed
    assert data.file.stat().st_size < found.nbytes  # zeros are packed


def test_a_killed_run_is_finished_by_the_same_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    command = [
        sys.executable,
        "-m",
        "a2perf",
        "datasets",
        "generate",
        "--submission",
        "random",
        "--task",
        "toy_macro_stdcell",
        "--episodes",
        "60",
        "--seed",
        "3",
        "--processes",
        "2",
        "--id",
        "toys/killed-v0",
    ]
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "killed"))
    work = tmp_path / "killed" / "toys" / ".killed-v0.making"
    process = Child(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    until(lambda: list((work / "blocks").glob("block_*.json")) or process.poll() is not None)
    workers = _children(process.pid)
    os.kill(process.pid, signal.SIGKILL)
    process.wait(300)
    finished = {path.name: path.stat().st_mtime_ns for path in (work / "blocks").glob("block_*.json")}
    assert 0 < len(finished) < 12  # blocks of five episodes
    assert workers
    until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in workers))

    other = subprocess.run([*command, "--info", "action_mask"], capture_output=True, text=True, check=False)
    assert other.returncode == 2
    assert "started with another configuration: infos had 0 entries and now has 1" in other.stderr
    assert all((work / "blocks" / name).stat().st_mtime_ns == changed for name, changed in finished.items())

    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    asked = request("toys/killed-v0", "circuit_training", "toy_macro_stdcell", 60, env_kwargs={"is_eval": False})
    whole = generate(asked, tmp_path / "whole", progress=QUIET)
    killed = open_dataset("toys/killed-v0", tmp_path / "killed")
    assert killed.file.read_bytes() == content(whole)
    assert killed.record["cost"]["generation"]["kwh"] > 0
    again = generate(asked, tmp_path / "killed", progress=QUIET)
    assert again.already
    with pytest.raises(UserError, match="toys/killed-v0 already exists with another configuration"):
        generate(
            request("toys/killed-v0", "circuit_training", "toy_macro_stdcell", 61), tmp_path / "killed", progress=QUIET
        )


def _children(pid: int) -> list[int]:
    found = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    return [int(child) for child in found.split()]


def test_a_policy_that_fails_is_told_with_its_traceback(tmp_path: Path) -> None:
    folder = write_submission(tmp_path / "broken", policy(load="return 0", infer="return 1 // policy"))
    asked = request("toys/broken-v0", "circuit_training", "toy_macro_stdcell", 5, submission_policy(folder, {}))
    with pytest.raises(SubmissionError, match=r"(?s)failed in infer_once \(call 1\).*ZeroDivisionError"):
        generate(asked, tmp_path / "datasets", progress=QUIET)
    assert not (tmp_path / "datasets" / "toys" / "broken-v0").exists()


def test_blocks_do_not_depend_on_how_many_follow() -> None:
    few, many = blocks_of(3, [100]), blocks_of(3, [100, 50])
    assert sum(block.count for block in many) == 150
    split = request("a/b-v0", "circuit_training", "toy_macro_stdcell", 10, *[random_policy()] * 4)
    assert [block.count for block in split.blocks] == [3, 3, 2, 2]
    assert [block.policy for block in many] == sorted(block.policy for block in many)
    assert few[0].seed == many[0].seed
    assert len({block.seed for block in many}) == len(many)
    assert [block.first for block in blocks_of(0, [7])] == [0, 5]
    assert len({episode_seed(3, index) for index in range(1000)}) == 1000
    drawn = draw_with_replacement(1, 3, 50)
    assert drawn == sorted(drawn) == draw_with_replacement(1, 3, 50)
    assert set(drawn) == {0, 1, 2}


def test_disturbed_actions_are_kept_beside_what_the_policy_wanted(repository: Path, tmp_path: Path) -> None:
    solver = submission_policy(repository / "examples" / "web_solver", {})
    asked = request(
        "web/disturbed-v0",
        "web_navigation",
        "difficulty_level_1_num_websites_1",
        5,
        solver,
        infos=["action_mask"],
        action_noise=0.5,
    )
    made = generate(asked, tmp_path, progress=QUIET)
    data = OfflineDataset(made.folder / "data")
    assert problems_of(data) == []
    assert made.record.infos == ["action_mask", "policy_action"]
    found = data.transitions(keys=["time_step"], infos=("action_mask",))
    same = found.actions == found.policy_actions
    assert 0.2 < same.mean() < 0.8
    assert found.infos["action_mask"][np.arange(len(found)), found.actions].all()  # what is drawn is allowed
    batch = data.transitions(keys=["time_step"], next_observations=True).batch(np.flatnonzero(~same))
    assert np.array_equal(batch.policy_actions, found.policy_actions[~same])


def test_noise_of_a_box_stays_in_it_and_leaves_half_of_the_steps_alone() -> None:
    box = spaces.Box(-1, 1, (3,), np.float32)
    noise = ActionNoise(0.5, box)
    noise.begin(7)
    wanted = np.array([0.9, 0.0, -0.9], np.float32)
    done = np.stack([noise.disturbed(wanted, None) for _ in range(2000)])
    assert done.dtype == np.float32
    assert (np.abs(done) <= 1).all()
    alone = (done == wanted).all(axis=1)
    assert 0.45 < alone.mean() < 0.55
    assert done[~alone, 1].std() == pytest.approx(0.5, rel=0.1)
    noise.begin(7)
    assert np.array_equal(done[:50], np.stack([noise.disturbed(wanted, None) for _ in range(50)]))
    with pytest.raises(ConfigError, match="2 is not a probability"):
        ActionNoise(2.0, spaces.Discrete(3))
    with pytest.raises(ConfigError, match="cannot be added"):
        ActionNoise(0.1, spaces.MultiBinary(3))
