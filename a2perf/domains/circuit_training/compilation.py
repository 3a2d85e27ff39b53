"""Compiles the kernels of the placement engine with Numba where it is installed; plain Python otherwise.

Kernels are compiled on their first call, never on import, in IEEE double precision: no fast-math, so the order of
operations is that of the source and no product is fused with a sum. They release the GIL. Compiled code is kept on
disk; where no folder can be written, it is compiled anew in each process.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

F = TypeVar("F", bound=Callable[..., Any])

try:
    import numba
except ImportError:
    numba = None

NUMBA_AVAILABLE: bool = numba is not None

# Checks for division by zero would take a third of the compile time; no kernel divides by what can be zero. Kernels get
# their scratch memory from the caller, so reference counts, which take as long again, are not needed either.
_OPTIONS = {"nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True, "_nrt": False}


def compiled(function: F) -> F:
    """Returns the function as a compiled kernel, or as it is where Numba is not installed."""
    if numba is None:
        return function
    try:
        dispatcher = numba.njit(cache=True, **_OPTIONS)(function)
        # Numba looks only at the file in which a function stands; a kernel contains those that it calls.
        dispatcher._cache._cache_file._source_stamp = _kernels_digest()
    except (RuntimeError, AttributeError):
        # No folder for the cache can be written, or this Numba keeps its cache in another way.
        dispatcher = numba.njit(**_OPTIONS)(function)
    return cast(F, dispatcher)


def compiled_part(function: F) -> F:
    """Returns the function as a part of kernels: callable from them alone, which halves its compilation."""
    if numba is None:
        return function
    return cast(F, numba.njit(no_cpython_wrapper=True, **_OPTIONS)(function))


@functools.cache
def _kernels_digest() -> str:
    """Returns a hash of all sources of this folder that hold kernels."""
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.glob("*.py")):
        source = path.read_bytes()
        if b"@compiled" in source:
            digest.update(path.name.encode() + source)
    return digest.hexdigest()
