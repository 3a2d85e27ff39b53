"""A participant's gin file, read as data: nothing in it is imported, registered, referenced or evaluated.

The language is a subset of gin: comments, the import lines of the packaged files (which do nothing here) and bindings
``Configurable.parameter = literal``. Literals are strings, numbers, ``True``, ``False``, ``None``, enum constants
(``%BenchmarkMode.TRAIN``), and lists, tuples and dictionaries of them. ``participant_settings`` lists what a submission
may bind.
"""

from __future__ import annotations

import ast
import enum
import io
import math
import tokenize
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NoReturn

from a2perf.constants import BenchmarkDomain, BenchmarkMode, ReliabilityMetrics, SystemMetrics
from a2perf.errors import ConfigError, did_you_mean

MAX_BYTES = 64 * 2**10
"""Largest file in bytes."""
MAX_BINDINGS = 500
MAX_DEPTH = 8
"""Nested lists, tuples and dictionaries."""
MAX_INTEGER = 2**63

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

_KEYWORDS = {"True": True, "False": False, "None": None}
_SKIPPED = (tokenize.COMMENT, tokenize.NL, tokenize.ENCODING)
_ENDS = (tokenize.NEWLINE, tokenize.ENDMARKER)
_CLOSING = {"[": "]", "(": ")"}


@dataclass(frozen=True)
class Binding:
    """One line ``name = value``.

    Attributes:
        name: as written, ``"Submission.mode"``.
        value: a literal; a constant is its enum member.
        line: line number in the file, from 1.
    """

    name: str
    value: Any
    line: int


def parse(content: bytes, source: str) -> list[Binding]:
    """Returns the bindings of a gin file in their order.

    Args:
        source: name of the file for messages; safe to print.

    Raises:
        ConfigError: the file is too large, not UTF-8, or contains more than literal bindings; with file and line.
    """
    if len(content) > MAX_BYTES:
        raise ConfigError(f"{source} has {len(content):,} bytes; at most {MAX_BYTES:,} are allowed", hint="shorten it")
    found: list[Binding] = []
    for statement in _statements(_text(content, source), source):
        if (binding := _Statement(statement, source).binding()) is not None:
            found.append(binding)
        if len(found) > MAX_BINDINGS:
            raise ConfigError(f"{source} has more than {MAX_BINDINGS} bindings", hint="remove some")
    return found


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


def _statements(text: str, source: str) -> Iterator[list[tokenize.TokenInfo]]:
    statement: list[tokenize.TokenInfo] = []
    try:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type in _ENDS:
                if statement:
                    yield statement
                statement = []
            elif token.type not in _SKIPPED:
                statement.append(token)
    except tokenize.TokenError as error:
        line = error.args[1][0] if len(error.args) > 1 else "?"
        raise ConfigError(
            f"{source}, line {line}: {error.args[0]}", hint="close the bracket or quotation mark"
        ) from error
    except SyntaxError as error:  # inconsistent indentation
        raise ConfigError(f"{source}, line {error.lineno}: {error.msg}", hint="remove the indentation") from error


class _Statement:
    """The tokens of one logical line, read once from left to right."""

    def __init__(self, tokens: list[tokenize.TokenInfo], source: str) -> None:
        self._tokens, self._source, self._next = tokens, source, 0

    def binding(self) -> Binding | None:
        """Returns the binding, or None for an ignored import line."""
        line = self._tokens[0].start[0]
        word = self._text()
        if self._tokens[0].type in (tokenize.INDENT, tokenize.DEDENT):
            self._refuse("the line is indented", "remove the indentation")
        if word in ("import", "from", "include") and self._text(1) not in ("=", "."):
            self._line_without_binding(word)
            return None
        name = self._dotted("a name")
        if self._text() == "/":
            self._refuse("a submission's gin file may not use scopes", "write the name without the part before '/'")
        if self._text() != "=":
            self._refuse(f"expected '=', found {self._quoted()}", "write one `Name.parameter = value` per line")
        self._next += 1
        value = self._value(0)
        if self._next < len(self._tokens):
            self._refuse(f"unexpected {self._quoted()} after the value", "write one `Name.parameter = value` per line")
        return Binding(name, value, line)

    def _line_without_binding(self, word: str) -> None:
        if word == "include":
            self._refuse(
                "a submission's gin file may not include files", "copy the bindings of that file into this one"
            )
        self._next += 1
        name = self._dotted("a module") if word == "import" else ""
        if name not in IMPORTS or self._next < len(self._tokens):
            self._refuse(
                "a submission's gin file may not import modules",
                "remove the line; only `import a2perf.submission.submission_util` is accepted (and not needed)",
            )

    def _value(self, depth: int) -> Any:
        if depth > MAX_DEPTH:
            self._refuse(f"more than {MAX_DEPTH} nested brackets", "use a flatter value")
        kind, text = self._type(), self._text()
        if text in _CLOSING:
            return self._items(text, depth)
        if text == "{":
            return self._dictionary(depth)
        if text == "%":
            return self._constant()
        if kind == tokenize.STRING:
            return self._string()
        if text in _KEYWORDS:
            self._next += 1
            return _KEYWORDS[text]
        sign = text if text in ("-", "+") else ""
        self._next += len(sign)
        if self._type() == tokenize.NUMBER:
            return self._number(negative=sign == "-")
        if text == "@":
            self._refuse("a submission's gin file may not use references (@)", "write a literal value")
        return self._refuse(
            f"{self._quoted()} is not a literal", "write a string in quotation marks, a number, True, False or None"
        )

    def _items(self, opening: str, depth: int) -> Any:
        self._next += 1
        items, commas = [], 0
        while self._text() != _CLOSING[opening]:
            items.append(self._value(depth + 1))
            commas += self._comma(_CLOSING[opening])
        self._next += 1
        if opening == "[":
            return items
        return items[0] if len(items) == 1 and not commas else tuple(items)

    def _dictionary(self, depth: int) -> dict[Any, Any]:
        self._next += 1
        found: dict[Any, Any] = {}
        while self._text() != "}":
            key = self._value(depth + 1)
            if not isinstance(key, str | int | float):
                self._refuse("a key is neither a string nor a number", "write {'name': value}")
            if self._text() != ":":
                self._refuse(f"expected ':', found {self._quoted()}", "write {'name': value}")
            self._next += 1
            found[key] = self._value(depth + 1)
            self._comma("}")
        self._next += 1
        return found

    def _comma(self, closing: str) -> int:
        if self._text() == ",":
            self._next += 1
            return 1
        if self._text() != closing:
            self._refuse(f"expected ',' or {closing!r}, found {self._quoted()}", "put commas between values")
        return 0

    def _constant(self) -> Any:
        self._next += 1
        name = self._dotted("a constant").removeprefix("a2perf.constants.")
        if name not in CONSTANTS:
            self._refuse(
                f"%{name[:80]} is not a constant that a submission may use{did_you_mean(name, CONSTANTS)}",
                f"choose one of: {', '.join(known for known in CONSTANTS if known.startswith('Benchmark'))}",
            )
        return CONSTANTS[name]

    def _string(self) -> str:
        parts: list[str] = []
        while self._type() == tokenize.STRING:
            if self._text().partition("'")[0].partition('"')[0] not in ("", "r", "R"):
                self._refuse("the string has a prefix", "write a plain string in quotation marks")
            parts.append(self._literal(self._text()))
            self._next += 1
        return "".join(parts)

    def _number(self, *, negative: bool) -> int | float:
        number: int | float = self._literal(self._text())
        fits = number < MAX_INTEGER if isinstance(number, int) else isinstance(number, float) and math.isfinite(number)
        if not fits:
            self._refuse("the number is too large or complex", "write a number that fits into 64 bits")
        self._next += 1
        return -number if negative else number

    def _literal(self, text: str) -> Any:
        """Returns the value of one string or number token; ``literal_eval`` executes nothing."""
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # an unknown escape in a string
                return ast.literal_eval(text)
        except (SyntaxError, ValueError, OverflowError) as error:
            self._refuse(f"{self._quoted()} is not a valid literal", "write a plain string or number", error)

    def _dotted(self, expected: str) -> str:
        parts: list[str] = []
        while True:
            if self._type() != tokenize.NAME:
                self._refuse(f"expected {expected}, found {self._quoted()}", "write `Name.parameter = value`")
            parts.append(self._text())
            self._next += 1
            if self._text() != ".":
                return ".".join(parts)
            self._next += 1

    def _type(self) -> int | None:
        return self._tokens[self._next].type if self._next < len(self._tokens) else None

    def _text(self, ahead: int = 0) -> str:
        index = self._next + ahead
        return self._tokens[index].string if index < len(self._tokens) else ""

    def _quoted(self) -> str:
        return repr(self._text()[:40]) if self._text() else "the end of the line"

    def _refuse(self, message: str, hint: str, cause: Exception | None = None) -> NoReturn:
        token = self._tokens[min(self._next, len(self._tokens) - 1)]
        raise ConfigError(f"{self._source}, line {token.start[0]}: {message}", hint=hint) from cause
