"""What every command writes to its standard streams, made safe at the last step.

``guarded`` replaces ``sys.stdout`` and ``sys.stderr`` by streams that escape control characters in all text, whoever
wrote it: results, errors, tracebacks, warnings. Colours and bars of ours pass beside them: ``console`` escapes the
text between its own control sequences, and ``styled`` writes one coloured word.
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
    """A text stream whose text reaches the stream below it with its control characters escaped."""

    def __init__(self, below: TextIO) -> None:
        self.below = below

    def write(self, text: str) -> int:
        """Writes text; returns its length."""
        if not isinstance(text, str):
            raise TypeError(f"write() argument must be str, not {type(text).__name__}")
        self.below.write(terminal_text(text))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Writes texts one after the other."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.below, name)


@contextmanager
def guarded() -> Iterator[None]:
    """Guards standard output and standard error of this process; a second guard inside the first changes nothing."""
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = (
        stream if isinstance(stream, GuardedStream) else GuardedStream(stream) for stream in before
    )
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before


def unguarded(stream: TextIO) -> TextIO:
    """Returns the stream below the guard, for control sequences of ours."""
    return stream.below if isinstance(stream, GuardedStream) else stream


def styled(text: str, **style: Any) -> None:
    """Writes text to standard output in a colour or style of click's, without a line break."""
    import click

    click.echo(click.style(terminal_text(text), **style), nl=False, file=unguarded(sys.stdout))


def console(*, stderr: bool = False, width: int | None = None) -> Console:
    """Returns a console for tables, bars and lines whose text is escaped; ``[`` is a character like any other."""
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
