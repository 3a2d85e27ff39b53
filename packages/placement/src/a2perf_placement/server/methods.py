"""The methods that a client can call: their arguments, what they answer, and the call itself.

A request names a method of ``PlacementCost`` in PascalCase (``GetCost``) or as in Python (``get_cost``). Its arguments
are checked against the types that the engine declares before the engine sees them.
"""

from __future__ import annotations

import inspect
import math
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_type_hints

from a2perf.domains.circuit_training.engine.engine_nodes import NetlistNode
from a2perf.domains.circuit_training.engine.placement_cost import PlacementCost
from a2perf.errors import UserError, did_you_mean
from a2perf_placement.server import replies

_SHOWN = 60  # characters of a wrong argument in a message
_MAX_NAME = 4096  # characters of a node's name


class RequestError(UserError, ValueError):
    """A request names no method or gives arguments that the method does not take."""


def _node(given: Any) -> int | str:
    return _name(given) if isinstance(given, str) else _whole(given)


def _whole(given: Any) -> int:
    number = _number(given)
    if number != int(number):
        raise ValueError
    return int(given)


def _number(given: Any) -> float:
    # A bool is an int for Python, but not for a client of another language.
    if isinstance(given, bool) or not isinstance(given, int | float) or not math.isfinite(given):
        raise ValueError
    return given


def _flag(given: Any) -> bool:
    if given not in (0, 1) or not isinstance(given, int):
        raise ValueError
    return bool(given)


def _text(given: Any) -> str:
    if not isinstance(given, str) or "\0" in given:
        raise ValueError
    given.encode()  # refuses halves of surrogate pairs, which no file name or line can hold
    return given


def _name(given: Any) -> str:
    # The search for a similar name takes seconds for a long one.
    if len(_text(given)) > _MAX_NAME:
        raise ValueError
    return str(given)


def _list_of(read: Callable[[Any], Any]) -> Callable[[Any], list[Any]]:
    def read_list(given: Any) -> list[Any]:
        if not isinstance(given, list):
            raise ValueError
        return [read(one) for one in given]

    return read_list


# What reads each kind of argument, and what a message calls it.
_KINDS: Mapping[str, tuple[str, Callable[[Any], Any]]] = {
    "node": ("the index or the name of a node", _node),
    "whole": ("a whole number", _whole),
    "number": ("a finite number", _number),
    "flag": ("true or false", _flag),
    "name": (f"a name of at most {_MAX_NAME} characters", _name),
    "text": ("a text", _text),
    "nodes": ("a list of nodes", _list_of(_node)),
    "wholes": ("a list of whole numbers", _list_of(_whole)),
    "numbers": ("a list of finite numbers", _list_of(_number)),
}
_KIND_OF_TYPE: Mapping[Any, str] = {
    NetlistNode: "node",
    NetlistNode | None: "node",
    int: "whole",
    float: "number",
    bool: "flag",
    str: "text",
    str | Path: "text",
    Sequence[NetlistNode]: "nodes",
    Sequence[NetlistNode] | None: "nodes",
    Sequence[int]: "wholes",
    Sequence[float]: "numbers",
}
_NOT_SERVED = ("cell_centre", "node_boxes")  # not of the earlier client
_QUESTIONS = ("get_", "is_", "can_", "has_", "num_")  # their reply is the result
# Other methods can be refused, so their reply is a status; except these, which always succeed: their reply is null.
_COMMANDS = (
    "allow_hard_macros_over_stdcells",
    "clear_blockages",
    "make_soft_macros_square",
    "set_block_name",
    "set_canvas_boundary_check",
    "set_project_name",
    "set_use_incremental_cost",
    "snap_ports_to_edges",
    "unplace_all_nodes",
    "update_port_sides",
)


@dataclass(frozen=True)
class ServedMethod:
    """A method of ``PlacementCost`` that clients can call.

    Attributes:
        kinds: of the arguments, keys of the table of kinds.
        required: how many arguments must be given.
        reply: the reply to every call; None for methods that reply with their result.
    """

    name: str
    kinds: tuple[str, ...]
    required: int
    reply: bytes | None

    @property
    def request_name(self) -> str:
        """The name in requests."""
        return self.name.replace("_", " ").title().replace(" ", "")

    def read(self, given: list[Any]) -> list[Any]:
        """Returns the arguments for the engine.

        Raises:
            RequestError: their number or the type of one of them is wrong.
        """
        if not self.required <= len(given) <= len(self.kinds):
            raise RequestError(
                f"{self.request_name} was given {len(given)} arguments", hint=f"give {self._arguments() or 'none'}"
            )
        read = []
        for position, (kind, argument) in enumerate(zip(self.kinds, given, strict=False), start=1):
            wanted, convert = _KINDS[kind]
            try:
                read.append(convert(argument))
            except (ValueError, OverflowError):
                raise RequestError(
                    f"argument {position} of {self.request_name} is {_clipped(argument)}", hint=f"give {wanted}"
                ) from None
        return read

    def _arguments(self) -> str:
        names = [_KINDS[kind][0] for kind in self.kinds]
        optional = [f"optionally {name}" for name in names[self.required :]]
        return ", ".join([*names[: self.required], *optional])


def _clipped(given: Any) -> str:
    if isinstance(given, list | dict) and len(given) > _SHOWN:
        return f"a {'list' if isinstance(given, list) else 'object'} of {len(given)} entries"
    if isinstance(given, int) and given.bit_length() > 200:
        return f"a whole number of {given.bit_length()} bits"
    if isinstance(given, str):
        given = given[: _SHOWN + 1]
    shown = ascii(given)
    return shown if len(shown) <= _SHOWN else shown[:_SHOWN] + " ..."


def _served(name: str, method: Callable[..., Any]) -> ServedMethod:
    """Returns a method with the kinds of its arguments, as the engine declares them."""
    hints = get_type_hints(method)
    declared = list(inspect.signature(method).parameters.values())[1:]
    positional = [one for one in declared if one.kind is one.POSITIONAL_OR_KEYWORD]
    kinds = tuple(_KIND_OF_TYPE[hints[one.name]] for one in positional)
    if name == "get_node_index":
        kinds = ("name",)
    reply = replies.NULL if name in _COMMANDS else replies.OK
    required = sum(one.default is one.empty for one in positional)
    return ServedMethod(name, kinds, required, None if name.startswith(_QUESTIONS) else reply)


def _table() -> dict[str, ServedMethod]:
    table = {}
    for name, method in inspect.getmembers(PlacementCost, inspect.isfunction):
        if not name.startswith("_") and name not in _NOT_SERVED:
            served = _served(name, method)
            table[name] = table[served.request_name] = served
    return table


METHODS: Mapping[str, ServedMethod] = _table()
"""By both names: as in requests (``GetCost``) and as in Python (``get_cost``)."""


def find_method(request: Any) -> tuple[ServedMethod, list[Any]]:
    """Returns the method that a request names and the arguments for the engine.

    Raises:
        RequestError: it is not ``{"name": ..., "args": [...]}``, or names no method, or its arguments do not fit.
    """
    if not isinstance(request, dict):
        raise RequestError(f"the request is {_clipped(request)}", hint='send {"name": "GetCost", "args": []}')
    name, given = request.get("name"), request.get("args")
    if not isinstance(name, str) or not isinstance(given, list):
        raise RequestError(
            'the request has no text "name" or no list "args"', hint='send {"name": "GetCost", "args": []}'
        )
    method = METHODS.get(name)
    if method is None:
        known = [key for key in METHODS if key[0].isupper()]
        raise RequestError(
            f"there is no method {_clipped(name)}{did_you_mean(name[:_SHOWN], known)}",
            hint="see the list of methods in the documentation of a2perf-plc",
        )
    return method, method.read(given)


def answer(plc: PlacementCost, request: Any) -> bytes:
    """Returns the reply to a request; a call that fails, for whatever reason, has a status as its reply."""
    try:
        method, arguments = find_method(request)
        result = getattr(plc, method.name)(*arguments)
        return replies.value(result) if method.reply is None else method.reply
    except UserError as error:
        return refusal(error)
    except (OSError, MemoryError, replies.UnwritableResult) as error:
        return replies.failure(str(error) or type(error).__name__)
    except Exception as error:
        traceback.print_exc()  # a fault of this program; the client still gets a reply
        return replies.failure(f"internal error of a2perf-plc: {type(error).__name__}: {error}")


def refusal(error: UserError) -> bytes:
    """Returns the status that tells a client of a wrong input."""
    return replies.failure(error.message if error.hint is None else f"{error.message}. Hint: {error.hint}")
