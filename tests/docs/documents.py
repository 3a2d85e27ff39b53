"""Runs the code blocks of a page, in order, as a reader would: in one folder, with a separate installation.

| block | what is done |
| --- | --- |
| a first line ``# file: NAME`` (any language) | written to that file |
| ``sh``, ``bash`` | run by bash; it stops at the first error |
| ``python`` | run as a program |
| ``text`` | what the block before it prints, in this order |
| ``gin``, ``json``, ``toml``, ``yaml`` without a file name | parsed |
| ``pycon`` | parsed; tests/api/test_names.py runs the examples of the public names |

In a ``text`` block ``...`` stands for anything, spaces for any spaces, and a time, size or energy (``264 µs``,
``5.1 ± 0.2 mWh``) for any other: these differ between machines.

Comments in the source of a page, which readers do not see, control this:

* ``<!-- needs: GROUP -->`` above a block: run only if that group of tests/conftest.py is available.
* ``<!-- not executed: REASON -->`` above a block: checked, never run.
* ``<!-- setup:``, shell commands, ``-->``: run before what follows, for example to make the files of an example.

``check`` needs no run: it parses every block and every option of an a2perf command. Any other kind of block is an
error, hence nothing on a page stays unchecked.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sysconfig
import textwrap
import tomllib
import venv
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import click

from a2perf.errors import UserError
from tests.commands import run_command

_BLOCK = re.compile(
    r"^<!-- setup:\n(?P<setup>.*?)^-->$"
    r"|^ *(?:<!-- (?P<mark>needs|not executed): (?P<reason>[^\n]+) -->\n\s*)?```(?P<kind>[^\n]*)\n(?P<text>.*?)^ *```$",
    re.DOTALL | re.MULTILINE,
)
_FILE = re.compile(r"# file: (\S+)\n")
FENCED = re.compile(r"^ *```.*?^ *```$", re.DOTALL | re.MULTILINE)
_INDENTED_PROSE = re.compile(r"^(?! {4}a2perf).*$", re.MULTILINE)
_QUANTITY = re.compile(r"[\d.,]+(?: ± [\d.,]+)? (?:[nµm]?s|[KMG]iB|[µmk]?Wh|[µm]?J|minutes?)(?!\w)")
_RUN = ("sh", "python", "text")
_PARSED = ("gin", "json", "toml", "yaml", "bibtex", "pycon")
_PROGRAMS = {
    "a2perf": ("a2perf.cli", "main"),
    "a2perf-launch": ("a2perf.cli", "launch_main"),
    "a2perf-plc": ("a2perf_placement.server.command", "main"),
    "pip": ("pip._internal.cli.main", "main"),
    "pytest": ("pytest", "console_main"),
}
_KEPT = ("LANG", "TERM", "A2PERF_CACHE_DIR", "A2PERF_OFFLINE", "MPLCONFIGDIR", "MPLBACKEND", "OMP_NUM_THREADS")


@dataclass(frozen=True)
class Block:
    """A fenced block of a page.

    Attributes:
        line: where it begins on the page, from 1.
        kind: ``"file"``, ``"setup"`` or its language.
        text: its content; of a file without the line that names it.
        file: its name, for a file.
        needs: the group without which it is not run.
        not_executed: why it is never run.
        language: what its fence names.
    """

    line: int
    kind: str
    text: str
    file: str = ""
    needs: str = ""
    not_executed: str = ""
    language: str = ""


def blocks_of(page: Path) -> list[Block]:
    """Returns the blocks of a page; directives of the site (``{toctree}``) are not code."""
    source = page.read_text(encoding="utf-8")
    found = []
    for match in _BLOCK.finditer(source):
        if match["setup"] is not None:
            line = source.count("\n", 0, match.start()) + 1
            found.append(Block(line, "setup", match["setup"], language="sh"))
            continue
        line = source.count("\n", 0, match.start("kind")) + 1
        language, text = match["kind"].strip(), textwrap.dedent(match["text"])
        needs = match["reason"] if match["mark"] == "needs" else ""
        reason = match["reason"] if match["mark"] == "not executed" else ""
        if language.startswith("{"):
            continue
        if name := _FILE.match(text):
            found.append(Block(line, "file", text[name.end() :], name[1], needs, reason, language))
        else:
            language = "sh" if language == "bash" else language
            found.append(Block(line, language, text, "", needs, reason, language))
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
    """Runs the blocks of a page in ``folder`` and returns how many were run or compared.

    Args:
        page: a Markdown file.
        folder: where to; an empty one.
        variables: environment of the programs.
        having: groups whose blocks are run too.

    Raises:
        AssertionError: a block fails or prints something else than the page says.
        ValueError: a block is of a kind that nothing runs or parses.
    """
    printed, count = "", 0
    for block in blocks_of(page):
        if block.not_executed or (block.needs and block.needs not in having):
            printed = ""
            continue
        count += 1
        if block.kind == "file":
            path = folder / block.file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(block.text, encoding="utf-8")
        elif block.kind == "text":
            expect(printed, block.text, f"{page.name}, line {block.line}")
        elif block.kind in (*_RUN, "setup"):
            printed = _run(block, folder, variables, page.name)
        else:
            _parse(block)
    return count


def _run(block: Block, folder: Path, variables: Mapping[str, str], page: str) -> str:
    command = ["python", "-c", block.text] if block.kind == "python" else ["bash", "-euo", "pipefail", "-c", block.text]
    done = run_command(command, folder, timeout=None, env=dict(variables), stdin=subprocess.DEVNULL)
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
        pattern = re.compile(".*".join(_pattern(part) for part in words.split("...")))
        while at < len(lines) and not pattern.fullmatch(lines[at]):
            at += 1
        assert at < len(lines), f"{where}: {words!r} was not printed (or not in this order) in\n{printed}"
        at += 1


def _pattern(text: str) -> str:
    """Returns the regular expression of a part of a line; times, sizes and energies differ between machines."""
    found, at = "", 0
    for match in _QUANTITY.finditer(text):
        found += re.escape(text[at : match.start()]) + r"[\d.,]+(?: ± [\d.,]+)? \w+"
        at = match.end()
    return found + re.escape(text[at:])


# --- checks that run nothing ------------------------------------------------------------------------------------------


def check(page: Path) -> Iterator[str]:
    """Yields what is wrong with the blocks of a page, and with commands that are indented, found by parsing alone."""
    before = ""
    for block in blocks_of(page):
        try:
            if block.kind == "text" and not block.not_executed and before not in ("sh", "python", "text"):
                raise ValueError("a block of output follows no block that is run; give a reason: not executed")
            before = "" if block.not_executed else block.kind
            _parse(block)
        except (SyntaxError, ValueError, click.UsageError, UserError) as error:
            yield f"{page.name}, line {block.line}: {error if isinstance(error, SyntaxError) else _message(error)}"

    for words in commands_of(_INDENTED_PROSE.sub("", FENCED.sub("", page.read_text(encoding="utf-8")))):
        try:
            parse_command([word.strip("[]") for word in words])
        except (click.UsageError, UserError) as error:
            yield f"{page.name}: {' '.join(words)}: {_message(error)}"


def _message(error: Exception) -> str:
    return error.format_message() if isinstance(error, click.UsageError) else str(error)


def _parse(block: Block) -> None:
    """Parses a block in its language.

    Raises:
        SyntaxError, ValueError: the text is not of its language.
        click.UsageError, UserError: an a2perf command has an unknown command or option.
    """
    if block.kind not in ("file", "setup", *_RUN, *_PARSED):
        raise ValueError(f"a block of {block.kind!r} is neither run nor parsed; name a language or a file")
    if block.language == "python":
        compile(block.text, "block", "exec")
    elif block.language == "sh":
        done = run_command(["bash", "-n", "-c", block.text])
        if done.returncode:
            raise ValueError(done.stderr)
        for words in commands_of(block.text):
            parse_command(words)
    elif block.language == "json":
        json.loads(block.text)
    elif block.language == "toml":
        tomllib.loads(block.text)
    elif block.language == "yaml":
        import yaml

        try:
            yaml.safe_load(block.text)
        except yaml.YAMLError as error:
            raise ValueError(str(error)) from error
    elif block.language == "gin":
        import gin

        list(gin.config_parser.ConfigParser(block.text, gin.config.ParserDelegate(skip_unknown=True)))


def commands_of(script: str) -> list[list[str]]:
    """Returns the words of each a2perf command of a shell script, as far as they can be read without a shell."""
    found = []
    for line in script.replace("\\\n", " ").splitlines():
        nested = [part.partition(")")[0] for part in line.split("$(")[1:]]
        for piece in [*re.split(r"&&|\|\|?|;", re.sub(r"\$\([^)]*\)?", "X", line)), *nested]:
            try:
                words = shlex.split(re.sub(r"\s[<>].*", "", piece), comments=True)
            except ValueError:  # a quotation over several lines
                continue
            while words and (words[0] in ("if", "!", "time", "then", "do") or re.match(r"[A-Z_0-9]+=", words[0])):
                words = words[1:]
            if words and words[0] in ("a2perf", "a2perf-launch"):
                found.append(words)
    return found


def parse_command(words: list[str]) -> None:
    """Parses the words of a command, without its values.

    Raises:
        click.UsageError, UserError: an unknown command or option.
    """
    from a2perf.cli import cli
    from a2perf.cli.extensible import BROUGHT_BY, ExtensibleGroup
    from a2perf.cli.run import run as run_command

    left = words[1:]
    classic = any(word.startswith("--root-dir=") for word in left)  # a2perf FOLDER --root-dir=...
    command: click.Command = run_command if classic or words[0] == "a2perf-launch" else cli
    if words[:2] == ["a2perf", "rlops"] and left[1:] and left[1].startswith("-"):
        left = ["rlops", "compare", *left[1:]]  # its default command
    while True:
        context = click.Context(command, info_name=words[0], **command.context_settings)
        _, left, _ = command.make_parser(context).parse_args(list(left))
        if not isinstance(command, click.Group) or not left:
            return
        brought = isinstance(command, ExtensibleGroup) and f"{command.prefix}{left[0]}" in BROUGHT_BY
        if brought and command.get_command(context, left[0]) is None:
            return  # checked where the distribution is installed
        _, below, left = command.resolve_command(context, left)
        assert below is not None
        command = below
