"""Compiles the scalar mathematics of this domain with Numba where it is installed; plain Python otherwise.

The same source runs either way, so a host without Numba gets the same numbers, more slowly. Compiled code is kept on
disk; where no folder can be written it is compiled anew in each process.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

F = TypeVar("F", bound=Callable[..., Any])

try:
    import numba
except ImportError:
    numba = None

NUMBA_AVAILABLE: bool = numba is not None


def compiled(function: F) -> F:
    """Returns the function compiled without fast-math (so the operation order is that of the source), GIL released."""
    if numba is None:
        return function
    try:
        return cast(F, numba.njit(cache=True, nogil=True)(function))
    except RuntimeError:  # no folder for the cache can be written
        return cast(F, numba.njit(nogil=True)(function))
