"""``evaluate`` in scripts without a main guard, in child processes, under interrupts and in a real notebook kernel."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

import a2perf
from a2perf.runs.bundles.bundle import validate
from tests.api.evaluate_runs import TASK, participant_has_started
from tests.commands import run_command
from tests.waiting import Child, until

ARGUMENTS = (
    f'task="{TASK}", episodes=2, sandbox="process", '
    'bindings=["Submission.num_inference_steps = 0", "Submission.record_frames = 0"]'
)

SLOW = """
import time
import a2perf

def slow(observation):
    time.sleep(0.05)
    return 0
"""


def script(tmp_path: Path, text: str) -> list[str]:
    file = tmp_path / "script.py"
    file.write_text(textwrap.dedent(text))
    return [sys.executable, str(file)]


def run(tmp_path: Path, text: str) -> subprocess.CompletedProcess[str]:
    return run_command(script(tmp_path, text), tmp_path)


def test_a_script_needs_no_main_guard_and_evaluates_in_child_processes(tmp_path: Path) -> None:
    done = run(
        tmp_path,
        f"""
        import multiprocessing
        import a2perf

        def choose(observation):
            return 0

        def evaluated(seed):
            return a2perf.evaluate(choose, seed=seed, progress=False, {ARGUMENTS}).mean_return

        print(evaluated(0))
        with multiprocessing.get_context("fork").Pool(1) as pool:
            print(pool.map(evaluated, [1])[0])
        """,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert len(done.stdout.split()) == 2
    assert [result.seed for result in a2perf.read_runs(tmp_path / "runs")] == [0, 1]


def test_an_interrupted_script_leaves_a_bundle_that_the_same_script_resumes(tmp_path: Path) -> None:
    text = f"{SLOW}\nprint(a2perf.evaluate(slow, {ARGUMENTS}).mean_return)"
    process = Child(script(tmp_path, text), cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    until(lambda: participant_has_started(tmp_path / "runs"))
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=300)
    assert process.returncode == -signal.SIGINT
    (bundle,) = tmp_path.rglob("inference/manifest.json")
    assert "KeyboardInterrupt" in said
    assert f"the results so far are in {bundle.parent}. The same call resumes the run." in said
    assert json.loads(bundle.read_text())["state"] == "interrupted"

    done = run(tmp_path, text)
    assert done.returncode == 0, done.stderr
    manifest = json.loads(bundle.read_text())
    assert manifest["state"] == "finished"
    assert [attempt["outcome"] for attempt in manifest["attempts"]] == ["interrupted", "finished"]
    assert validate(bundle.parent) == []


def test_a_script_that_is_killed_takes_its_run_with_it(tmp_path: Path) -> None:
    text = f"{SLOW}\na2perf.evaluate(slow, {ARGUMENTS})"
    process = Child(script(tmp_path, text), cwd=tmp_path, stderr=subprocess.DEVNULL)
    until(lambda: participant_has_started(tmp_path / "runs"))
    process.kill()
    process.wait(300)
    (bundle,) = tmp_path.rglob("inference/manifest.json")
    until(lambda: json.loads(bundle.read_text())["state"] == "interrupted")
    done = run(tmp_path, text)
    assert done.returncode == 0, done.stderr
    assert validate(bundle.parent) == []


def test_a_second_interrupt_kills(tmp_path: Path) -> None:
    # SIGSTOP keeps the evaluator from ending after the first one
    text = f"{SLOW}\na2perf.evaluate(slow, {ARGUMENTS})"
    process = Child(script(tmp_path, text), cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    until(lambda: participant_has_started(tmp_path / "runs"))
    (bundle,) = tmp_path.rglob("inference/manifest.json")
    evaluator = json.loads(bundle.read_text())["attempts"][-1]["pid"]
    os.kill(evaluator, signal.SIGSTOP)
    # a process that waits for its turn would take a SIGINT first, because its number is lower
    until(lambda: psutil.Process(evaluator).status() == psutil.STATUS_STOPPED)
    process.send_signal(signal.SIGINT)

    def passed_on() -> bool:
        status = Path(f"/proc/{evaluator}/status").read_text()
        pending = int(status.partition("ShdPnd:")[2].split()[0], 16)
        return bool(pending & 1 << signal.SIGINT - 1)

    until(passed_on)
    assert process.poll() is None
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=300)
    assert process.returncode == -signal.SIGINT
    assert "a2perf: killed" in said
    assert not Path(f"/proc/{evaluator}").exists()


def test_a_terminal_shows_the_bar_of_the_command(tmp_path: Path) -> None:
    argv = script(tmp_path, f"{SLOW}\na2perf.evaluate(slow, {ARGUMENTS})")
    terminal, end = pty.openpty()
    process = Child(argv, cwd=tmp_path, stdout=end, stderr=end, stdin=subprocess.DEVNULL)
    os.close(end)
    shown = b""
    with contextlib.suppress(OSError):  # EIO: the other end is closed
        while part := os.read(terminal, 4096):
            shown += part
    os.close(terminal)
    assert process.wait(300) == 0
    assert f"rollouts on {TASK}".encode() in shown
    assert "━".encode() in shown
    assert b"2 episodes, mean return" in shown


@pytest.fixture
def kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    from jupyter_client.manager import KernelManager

    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(tmp_path / "runtime"))
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    manager = KernelManager(kernel_name="python3")
    manager.kernel_spec.argv[0] = sys.executable
    manager.start_kernel(cwd=str(tmp_path))
    client = manager.client()
    client.start_channels()
    client.wait_for_ready(timeout=60)
    try:
        yield Notebook(manager, client)
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


class Notebook:
    """Cells of a real kernel and their outputs."""

    def __init__(self, manager: Any, client: Any) -> None:
        self.manager, self.client = manager, client

    def start(self, code: str) -> str:
        return str(self.client.execute(textwrap.dedent(code)))

    def finish(self, message: str) -> list[dict[str, Any]]:
        outputs = []
        while True:
            received = self.client.get_iopub_msg(timeout=120)
            if received["parent_header"].get("msg_id") != message:
                continue
            outputs.append(received)
            if received["msg_type"] == "status" and received["content"]["execution_state"] == "idle":
                return outputs


def test_a_notebook_shows_one_line_and_resumes_after_an_interrupt(kernel: Notebook, tmp_path: Path) -> None:
    cell = f"{SLOW}\nresult = a2perf.evaluate(slow, {ARGUMENTS})\nprint(result.state)"
    message = kernel.start(cell)
    until(lambda: participant_has_started(tmp_path / "runs"))
    time.sleep(0.5)
    kernel.manager.interrupt_kernel()
    outputs = kernel.finish(message)
    (error,) = [output["content"] for output in outputs if output["msg_type"] == "error"]
    assert error["ename"] == "KeyboardInterrupt"
    assert "The same call resumes the run." in "\n".join(error["traceback"])
    (bundle,) = tmp_path.rglob("inference/manifest.json")
    assert json.loads(bundle.read_text())["state"] == "interrupted"

    outputs = kernel.finish(kernel.start(cell))
    streams = [output["content"] for output in outputs if output["msg_type"] == "stream"]
    assert [(stream["name"], stream["text"]) for stream in streams] == [("stdout", "finished\n")]
    shown = [output["content"] for output in outputs if output["msg_type"].endswith("display_data")]
    assert len({content["transient"]["display_id"] for content in shown}) == 1
    assert any("<progress value=" in content["data"]["text/html"] for content in shown)
    last = shown[-1]["data"]["text/plain"]
    assert last.startswith(f"{TASK}, seed 0: 2 episodes, mean return ")
    assert last.endswith(f"; {bundle.parent.relative_to(tmp_path)}")
    assert "<progress" not in shown[-1]["data"]["text/html"]

    manifest = json.loads(bundle.read_text())
    assert [attempt["outcome"] for attempt in manifest["attempts"]] == ["interrupted", "finished"]
    assert validate(bundle.parent) == []
    assert len(list((tmp_path / "runs").iterdir())) == 1
