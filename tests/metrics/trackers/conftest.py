"""Real child processes for the trackers to follow."""

from __future__ import annotations

import contextlib
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
    with contextlib.ExitStack() as started:

        def start(code: str) -> subprocess.Popen[bytes]:
            words = [sys.executable, "-S", "-c", code]
            process = Child(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True)
            started.enter_context(process)
            started.callback(process.end)
            return process

        yield start


@pytest.fixture
def nvml(monkeypatch: pytest.MonkeyPatch) -> Callable[[list[FakeGpu]], FakeNvml]:
    """Puts devices behind the real pynvml."""

    def install(gpus: list[FakeGpu]) -> FakeNvml:
        library = FakeNvml(gpus)
        monkeypatch.setattr(pynvml, "nvmlLib", library)
        monkeypatch.setattr(pynvml, "_nvmlGetFunctionPointer_cache", {})
        return library

    return install
