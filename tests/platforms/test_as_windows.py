"""What a2perf promises on Windows: environments, recorded runs and their scores as on Linux; runs are refused."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pytest

from tests.made_submissions import TOY, WEB, done

SIMULATION = "as_windows"
RECORDED = Path(__file__).parents[1] / "recorded" / "small" / "numpy_ars.zip"
TROT = pytest.param(
    ("QuadrupedLocomotionMuJoCo-DogTrot-v0",), marks=[pytest.mark.group("clips"), pytest.mark.group("mujoco")]
)
REFUSED = ["a2perf: runs need Linux or macOS", "  Hint: use WSL 2 on Windows; recorded runs are read everywhere"]

STEPS = """
import sys, a2perf, gymnasium
env = gymnasium.make(sys.argv[1]) if len(sys.argv) == 2 else gymnasium.make_vec(sys.argv[1], num_envs=64)
env.reset(seed=0)
env.action_space.seed(0)
print(env.step(env.action_space.sample())[1:3])
"""
COMPARED = """
import sys, a2perf
found = a2perf.compare(sys.argv[1], baseline=lambda run: run.seed == 1, candidate=lambda run: run.seed > 1)
print(ascii(str(found)))
"""


@pytest.fixture
def on_both(host_python: Path, tmp_path: Path):
    """Runs Python there and here, and returns what both printed, which is equal."""

    def run(code: str, *words: object) -> str:
        here, there = (
            done([str(python), "-c", code, *map(str, words)], tmp_path, encoding="cp1252")
            for python in (sys.executable, host_python)
        )
        assert there.returncode == 0, there.stderr
        assert here.stdout == there.stdout
        return there.stdout

    return run


def test_recorded_runs_have_the_scores_of_linux(a2perf, tmp_path: Path) -> None:
    a2perf("unpack", RECORDED, "-o", "there")
    assert a2perf("validate", "there").count("SUCCESS") == 18
    assert "18 runs, 6 groups" in a2perf("score", "there")
    shutil.copy(RECORDED, tmp_path / "here.zip")
    assert done([sys.executable, "-m", "a2perf", "unpack", "here.zip", "-o", "here"], tmp_path).returncode == 0
    assert done([sys.executable, "-m", "a2perf", "score", "here"], tmp_path).returncode == 0
    assert (tmp_path / "there/scores.json").read_text() == (tmp_path / "here/scores.json").read_text()
    a2perf("pack", "there", "-o", "there.zip")
    assert "18 runs of 1 submission" in a2perf("report", "there.zip", "-o", "report")
    assert "3 entries" in a2perf("leaderboard", "there", "-o", "board")
    assert (tmp_path / "report/index.html").is_file()


def test_link_in_a_folder_of_others_is_not_followed(a2perf, tmp_path: Path) -> None:
    a2perf("unpack", RECORDED, "-o", "runs")
    (tmp_path / "secret").write_text("{}")
    manifest = next(tmp_path.glob("runs/**/train/manifest.json"))
    manifest.unlink()
    manifest.symlink_to(tmp_path / "secret")
    assert "is a link" in a2perf("validate", manifest.parent, status=1)
    os.rename(manifest.parents[1], tmp_path / "outside")
    manifest.parents[1].symlink_to(tmp_path / "outside")
    assert "17 runs" not in a2perf("score", "runs")


def test_logs_with_windows_line_ends_are_read(a2perf, tmp_path: Path) -> None:
    rows = "".join(f"{100 * index},{index}\r\n" for index in range(1, 30))
    for seed in (1, 2):
        log = tmp_path / f"logs/CartPole-v1/run_{seed}/progress.csv"
        log.parent.mkdir(parents=True)
        log.write_bytes(f"time/total_timesteps,rollout/ep_rew_mean\r\n{rows}".encode())
    assert "training on CartPole-v1: 2 runs" in a2perf("score", "logs")
    assert "imported (sb3, 1 metrics)" in a2perf("rlops", "import", "logs", "--store", "store")


@pytest.mark.parametrize("words", [(TOY,), (WEB,), (WEB, "64 at once"), TROT])
def test_environments_step_as_on_linux(on_both, words: tuple[str, ...]) -> None:
    assert on_both(STEPS, *words)


def test_groups_are_compared_as_on_linux(on_both) -> None:
    assert on_both(COMPARED, RECORDED)


def test_runs_are_refused_in_one_sentence(a2perf, host_python: Path, tmp_path: Path) -> None:
    a2perf("init", "agent")
    run = ("run", "--submission", "agent", "--gin-config", "inference.gin", "--root-dir", "runs")
    for words in (("check", "agent"), run, (*run, "--seeds", "0-1"), (*run, "--sandbox", "none")):
        assert a2perf(*words, status=2).splitlines() == REFUSED
    code = "import a2perf\na2perf.evaluate(lambda seen: 0, env='CartPole-v1')"
    assert "UserError: runs need Linux or macOS" in done([str(host_python), "-c", code], tmp_path).stderr


def test_doctor_names_what_is_missing(a2perf) -> None:
    output = " ".join(a2perf("doctor").split())
    assert "not evaluator: runs need Linux or macOS: use WSL 2" in output
    assert "files of others weaker than on Linux" in output
    assert "apt-get install bubblewrap" not in output
    assert "Ready domains + Quadruped locomotion" in output
