"""Real child processes for the trackers to follow."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator

import pynvml
import pytest

from tests.waiting import Child

from .fake_nvml import FakeGpu, FakeNvml

Spawn = Callable[[str], "subprocess.Popen[bytes]"]


@pytest.fixture
def spawn() -> Iterator[Spawn]:
    """Starts ``python -S -c code`` with pipes; what still runs at the end of the test is killed."""
    started: list[subprocess.Popen[bytes]] = []

    def start(code: str) -> subprocess.Popen[bytes]:
        process = Child(
            [sys.executable, "-S", "-c", code],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        started.append(process)
        return process

    yield start
    for process in started:
        if process.poll() is None:
            process.kill()
        process.wait(300)
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()


@pytest.fixture
def nvml(monkeypatch: pytest.MonkeyPatch) -> Callable[[list[FakeGpu]], FakeNvml]:
    """Puts devices behind the real pynvml."""

    def install(gpus: list[FakeGpu]) -> FakeNvml:
        library = FakeNvml(gpus)
        monkeypatch.setattr(pynvml, "nvmlLib", library)
        monkeypatch.setattr(pynvml, "_nvmlGetFunctionPointer_cache", {})
        return library

    return install
