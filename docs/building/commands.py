"""Pages of the command line: every command, argument and option, as the program itself knows them."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from pathlib import Path

import click

from a2perf.cli import cli
from a2perf.submission.main_submission import main as evaluator
from docs.building.markdown import cell, code, table

ROOT = "a2perf"


def walk(command: click.Command, words: str) -> Iterator[tuple[str, click.Command]]:
    """Yields a command and all below it with the words that call them; hidden ones are left out."""
    yield words, command
    if isinstance(command, click.Group):
        context = click.Context(command, info_name=words)
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            if below is not None and not below.hidden:
                yield from walk(below, f"{words} {name}")


def all_commands() -> dict[str, click.Command]:
    """Returns every command of ``a2perf`` by the words that call it, and the evaluator that launchers start."""
    found = dict(walk(cli, ROOT))
    found["python -m a2perf.submission.main_submission"] = evaluator
    return found


def write(folder: Path) -> None:
    """Writes ``index.md`` and a page per top-level command into ``folder``."""
    folder.mkdir(parents=True, exist_ok=True)
    commands = all_commands()
    tops = [words for words in commands if len(words.split()) == 2 or words.startswith("python")]
    rows = []
    for top in tops:
        name = "evaluator" if top.startswith("python") else top.split()[1]
        parts = [
            _section(words, command, 1 if words == top else 2)
            for words, command in commands.items()
            if words == top or words.startswith(f"{top} ")
        ]
        if name == "run":
            parts.insert(1, "`a2perf-launch` is the same command. So is `a2perf FOLDER ...`, the earlier form.\n")
        (folder / f"{name}.md").write_text("\n".join(parts), encoding="utf-8")
        rows.append([f"[{code(top)}]({name}.md)", commands[top].get_short_help_str(200)])
    index = [
        "# Commands",
        "",
        "`--flag-name` and `--flag_name` mean the same. " + EXIT,
        "",
        table(["command", ""], rows),
    ]
    index += ["```{toctree}", ":hidden:", "", *(row[0].rpartition("(")[2].removesuffix(".md)") for row in rows), "```"]
    (folder / "index.md").write_text("\n".join(index) + "\n", encoding="utf-8")


EXIT = (
    "Exit status: 0 success, 1 the submission failed (or a gate said no), 2 usage or configuration, 3 the host failed, "
    "130 interrupted."
)


def _section(words: str, command: click.Command, level: int) -> str:
    context = click.Context(command, info_name=words)
    usage = " ".join(command.get_usage(context).split()).removeprefix("Usage: ")
    text = [f"{'#' * level} {words}", "", _prose(command.help or ""), "", f"```text\n{usage}\n```", ""]
    options = [
        [_flags(option), _kind(option, context), _default(option, context), _meaning(option)]
        for option in command.get_params(context)
        if isinstance(option, click.Option) and not option.hidden
    ]
    text.append(table(["option", "value", "default", "meaning"], options))
    return "\n".join(text)


def _prose(text: str) -> str:
    paragraphs = inspect.cleandoc(text.replace("\b", "")).split("\n\n")
    return "\n\n".join(cell(paragraph) for paragraph in paragraphs)


def _flags(option: click.Option) -> str:
    return ", ".join(code(flag) for flag in (*option.opts, *option.secondary_opts))


def _kind(option: click.Option, context: click.Context) -> str:
    if option.is_flag and not option.secondary_opts:
        return "flag"
    if option.is_flag:
        return "on or off"
    shown = option.make_metavar(context).strip("[]").replace("|", ", ")
    return code(shown) + (", may be repeated" if option.multiple else "") + (", required" if option.required else "")


def _default(option: click.Option, context: click.Context) -> str:
    value = option.get_default(context, call=False)
    if value is None or callable(value) or value == () or value is False or type(value).__name__ == "Sentinel":
        return ""
    return code("on" if value is True else value)


def _meaning(option: click.Option) -> str:
    text = option.help or ""
    named = f"Read from `{option.envvar}` too." if isinstance(option.envvar, str) else ""
    return f"{text} {named}".strip()
