"""``a2perf compare``: which of several groups of recorded runs, of any tool, is better."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from a2perf.cli.shared_options import Words, WordsCommand
from a2perf.submission.options import normalised

if TYPE_CHECKING:
    from a2perf.rlops.compare.request import Question


@click.command("compare", cls=WordsCommand, context_settings={**normalised(), "max_content_width": 110})
@click.argument("paths", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="PATH...")
@click.option("--baseline", metavar="GROUP", help="Baseline group. Default: `latest`, otherwise the first one.")
@click.option("--candidate", "candidates", cls=Words, metavar="GROUP...", help="Groups to judge. Default: all others.")
@click.option(
    "--by",
    metavar="WHAT",
    help="What tells groups apart: path, submission, version, tag or a key of the configuration.",
)
@click.option("--metric", "metrics", cls=Words, metavar="NAME...", help="Metrics to compare. Default: returns.")
@click.option(
    "--question",
    type=click.Choice(["seeds", "episodes"]),
    help="Compare algorithms by training seeds, or these policies by shared episodes, in pairs. Default: by the data.",
)
@click.option(
    "--gate",
    type=click.FloatRange(min=0),
    metavar="MARGIN",
    help="Exit status 1 on a loss of more than this share of the baseline's mean.",
)
@click.option("-o", "--output", metavar="STEM", help="Write tables, figures, a record and a page with this prefix.")
def compare(
    paths: tuple[Path, ...],
    baseline: str | None,
    candidates: tuple[str, ...],
    by: str | None,
    metrics: tuple[str, ...],
    question: Question | None,
    gate: float | None,
    output: str | None,
) -> int:
    """Compare groups of recorded runs: better, worse or not separated.

    Takes bundles, packed runs and the logs of other tools. Several paths are one group each; of one path the groups
    are submissions, otherwise versions. The first line is the result. Exit status: 0 done, 1 a regression of --gate, 2
    usage error.
    """
    from a2perf.api.comparing import compare as compare_runs
    from a2perf.rlops.compare.sentences import summary, terminal_text

    comparison = compare_runs(
        paths,
        baseline=baseline,
        candidate=list(candidates) or None,
        by=by,
        metric=list(metrics) or None,
        question=question,
        gate=gate is not None,
        tolerance=0.05 if gate is None else gate,
    )
    click.echo(f"{summary(comparison.groups)}\n\n{terminal_text(comparison.groups)}", nl=False)
    if output is not None:
        click.echo(f"{len(comparison.write(output))} files: {output}.*")
    return 1 if gate is not None and comparison.verdict == "REGRESSION" else 0
