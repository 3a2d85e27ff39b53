"""Pickles a policy with everything that its process cannot import: code of notebooks, scripts and own modules.

Code outside of the standard library, ``site-packages`` and a2perf travels by value. PyTorch tensors travel as arrays on
the processor. A part that cannot be pickled is named by its path. Nothing here loads a pickle.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import importlib.metadata
import inspect
import io
import pickletools
import site
import sys
import sysconfig
import threading
import types
from collections import ChainMap
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from a2perf.domains.package_code import distribution_of
from a2perf.errors import UserError
from a2perf.submission.participant.adapters.live import rebuild_device, rebuild_tensor

_BY_VALUE_LOCK = threading.RLock()
_TRACKER_ID_DIGITS = 32
_PACKAGES = frozenset({"site-packages", "dist-packages"})  # of any Python: a .pth file may name those of another one
_PLAIN = (str, bytes, int, float, bool, type(None))
_MOST_TRIES, _MOST_ITEMS, _MOST_TEXT = 2_000, 200, 300
_OBVIOUS = ("_thread", "threading", "_io", "socket", "builtins", "select")
"""Modules of types that nobody expects to be pickled; the reason adds nothing."""


def pickled(policy: Any) -> bytes:
    """Returns the pickle of a policy; ``__reduce__`` of a part of it may raise any exception."""
    with by_value():
        return _dumped(policy, for_identity=False)


def identity(policy: Any) -> str:
    """Returns a hash of a policy's code and state, as hexadecimal digits.

    The same cell of a notebook or the same script gives the same hash again. Line numbers and file names do not count.
    """
    with by_value():
        return hashlib.sha256(_dumped(policy, for_identity=True)).hexdigest()


@contextlib.contextmanager
def by_value() -> Iterator[None]:
    """Lets cloudpickle ship the code of modules that are not installed; undone afterwards."""
    import cloudpickle

    with _BY_VALUE_LOCK:  # the registry of cloudpickle belongs to the whole process
        before = cloudpickle.list_registry_pickle_by_value()
        own = [module for module in _own_modules() if module.__name__ not in before]
        for module in own:
            cloudpickle.register_pickle_by_value(module)
        try:
            yield
        finally:
            for module in own:
                cloudpickle.unregister_pickle_by_value(module)


def packages_of(content: bytes) -> tuple[str, ...]:
    """Returns the requirements of a pickle: cloudpickle, and the installed packages that it imports, with versions."""
    imported = {name.partition(".")[0] for name in _imported(content)}
    imported -= {*sys.stdlib_module_names, "cloudpickle", "a2perf", "__main__"}
    return tuple(pinned(["cloudpickle", *filter(None, map(distribution_of, imported))]))


def pinned(packages: Iterable[str]) -> list[str]:
    """Returns lines of ``requirements.txt`` with the versions that are installed; other packages are left out."""
    lines = []
    for package in sorted(set(packages)):
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            lines.append(f"{package}=={importlib.metadata.version(package)}")
    return lines


def unpicklable(policy: Any, error: Exception) -> UserError:
    """Returns the error for a policy that cannot be pickled; it names the innermost part that fails."""
    seen: dict[int, Any] = {}  # keeps the values: an id must not be used again

    def fails(value: Any) -> bool:
        if id(value) in seen or len(seen) >= _MOST_TRIES:
            return False
        seen[id(value)] = value
        try:
            pickled(value)
        except Exception:
            return True
        return False

    part, path = policy, "policy"
    while (inner := next((found for found in _parts(part, path) if fails(found[0])), None)) is not None:
        part, path = inner
    kind, reason = type(part), " ".join(str(error).split())[:_MOST_TEXT]
    name = kind.__qualname__.rpartition(".")[2]
    name = name if kind.__module__ in ("builtins", "__main__") else f"{kind.__module__}.{name}"
    if part is policy:
        return UserError(
            f"the policy is a {name}, which cannot be pickled: {type(error).__name__}: {reason}",
            hint="give a2perf.evaluate a function of one observation, or a submission folder",
        )
    why = "" if kind.__module__.partition(".")[0] in _OBVIOUS else f" ({reason})"
    return UserError(
        f"the policy cannot be sent to its process: {path} is a {name}, which cannot be pickled{why}",
        hint="create it inside the policy on first use, or define a __getstate__ that leaves it out",
    )


def _parts(value: Any, path: str) -> Iterator[tuple[Any, str]]:
    """Yields the parts of a value, each with the path that leads to it."""
    if isinstance(value, types.FunctionType):
        with contextlib.suppress(ValueError):  # a cell is empty
            used = inspect.getclosurevars(value)
            yield from ((item, name) for name, item in (*used.nonlocals.items(), *used.globals.items()))
        yield from _parts(value.__defaults__ or (), f"{path}.__defaults__")
        yield from _parts(value.__kwdefaults__ or {}, f"{path}.__kwdefaults__")
    elif isinstance(value, types.MethodType):
        yield value.__self__, path if path == "policy" else f"{path}.__self__"
        yield value.__func__, f"{path}.{value.__name__}"
    elif isinstance(value, functools.partial):
        yield value.func, f"{path}.func"
        yield from _parts(value.args, f"{path}.args")
        yield from _parts(value.keywords, f"{path}.keywords")
    elif isinstance(value, Mapping):
        with contextlib.suppress(Exception):  # a mapping of a stranger's class may fail in any way
            yield from ((item, f"{path}[{key!r:.40}]") for key, item in list(value.items())[:_MOST_ITEMS])
    elif isinstance(value, list | tuple | set | frozenset):
        yield from ((item, f"{path}[{index}]") for index, item in enumerate(list(value)[:_MOST_ITEMS]))
    else:
        slots = [vars(base).get("__slots__", ()) for base in type(value).__mro__]
        names = [name for found in slots for name in ([found] if isinstance(found, str) else found)]
        with contextlib.suppress(TypeError):  # it has no __dict__
            names += [name for name in vars(value) if name not in ("__dict__", "__weakref__")]
        for name in names:
            with contextlib.suppress(Exception):  # an empty slot, or a property that fails
                yield inspect.getattr_static(value, name), f"{path}.{name}"
        if not isinstance(value, type | types.ModuleType):
            yield type(value), type(value).__name__


def _imported(content: bytes) -> Iterator[str]:
    """Yields the modules that a pickle names.

    The last two texts before STACK_GLOBAL are module and attribute. cloudpickle writes a module as ``subimport(name)``.
    """
    texts: list[str] = []
    memo: list[Any] = []
    for opcode, argument, _ in pickletools.genops(content):
        if opcode.name == "MEMOIZE":
            memo.append(texts[-1] if texts else "")
        elif opcode.name in ("BINGET", "LONG_BINGET"):
            index = int(argument or 0)
            texts.append(memo[index] if index < len(memo) else "")
        elif opcode.name == "STACK_GLOBAL":
            yield from texts[-2:-1]
        elif isinstance(argument, str):
            if texts[-1:] == ["subimport"]:
                yield argument
            texts.append(argument)
            if opcode.name == "GLOBAL":
                yield argument.partition(" ")[0]


def _own_modules() -> list[types.ModuleType]:
    """Returns the imported modules that the participant process cannot be expected to find."""
    paths = sysconfig.get_paths()
    installed = [paths[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")]
    installed += [*site.getsitepackages(), site.getusersitepackages(), str(Path(__file__).parents[1])]
    places = tuple({f"{place}/" for given in installed for place in (given, str(Path(given).resolve()))})
    found = []
    imported: list[tuple[str, object]] = list(sys.modules.items())  # some packages put other objects there
    for name, module in imported:
        if not isinstance(module, types.ModuleType):
            continue
        known = vars(module)  # not getattr, which imports the content of a lazy module
        file = known.get("__file__")
        own = known.get("__name__") == name != "__main__"
        if own and isinstance(file, str) and not file.startswith(places) and _PACKAGES.isdisjoint(Path(file).parts):
            found.append(module)
    return found


def _dumped(policy: Any, *, for_identity: bool) -> bytes:
    import cloudpickle

    class Pickler(cloudpickle.Pickler):  # type: ignore[misc]  # cloudpickle has no types
        """Makes pickles reproducible, and tensors independent of their device."""

        def __init__(self, file: io.BytesIO) -> None:
            super().__init__(file)
            self._classes = 0

        def reducer_override(self, obj: Any) -> Any:
            if (reduced := _of_torch(obj)) is not None:
                return reduced
            reduced = super().reducer_override(obj)
            if isinstance(obj, type) and isinstance(reduced, tuple):
                self._classes += 1
                # without the random id of a class that travels by value the pickle is reproducible
                tracker_id = f"{self._classes:0{_TRACKER_ID_DIGITS}}"
                arguments = reduced[1]
                if len(arguments) < 2 or not isinstance(arguments[-2], str) or len(arguments[-2]) != _TRACKER_ID_DIGITS:
                    return reduced
                for name in ("__firstlineno__", "__static_attributes__") if for_identity else ():
                    list[Any](reduced)[2][0].pop(name, None)  # of Python 3.13: a line number, and texts in any order
                return (reduced[0], (*arguments[:-2], tracker_id, arguments[-1]), *reduced[2:])
            return reduced

        def persistent_id(self, obj: Any) -> Any:
            # The order of a set of texts differs between processes.
            known = for_identity and type(obj) in (set, frozenset) and all(type(item) in _PLAIN for item in obj)
            return (type(obj).__name__, sorted(map(repr, obj))) if known else None

    if for_identity:
        reduce_code = cloudpickle.Pickler.dispatch_table[types.CodeType]
        without_place = {types.CodeType: lambda code: reduce_code(code.replace(co_filename="", co_firstlineno=1))}
        Pickler.dispatch_table = ChainMap(without_place, cloudpickle.Pickler.dispatch_table)
    stream = io.BytesIO()
    Pickler(stream).dump(policy)
    return stream.getvalue()


def _of_torch(value: Any) -> tuple[Callable[..., Any], tuple[Any, ...]] | None:
    """Returns how a tensor or device of PyTorch is rebuilt; None for anything else."""
    torch = sys.modules.get("torch")
    if torch is None or not isinstance(value, torch.Tensor | torch.device):
        return None
    if isinstance(value, torch.device):
        return rebuild_device, (str(value),)
    if type(value) not in (torch.Tensor, torch.nn.Parameter) or value.layout is not torch.strided or value.is_quantized:
        return None
    trainable = value.requires_grad if isinstance(value, torch.nn.Parameter) else None
    data = value.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy()
    return rebuild_tensor, (data, str(value.dtype).removeprefix("torch."), tuple(value.shape), trainable)
