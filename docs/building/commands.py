"""The pages of the command line, written from the commands themselves: every command, argument and option."""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Iterator
from pathlib import Path

import click

from a2perf.cli import SECTIONS, cli
from a2perf.submission.main_submission import main as evaluator
from docs.building.markdown import cell, code, table

ROOT = "a2perf"


def walk(command: click.Command, line: str) -> Iterator[tuple[str, click.Command]]:
    """Yields a command and all its subcommands with the line that calls each; hidden ones are left out."""
    yield line, command
    if isinstance(command, click.Group):
        context = click.Context(command, info_name=line)
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            if below is not None and not below.hidden:
                yield from walk(below, f"{line} {name}")


def all_commands() -> dict[str, click.Command]:
    """Returns every command of ``a2perf`` by the line that calls it, and the evaluator that launchers start."""
    found = dict(walk(cli, ROOT))
    found["python -m a2perf.submission.main_submission"] = evaluator
    return found


def write(folder: Path) -> None:
    """Writes ``index.md`` and one page per top-level command into ``folder``."""
    folder.mkdir(parents=True, exist_ok=True)
    commands = all_commands()
    tops = {_page_name(line): line for line in commands if len(line.split()) == 2 or line.startswith("python")}
    for name, top in tops.items():
        parts = [
            _section(line, command, 1 if line == top else 2)
            for line, command in commands.items()
            if line == top or line.startswith(f"{top} ")
        ]
        (folder / f"{name}.md").write_text("\n".join(parts), encoding="utf-8")
    text = ["# Commands", "", "`--flag-name` and `--flag_name` mean the same. " + EXIT, ""]
    listed = {name for section in SECTIONS.values() for name in section}
    internal = {
        name: commands[top].get_short_help_str(200).rstrip(".") + "."
        for name, top in tops.items()
        if name not in listed
    }
    for heading, summaries in {**SECTIONS, "Internal": internal}.items():
        rows = [[f"[{code(tops[name])}]({name}.md)", summary] for name, summary in summaries.items()]
        text += [f"## {heading}", "", table(["command", ""], rows)]
    text += ["```{toctree}", ":hidden:", "", *tops, "```"]
    (folder / "index.md").write_text("\n".join(text) + "\n", encoding="utf-8")


def _page_name(line: str) -> str:
    return "evaluator" if line.startswith("python") else line.split()[1]


EXIT = (
    "Exit status: 0 success, 1 the submission failed or a check did not pass, 2 usage or configuration, 3 the host "
    "failed, 130 interrupted."
)


def _section(line: str, command: click.Command, level: int) -> str:
    context = click.Context(command, info_name=line)
    usage = " ".join(command.get_usage(context).split()).removeprefix("Usage: ")
    text = [f"{'#' * level} {line}", "", _prose(command.help or ""), "", f"```text\n{usage}\n```", ""]
    options = [
        [f"{_flags(option)} {_value(option, context)}".strip(), _meaning(option, context)]
        for option in command.get_params(context)
        if isinstance(option, click.Option) and not option.hidden
    ]
    text.append(table(["option", "meaning"], options))
    return "\n".join(text)


def _prose(text: str) -> str:
    """Returns a help text as Markdown; a paragraph that click does not wrap becomes a code block."""
    parts = []
    for paragraph in inspect.cleandoc(text).split("\n\n"):
        if not paragraph.startswith("\b"):
            parts.append(cell(paragraph))
            continue
        title, _, lines = paragraph.removeprefix("\b").strip("\n").partition("\n")
        parts.append(f"{title}\n\n```sh\n{textwrap.dedent(lines)}\n```")
    return "\n\n".join(parts)


def _flags(option: click.Option) -> str:
    return ", ".join(code(flag) for flag in (*option.opts, *option.secondary_opts))


def _value(option: click.Option, context: click.Context) -> str:
    if option.is_flag:
        return ""
    return code(option.make_metavar(context).strip("[]").replace("|", ", "))


def _meaning(option: click.Option, context: click.Context) -> str:
    """Returns the help text, and what else there is to know about the option."""
    default = option.get_default(context, call=False)
    shown = "on" if default is True else default
    implied = default is None or callable(default) or default in ((), False, "") or type(default).__name__ == "Sentinel"
    facts = [
        "Required." if option.required else "",
        "May be repeated." if option.multiple and not _lists_values(option) else "",
        "" if implied else f"Default: {code(shown)}.",
        f"Environment variable: `{option.envvar}`." if isinstance(option.envvar, str) else "",
    ]
    return " ".join(text for text in (option.help or "", *facts) if text)


def _lists_values(option: click.Option) -> bool:
    """Returns whether the metavar or the help text shows that several values may be given."""
    return (option.metavar or "").endswith("...") or "epeatable" in (option.help or "")
