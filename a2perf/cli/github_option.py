"""``--github`` of commands that judge: annotations of the workflow, and the summary of its job."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from a2perf.experiments.junit import VerdictSuite

GITHUB_OPTION = click.option(
    "--github", is_flag=True, help="Print GitHub annotations, and add the results to the summary of the job."
)


def annotate(suite: VerdictSuite, *, to_errors: bool = False) -> None:
    """Prints an annotation per failed case, and adds all cases to the summary.

    Args:
        suite: the cases.
        to_errors: print to standard error, which GitHub reads too; standard output then holds only JSON.
    """
    from a2perf.report.github import annotations_of, append_to_summary, suite_markdown

    for line in annotations_of([suite], skipped=False):
        click.echo(line, err=to_errors)
    append_to_summary(suite_markdown(suite))
