"""The tests' own engine takes itself away."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.launch.docker_engine import running_engine

pytestmark = pytest.mark.group("docker")


def test_an_engine_leaves_no_process_mount_or_folder() -> None:
    with running_engine() as engine:
        folder = Path(engine.host.removeprefix("unix://")).parent
        assert folder.is_dir()
    assert engine.process.poll() is not None
    assert not folder.exists()
    assert str(folder) not in Path("/proc/mounts").read_text()
