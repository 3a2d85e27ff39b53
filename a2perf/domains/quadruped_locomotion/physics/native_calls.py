"""Numba intrinsics: calling C functions by address, and reading memory behind a pointer.

Addresses are run-time values, so code that uses these can be cached on disk although a library moves between processes.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

# A type that is missing here fails while compiling, before a wrong size could reach C.
_LLVM = {types.int32: ir.IntType(32), types.int64: ir.IntType(64), types.float64: ir.DoubleType()}


def _caller(result: Any) -> Any:
    def typed(_context: Any, address: Any, arguments: Any) -> Any:
        def generate(_cg: Any, builder: Any, signature: Any, values: Any) -> Any:
            target, packed = values
            kinds = [_LLVM[kind] for kind in signature.args[1].types]
            function = ir.FunctionType(_LLVM[result], kinds)
            pointer = builder.inttoptr(target, function.as_pointer())
            unpacked = [builder.extract_value(packed, number) for number in range(len(kinds))]
            return builder.call(pointer, unpacked)

        return result(types.int64, arguments), generate

    return typed


call_pointer = intrinsic(_caller(types.int64))
"""``call_pointer(address, (int64 | int32 | float64, ...)) -> int64``: a C function that returns a pointer."""

call_int = intrinsic(_caller(types.int32))
"""``call_int(address, (...)) -> int32``: a C function that returns an int (or nothing: ignore the result)."""


@intrinsic
def load_double(_context: Any, address: Any, index: Any) -> Any:
    """``load_double(address, index) -> float64``: reads ``((double*) address)[index]``."""

    def generate(_cg: Any, builder: Any, _signature: Any, values: Any) -> Any:
        pointer = builder.inttoptr(values[0], ir.DoubleType().as_pointer())
        return builder.load(builder.gep(pointer, [values[1]]))

    return types.float64(types.int64, types.int64), generate


@intrinsic
def load_int(_context: Any, address: Any, index: Any) -> Any:
    """``load_int(address, index) -> int32``: reads ``((int*) address)[index]``."""

    def generate(_cg: Any, builder: Any, _signature: Any, values: Any) -> Any:
        pointer = builder.inttoptr(values[0], ir.IntType(32).as_pointer())
        return builder.load(builder.gep(pointer, [values[1]]))

    return types.int32(types.int64, types.int64), generate


@intrinsic
def load_pointer(_context: Any, address: Any) -> Any:
    """``load_pointer(address) -> int64``: reads ``*((void**) address)``."""

    def generate(_cg: Any, builder: Any, _signature: Any, values: Any) -> Any:
        return builder.load(builder.inttoptr(values[0], ir.IntType(64).as_pointer()))

    return types.int64(types.int64), generate
