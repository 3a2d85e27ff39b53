"""Every common command on a host that is not Linux, simulated by an interpreter without what Linux adds to POSIX."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tests.made_submissions import TOY, TROT, WEB, gin, policy, write_submission
from tests.submission import wheels
from tests.waiting import Child, until

REPOSITORY = Path(__file__).parents[2]
EXAMPLE = REPOSITORY / "examples" / "minimal"

SIMULATION = "without_linux"


def test_submission_is_checked_trained_evaluated_and_reported(a2perf, tmp_path: Path) -> None:
    a2perf("init", "agent")
    assert "no problems" in a2perf("check", "agent")
    a2perf("run", "--submission", "agent", "--gin-config", "training.gin", "inference.gin", "--root-dir", "runs/agent")
    bundle = next(tmp_path.glob("runs/**/inference/manifest.json")).parent
    recorded = json.loads((bundle / "manifest.json").read_text())
    assert recorded["sandbox"]["level"] == "process"
    assert any("process group" in item for item in recorded["sandbox"]["missing"])
    assert recorded["tracking"]["cpu_method"] == "psutil"
    assert "  Return  " in a2perf("score", "runs/agent")
    assert "1 submission" in a2perf("report", "runs/agent", "-o", "report")
    a2perf("leaderboard", "runs", "-o", "board")
    assert "CONFIRMED (bit-equal)" in a2perf("reproduce", "runs/agent", "-o", "again")


@pytest.mark.parametrize("env_id", [TOY, TROT])
def test_environments_with_engines_are_played_by_several_workers(a2perf, tmp_path: Path, env_id: str) -> None:
    text = gin(env_id, num_inference_steps=10, num_inference_episodes=1)
    (tmp_path / "inference.gin").write_text(text)
    words = ("run", "--submission", EXAMPLE, "--gin-config", "inference.gin", "--root-dir", "runs")
    assert "2 of 2 runs finished" in a2perf(*words, "--seeds", "0-1", "--workers", "2")


def test_script_and_command_are_recorded(a2perf, tmp_path: Path, host_python: Path) -> None:
    play = "made.reset(seed=0)\n    while not any(made.step(0)[2:4]):\n        pass\n"
    script = f"import gymnasium\ndef main(env='CartPole-v1'):\n    made = gymnasium.make(env)\n    {play}"
    (tmp_path / "script.py").write_text(script)
    assert "episodes: 1 of the training" in a2perf("wrap", "script.py", "--env", "CartPole-v1", "--seed", "1")
    (tmp_path / "train.py").write_text("print('trained')\n")
    words = ("--env-ids", "CartPole-v1", "--num-seeds", "1", "--workers", "1", "--store", "store")
    assert "1 of 1 runs finished" in a2perf("benchmark", "--command", f"{host_python} train.py", *words)


def test_tree_of_a_killed_evaluator_ends(host_python: Path, tmp_path: Path) -> None:
    sleep = "open('pid', 'w').write(str(os.getpid()))\nimport time\ntime.sleep(1000)"
    write_submission(tmp_path / "agent", policy(top="import os", load=f"os.chdir({str(tmp_path)!r})\n{sleep}"))
    (tmp_path / "inference.gin").write_text(gin(WEB))
    argv = [host_python, "-m", "a2perf.submission.main_submission", "--root-dir", "runs", "--submission", "agent"]
    with Child(
        [*argv, "--gin-config", "inference.gin"], cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as evaluator:
        pid = int(until(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text()))
        evaluator.send_signal(signal.SIGKILL)
        until(lambda: not psutil.pid_exists(pid))


def test_memory_of_several_processes_is_bounded_together(a2perf, tmp_path: Path) -> None:
    hold = "subprocess.Popen([sys.executable, '-c', 'x = b\"1\" * 150_000_000; import time; time.sleep(1000)'])"
    load = f"import subprocess, sys, time\nfor _ in range(3):\n    {hold}\ntime.sleep(1000)"
    write_submission(tmp_path / "agent", policy(load=load))
    (tmp_path / "inference.gin").write_text(gin(WEB))
    words = ("run", "--submission", "agent", "--gin-config", "inference.gin", "--root-dir", "runs", "--allow-weaker")
    assert "(memory)" in a2perf(*words, "--memory-limit-bytes", 400_000_000, status=1)


@pytest.mark.parametrize(
    ("words", "said"),
    [(("--sandbox", "bubblewrap"), "needs Linux"), (("--launcher", "local:cpus=1"), "needs Linux")],
)
def test_what_only_linux_offers_is_refused(a2perf, tmp_path: Path, words: tuple[str, ...], said: str) -> None:
    write_submission(tmp_path / "agent")
    (tmp_path / "inference.gin").write_text(gin(WEB))
    run = ("run", "--submission", "agent", "--gin-config", "inference.gin", "--root-dir", "runs")
    output = a2perf(*run, *words, status=2)
    assert said in output
    assert len(output.splitlines()) <= 5


def test_doctor_names_what_is_weaker(a2perf) -> None:
    output = " ".join(a2perf("doctor").split())
    assert "level process" in output
    assert "memory of a whole tree weaker than on Linux: sampled" in output
    assert "ready: " in output


def test_isolated_environment_is_built_and_used(
    a2perf, host_python: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    uv = shutil.which("uv", path=os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"])))
    assert uv, "pip install uv"
    host_python.with_name("uv").symlink_to(uv)  # the evaluator looks for it beside its interpreter
    folder = tmp_path / "wheels"
    folder.mkdir()
    wheels.real_base(folder)
    wheels.write_wheel(folder, "toy", "1.0")
    for name, value in {"UV_FIND_LINKS": folder, "A2PERF_CACHE_DIR": tmp_path / "cache"}.items():
        monkeypatch.setenv(name, str(value))
    code = policy(top="import toy", load="print('toy', toy.VERSION, np.__file__)", infer="return 0")
    settings = {"num_inference_steps": 5, "num_inference_episodes": 1, "python_env": "isolated"}
    write_submission(tmp_path / "agent", code, requirements="toy==1.0\n")
    (tmp_path / "inference.gin").write_text(gin(WEB, **settings))
    a2perf("run", "--submission", "agent", "--gin-config", "inference.gin", "--root-dir", "runs")
    bundle = tmp_path / "runs" / "inference"
    assert f"toy 1.0 {tmp_path / 'cache' / 'python_envs'}" in (bundle / "logs" / "stdout.log").read_text()
    recorded = json.loads((bundle / "manifest.json").read_text())
    assert (recorded["python_env"]["kind"], recorded["python_env"]["packages"]["toy"]) == ("isolated", "1.0")
