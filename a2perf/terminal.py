"""Escapes control characters in everything that a command writes to its standard streams.

``guarded`` replaces ``sys.stdout`` and ``sys.stderr`` by streams that escape all text: results, errors, tracebacks,
warnings. Our own colours and progress bars bypass them: ``console`` escapes the text between its control sequences, and
``styled`` writes coloured text.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TextIO

from a2perf.plain_text import terminal_text

if TYPE_CHECKING:
    from rich.console import Console


class GuardedStream:
    """A text stream that escapes control characters and writes to the stream below it."""

    def __init__(self, below: TextIO) -> None:
        self.below = below

    def write(self, text: str) -> int:
        """Writes text; returns its length."""
        if not isinstance(text, str):
            raise TypeError(f"write() argument must be str, not {type(text).__name__}")
        shown = terminal_text(text)
        try:
            self.below.write(shown)
        except UnicodeEncodeError:  # a code page without the character, as of a pipe on Windows
            self.below.write(shown.encode(self.below.encoding, "replace").decode(self.below.encoding))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Writes texts one after the other."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.below, name)


@contextmanager
def guarded() -> Iterator[None]:
    """Guards standard output and standard error of this process; nested guards have no effect."""
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = (
        stream if isinstance(stream, GuardedStream) else GuardedStream(stream) for stream in before
    )
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before


def unguarded(stream: TextIO) -> TextIO:
    """Returns the stream below the guard, for our own control sequences."""
    return stream.below if isinstance(stream, GuardedStream) else stream


def styled(text: str, **style: Any) -> None:
    """Writes text to standard output in a colour or style of click's, without a line break."""
    import click

    click.echo(click.style(terminal_text(text), **style), nl=False, file=unguarded(sys.stdout))


def console(*, stderr: bool = False, width: int | None = None) -> Console:
    """Returns a console for tables, bars and lines that escapes their text; ``[`` does not start markup."""
    from rich.console import Console
    from rich.segment import Segment

    class _Console(Console):
        def _render_buffer(self, buffer: Iterable[Segment]) -> str:
            return super()._render_buffer(
                segment if segment.control else Segment(terminal_text(segment.text), segment.style)
                for segment in buffer
            )

        @property
        def file(self) -> Any:
            return unguarded(super().file)  # type: ignore[arg-type]

        @file.setter
        def file(self, new_file: Any) -> None:
            self._file = new_file

    return _Console(stderr=stderr, width=width, highlight=False, soft_wrap=True, markup=False, emoji=False)
