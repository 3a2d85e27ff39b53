"""What a2perf promises on Windows: environments, runs at the level `none` and their scores as on Linux."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import textwrap
from pathlib import Path

import psutil
import pytest

from a2perf.submission.evaluator.process.loopback import Loopback
from a2perf.submission.participant.wire import ConnectionClosed, WireTimeout
from tests.commands import run_a2perf, run_command
from tests.made_submissions import TOY, WEB, gin, policy, write_submission
from tests.waiting import PATIENCE_S, Child, is_alive, until

SIMULATION = "as_windows"
EXAMPLE = Path(__file__).parents[2] / "examples" / "minimal"
RECORDED = Path(__file__).parents[1] / "recorded" / "small" / "numpy_ars.zip"
TROT = pytest.param(
    ("QuadrupedLocomotionMuJoCo-DogTrot-v0",), marks=[pytest.mark.group("clips"), pytest.mark.group("mujoco")]
)
RUN = ("run", "--gin-config", "inference.gin", "--root-dir", "runs", "--submission")

STEPS = """
import sys, a2perf, gymnasium
env = gymnasium.make(sys.argv[1]) if len(sys.argv) == 2 else gymnasium.make_vec(sys.argv[1], num_envs=64)
env.reset(seed=0)
env.action_space.seed(0)
print(env.step(env.action_space.sample())[1:3])
"""
EVALUATED = """
import sys, tempfile, a2perf
if __name__ == "__main__":
    options = {"root_dir": tempfile.mkdtemp(), "progress": False, "public_seeds": True}
    result = a2perf.evaluate(lambda seen: int(seen[2] > 0), env=sys.argv[1], episodes=3, **options)
    print(result.returns.tolist())
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
            run_command([str(python), "-c", code, *map(str, words)], tmp_path, encoding="cp1252")
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
    assert run_a2perf("unpack", "here.zip", "-o", "here", cwd=tmp_path).returncode == 0
    assert run_a2perf("score", "here", cwd=tmp_path).returncode == 0
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


def test_submission_is_checked_trained_evaluated_and_reported(a2perf, tmp_path: Path) -> None:
    a2perf("init", "agent")
    assert "no problems" in a2perf("check", "agent")
    words = ("--gin-config", "training.gin", "inference.gin", "--seeds", "0-1", "--workers", "2", "--root-dir", "runs")
    assert "4 of 4 runs finished" in a2perf("run", "--submission", "agent", *words)
    bundle = next(tmp_path.glob("runs/**/inference/manifest.json")).parent
    recorded = json.loads((bundle / "manifest.json").read_text())
    assert recorded["sandbox"]["level"] == "none"
    assert "unlimited time, memory, files, output and number of processes" in recorded["sandbox"]["missing"]
    assert recorded["tracking"]["cpu_method"] == "psutil"
    assert "  Return  " in a2perf("score", "runs")
    assert "1 submission" in a2perf("report", "runs", "-o", "report")
    a2perf("leaderboard", "runs", "-o", "board")
    assert "CONFIRMED (bit-equal)" in a2perf("reproduce", bundle, "-o", "again")


@pytest.mark.parametrize(
    "env_id", ["CartPole-v1", *(pytest.param(name, marks=pytest.mark.slow) for name in (WEB, TOY))]
)
def test_runs_have_the_episodes_of_linux(a2perf, tmp_path: Path, env_id: str) -> None:
    settings = ("--gin-bindings", "Submission.num_inference_steps = 10", "Submission.num_inference_episodes = 5")
    recorded = []
    for place in ("there", "here"):
        for config in ("training.gin", "inference.gin"):
            words = ("run", "--submission", str(EXAMPLE), "--gin-config", config, "--task", env_id, "--root-dir", place)
            words = (*words, "--seed", "3", "--public-seeds", *settings)
            if place == "there":
                a2perf(*words)
            else:
                assert run_a2perf(*words, cwd=tmp_path).returncode == 0
        episodes = json.loads((tmp_path / place / "inference/metrics/rollouts.json").read_text())["episodes"]
        recorded.append([(one["seed"], one["length"], one["episode_return"]) for one in episodes])
    assert recorded[0] == recorded[1]
    assert a2perf("validate", "there", "here").count("SUCCESS") == 4
    assert "CONFIRMED (bit-equal)" in a2perf("reproduce", "here/inference")
    assert "SUCCESS" in run_a2perf("validate", "there/inference", cwd=tmp_path).stdout


def test_policy_in_python_is_evaluated_as_on_linux(on_both) -> None:
    assert on_both(EVALUATED, "CartPole-v1")


def test_failures_are_recorded_and_their_trees_end(a2perf, tmp_path: Path) -> None:
    child = "subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(1000)'])"
    load = f"open('../pid', 'w').write(str({child}.pid))"
    for number, (infer, limit, said) in enumerate(
        [
            ("raise ValueError('no idea')", 60, "infer_once (call 1) (exception): ValueError: no idea"),
            ("while True:\n    pass", 1, "(timeout): it did not return within the limit of 1 s and was killed"),
            ("time.sleep(2)\nos._exit(3)", 60, "(exit): the process exited with status 3"),
        ]
    ):
        write_submission(
            tmp_path / f"agent{number}", policy(top="import os, subprocess, sys, time", load=load, infer=infer)
        )
        (tmp_path / "inference.gin").write_text(gin(WEB, call_timeout_s=limit))
        folders = ("--submission", f"agent{number}", "--root-dir", f"runs{number}")
        assert said in a2perf("run", "--gin-config", "inference.gin", *folders, status=1)
        assert json.loads((tmp_path / f"runs{number}/inference/manifest.json").read_text())["state"] == "failed"
        assert not is_alive(int((tmp_path / "pid").read_text()))


@pytest.mark.parametrize("ended", ["interrupted launcher", "killed launcher", "killed evaluator"])
def test_run_that_is_stopped_leaves_no_process_and_resumes(
    a2perf, host_python: Path, tmp_path: Path, ended: str
) -> None:
    (tmp_path / "slow").touch()
    sleep = "subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(1000)'])"
    load = f"""
        if os.path.exists('../slow'):
            print(os.getpid(), {sleep}.pid, file=open('../pid.new', 'w'), flush=True)
            os.rename('../pid.new', '../pid')
            while True:
                pass
        return 0
    """
    write_submission(tmp_path / "agent", policy(top="import os, subprocess, sys", load=load))
    (tmp_path / "inference.gin").write_text(gin(WEB, num_inference_steps=5, num_inference_episodes=2))
    output = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    with Child([host_python, "-m", "a2perf", *RUN, "agent"], cwd=tmp_path, **output) as launcher:
        until((tmp_path / "pid").exists)
        pids = [int(pid) for pid in (tmp_path / "pid").read_text().split()]
        evaluator = psutil.Process(pids[0]).parent()
        if ended == "killed evaluator":
            evaluator.kill()
        else:
            launcher.send_signal(signal.SIGINT if ended == "interrupted launcher" else signal.SIGKILL)
        until(lambda: not any(map(is_alive, [*pids, evaluator.pid])))
        statuses = {"interrupted launcher": 130, "killed launcher": -9, "killed evaluator": 3}
        assert launcher.wait(PATIENCE_S) == statuses[ended]
    (tmp_path / "slow").unlink()
    a2perf(*RUN, "agent", *(["--retry", "infrastructure"] if ended == "killed evaluator" else []))
    attempts = json.loads((tmp_path / "runs/inference/manifest.json").read_text())["attempts"]
    outcome = "infrastructure" if ended == "killed evaluator" else "interrupted"
    assert [attempt["outcome"] for attempt in attempts] == [outcome, "finished"]


def test_stranger_at_the_port_of_a_participant_is_sent_away() -> None:
    loopback = Loopback()
    with socket.create_connection(("127.0.0.1", loopback.port)) as stranger:
        stranger.sendall(b"0" * len(loopback.token))
        with socket.create_connection(("127.0.0.1", loopback.port)) as worker:
            worker.sendall(loopback.token)
            with loopback.accept(lambda: False, None) as accepted:
                assert accepted.getpeername() == worker.getsockname()
        assert stranger.recv(1) == b""
    silent = Loopback()
    with contextlib.ExitStack() as strangers:
        for _ in range(100):  # more than are looked at, and none of them sends anything
            strangers.enter_context(socket.create_connection(("127.0.0.1", silent.port)))
        with socket.create_connection(("127.0.0.1", silent.port)) as worker:
            worker.sendall(silent.token)
            with silent.accept(lambda: False, None) as accepted:
                assert accepted.getpeername() == worker.getsockname()
    with pytest.raises(WireTimeout):
        Loopback().accept(lambda: False, 0.0)
    with pytest.raises(ConnectionClosed):
        Loopback().accept(lambda: True, None)


def test_worker_ends_with_its_input_also_when_the_thread_that_waits_for_it_starts_late(host_python: Path) -> None:
    code = """
        import sys, time
        from a2perf import system
        from a2perf.submission.participant import worker
        wait = system._watch_input
        system._watch_input = lambda *given: (time.sleep(0.5), wait(*given))
        connected = worker._connected(int(sys.argv[1]))
        time.sleep(1000)
    """
    loopback = Loopback()
    words = [host_python, "-c", textwrap.dedent(code), str(loopback.port)]
    with Child(words, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL) as worker:
        worker.stdin.write(loopback.token + b"\n")
        worker.stdin.flush()
        with loopback.accept(lambda: worker.poll() is not None, None):
            worker.stdin.close()
            assert worker.wait(PATIENCE_S) == 128 + signal.SIGTERM


def test_script_and_command_are_recorded(a2perf, tmp_path: Path, host_python: Path) -> None:
    play = "made.reset(seed=0)\n    while not any(made.step(0)[2:4]):\n        pass\n"
    script = f"import gymnasium\ndef main(env='CartPole-v1'):\n    made = gymnasium.make(env)\n    {play}"
    (tmp_path / "script.py").write_text(script)
    wrapped = a2perf("wrap", "script.py", "--env", "CartPole-v1", "--seed", "1", "--sandbox", "none")
    assert "episodes: 1 of the training" in wrapped
    (tmp_path / "train.py").write_text("print('trained')\n")
    words = ("--env-ids", "CartPole-v1", "--num-seeds", "1", "--workers", "1", "--store", "store")
    assert "1 of 1 runs finished" in a2perf("benchmark", "--command", f"{host_python} train.py", *words)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--sandbox", "process"), "'process' is not available on this host: it needs Linux or macOS"),
        (("--memory-limit-bytes", "1000000000"), "memory_bytes needs Linux or macOS"),
        (("--python-env", "isolated"), "isolated environments need Linux or macOS"),
        (("--launcher", "docker"), "runs with --launcher docker need Linux or macOS"),
    ],
)
def test_what_windows_does_not_offer_is_refused(a2perf, tmp_path: Path, words: tuple[str, ...], said: str) -> None:
    write_submission(tmp_path / "agent")
    (tmp_path / "inference.gin").write_text(gin(WEB))
    output = a2perf(*RUN, "agent", *words, status=2)
    assert said in output
    assert len(output.splitlines()) <= 5


def test_weaker_level_is_accepted_and_recorded(a2perf, tmp_path: Path) -> None:
    write_submission(tmp_path / "agent", policy(infer="return 0"))
    (tmp_path / "inference.gin").write_text(gin(WEB, num_inference_steps=5, num_inference_episodes=2))
    a2perf(*RUN, "agent", "--sandbox", "process", "--allow-weaker", "--concurrent-episodes", "2")
    recorded = json.loads((tmp_path / "runs/inference/manifest.json").read_text())["sandbox"]
    assert (recorded["asked"], recorded["level"]) == ("process", "none")
    assert recorded["missing"][0] == "the requested level 'process': it needs Linux or macOS"


def test_doctor_names_what_is_missing(a2perf) -> None:
    output = " ".join(a2perf("doctor").split())
    assert "level none the default here" in output
    assert "not evaluator: " not in output
    assert "files of others weaker than on Linux" in output
    assert "apt-get install bubblewrap" not in output
    assert "Ready domains + Quadruped locomotion" in output
