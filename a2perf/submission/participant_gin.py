"""A participant's gin file, read as data: nothing in it is imported, registered, referenced or evaluated.

gin's parser reads the file, and only a subset of its language is accepted: comments, the import lines of the packaged
files (which do nothing here) and bindings ``Configurable.parameter = literal``. Literals are strings, numbers,
``True``, ``False``, ``None``, enum constants (``%BenchmarkMode.TRAIN``), and lists, tuples and dictionaries of them.
``participant_settings`` lists what a submission may bind.
"""

from __future__ import annotations

import enum
import json
import math
import tokenize
import warnings
from dataclasses import dataclass
from typing import Any

from gin import config_parser

from a2perf.constants import BenchmarkDomain, BenchmarkMode, ReliabilityMetrics, SystemMetrics
from a2perf.errors import ConfigError, did_you_mean
from a2perf.stranger_files import printable

MAX_BYTES = 64 * 2**10
"""Largest file in bytes."""
MAX_BINDINGS = 500
MAX_DEPTH = 8
"""Nested lists, tuples and dictionaries."""
MAX_INTEGER = 2**63
MAX_QUOTES = 8192
"""Quotation marks of a file: the time in which gin joins adjacent strings grows with the square of their number."""

IMPORTS = (
    "a2perf.submission.submission_util",
    "a2perf.domains.tfa.suite_gym",
    "a2perf.metrics.trackers.emissions",
    "a2perf.constants",
)
"""Modules that may be imported; the import lines are ignored."""

_ENUMS = (BenchmarkMode, BenchmarkDomain, ReliabilityMetrics, SystemMetrics)
CONSTANTS = {f"{kind.__name__}.{name}": member for kind in _ENUMS for name, member in kind.__members__.items()}
"""Every constant by the name after its ``%``, which may have the prefix ``a2perf.constants.``."""

_ONE_PER_LINE = "write one `Name.parameter = value` per line"
_LITERALS = "write a string in quotation marks, a number, True, False or None"


@dataclass(frozen=True)
class Binding:
    """One line ``name = value``."""

    name: str
    value: Any
    line: int


def parse(content: bytes, source: str) -> list[Binding]:
    """Returns the bindings of a gin file in their order.

    Raises:
        ConfigError: the file is too large, not UTF-8, or contains more than literal bindings; with file and line.
    """
    if len(content) > MAX_BYTES:
        raise ConfigError(f"{source} has {len(content):,} bytes; at most {MAX_BYTES:,} are allowed", hint="shorten it")
    text = _text(content, source)
    if text.count("'") + text.count('"') > MAX_QUOTES:
        raise ConfigError(f"{source} has more than {MAX_QUOTES:,} quotation marks", hint="shorten it")
    found: list[Binding] = []
    parser = None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # an unknown escape in a string
            parser = config_parser.ConfigParser(text, _Names())
            for statement in parser:
                if (binding := _binding(statement)) is not None:
                    found.append(binding)
                if len(found) > MAX_BINDINGS:
                    raise ConfigError(f"{source} has more than {MAX_BINDINGS} bindings", hint="remove some")
        return found
    except _Refused as error:
        line, message, hint = error.args
    except tokenize.TokenError as error:
        line, message, hint = error.args[1][0], error.args[0], "close the bracket or quotation mark"
    except SyntaxError as error:
        line, (message, hint) = error.lineno, _syntax_problem(str(error.msg))
    except (RecursionError, TypeError):  # TypeError: a list or dictionary as the key of a dictionary
        line = 1 if parser is None else parser.current_token.start[0]
        message, hint = "brackets are nested too deeply, or a key is not a string", "use a flatter value"
    raise ConfigError(f"{source}, line {line}: {message}", hint=hint)


def to_gin(value: Any) -> str:
    """Returns a literal as ``parse`` accepts it, in the notation of gin."""
    if isinstance(value, enum.Enum):
        return f"%{type(value).__name__}.{value.name}"
    if isinstance(value, list):
        return f"[{', '.join(map(to_gin, value))}]"
    if isinstance(value, tuple):
        return f"({''.join(f'{to_gin(item)}, ' for item in value)})"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{to_gin(key)}: {to_gin(item)}' for key, item in value.items())}}}"
    return repr(value)


_ARGUMENTS = frozenset(("env_name", "root_dir", "env_wrappers", "gym_env_wrappers", "framework"))


def environment_bindings(kwargs: Any, option: str, hint: str) -> list[str]:
    """Returns the bindings of an environment's arguments.

    Raises:
        ConfigError: they are not a mapping from names to values of JSON, or have the name of another argument of
            ``create_domain``.
    """
    try:
        json.dumps(kwargs)
        is_valid = isinstance(kwargs, dict) and all(name.isidentifier() for name in kwargs)
    except (TypeError, ValueError, AttributeError):
        is_valid = False
    if not is_valid:
        raise ConfigError(f"{option} is not a JSON object: {kwargs!r}", hint=f"write {hint}")
    if taken := _ARGUMENTS.intersection(kwargs):
        raise ConfigError(
            f"{option}: {', '.join(sorted(taken))} is an argument of create_domain, not of an environment",
            hint="register an id that has it: gymnasium.register('Own-v0', 'own_envs:make')",
        )
    return [f"create_domain.{name} = {to_gin(value)}" for name, value in kwargs.items()]


class _Refused(Exception):
    """A statement is not accepted; the arguments are its line, the reason and the fix."""


@dataclass(frozen=True)
class _Reference:
    """A value that is not a literal, in the notation of gin."""

    text: str


class _Names:
    """The parser's delegate: turns constants into enum members, and keeps any other reference as text."""

    def configurable_reference(self, name: str, evaluate: bool) -> _Reference:
        return _Reference(f"@{name}")

    def macro(self, name: str) -> Any:
        return CONSTANTS.get(name.removeprefix("a2perf.constants."), _Reference(f"%{name}"))


def _text(content: bytes, source: str) -> str:
    try:
        text = content.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ConfigError(f"{source}, line {line}: not UTF-8", hint="save the file as UTF-8") from error
    for number, line_text in enumerate(text.split("\n"), start=1):
        if bad := next((char for char in line_text if not char.isprintable() and char != "\t"), None):
            raise ConfigError(f"{source}, line {number}: {bad!r} is a control character", hint="remove it")
    return text


def _binding(statement: Any) -> Binding | None:
    """Returns the binding of a statement, or None for an ignored import line."""
    line = statement.location.line_num
    if isinstance(statement, config_parser.BindingStatement):
        if statement.scope:
            refused = "a submission's gin file may not use scopes"
            raise _Refused(line, refused, "write the name without the part before '/'")
        _check(statement.value, line)
        return Binding(f"{statement.selector}.{statement.arg_name}".rstrip("."), statement.value, line)
    if isinstance(statement, config_parser.IncludeStatement):
        refused = "a submission's gin file may not include files"
        raise _Refused(line, refused, "copy the bindings of that file into this one")
    if isinstance(statement, config_parser.BlockDeclaration):
        raise _Refused(line, "a submission's gin file may not use blocks", _ONE_PER_LINE)
    if statement.is_from or statement.alias or statement.module not in IMPORTS:
        fix = "remove the line; only `import a2perf.submission.submission_util` is accepted (and not needed)"
        raise _Refused(line, "a submission's gin file may not import modules", fix)
    return None


def _check(value: Any, line: int, depth: int = 0) -> None:
    """Checks that a value consists of literals and constants that a submission may use."""
    if depth > MAX_DEPTH:
        raise _Refused(line, f"more than {MAX_DEPTH} nested brackets", "use a flatter value")
    if isinstance(value, _Reference) and value.text.startswith("@"):
        raise _Refused(line, "a submission's gin file may not use references (@)", "write a literal value")
    if isinstance(value, _Reference):
        near = did_you_mean(value.text[1:], CONSTANTS)
        fix = f"choose one of: {', '.join(known for known in CONSTANTS if known.startswith('Benchmark'))}"
        raise _Refused(line, f"{value.text[:80]} is not a constant that a submission may use{near}", fix)
    if isinstance(value, dict):
        if not all(isinstance(key, str | int | float) for key in value):
            raise _Refused(line, "a key is neither a string nor a number", "write {'name': value}")
        value = [*value, *value.values()]
    if isinstance(value, list | tuple):
        for item in value:
            _check(item, line, depth + 1)
    elif isinstance(value, int | float) and not isinstance(value, enum.Enum):
        if not (abs(value) < MAX_INTEGER if isinstance(value, int) else math.isfinite(value)):
            raise _Refused(line, "the number is too large", "write a number that fits into 64 bits")
    elif not (value is None or isinstance(value, str | enum.Enum)):
        raise _Refused(line, f"the value is of type {type(value).__name__}", _LITERALS)


def _syntax_problem(message: str) -> tuple[str, str]:
    """Returns an error of gin's parser as reason and fix; a value that it cannot read is quoted."""
    _, failed, token = message.partition("Failed to parse token ")
    if failed:
        return f"{printable(token[:42])} is not a literal", _LITERALS
    return f"{message[:1].lower()}{message[1:120].rstrip('.')}", _ONE_PER_LINE
