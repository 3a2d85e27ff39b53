"""Workers import the modules of this Python, whatever lies in the working directory."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from tests.commands import run_command, run_python
from tests.waiting import Child, is_alive, until

WORK = """
import os, sys
from a2perf.worker_pool import worker_pool

if __name__ == "__main__":
    with worker_pool(2) as pool:
        print(list(pool.map(abs, [-1, -2])), os.environ.get("PYTHONSAFEPATH"))
    print(os.environ.get("PYTHONSAFEPATH"))
"""


def test_module_of_the_working_directory_is_not_imported(tmp_path: Path) -> None:
    here, program = tmp_path / "here", tmp_path / "program" / "work.py"
    here.mkdir()
    program.parent.mkdir()
    program.write_text(WORK)
    for name in ("multiprocessing", "pickle", "json", "resource_tracker"):
        (here / name).mkdir()
        (here / name / "__init__.py").write_text(f"open({str(tmp_path / 'canary')!r}, 'w')\n")
    package = str(Path(__file__).parents[1])
    environment = {**os.environ, "PYTHONPATH": package}
    environment.pop("PYTHONSAFEPATH", None)
    done = run_command([sys.executable, program], here, check=True, env=environment)
    assert done.stdout.split("\n")[:2] == ["[1, 2] 1", "None"]
    assert not (tmp_path / "canary").exists()


ENDLESS = """
import os, time
from a2perf.worker_pool import worker_pool

def pid(_):
    time.sleep(0.5)
    return os.getpid()

if __name__ == "__main__":
    with worker_pool(2) as pool:
        print(*set(pool.map(pid, range(4))), flush=True)
        time.sleep(1000)
"""


def test_workers_end_with_a_process_that_is_killed(tmp_path: Path) -> None:
    (tmp_path / "work.py").write_text(ENDLESS)
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
    program = Child([sys.executable, tmp_path / "work.py"], env=environment, stdout=subprocess.PIPE)
    workers = list(map(int, program.stdout.readline().split())) if program.stdout else []
    program.kill()
    assert workers
    until(lambda: not any(map(is_alive, workers)))


def test_process_ends_also_if_its_parent_ended_before() -> None:
    code = "import sys, time; from a2perf.system import end_with_parent as end; end(int(sys.argv[1])); time.sleep({})"
    assert run_python(code.format(0), os.getpid()).returncode == 0
    assert run_python(code.format(1000), 2**22 + 1).returncode == -signal.SIGTERM
