"""A worker, which is another process, makes environments of a package that only the server's command line names."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from a2perf_serve.settings import served_tasks
from tests.domains.test_foreign_package import NAMES, TANKS

WORKER = """
import sys
from a2perf_serve.worker import EnvironmentHost

host = EnvironmentHost()
for env_id in sys.argv[1:]:
    host.open(env_id, env_id, {})
    assert len(host.reset(env_id, 1, None)) == 5
"""


def test_a_worker_imports_the_package_of_a_task(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "tank_envs.py").write_text(TANKS)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.syspath_prepend(tmp_path)
    tasks = served_tasks(tasks=NAMES[:1], env_ids=NAMES[1:])
    assert [task.qualified_id for task in tasks] == list(NAMES)
    subprocess.run([sys.executable, "-c", WORKER, *(task.qualified_id for task in tasks)], check=True)
