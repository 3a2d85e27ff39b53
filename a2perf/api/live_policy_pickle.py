"""Pickles a policy with everything that its process cannot import: code of notebooks, scripts and own modules.

Code outside of the standard library, ``site-packages`` and a2perf travels by value. PyTorch tensors travel as arrays on
the processor. Nothing here loads a pickle.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import io
import pickletools
import site
import sys
import sysconfig
import threading
import types
from collections import ChainMap
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from a2perf.api.live_policy_folder import pinned
from a2perf.submission.participant.adapters.live import rebuild_device, rebuild_tensor

_BY_VALUE_LOCK = threading.RLock()
_TRACKER_ID_DIGITS = 32
_PACKAGES = frozenset({"site-packages", "dist-packages"})  # of any Python: a .pth file may name those of another one
_PLAIN = (str, bytes, int, float, bool, type(None))


def pickled(policy: Any) -> bytes:
    """Returns the pickle of a policy.

    Raises:
        Exception: any exception; ``__reduce__`` of a policy's part may raise all of them.
    """
    with by_value():
        return _dumped(policy, for_identity=False)


def identity(policy: Any) -> str:
    """Returns a hash of a policy's code and state, as hexadecimal digits.

    The same cell of a notebook or the same script gives the same hash again. Line numbers and file names do not count.

    Raises:
        Exception: as ``pickled``.
    """
    with by_value():
        return hashlib.sha256(_dumped(policy, for_identity=True)).hexdigest()


@contextmanager
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
    owners = importlib.metadata.packages_distributions() if imported else {}
    return tuple(pinned(["cloudpickle", *(name for module in imported for name in owners.get(module, ())[:1])]))


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
                return _with_id(reduced, f"{self._classes:0{_TRACKER_ID_DIGITS}}")
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


def _with_id(reduced: tuple[Any, ...], tracker_id: str) -> tuple[Any, ...]:
    """Replaces the random id of a class that travels by value, to make the pickle reproducible."""
    arguments = reduced[1]
    if len(arguments) < 2 or not isinstance(arguments[-2], str) or len(arguments[-2]) != _TRACKER_ID_DIGITS:
        return reduced
    return (reduced[0], (*arguments[:-2], tracker_id, arguments[-1]), *reduced[2:])


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
