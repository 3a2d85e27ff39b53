"""The kernel's clock of a tree without a control group: it counts what no parent waits for."""

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from a2perf.sandbox import SandboxSpec, get_sandbox, limits, task_clock
from a2perf.sandbox.task_clock import TaskClock
from tests.commands import run_command
from tests.ordinary_user import way_to_the_interpreter
from tests.waiting import Child

pytestmark = pytest.mark.skipif(task_clock.why_unavailable() is not None, reason=str(task_clock.why_unavailable()))

CHILDREN = """
import os, signal, sys, time
signal.signal(signal.SIGCHLD, signal.{handler})
for _ in range(10):
    if os.fork() == 0:
        while time.process_time() < 0.05: pass
        os._exit(0)
    try: os.wait()
    except ChildProcessError: pass
"""


@pytest.mark.usefixtures("no_control_groups")
@pytest.mark.parametrize("level", ["none", "process"])
@pytest.mark.parametrize("handler", ["SIG_DFL", "SIG_IGN"])
def test_children_count_whether_or_not_their_parent_waits(start, level: str, handler: str) -> None:
    confined = start(CHILDREN.format(handler=handler), level)
    assert confined.cpu_clock is not None
    ending = confined.wait(300)
    assert ending is not None
    assert ending.exit_code == 0
    assert 0.4 <= ending.cpu_s < 5  # ten children of 0.05 s, and what the interpreter itself takes
    assert 0.4 <= confined.cpu_clock() <= ending.cpu_s


def test_tree_with_a_control_group_needs_no_clock(tmp_path: Path) -> None:
    if not limits.place().parents:
        pytest.skip("no control group can be made here")
    confined = get_sandbox("process").start(SandboxSpec(argv=("/bin/true",), cwd=tmp_path, env={}))
    assert (confined.cpu_clock is None) == ("cpuacct" in limits.place().parents or limits.place().version == 2)
    confined.wait(300)


def test_time_of_the_root_itself_is_left_out_and_the_last_reading_stays() -> None:
    code = """
    import subprocess, sys, time
    sys.stdin.readline()
    while time.process_time() < 0.5: pass
    subprocess.run([sys.executable, "-S", "-c", "import time\\nwhile time.process_time() < 0.2: pass"])
    print("done", flush=True)
    sys.stdin.readline()
    """
    process = Child([sys.executable, "-c", textwrap.dedent(code)], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    with process:
        assert process.stdin is not None
        assert process.stdout is not None
        clock = TaskClock(process.pid)
        process.stdin.write(b"\n")
        process.stdin.flush()
        assert process.stdout.readline() == b"done\n"
        clock.close()
        # without the 0.5 s of the root, and without the time in the kernel where that is closed to the user
        assert 0.15 <= clock.seconds() < 0.65
        assert clock.seconds() == clock.seconds()
        clock.close()


def test_process_that_is_gone_has_no_clock() -> None:
    process = Child(["/bin/true"])
    process.wait(300)
    with pytest.raises(ProcessLookupError):
        TaskClock(process.pid)


def test_other_users_process_is_refused() -> None:
    code = (
        "import os\n"
        "if os.geteuid() == 0: os.setgroups([]); os.setresgid(4242, 4242, 4242); os.setresuid(4242, 4242, 4242)\n"
        "from a2perf.sandbox.task_clock import TaskClock\n"
        "try: TaskClock(1)\nexcept OSError: print('refused')"
    )
    with way_to_the_interpreter() as way:
        done = run_command([*way, sys.executable, "-c", code], "/")
    assert done.stdout == "refused\n", done.stderr
