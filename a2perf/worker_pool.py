"""A pool of worker processes that import nothing from the working directory, which may be an untrusted folder.

By default a new interpreter searches its working directory first, even for the modules of ``multiprocessing``.
``PYTHONSAFEPATH`` prevents that. Workers end with the process that opened the pool, also if it is killed.
"""

from __future__ import annotations

import concurrent.futures
import multiprocessing
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from a2perf.system import end_with_parent

_VARIABLE = "PYTHONSAFEPATH"


@contextmanager
def worker_pool(
    processes: int, initializer: Callable[..., object] | None = None, initargs: tuple[Any, ...] = ()
) -> Iterator[concurrent.futures.ProcessPoolExecutor]:
    """Yields a pool of new interpreters: the caller may have threads, and a fork would copy their locks.

    Any other process that the caller starts while the pool is open inherits ``PYTHONSAFEPATH`` as well.
    """
    before = os.environ.get(_VARIABLE)
    os.environ[_VARIABLE] = "1"  # while the pool is open: its processes start when tasks arrive, not with the pool
    try:
        context, begin = multiprocessing.get_context("spawn"), (os.getpid(), initializer, initargs)
        with concurrent.futures.ProcessPoolExecutor(processes, context, _begin, begin) as executor:
            yield executor
    finally:
        del os.environ[_VARIABLE]
        if before is not None:
            os.environ[_VARIABLE] = before


def _begin(parent: int, initializer: Callable[..., object] | None, arguments: tuple[Any, ...]) -> None:
    end_with_parent(parent)
    if initializer is not None:
        initializer(*arguments)
