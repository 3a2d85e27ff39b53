"""Every command that the package prints or mentions exists with its options, and its variable parts are quoted."""

from __future__ import annotations

import ast
import inspect
import itertools
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from a2perf.cli import cli
from a2perf.errors import UserError
from tests.commands import run_a2perf
from tests.docs import documents
from tests.docs.test_code_blocks import ALL

REPOSITORY = Path(__file__).resolve().parents[2]
SOURCES = sorted((REPOSITORY / "a2perf").rglob("*.py"))
COMMANDS = cli.list_commands(click.Context(cli))
_WHOLE = re.compile(r"(?:\$ )?(a2perf(?:-launch)? .*)", re.DOTALL)
_SPAN = re.compile(r"`(a2perf(?:-launch)? [^`]*)`")
_LINE = re.compile(r"^(?: {2,}|\$ )(a2perf(?:-launch)? .*(?:\\\n.*)*)$", re.MULTILINE)
_BEGINNING = re.compile(r"\b(?:a2perf (?P<command>[a-z]+)|a2perf-launch|chmod|rm|tensorboard)(?: [\w.=-]+)* $")
_PLACEHOLDERS = ("...", "FOLDER", "OPTIONS")
_NAMES = {"domain", "domain.name", "asset.name", "name", "protocol", "_CLASSIC"}
"""Expressions in printed commands that are identifiers of a2perf, which no shell splits."""


def _mentioned(text: str) -> Iterator[str]:
    """Yields the commands of a text: in backticks, or on an indented line."""
    text = inspect.cleandoc(text)
    yield from _SPAN.findall(text)
    for match in _LINE.finditer(text):
        yield match[1].partition("   ")[0]  # an explanation may follow in a second column


def _commands(command: click.Command, path: str) -> Iterator[tuple[str, click.Command]]:
    yield path, command
    if isinstance(command, click.Group):
        context = click.Context(command, info_name=path)
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            assert below is not None
            yield from _commands(below, f"{path} {name}")


def _help_texts() -> Iterator[tuple[str, str]]:
    for path, command in _commands(cli, "a2perf"):
        yield path, f"{command.help or ''}\n{command.epilog or ''}\n{command.short_help or ''}"
        for parameter in command.params:
            yield f"{path} {parameter.name}", getattr(parameter, "help", None) or ""


def _literal(node: ast.expr) -> str | None:
    """Returns a string expression with X for its variable parts; None for another expression."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(value.value if isinstance(value, ast.Constant) else "X" for value in node.values)
    return None


def _printed(path: Path) -> Iterator[tuple[int, str]]:
    """Yields the commands of string literals and of `command_line` in a source file."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "command_line":
            words = [_literal(word) or "X" for word in node.args] or ["X"]
            if words[0].startswith("a2perf"):
                yield node.lineno, " ".join(words)
        hint = (_literal(node.value) or "") if isinstance(node, ast.keyword) and node.arg == "hint" else ""
        if match := _WHOLE.fullmatch(hint):
            yield node.value.lineno, re.split(r"[,;(]", match[1])[0]
        if isinstance(node, ast.expr) and (text := _literal(node)):
            for command in _mentioned(text):
                yield node.lineno, command


def _problem(command: str) -> str | None:
    """Returns why the parser refuses a command."""
    for words in documents.commands_of(re.sub(r"\|\w+|[\[\]]", "", command)):
        try:
            documents.parse_command([word for word in words if word not in _PLACEHOLDERS])
        except click.BadOptionUsage as error:  # a text may name an option without a value
            if "requires an argument" not in error.message:
                return error.format_message()
        except (click.UsageError, UserError) as error:
            return error.format_message() if isinstance(error, click.UsageError) else str(error)
    return None


def test_commands_of_help_texts_exist() -> None:
    found = [(path, command) for path, text in _help_texts() for command in _mentioned(text)]
    assert len(found) > 20
    assert [(path, command, why) for path, command in found if (why := _problem(command))] == []


@pytest.mark.parametrize("page", [page for page in ALL if "CHANGELOG" not in page])
def test_commands_within_the_sentences_of_a_page_exist(page: str) -> None:
    text = documents.FENCED.sub("", (REPOSITORY / f"{page}.md").read_text(encoding="utf-8"))
    commands = [" ".join(command.split()) for command in _SPAN.findall(text)]
    assert [(command, why) for command in commands if (why := _problem(command))] == []


def test_commands_of_messages_exist() -> None:
    found = [
        (f"{path.relative_to(REPOSITORY)}:{line}", command) for path in SOURCES for line, command in _printed(path)
    ]
    assert len(found) > 100
    assert [(place, command, why) for place, command in found if (why := _problem(command))] == []


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("see `a2perf nosuch x`", "no command 'nosuch'"),
        ("try:\n  a2perf report runs --nosuch\nthen", "No such option '--nosuch'"),
    ],
)
def test_an_unknown_command_is_found(text: str, why: str) -> None:
    (command,) = _mentioned(text)
    assert why in (_problem(command) or "")


def test_printed_commands_quote_their_variable_parts() -> None:
    unquoted = []
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            parts = node.values if isinstance(node, ast.JoinedStr) else []
            for before, value in itertools.pairwise(parts):
                if not (isinstance(before, ast.Constant) and isinstance(value, ast.FormattedValue)):
                    continue
                begins = _BEGINNING.search(str(before.value))
                if begins and (begins["command"] or "run") in COMMANDS and ast.unparse(value.value) not in _NAMES:
                    unquoted.append(f"{path.relative_to(REPOSITORY)}:{node.lineno}: {ast.unparse(node)}")
    assert unquoted == []


@pytest.mark.parametrize("folder", ["an other", "quo'te", "dollar$HOME", "semi;colon"])
def test_the_commands_that_init_prints_run_as_they_stand(folder: str, tmp_path: Path) -> None:
    done = run_a2perf("init", folder, cwd=tmp_path, check=True)
    commands = [shlex.split(line) for line in done.stdout.partition("Next steps:")[2].splitlines() if line]
    assert [words[1] for words in commands] == ["check", "run", "report"]
    assert commands[0][2] == commands[1][3] == folder
