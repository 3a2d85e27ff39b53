"""Reads the statements of LEF and DEF text one after the other, in bounded memory.

Both formats are words between blanks; a statement ends with ``;`` and ``#`` starts a comment (LEF/DEF Language
Reference 5.8). The file is read in pieces of a few MiB, and only the statement that a piece cuts stays in memory.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from pathlib import Path

from a2perf.domains.circuit_training.netlists.netlist import ORIENTATIONS, NetlistError, open_netlist
from a2perf.plain_text import terminal_line

PIECE_BYTES = 4 * 2**20
MAX_LINE_BYTES = 64 * 2**20
MAX_STATEMENT_WORDS = 32 * 2**20  # a clock net of ten million pins has fewer
_COMMENT = re.compile(rb"(?:^|(?<=\s))#[^\n]*")
_WORD = re.compile(rb'"[^"\n]*"|[^\s";]+;?|;|"')
_ORIENTATION = {name.encode(): index for index, name in enumerate(ORIENTATIONS[:8])}
_LARGEST = 1e12
_SHOWN = 60  # letters of a word in a message

Progress = Callable[[int], None]
"""Called with the number of bytes read since the last call."""


def shown(word: bytes) -> str:
    """Returns a word of a file for a message."""
    return terminal_line(word[:_SHOWN].decode(errors="replace"))


def words_of(text: bytes) -> list[bytes]:
    """Returns the words of whole lines; ``;`` is a separate word."""
    if b"#" in text:
        text = _COMMENT.sub(b"", text)
    if b'"' in text:
        found: list[bytes] = _WORD.findall(text)
    else:
        found = text.split()
    if b";" not in text or text.count(b";") == found.count(b";"):
        return found
    # Some tools write the semicolon without a blank before it.
    apart: list[bytes] = []
    for word in found:
        if len(word) > 1 and word.endswith(b";"):
            apart += [word[:-1], b";"]
        else:
            apart.append(word)
    return apart


class StatementFile:
    """The statements of one file.

    Args:
        path: the file, plain or gzipped.
        progress: called with the bytes read; of a gzipped file, those of the text.

    Attributes:
        number: how many statements were returned so far; messages use it to find the line.
    """

    def __init__(self, path: Path, progress: Progress | None = None) -> None:
        self.path = path
        self.number = 0
        self._progress = progress

    def __iter__(self) -> Iterator[list[bytes]]:
        """Yields the words of each statement, without its semicolon; last those that no semicolon ends, if any.

        Raises:
            NetlistError: the file cannot be read, or a line or a statement has no end.
        """
        pending: list[bytes] = []
        for text in self._lines():
            searched = len(pending)
            words = pending + words_of(text) if pending else words_of(text)
            start = 0
            try:
                while True:
                    end = words.index(b";", max(start, searched))
                    self.number += 1
                    yield words[start:end]
                    start = end + 1
            except ValueError:
                pending = words[start:]
            if len(pending) > MAX_STATEMENT_WORDS:
                self.number += 1
                raise self.error("a statement without an end: no `;` follows")
        if pending:
            self.number += 1
            yield pending

    def _lines(self) -> Iterator[bytes]:
        """Yields pieces that end with a line."""
        if not self.path.is_file():
            raise NetlistError(f"{self.path}: no such file", hint="check the path")
        carried = b""
        with open_netlist(self.path) as stream:
            while True:
                try:
                    fresh = stream.read(PIECE_BYTES)
                except (OSError, EOFError) as error:
                    raise NetlistError(
                        f"{self.path}: cannot be read: {error}", hint="check the file, copy it again"
                    ) from error
                if self._progress is not None:
                    self._progress(len(fresh))
                if not fresh:
                    break
                cut = fresh.rfind(b"\n") + 1
                if cut == 0:
                    carried += fresh
                    if len(carried) > MAX_LINE_BYTES:
                        raise NetlistError(
                            f"{self.path}: a line longer than {MAX_LINE_BYTES >> 20} MiB",
                            hint="check the file's format",
                        )
                    continue
                yield carried + fresh[:cut]
                carried = fresh[cut:]
        if carried:
            yield carried

    def error(self, what: str, hint: str = "") -> NetlistError:
        """Returns the error of the statement that was returned last, with its line."""
        hint = hint or "correct the file, or write it again with the tool that made it"
        return NetlistError(f"{self.path}, line {self._line()}: {what}", hint=hint)

    def _line(self) -> int:
        """Returns the line where the current statement starts; the file is read again, since only errors need it."""
        ended, line = 0, 0
        with open_netlist(self.path) as stream:
            for line, text in enumerate(stream, start=1):
                for word in words_of(text):
                    if ended >= self.number - 1:
                        return line
                    ended += word == b";"
        return line

    def numeric(self, word: bytes, what: str) -> float:
        """Returns a word as a number.

        Raises:
            NetlistError: it is not a finite number below 1e12.
        """
        try:
            value = float(word)
        except ValueError:
            raise self.error(f"{what} {shown(word)!r} is not a number") from None
        if not math.isfinite(value) or abs(value) > _LARGEST:
            raise self.error(f"{what} {shown(word)!r} is out of range")
        return value

    def orientation(self, word: bytes) -> int:
        """Returns the index of an orientation's name.

        Raises:
            NetlistError: it is none.
        """
        if word not in _ORIENTATION:
            raise self.error(f"{shown(word)!r} is not an orientation; known are {', '.join(ORIENTATIONS[:8])}")
        return _ORIENTATION[word]

    def numerics(self, words: list[bytes], count: int, what: str) -> list[float]:
        """Returns the first words as numbers; parentheses are skipped.

        Raises:
            NetlistError: there are fewer than ``count`` numbers.
        """
        plain = [word for word in words if word not in (b"(", b")")][:count]
        if len(plain) < count:
            raise self.error(f"{what} has {len(plain)} of {count} numbers")
        return [self.numeric(word, what) for word in plain]
