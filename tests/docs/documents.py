"""Runs the code blocks of a page, in order, as a reader would: in one folder, with an installation of their own.

| block | what is done |
| --- | --- |
| a first line ``# file: NAME`` (any language) | written to that file |
| ``sh`` | run by bash; it stops at the first error |
| ``python`` | run as a program |
| ``text`` | what the block before it prints, in this order; ``...`` stands for anything, spaces for spaces |

A line ``<!-- needs: GROUP -->`` above a block says that it is run only where that group of tests/conftest.py is to be
had. Any other kind of block is an error, so that nothing on a page stays unrun.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sysconfig
import venv
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

_BLOCK = re.compile(
    r"^(?:<!-- needs: (?P<needs>\w+) -->\n+)?```(?P<kind>[^\n]*)\n(?P<text>.*?)^```", re.DOTALL | re.MULTILINE
)
_FILE = re.compile(r"# file: (\S+)\n")
_PROGRAMS = {
    "a2perf": ("a2perf.cli", "main"),
    "a2perf-launch": ("a2perf.cli", "launch_main"),
    "pip": ("pip._internal.cli.main", "main"),
    "pytest": ("pytest", "console_main"),
}
_KEPT = (
    "LANG", "TERM", "A2PERF_CACHE_DIR", "A2PERF_OFFLINE", "MPLCONFIGDIR", "MPLBACKEND", "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS",
)  # fmt: skip


@dataclass(frozen=True)
class Block:
    """A fenced block of a page.

    Attributes:
        line: where it begins on the page, from 1.
        kind: ``"file"``, ``"sh"``, ``"python"`` or ``"text"``.
        text: its content; of a file without the line that names it.
        file: its name, for a file.
        needs: the group without which it is not run.
    """

    line: int
    kind: str
    text: str
    file: str = ""
    needs: str = ""


def blocks_of(page: Path) -> list[Block]:
    """Returns the blocks of a page.

    Raises:
        ValueError: a block of a kind that nothing runs.
    """
    source = page.read_text(encoding="utf-8")
    found = []
    for match in _BLOCK.finditer(source):
        line = source.count("\n", 0, match.start("kind")) + 1
        kind, text, needs = match["kind"].strip(), match["text"], match["needs"] or ""
        if name := _FILE.match(text):
            found.append(Block(line, "file", text[name.end() :], name[1], needs))
        elif kind in ("sh", "python", "text"):
            found.append(Block(line, kind, text, "", needs))
        else:
            raise ValueError(f"{page.name}, line {line}: a block of {kind!r} that is no file is never run")
    return found


def installation(folder: Path) -> dict[str, str]:
    """Makes a virtual environment that has all packages of this one and can get more; returns the variables to use it.

    Args:
        folder: where to; ``home`` and ``venv`` are made in it.
    """
    place = folder / "venv"
    venv.create(place, with_pip=False)
    packages = next(place.glob("lib/python3*/site-packages"))
    ours = sysconfig.get_path("purelib")
    (packages / "ours.pth").write_text(f"{ours}\nimport site; site.addsitedir({ours!r})\n")
    for name, (module, function) in _PROGRAMS.items():
        program = place / "bin" / name
        call = f"import sys; from {module} import {function}; sys.exit({function}())"
        python = shlex.quote(f"{place}/bin/python")  # no first line of a script can name a path with spaces
        program.write_text(f'#!/bin/sh\nexec {python} -c {shlex.quote(call)} "$@"\n')
        program.chmod(0o755)
    home = folder / "home"
    home.mkdir(exist_ok=True)
    return {
        **{name: os.environ[name] for name in _KEPT if name in os.environ},
        "PATH": f"{place}/bin:/usr/local/bin:/usr/bin:/bin",
        "HOME": str(home),
        # a reader's pip may ask an index; here everything that a page installs is on the page
        "PIP_NO_INDEX": "1",
        "PIP_NO_BUILD_ISOLATION": "0",  # pip's word for: do not isolate
        "PIP_NO_DEPS": "1",
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "PIP_ROOT_USER_ACTION": "ignore",
        "GIT_CONFIG_GLOBAL": "/dev/null",
    }


def run(page: Path, folder: Path, variables: Mapping[str, str], *, having: Collection[str] = ()) -> int:
    """Runs the blocks of a page in ``folder`` and returns how many there were.

    Args:
        page: a Markdown file.
        folder: where to; an empty one.
        variables: environment of the programs.
        having: groups whose blocks are run too.

    Raises:
        AssertionError: a block fails or prints something else than the page says.
    """
    printed, count = "", 0
    for block in blocks_of(page):
        if block.needs and block.needs not in having:
            printed = ""
            continue
        count += 1
        if block.kind == "file":
            path = folder / block.file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(block.text, encoding="utf-8")
        elif block.kind == "text":
            expect(printed, block.text, f"{page.name}, line {block.line}")
        else:
            printed = _run(block, folder, variables, page.name)
    return count


def _run(block: Block, folder: Path, variables: Mapping[str, str], page: str) -> str:
    command = ["bash", "-euo", "pipefail", "-c", block.text] if block.kind == "sh" else ["python", "-c", block.text]
    done = subprocess.run(
        command, cwd=folder, env=dict(variables), stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{page}, line {block.line}:\n{block.text}\n{done.stdout}\n{done.stderr}"
    return done.stdout + done.stderr


def expect(printed: str, said: str, where: str) -> None:
    """Compares what was printed with what a page says: its lines, in its order, others between them allowed.

    Raises:
        AssertionError: a line of the page was not printed, or not in this order.
    """
    lines = [" ".join(line.split()) for line in printed.splitlines()]
    at = 0
    for wanted in said.splitlines():
        words = " ".join(wanted.split())
        if not words or words == "...":
            continue
        pattern = re.compile(".*".join(re.escape(part) for part in words.split("...")))
        while at < len(lines) and not pattern.fullmatch(lines[at]):
            at += 1
        assert at < len(lines), f"{where}: {words!r} was not printed (or not in this order) in\n{printed}"
        at += 1
