"""The solver that reads only text: the returns of the solver that reads arrays, on websites and compositions."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import gymnasium
import pytest

from a2perf.domains.web_navigation.page.primitives import GOLD
from a2perf.metrics import protocol as protocols
from a2perf.submission.evaluator.playing.seeds import spawn_seeds
from a2perf_agents.websites import FIELD_NAMES, write_composed_instruction, write_instruction

SOLVER = Path(__file__).resolve().parents[1] / "examples" / "text_solver"


@pytest.fixture
def readers(repository: Path, monkeypatch: pytest.MonkeyPatch):
    """The modules that read pages: as text, and as arrays."""
    for folder in (repository / "examples" / "web_solver", SOLVER):
        monkeypatch.syspath_prepend(str(folder))
    import reader
    import reading

    yield reading, reader.Reader()
    for name in ("reader", "reading"):
        sys.modules.pop(name, None)


def _rewards(env, choose, **reset) -> tuple[float, str | None]:
    observation, _ = env.reset(**reset)
    total, over = 0.0, False
    while not over:
        observation, reward, terminated, truncated, info = env.step(choose(observation))
        assert info.get("error") is None
        total += reward
        over = terminated or truncated
    return total, info["reason"]


def _compare(readers, level: int, designs: range) -> None:
    reading, reader = readers
    text, arrays = (
        gymnasium.make(f"WebNavigation-Difficulty-0{level}-v0", num_websites=1000, observation=observation)
        for observation in ("text", "arrays")
    )
    for number in designs:
        reset = {"seed": number, "options": {"design": number}}
        found = _rewards(text, reading.choose, **reset)
        assert found == (pytest.approx(_rewards(arrays, reader.choose, **reset)[0]), "solved"), number


@pytest.mark.parametrize("level", [1, 2, 3])
def test_websites_are_solved_from_text_with_the_returns_of_the_solver_on_arrays(readers, level: int) -> None:
    _compare(readers, level, range(level, 1000, 125))


@pytest.mark.slow
@pytest.mark.parametrize("level", [1, 2, 3])
def test_every_website_is_solved_from_text(readers, level: int) -> None:
    _compare(readers, level, range(1000))


def test_under_a_protocol_every_episode_has_the_same_return_as_arrays_and_as_text(readers) -> None:
    reading, reader = readers
    protocol = protocols.load("v1-small")
    tasks = [protocol.task(name) for name in ("difficulty_level_1_num_websites_10", "text_level_1")]
    seeds = [seed for root in tasks[0].training_seeds for seed in spawn_seeds(root, "episodes", 10)]
    arrays, text = (gymnasium.make(task.env_id, **task.env_kwargs) for task in tasks)
    returns = [
        [_rewards(env, choose, seed=seed)[0] for seed in seeds]
        for env, choose in ((arrays, reader.choose), (text, reading.choose))
    ]
    assert returns[0] == returns[1]
    assert len(set(returns[0])) > 1


def _compositions(readers, depth: int, order: str, episodes: int) -> None:
    reading, reader = readers
    text, arrays = (
        gymnasium.make(f"WebNavigation-Composed-0{depth}-v0", num_websites=100, order=order, observation=observation)
        for observation in ("text", "arrays")
    )
    for seed in range(episodes):
        expected = _rewards(arrays, reader.choose, seed=seed)[0]
        assert _rewards(text, reading.choose, seed=seed) == (pytest.approx(expected), "solved")


@pytest.mark.parametrize(("depth", "order"), [(1, "reversed"), (2, "given"), (3, "reversed")])
def test_compositions_are_solved_from_text(readers, depth: int, order: str) -> None:
    _compositions(readers, depth, order, 1)


@pytest.mark.slow
@pytest.mark.parametrize("order", ["given", "reversed"])
@pytest.mark.parametrize("depth", [1, 2, 3])
def test_hundreds_of_compositions_are_solved_from_text(readers, depth: int, order: str) -> None:
    _compositions(readers, depth, order, 100)


def test_an_instruction_contains_every_value_of_the_profile_in_every_phrasing(readers) -> None:
    reading, _ = readers
    assert FIELD_NAMES.keys() == GOLD.keys()
    profile = {key: gold[-1] for key, gold in GOLD.items()}
    profile |= {"city": 'On the first website: the "state" to "NY", off as the CVV', "stayloggedin": True}
    expected = {FIELD_NAMES[key]: value for key, value in profile.items()}
    for phrasing in range(60):
        assert reading.wanted(write_instruction(profile, phrasing)) == expected
    tasks = [{"city": profile["city"]}, {"rememberme": True}, profile]
    for backwards in (False, True):
        text = write_composed_instruction(tasks, 7, reversed_order=backwards)
        for number, task in enumerate(tasks):
            found = reading.wanted(text, f"site {number + 1}/3 page 1/1 step 0/75\n")
            assert found == {FIELD_NAMES[key]: value for key, value in task.items()}


def test_it_runs_as_a_submission_on_a_text_task(tmp_path: Path) -> None:
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            "from a2perf.cli import launch_main; launch_main()",
            "--submission",
            str(SOLVER),
            "--domain",
            "web_navigation",
            "--task",
            "text_level_2",
            "--gin_config",
            "inference.gin",
            "--root_dir",
            str(tmp_path),
            "--gin_bindings",
            "Submission.num_inference_steps = 20",
            "--gin_bindings",
            "Submission.num_inference_episodes = 3",
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    folder = tmp_path / "inference"
    manifest = json.loads((folder / "manifest.json").read_text())
    assert (manifest["task"], manifest["env_kwargs"]["observation"]) == ("text_level_2", "text")
    assert manifest["view"] == {"task": "difficulty_level_2_num_websites_10", "arguments": {"observation": "text"}}
    episodes = json.loads((folder / "metrics" / "rollouts.json").read_text())["episodes"]
    assert all(episode["success"] and episode["episode_return"] > 1.5 for episode in episodes)
    assert json.loads((folder / "metrics" / "latency.json").read_text())["round_trip"]["count"] == 20
