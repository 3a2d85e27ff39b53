"""Compiles numeric kernels with Numba if it is installed; otherwise they run as plain Python with the same numbers.

Kernels are compiled on their first call, never on import, in IEEE double precision: no fast-math, so the order of
operations is that of the source and no product is fused with a sum. They release the GIL. Compiled code is kept on
disk; if no folder can be written, each process compiles it again. Kept code is valid for exactly the sources of the
domain of the function: a compiled function contains those it calls and the constants it uses, in any of
its files.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

_DOMAINS = Path(__file__).parent
F = TypeVar("F", bound=Callable[..., Any])

try:
    import numba
except ImportError:
    numba = None

NUMBA_AVAILABLE: bool = numba is not None
if importlib.util.find_spec("scipy") and NUMBA_AVAILABLE:
    # Numba imports scipy.linalg only to find out whether it exists, which takes as long as all of Numba.
    _linalg: Any = importlib.import_module("numba.np.linalg")
    if _ensure_blas := getattr(_linalg, "ensure_blas", None):
        _linalg.ensure_blas = lambda: None
        importlib.import_module("numba.np.arraymath")
        _linalg.ensure_blas = _ensure_blas

_OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy"}
# The check for a division by zero would take a third of the compile time (error_model); reference counts take as long.
_WITHOUT_ALLOCATION: dict[str, Any] = {**_OPTIONS, "no_cfunc_wrapper": True, "_nrt": False}


def compiled(function: F) -> F:
    """Returns the compiled function, or the function itself if Numba is not installed."""
    return _compiled(function, _OPTIONS)


def compiled_without_allocation(function: F) -> F:
    """Returns the function compiled faster, as a kernel that gets all its memory from the caller."""
    return _compiled(function, _WITHOUT_ALLOCATION)


def compiled_part(function: F) -> F:
    """Returns a function that only kernels without allocation call; this halves its compile time."""
    if numba is None:
        return function
    return cast(F, numba.njit(no_cpython_wrapper=True, **_WITHOUT_ALLOCATION)(function))


def _compiled(function: F, options: dict[str, Any]) -> F:
    if numba is None:
        return function
    try:
        dispatcher = numba.njit(cache=True, **options)(function)
        kept = dispatcher._cache._cache_file
        # Numba looks only at the file that holds the function.
        kept._source_stamp = _sources_digest(_domain_of(Path(inspect.getfile(function)).parent))
        kept._load_index = functools.partial(_readable_index, kept._load_index)
    except (RuntimeError, AttributeError):
        # No folder for the cache can be written, or this Numba keeps its cache in another way.
        dispatcher = numba.njit(**options)(function)
    return cast(F, dispatcher)


def is_kept(kernel: Callable[..., Any]) -> bool:
    """Returns whether the code of a compiled function is on disk, or cannot be kept there."""
    kept = getattr(getattr(kernel, "_cache", None), "_cache_file", None)
    return kept is None or bool(kept._load_index())


def _readable_index(load: Callable[[], dict[Any, Any]]) -> dict[Any, Any]:
    """Returns what is kept; nothing if it names types that another version of the sources had."""
    try:
        return load()
    except (AttributeError, ImportError, EOFError):
        return {}


def _domain_of(folder: Path) -> Path:
    """Returns the folder of the domain that a folder belongs to; that of a distribution is returned as it is."""
    inside = folder.is_relative_to(_DOMAINS)
    return _DOMAINS.joinpath(*folder.relative_to(_DOMAINS).parts[:1]) if inside else folder


@functools.cache
def _sources_digest(folder: Path) -> str:
    digest = hashlib.sha256()
    # Kernels of a distribution contain those of the domains that they call.
    folders = [folder] if folder.is_relative_to(_DOMAINS) else [*sorted(_DOMAINS.glob("*/")), folder]
    for path in (path for one in folders for path in sorted(one.rglob("*.py"))):
        digest.update(path.name.encode() + path.read_bytes())
    return digest.hexdigest()
