"""Compiles the scalar mathematics of this domain with Numba where it is installed; plain Python otherwise.

The same source runs either way, so a host without Numba gets the same numbers, more slowly. Compiled code is kept on
disk; where no folder can be written it is compiled anew in each process. Kept code is valid for exactly the sources of
this folder: a compiled function contains those it calls and the constants it uses, whatever files they are in.
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


def compiled(function: F) -> F:
    """Returns the function compiled without fast-math (so the operation order is that of the source), GIL released."""
    if numba is None:
        return function
    try:
        dispatcher = numba.njit(cache=True, nogil=True, error_model="numpy")(function)
        # Numba itself looks only at the file in which a function stands.
        dispatcher._cache._cache_file._source_stamp = _sources_digest()
    except (RuntimeError, AttributeError):
        # No folder for the cache can be written, or this Numba keeps its cache in another way.
        dispatcher = numba.njit(nogil=True)(function)
    return cast(F, dispatcher)


@functools.cache
def _sources_digest() -> str:
    """Hash of all sources of this folder."""
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(path.name.encode() + path.read_bytes())
    return digest.hexdigest()
