"""Verdicts in a GitHub workflow: annotations of a job, and its summary."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from a2perf.errors import UserError
from a2perf.experiments.junit import VerdictSuite
from a2perf.plain_text import markdown_text, plain_text
from a2perf.report.tables import text_table, to_markdown

SUMMARY_VARIABLE = "GITHUB_STEP_SUMMARY"
_LEVELS = {"failed": "error", "error": "error", "skipped": "warning"}


def annotations_of(suites: Sequence[VerdictSuite], *, skipped: bool = True) -> list[str]:
    """Returns one workflow command per case that did not pass: errors for failures, warnings for skipped cases.

    GitHub turns lines such as ``::error title=TITLE::MESSAGE`` on standard output into annotations.
    """
    lines = []
    for suite in suites:
        for case in suite.cases:
            if case.outcome != "passed" and (skipped or case.outcome != "skipped"):
                title = _data(f"{case.kind or 'failed'}: {case.name} ({case.group or suite.name})")
                title = title.replace(":", "%3A").replace(",", "%2C")
                lines.append(f"::{_LEVELS[case.outcome]} title={title}::{_data(case.message or case.kind)}")
    return lines


def suite_markdown(suite: VerdictSuite) -> str:
    """Returns a table of cases with their verdicts and reasons."""
    rows = [(f"{case.group} {case.name}".strip(), case.kind, case.message) for case in suite.cases]
    table = text_table("", ("test", "result", "reason"), rows, texts=3)
    return f"### {markdown_text(suite.name)}\n\n{to_markdown(table)}"


def append_to_summary(markdown: str) -> bool:
    """Appends Markdown to the summary of the job; returns False outside of a GitHub workflow.

    A file that cannot be written is a ``UserError``.
    """
    path = os.environ.get(SUMMARY_VARIABLE, "")
    if not path:
        return False
    try:
        with Path(path).open("a", encoding="utf-8") as stream:
            stream.write(f"{markdown.rstrip()}\n")
    except OSError as error:
        raise UserError(
            f"the summary {path} cannot be written: {error.strerror}", hint=f"unset {SUMMARY_VARIABLE}"
        ) from error
    return True


def _data(text: str) -> str:
    """Escapes a message; a line break in it would end the command and could begin another."""
    plain = "\n".join(plain_text(line) for line in text.splitlines())
    return plain.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
