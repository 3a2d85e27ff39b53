"""Driving a queue with real child processes, and the local launcher under it."""

from __future__ import annotations

import os
import signal
import sys
import textwrap
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from a2perf.errors import InfrastructureError, UserError
from a2perf.launch import ExitStatus, Queue, Resources, RunCommand, RunEvent, State, drive
from a2perf.launch.local import LocalLauncher
from a2perf.launch.run_spec import RunSpec
from a2perf.runs.bundles.process_identity import ProcessIdentity
from tests.commands import run_python
from tests.launch.remains import processes_of
from tests.launch.waiting import end_of
from tests.waiting import Child, until


@pytest.fixture
def launcher():
    opened = LocalLauncher()
    yield opened
    opened.close()


@pytest.fixture
def command(tmp_path: Path) -> Callable[..., RunCommand]:
    def make(code: str, name: str = "a", **attributes: object) -> RunCommand:
        argv = (sys.executable, "-S", "-c", textwrap.dedent(code), str(tmp_path))
        return RunCommand(argv, name=name, cwd=tmp_path, **{"log": tmp_path / f"{name}.log", **attributes})  # type: ignore[arg-type]

    return make


def test_every_entry_gets_its_outcome(queue: Queue, launcher: LocalLauncher, command, tmp_path: Path) -> None:
    queue.add(
        [
            RunSpec("good", command("print('to stdout'); import sys; print('to stderr', file=sys.stderr)", "good")),
            RunSpec("bad", command("raise SystemExit(1)", "bad")),
            RunSpec("after bad", command("pass", "after"), after="bad"),
        ]
    )
    summary = drive(queue, launcher, 2)
    assert summary.exit_code == 1
    assert summary.failed == {"exit": 1, "prerequisite": 1}
    assert summary.counts[State.FINISHED] == 1
    assert summary.attempts == 2
    assert sorted((tmp_path / "good.log").read_text().splitlines()) == ["to stderr", "to stdout"]


def test_workers_bound_what_runs_at_the_same_time(queue: Queue, launcher: LocalLauncher, command) -> None:
    queue.add([RunSpec(str(number), command("import time; time.sleep(0.1)", str(number))) for number in range(6)])
    seen: list[int] = []
    summary = drive(queue, launcher, 2, on_event=lambda event: seen.append(len(event.running)))
    assert summary.exit_code == 0
    assert max(seen) == 2


def test_a_failure_of_the_host_is_tried_again_until_it_is_over(
    queue: Queue, launcher: LocalLauncher, command, tmp_path: Path
) -> None:
    code = """
    import pathlib, sys
    tries = pathlib.Path(sys.argv[1], "tries")
    tries.write_text((tries.read_text() if tries.exists() else "") + "x")
    sys.exit(0 if len(tries.read_text()) == 3 else 3)
    """
    queue.add([RunSpec("a", command(code))])
    events: list[RunEvent] = []
    summary = drive(queue, launcher, 1, on_event=events.append)
    assert summary.exit_code == 0
    assert summary.attempts == 3
    assert sum(event.state is State.QUEUED for event in events) == 2
    assert queue.entries()[0].retries == 2


def test_an_infrastructure_failure_for_good_has_its_own_exit_status(
    tmp_path: Path, launcher: LocalLauncher, command
) -> None:
    with Queue(tmp_path / "q.sqlite", max_retries=1, retry_delay_s=0) as queue:
        queue.add([RunSpec("a", command("raise SystemExit(3)")), RunSpec("b", command("raise SystemExit(1)", "b"))])
        summary = drive(queue, launcher, 1)
        found = queue.entries()[0]
    assert summary.exit_code == 3
    assert summary.failed == {"infrastructure": 1, "exit": 1}
    assert (found.attempts, found.reason) == (2, "its command ended with status 3 (tried 2 times)")


def test_a_command_over_its_time_limit_is_ended(queue: Queue, launcher: LocalLauncher, command) -> None:
    queue.add([RunSpec("a", command("import time; time.sleep(600)", resources=Resources(wall_s=0.3)))])
    summary = drive(queue, launcher, 1)
    assert summary.failed == {"timeout": 1}
    assert "0.3 s" in queue.entries()[0].reason


def test_what_cannot_start_is_a_configuration_failure(queue: Queue, launcher: LocalLauncher, command) -> None:
    queue.add([RunSpec("a", command("pass", resources=Resources(cpus=10_000)))])
    assert drive(queue, launcher, 1).failed == {"configuration": 1}
    assert "10000 processors" in queue.entries()[0].reason


# --- the local launcher -----------------------------------------------------------------------------------------------


def test_a_job_ends_with_its_launcher_even_by_sigkill(tmp_path: Path) -> None:
    code = """
    import os, sys, time
    from pathlib import Path
    from a2perf.launch import RunCommand, get_launcher
    folder = Path(sys.argv[1])
    sleeper = "import pathlib, sys, time; pathlib.Path(sys.argv[1], 'here').touch(); time.sleep(600)"
    get_launcher("local").start(RunCommand((sys.executable, "-S", "-c", sleeper, str(folder)), cwd=folder))
    while not (folder / "here").exists():
        time.sleep(0.01)
    os.kill(os.getpid(), 9)
    """
    done = run_python(code, str(tmp_path))
    assert done.returncode == -signal.SIGKILL
    assert (tmp_path / "here").exists()
    until(lambda: not processes_of(tmp_path))


def test_what_a_command_leaves_in_its_session_ends_with_it(launcher: LocalLauncher, command, tmp_path: Path) -> None:
    code = """
    import subprocess, sys
    subprocess.Popen([sys.executable, "-S", "-c", "import time; time.sleep(600)", sys.argv[1]])
    """
    assert end_of(launcher.start(command(code))) == ExitStatus(0)
    until(lambda: not processes_of(tmp_path))


def test_a_command_that_ignores_sigterm_is_killed(
    launcher: LocalLauncher, command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("a2perf.launch.local.CANCEL_GRACE_S", 0.2)
    code = """
    import pathlib, signal, sys, time
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    pathlib.Path(sys.argv[1], "here").touch()
    time.sleep(600)
    """
    job = launcher.start(command(code))
    until((tmp_path / "here").exists)
    job.cancel()
    ended = end_of(job)
    assert ended.exit_code is None
    assert not ended.lost


def test_processors_are_handed_out_and_given_back(launcher: LocalLauncher, command, tmp_path: Path) -> None:
    code = "import os; print(sorted(os.sched_getaffinity(0)))"
    for name in ("a", "b"):
        assert end_of(launcher.start(command(code, name, resources=Resources(cpus=1)))) == ExitStatus(0)
    mine = sorted(os.sched_getaffinity(0))
    assert [(tmp_path / f"{name}.log").read_text().strip() for name in ("a", "b")] == [str(mine[:1])] * 2


def test_more_graphics_processors_than_there_are_is_an_error(launcher: LocalLauncher, command) -> None:
    with pytest.raises(UserError, match="asks for 4096 graphics processors"):
        launcher.start(command("pass", resources=Resources(gpus=4096)))


def test_a_program_that_is_not_there_ends_with_status_127(launcher: LocalLauncher, tmp_path: Path) -> None:
    job = launcher.start(RunCommand(("/no/such/program",), cwd=tmp_path, log=tmp_path / "log"))
    assert end_of(job).exit_code == 127
    assert "/no/such/program" in (tmp_path / "log").read_text()


def test_a_folder_that_is_not_there_is_the_hosts_failure(launcher: LocalLauncher, tmp_path: Path) -> None:
    with pytest.raises(InfrastructureError, match="could not be started"):
        launcher.start(RunCommand(("true",), cwd=tmp_path / "nowhere"))


def test_adopting_waits_for_the_end_of_what_a_dead_launcher_left(launcher: LocalLauncher, tmp_path: Path) -> None:
    process = Child([sys.executable, "-S", "-c", "import time; time.sleep(0.5)"])
    identity = str(ProcessIdentity.of(process.pid))
    reaper = threading.Thread(target=process.wait)
    reaper.start()
    assert launcher.adopt(identity) is None
    assert ProcessIdentity.parse(identity).alive() is False
    reaper.join(300)
    assert process.returncode == 0
