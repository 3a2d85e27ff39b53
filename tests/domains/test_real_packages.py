"""Packages of others, in their own virtual environment (`make environments`): returns of a bare loop, and reproduced.

The rows are the table of docs/environments/any.md; A2PERF_WRITE_TABLE=1 writes it there.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import json
import os
import re
from pathlib import Path

import gymnasium
import pytest

from tests.commands import flags
from tests.commands import run_a2perf as command
from tests.made_submissions import policy, write_submission

pytestmark = [pytest.mark.slow, pytest.mark.group("environments"), pytest.mark.timeout(1800)]

PAGE = Path(__file__).parents[2] / "docs" / "environments" / "any.md"
IDS = {
    "minigrid": [
        *("MiniGrid-Empty-5x5-v0", "MiniGrid-DoorKey-5x5-v0", "MiniGrid-LavaCrossingS9N1-v0"),
        *("MiniGrid-Dynamic-Obstacles-5x5-v0", "BabyAI-GoToLocal-v0", "BabyAI-BossLevel-v0"),
    ],
    # without intersection-v0, which changes constants that all its environments in a process share
    "highway-env": ["highway-fast-v0", "merge-v0", "roundabout-v0", "parking-v0", "two-way-v0"],
    "ale-py": ["ALE/Pong-v5", "ALE/Breakout-v5", "ALE/Freeway-v5", "ALE/MsPacman-v5", "ALE/Seaquest-v5"],
    "gymnasium-robotics": [
        *("FetchReachDense-v4", "FetchPushDense-v4", "FetchSlideDense-v4", "HandReachDense-v3"),
        *("PointMaze_UMazeDense-v3", "AdroitHandPen-v1", "AdroitHandDoor-v1"),
    ],
    "metaworld": [f"Meta-World/{task}" for task in ("reach-v3", "push-v3", "door-open-v3", "pick-place-v3")],
    "popgym": [
        *("popgym-RepeatFirstEasy-v0", "popgym-AutoencodeEasy-v0", "popgym-CountRecallEasy-v0"),
        *("popgym-BattleshipEasy-v0", "popgym-MineSweeperEasy-v0", "popgym-HigherLowerEasy-v0"),
    ],
    "panda-gym": ["PandaReach-v3", "PandaPushDense-v3", "PandaSlideDense-v3", "PandaReachJointsDense-v3"],
    "flappy-bird-gymnasium": ["FlappyBird-v0"],
}
# Meta-World's ids take the task as an argument: a module of ours registers one id for each task. Without a seed among
# its arguments an environment draws its first goal from a generator that reset(seed=...) does not seed.
MODULES = {"metaworld": "reach_worlds"}
REACH_WORLDS = f"""
import gymnasium, metaworld

for name in {IDS["metaworld"]}:
    task = {{"name": name.partition("/")[2]}}
    gymnasium.register(name, metaworld.make_mt_envs, kwargs={{**task, "seed": 1}})
gymnasium.register("Meta-World/Unseeded", metaworld.make_mt_envs, kwargs=task)
"""
SAMPLES = policy(load="env.action_space.seed(0)\nreturn env.action_space", infer="return policy.sample()")
ARGUMENTS = {package: {"max_episode_steps": 200} for package in ("ale-py", "metaworld")}  # the others have few steps
FEW = (
    "--gin-bindings",
    "Submission.num_inference_steps = 0",
    "Submission.num_inference_episodes = 2",
    "Submission.record_frames = 0",
)


def bare(env_id: str, kwargs: dict[str, int], seeds: list[int]) -> list[float]:
    """Returns the returns of a loop without a2perf."""
    env = gymnasium.make(env_id, **kwargs)
    space = env.action_space  # highway-env makes another one in reset
    space.seed(0)
    returns = []
    for seed in seeds:
        env.reset(seed=seed)
        rewards, ended = 0.0, False
        while not ended:
            _, reward, terminated, truncated, _ = env.step(space.sample())
            rewards, ended = rewards + float(reward), terminated or truncated
        returns.append(rewards)
    env.close()
    return returns


def row(package: str, count: int, result: str) -> str:
    return f"| {package} {importlib.metadata.version(package)} | {count} | {result} |"


def compare_with_page(package: str, expected: str) -> None:
    text = PAGE.read_text(encoding="utf-8")
    found = re.search(rf"^\| {package} [\d.]+ \| \d+ \| {expected.split()[6]}.*$", text, re.MULTILINE)
    if found is not None and os.environ.get("A2PERF_WRITE_TABLE"):
        PAGE.write_text(text.replace(found[0], expected), encoding="utf-8")
        return
    assert found is not None
    versions = re.compile(r" [\d.]+ ")  # the page has those of its day
    assert versions.sub(" ", found[0]) == versions.sub(" ", expected)


@pytest.fixture
def worlds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "reach_worlds.py").write_text(REACH_WORLDS)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.syspath_prepend(tmp_path)


@pytest.mark.parametrize("package", IDS)
def test_returns_are_those_of_a_bare_loop_and_are_reproduced(package: str, tmp_path: Path, worlds: None) -> None:
    module = MODULES.get(package, package.replace("-", "_"))
    entry = write_submission(tmp_path / "entry", SAMPLES)
    kwargs = ARGUMENTS.get(package, {})
    ids = [f"{module}:{env_id}" for env_id in IDS[package]]
    where = flags(submission=entry, sandbox="process", root_dir="runs", env_kwargs=json.dumps(kwargs), env_id=ids)
    command("run", *where, *FEW, cwd=tmp_path, timeout=1500, check=True)
    importlib.import_module(module)
    equal = 0
    for path in sorted(tmp_path.rglob("manifest.json")):
        manifest = json.loads(path.read_text())
        played = map(json.loads, (path.parent / "journal.jsonl").read_text().splitlines())
        found = [line["episode"]["episode_return"] for line in played if line["kind"] == "episode"]
        wanted = bare(manifest["env_id"], kwargs, manifest["seeds"]["episodes"])
        assert found == pytest.approx(wanted, rel=1e-12), manifest["env_id"]
        equal += 1
    assert equal == len(ids)
    words = ("reproduce", "runs", "-o", "again", "--trust-bundle", "--submission", entry)
    again = command(*words, cwd=tmp_path, timeout=1500)
    confirmed = again.stdout.count("CONFIRMED (bit-equal)")
    assert confirmed == len(ids), again.stdout + again.stderr
    compare_with_page(package, row(package, len(ids), "equal to a bare loop; reproduced bit-equal"))


@pytest.mark.parametrize(
    ("package", "ids", "said", "result"),
    [
        (
            "mo-gymnasium",
            ["mo_gymnasium:deep-sea-treasure-v0", "mo_gymnasium:mo-mountaincar-v0"],
            "its reward is an array of shape",
            "refused: their rewards are vectors",
        ),
        (
            "metaworld",
            ["reach_worlds:Meta-World/Unseeded"],
            "the same seed and actions give another episode in a new copy of it",
            "refused: without a `seed` argument MT1 does not repeat an episode",
        ),
    ],
)
def test_what_cannot_be_scored_is_refused_in_words(
    package: str, ids: list[str], said: str, result: str, tmp_path: Path, worlds: None
) -> None:
    entry = write_submission(tmp_path / "entry", SAMPLES)
    for env_id in ids:
        done = command("run", "--submission", entry, "--env-id", env_id, "--sandbox", "process", cwd=tmp_path)
        assert done.returncode == 2, done.stdout + done.stderr
        assert said in done.stderr
    compare_with_page(package, row(package, len(ids), result))
