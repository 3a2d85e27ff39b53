"""Kernels that another process compiled, called without Numba: importing Numba takes longer than a short program lasts.

A kernel library is one file in the user's cache. It holds the machine code that Numba made of the kernels of a folder,
one ELF object per kernel and types of its arguments. LLVM links it within milliseconds. The file is valid for exactly
the sources of the folder, the versions of Numba and Python, and the processor that it was made for.

A program that uses them calls `load` before it imports any kernel; ``compilation`` then returns `PrecompiledKernel`
objects. Calls with other types of arguments than those in the file are compiled by Numba as usual.
"""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import importlib.util
import json
import logging
import platform
import struct
import sys
import weakref
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FunctionType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from a2perf.assets import cache_dir
from a2perf.storage import write_atomic

_FORMAT = "a2perf kernels 1"
# Of the ELF format, and the beginnings of names that only wrappers for the interpreter use.
_SYMBOL_TABLE, _SYMBOL_BYTES, _UNDEFINED = 2, 24, 0
_INTERPRETER = ("numba_", "NRT_", "Py", "_Py")
_log = logging.getLogger(__name__)

# Scalars of a call: the code in the file, the C type, and the Python types that it takes.
_SCALARS: dict[str, tuple[Any, tuple[type, ...]]] = {
    "int64": (ctypes.c_int64, (int, np.int64)),
    "float64": (ctypes.c_double, (float, np.float64)),
    "bool": (ctypes.c_uint8, (bool, np.bool_)),
}
_RESULTS: dict[str, Any] = {"int64": ctypes.c_int64, "float64": ctypes.c_double, "bool": ctypes.c_uint8}


@dataclass(frozen=True)
class KernelCode:
    """The machine code of a kernel for one combination of argument types.

    Attributes:
        kernel: module and name of the function.
        arguments: per argument ``int64``, ``float64``, ``bool``, or dtype, dimensions and layout of an array:
            ``<f8 2 C``; A is any layout.
        results: types of the results; none for a kernel that returns nothing.
        symbol: name of the function in the object.
        needs: names that the object expects to find in the process.
        code: the ELF object.
    """

    kernel: str
    arguments: tuple[str, ...]
    results: tuple[str, ...]
    symbol: str
    needs: tuple[str, ...]
    code: bytes


class _KnownArray(NamedTuple):
    """An array as a function takes it; read from the array once, because that takes longer than a short kernel."""

    array: weakref.ReferenceType[NDArray[Any]]
    dtype: np.dtype[Any]
    dimensions: int
    contiguous: bool
    flat: tuple[int, ...]

    @classmethod
    def of(cls, array: NDArray[Any]) -> _KnownArray:
        """Reads an array, which must keep its memory and its shape from now on."""
        key = id(array)
        data = array.__array_interface__["data"][0]
        known = cls(
            weakref.ref(array, lambda _: _arrays.pop(key, None)),
            array.dtype,
            array.ndim,
            array.flags.c_contiguous,
            (0, 0, array.size, array.itemsize, data, *array.shape, *array.strides),
        )
        _arrays[key] = known
        return known


_arrays: dict[int, _KnownArray] = {}


class NativeFunction:
    """A linked kernel for one combination of argument types.

    Numba's convention: pointer to the results, pointer to an exception, then the arguments; an array is seven or more
    of them (two pointers of its owner, number of items, size of an item, data, shape, strides).
    """

    def __init__(self, code: KernelCode, address: int) -> None:
        types: list[Any] = [ctypes.c_void_p, ctypes.c_void_p]
        self._arrays: list[tuple[np.dtype[Any], int, bool] | None] = []
        self._accepted: list[tuple[type, ...]] = []
        for argument in code.arguments:
            if argument in _SCALARS:
                c_type, accepted = _SCALARS[argument]
                types.append(c_type)
                self._arrays.append(None)
                self._accepted.append(accepted)
            else:
                dtype, dimensions, layout = argument.split()
                types += [ctypes.c_int64] * (5 + 2 * int(dimensions))
                self._arrays.append((np.dtype(dtype), int(dimensions), layout == "C"))
                self._accepted.append((np.ndarray,))
        self._function = ctypes.CFUNCTYPE(ctypes.c_int32, *types)(address)
        self._results = code.results
        fields = [(f"result{i}", _RESULTS[result]) for i, result in enumerate(code.results)] or [
            ("none", ctypes.c_int64)
        ]
        self._result_type = type("KernelResults", (ctypes.Structure,), {"_fields_": fields})

    def flat(self, arguments: Sequence[Any]) -> list[Any] | None:
        """Returns the arguments as the function takes them; None if it was compiled for other types."""
        if len(arguments) != len(self._arrays):
            return None
        flat: list[Any] = []
        for argument, array, accepted in zip(arguments, self._arrays, self._accepted, strict=True):
            if type(argument) not in accepted:
                return None
            if array is None:
                # ctypes does not take the integers of NumPy.
                flat.append(argument.item() if isinstance(argument, np.generic) else argument)
                continue
            dtype, dimensions, contiguous = array
            known = _arrays.get(id(argument))
            if known is None or known.array() is not argument:
                known = _KnownArray.of(argument)
            if known.dtype != dtype or known.dimensions != dimensions or (contiguous and not known.contiguous):
                return None
            flat += known.flat
        return flat

    def call(self, flat: Sequence[Any]) -> Any:
        """Calls the function with flat arguments."""
        results = self._result_type()
        exception = ctypes.c_void_p()
        if self._function(ctypes.addressof(results), ctypes.addressof(exception), *flat) != 0:
            raise RuntimeError("a compiled kernel raised an exception")
        found = [getattr(results, f"result{i}") for i in range(len(self._results))]
        found = [bool(one) if kind == "bool" else one for one, kind in zip(found, self._results, strict=True)]
        return (found[0] if len(found) == 1 else tuple(found)) if found else None


class PrecompiledKernel:
    """A kernel with machine code in the library, called like the function.

    Args:
        function: the Python function.
        natives: it, linked, per combination of argument types.
        options: of ``numba.njit``, for other combinations.
    """

    def __init__(
        self, function: Callable[..., Any], natives: Sequence[NativeFunction], options: dict[str, Any]
    ) -> None:
        self.function = function
        self._natives = natives
        self._options = options
        self._dispatcher: Any = None

    def __call__(self, *arguments: Any) -> Any:
        """Calls the kernel."""
        for native in self._natives:
            flat = native.flat(arguments)
            if flat is not None:
                return native.call(flat)
        return self.dispatcher()(*arguments)

    def dispatcher(self) -> Any:
        """Returns the function as compiled by Numba, and with it the kernels that it calls."""
        if self._dispatcher is None:
            import numba

            assert isinstance(self.function, FunctionType)
            names = {
                name: value.dispatcher()
                if isinstance(value, PrecompiledKernel) and name in self.function.__code__.co_names
                else value
                for name, value in self.function.__globals__.items()
            }
            copy = FunctionType(self.function.__code__, names, self.function.__name__, self.function.__defaults__)
            self._dispatcher = numba.njit(**self._options)(copy)
        return self._dispatcher


class KernelLibrary:
    """The linked kernels of one file, by module and name."""

    def __init__(self, codes: Iterable[KernelCode]) -> None:
        import llvmlite.binding as llvm

        codes = tuple(codes)
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        # One name that is not found, and LLVM links none of them, silently.
        process = ctypes.CDLL(None)
        for name in sorted({name for code in codes for name in code.needs}):
            found = getattr(process, name, None)
            if found is None and not name.startswith(_INTERPRETER):
                raise ValueError(f"the kernels need {name}, which the C library does not have")
            # Only wrappers for the interpreter call functions of Numba; nobody calls those wrappers here.
            llvm.add_symbol(name, ctypes.cast(found or process.abort, ctypes.c_void_p).value)
        machine = llvm.Target.from_default_triple().create_target_machine(jit=True)
        self._engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine)
        for code in codes:
            self._engine.add_object_file(llvm.ObjectFileRef.from_data(code.code))
        self._engine.finalize_object()
        self._natives: dict[str, list[NativeFunction]] = {}
        for code in codes:
            native = NativeFunction(code, self._engine.get_function_address(code.symbol))
            self._natives.setdefault(code.kernel, []).append(native)

    def kernel(self, function: Callable[..., Any], options: dict[str, Any]) -> PrecompiledKernel:
        """Returns what is called instead of a function."""
        return PrecompiledKernel(function, self._natives.get(kernel_name(function), ()), options)


_in_use: KernelLibrary | None = None


def in_use() -> KernelLibrary | None:
    """Returns the library of this process; None if kernels are compiled as usual."""
    return _in_use


def kernel_name(function: Callable[..., Any]) -> str:
    """Returns the name of a kernel in a library."""
    return f"{function.__module__}.{function.__qualname__}"


def sources_digest(folder: Path) -> str:
    """Returns a hash of all sources of a folder."""
    digest = hashlib.sha256()
    for path in sorted(folder.glob("*.py")):
        digest.update(path.name.encode() + path.read_bytes())
    return digest.hexdigest()


def library_path(folder: Path) -> Path:
    """Returns the file for the kernels in the sources of a folder, on this processor.

    Raises:
        ImportError: llvmlite or Numba is not installed.
    """
    import llvmlite
    import llvmlite.binding as llvm

    numba = importlib.util.find_spec("numba")  # found, not imported
    if numba is None or numba.origin is None:
        raise ImportError("Numba is not installed")
    versions = [Path(numba.origin).with_name("_version.py").read_text(), llvmlite.__version__, np.__version__]
    features = sorted(name for name, present in llvm.get_host_cpu_features().items() if present)
    parts = [_FORMAT, sources_digest(folder), *versions, sys.version, platform.machine(), llvm.get_host_cpu_name()]
    parts += [sources_digest(Path(__file__).parent), *features]
    key = hashlib.sha256("\n".join(parts).encode()).hexdigest()
    return cache_dir() / "kernels" / f"{folder.name}-{key[:32]}.bin"


def load(folder: Path) -> bool:
    """Uses the library of a folder in this process if there is one; call it before the kernels are imported.

    Returns:
        Whether it is in use.
    """
    global _in_use
    try:
        _in_use = KernelLibrary(_read(library_path(folder)))
    except FileNotFoundError:
        return False
    except (ImportError, OSError, ValueError, KeyError, AttributeError, RuntimeError) as error:
        _log.debug("kernel library not used: %s", error)
        return False
    return True


def _read(path: Path) -> Iterable[KernelCode]:
    content = path.read_bytes()
    checksum, _, rest = content.partition(b"\n")
    if hashlib.sha256(rest).hexdigest().encode() != checksum:
        raise ValueError(f"{path} is damaged")
    header, _, objects = rest.partition(b"\n")
    at = 0
    for entry in json.loads(header):
        code = objects[at : at + entry["size"]]
        at += entry["size"]
        arguments, results, needs = (tuple(entry[name]) for name in ("arguments", "results", "needs"))
        yield KernelCode(entry["kernel"], arguments, results, entry["symbol"], needs, code)


def write(path: Path, codes: Iterable[KernelCode]) -> None:
    """Writes a library.

    Raises:
        OSError: the file cannot be written.
    """
    codes = tuple(codes)
    names = ("kernel", "arguments", "results", "symbol", "needs")
    header = [{**{name: getattr(code, name) for name in names}, "size": len(code.code)} for code in codes]
    rest = json.dumps(header).encode() + b"\n" + b"".join(code.code for code in codes)
    write_atomic(path, hashlib.sha256(rest).hexdigest().encode() + b"\n" + rest)


def codes_of(dispatcher: Any) -> Iterable[KernelCode]:
    """Yields what Numba compiled of a kernel so far; types that this module does not pass are left out.

    Args:
        dispatcher: the compiled function, with a cache.
    """
    kept = dispatcher._cache
    # Parts of kernels have no cache: their code is in the kernels that call them.
    for types in dispatcher.overloads if hasattr(kept, "_cache_file") else ():
        # From the file of Numba's cache: code that is linked into this process is no longer available as an object.
        stored = kept._cache_file.load(kept._index_key(types, dispatcher.targetctx.codegen()))
        if stored is None:
            continue
        (_name, kind, code), description = stored[:2]
        with contextlib.suppress(ValueError):
            if kind == "object":
                yield KernelCode(
                    kernel_name(dispatcher.py_func),
                    tuple(_argument_code(one) for one in types),
                    _result_codes(description.restype),
                    description.llvm_func_name,
                    _external_names(code[0]),
                    code[0],
                )


def _external_names(code: bytes) -> tuple[str, ...]:
    """Returns the names that an ELF object needs from outside.

    Raises:
        ValueError: it is not a 64-bit little-endian ELF object.
    """
    if code[:6] != b"\x7fELF\x02\x01":
        raise ValueError("not an ELF object of this kind")
    (table,) = struct.unpack_from("<Q", code, 0x28)
    size, count = struct.unpack_from("<HH", code, 0x3A)
    # Of a section header: type, offset, size, and the section with the names.
    sections = [struct.unpack_from("<4xI16xQQI", code, table + i * size) for i in range(count)]
    needed = set()
    for _kind, offset, length, names in (section for section in sections if section[0] == _SYMBOL_TABLE):
        for at in range(offset, offset + length, _SYMBOL_BYTES):
            name, section = struct.unpack_from("<IxxH", code, at)
            if name and section == _UNDEFINED:
                start = sections[names][1] + name
                needed.add(code[start : code.index(b"\0", start)].decode())
    return tuple(sorted(needed))


def _argument_code(numba_type: Any) -> str:
    import numba

    if isinstance(numba_type, numba.types.Array):
        if numba_type.layout not in ("C", "A"):
            raise ValueError(f"{numba_type} has its columns in a row")
        dtype = numba.np.numpy_support.as_dtype(numba_type.dtype).str
        return f"{dtype} {numba_type.ndim} {numba_type.layout}"
    return _scalar_code(numba_type)


def _scalar_code(numba_type: Any) -> str:
    code = str(numba_type)
    if code not in _SCALARS:
        raise ValueError(f"{code} is not passed without Numba")
    return code


def _result_codes(numba_type: Any) -> tuple[str, ...]:
    import numba

    if isinstance(numba_type, numba.types.NoneType):
        return ()
    if isinstance(numba_type, numba.types.BaseTuple):
        return tuple(_scalar_code(one) for one in numba_type)
    return (_scalar_code(numba_type),)
