"""Commands of an ordinary user, for tests that run as root: with a way to the interpreter where its home is closed."""

from __future__ import annotations

import shlex
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]


def closed_above(path: Path) -> Path | None:
    """Returns the topmost folder above ``path`` that other users may not enter."""
    return next((above for above in reversed(path.parents) if not above.stat().st_mode & 0o001), None)


@contextmanager
def way_to_the_interpreter() -> Iterator[list[str]]:
    """Yields the start of a command, to be run as root, in whose mount namespace every user reaches Python and a2perf.

    A closed folder on the way is covered by an open one, in which only what Python needs is bound.
    """
    needed = [Path(sys.base_prefix).resolve(), Path(sys.prefix).resolve(), REPOSITORY]
    behind = {path: above for path in needed if (above := closed_above(path)) is not None}
    if not behind:
        yield []
        return
    with tempfile.TemporaryDirectory(prefix="a2perf-way-") as folder:
        lines = ["set -e"]
        for number, path in enumerate(behind):
            Path(folder, str(number)).mkdir()
            lines.append(f"mount --bind {shlex.quote(str(path))} {folder}/{number}")
        for above in dict.fromkeys(behind.values()):
            lines.append(f"mount -t tmpfs -o mode=755 tmpfs {shlex.quote(str(above))}")
        for number, path in enumerate(behind):
            quoted = shlex.quote(str(path))
            lines.append(f"mkdir -p {quoted}; mount --bind {folder}/{number} {quoted}")
        yield ["unshare", "--mount", "sh", "-c", "\n".join([*lines, 'exec "$@"']), "sh"]
