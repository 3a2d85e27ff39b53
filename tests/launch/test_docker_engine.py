"""The tests' own engine runs the interpreter of the tests, and takes itself away."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tests.launch.docker_engine import DockerEngine, running_engine

pytestmark = pytest.mark.group("docker")


def test_the_small_image_runs_this_interpreter_as_an_ordinary_user(docker_engine: DockerEngine) -> None:
    code = "import os, a2perf; print(os.getuid(), a2perf.__version__)"
    printed = docker_engine.client().containers.run(
        docker_engine.image,
        [sys.executable, "-c", code],
        volumes=docker_engine.volumes,
        network_mode="none",
        user="1000:1000",
        remove=True,
    )
    import a2perf

    assert printed.decode().split() == ["1000", a2perf.__version__]
    assert os.environ["DOCKER_HOST"] == docker_engine.host


def test_an_engine_leaves_no_process_mount_or_folder() -> None:
    with running_engine() as engine:
        folder = Path(engine.host.removeprefix("unix://")).parent
        assert folder.is_dir()
    assert engine.process.poll() is not None
    assert not folder.exists()
    assert str(folder) not in Path("/proc/mounts").read_text()
