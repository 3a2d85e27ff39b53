"""A pool of worker processes that import nothing from the working directory, which may hold a stranger's folder.

A new interpreter looks for the very modules of ``multiprocessing`` in its working directory first, unless it is told
otherwise. Standard library only.
"""

from __future__ import annotations

import concurrent.futures
import multiprocessing
import os
from collections.abc import Iterator
from contextlib import contextmanager

_VARIABLE = "PYTHONSAFEPATH"


@contextmanager
def worker_pool(processes: int) -> Iterator[concurrent.futures.ProcessPoolExecutor]:
    """Yields a pool of fresh interpreters: the caller may have threads, and a fork would copy their locks.

    The caller starts no process of another kind while the pool is open; it would get the variable as well.
    """
    before = os.environ.get(_VARIABLE)
    os.environ[_VARIABLE] = "1"
    try:
        context = multiprocessing.get_context("spawn")
        with concurrent.futures.ProcessPoolExecutor(processes, mp_context=context) as executor:
            yield executor
    finally:
        if before is None:
            del os.environ[_VARIABLE]
        else:
            os.environ[_VARIABLE] = before
