"""``a2perf compare`` and ``a2perf rlops compare``: which of several groups of recorded runs is better.

The first takes any runs, the second tags of a store and the flags of the earlier tool.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from a2perf.cli.shared_options import OLD_WANDB_OPTIONS, STORE, Words, WordsCommand, in_workflow, is_given
from a2perf.errors import UserError
from a2perf.submission.options import normalised

if TYPE_CHECKING:
    from a2perf.api.comparing import Comparison
    from a2perf.rlops.compare.request import Request

_SETTINGS = {**normalised(), "max_content_width": 110}
_QUESTIONS = click.Choice(["seeds", "episodes"])
_QUESTION = "Compare algorithms by training seeds, or these policies by shared episodes, in pairs."
_GATE_OPTIONS = ("fail_on", "junit", "tolerance", "tolerance_absolute", "tolerance_unseen")


@click.command("compare", cls=WordsCommand, context_settings=_SETTINGS)
@click.argument("paths", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="PATH...")
@click.option("--baseline", metavar="GROUP", help="Baseline group. Default: `latest`, otherwise the first one.")
@click.option("--candidate", cls=Words, metavar="GROUP...", help="Groups to judge. Default: all others.")
@click.option(
    "--by",
    metavar="WHAT",
    help="What tells groups apart: path, submission, version, tag or a key of the configuration.",
)
@click.option("--metric", cls=Words, metavar="NAME...", help="Metrics to compare. Default: returns.")
@click.option("--question", type=_QUESTIONS, help=f"{_QUESTION} Default: by the data.")
@click.option(
    "--gate",
    type=click.FloatRange(min=0),
    metavar="MARGIN",
    help="Exit status 1 on a loss of more than this share of the baseline's mean.",
)
@click.option("-o", "--output", metavar="STEM", help="Write tables, figures, a record and a page with this prefix.")
def compare(paths: tuple[Path, ...], gate: float | None, output: str | None, **given: Any) -> int:
    """Compare groups of recorded runs: better, worse or not separated.

    Takes bundles, packed runs and the logs of other tools. Several paths are one group each; of one path the groups
    are submissions, otherwise versions. The first line is the result. Exit status: 0 done, 1 a regression of --gate, 2
    usage error.
    """
    from a2perf.api.comparing import compare as compare_runs
    from a2perf.rlops.compare.sentences import summary, terminal_text

    asked: dict[str, Any] = {name: value or None for name, value in given.items()}
    comparison = compare_runs(paths, gate=gate is not None, tolerance=0.05 if gate is None else gate, **asked)
    click.echo(f"{summary(comparison.groups)}\n\n{terminal_text(comparison.groups)}", nl=False)
    if output is not None:
        click.echo(f"{len(comparison.write(output))} files: {output}.*")
    return 1 if gate is not None and comparison.verdict == "REGRESSION" else 0


@click.command("compare", cls=WordsCommand, context_settings=_SETTINGS)
@click.option("--exp-name", metavar="NAME", help="Experiment to select from, used with --tags.")
@click.option(
    "--tags",
    cls=Words,
    metavar="TAGS...",
    help="One group per filter: 'a;b!c;d?user' has the tags a and b but not c and d.",
)
@click.option("--env-ids", cls=Words, metavar="ENV...", help="Environments. Default: all.")
@click.option(
    "--metric",
    "metrics",
    cls=Words,
    metavar="NAME...",
    help="Logged values, or costs such as energy and latency. Default: the training return.",
)
@click.option(
    "--baseline", metavar="GROUP", help="Baseline group. Default: the group tagged `latest`, otherwise the last one."
)
@click.option(
    "--tolerance",
    type=click.FloatRange(min=0),
    default=0.05,
    show_default=True,
    help="Largest acceptable loss, as a share of the baseline's mean.",
)
@click.option(
    "--tolerance-absolute",
    type=click.FloatRange(min=0),
    default=0.0,
    show_default=True,
    help="The same in units of the score; the larger counts.",
)
@click.option(
    "--tolerance-unseen",
    type=click.FloatRange(min=0, max=1, min_open=True),
    default=0.2,
    show_default=True,
    metavar="SHARE",
    help="Share of seeds that may fail undetected; sets how many a PASS needs.",
)
@click.option(
    "--confidence",
    type=click.FloatRange(min=0.5, max=1, max_open=True),
    default=0.95,
    show_default=True,
    metavar="SHARE",
    help="Confidence level of the intervals.",
)
@click.option("--question", type=_QUESTIONS, default="seeds", show_default=True, help=_QUESTION)
@click.option("--lower-is-better", cls=Words, metavar="METRIC...", help="Metrics for which lower is better.")
@click.option(
    "--fail-on",
    type=click.Choice(["regression", "inconclusive"]),
    help="Show the regression gate; exit status 1 on a regression, or also if inconclusive.",
)
@click.option(
    "--reference-scores",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Scores of a floor (random policy) and an expert for each environment.",
)
@click.option(
    "--output-filename", default="compare", show_default=True, metavar="STEM", help="Prefix of the written files."
)
@click.option(
    "--junit",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write the verdicts as JUnit XML, one test case per candidate and environment.",
)
@click.option("--report/--no-report", default=True, show_default=True, help="Write the HTML report.")
@click.option("--figures/--no-figures", default=True, show_default=True, help="Draw curves.")
@click.option(
    "--metric-last-n-average-window",
    "last",
    type=click.IntRange(min=1),
    default=100,
    show_default=True,
    metavar="N",
    help="A run's score is the mean of its last N values.",
)
@STORE
@OLD_WANDB_OPTIONS
def compare_command(**options: Any) -> int:
    """Compare groups of runs: is a candidate better or worse than the baseline?

    Each group is a tag expression of an experiment (--exp-name, --tags). Writes curves, tables, a record, a
    comment for a pull request and an HTML report, and prints better, worse or not separated for each environment and
    overall. With --fail-on, --junit or a tolerance it adds the regression gate: PASS, REGRESSION or INCONCLUSIVE, which
    a GitHub workflow shows as annotations and in the summary of the job. Exit status: 0 done, 1 the verdict named by
    --fail-on, 2 usage error.
    """
    from a2perf.api.comparing import compare_groups
    from a2perf.rlops.compare.references import read_references
    from a2perf.rlops.compare.sentences import summary, terminal_text
    from a2perf.rlops.compare.writing import FAIL_ON, output_stem, write
    from a2perf.rlops.store import Store
    from a2perf.runs.stores.store import store_folder

    request = _request(options)
    stem = output_stem(options["output_filename"])
    given = options["reference_scores"]
    references = read_references(given) if given is not None else {}
    store = Store(store_folder(options["store"]))
    comparison = compare_groups(request, store=store, references=references)
    groups = comparison.groups
    files = write(groups, stem, with_figures=options["figures"], with_page=options["report"])
    click.echo(terminal_text(groups))
    click.echo(f"{summary(groups)}\n{len(files)} files: {stem}.*, {stem}_*")
    _report_verdicts(comparison, options)
    return 1 if comparison.verdict in FAIL_ON.get(options["fail_on"], ()) else 0


def _report_verdicts(comparison: Comparison, options: dict[str, Any]) -> None:
    """Writes the verdicts as JUnit XML if they were requested, and in a GitHub workflow as annotations."""
    from a2perf.experiments.junit import write_junit
    from a2perf.report.github import append_to_summary
    from a2perf.rlops.compare.sentences import comment

    fail_on = options["fail_on"] or "regression"
    if options["junit"] is not None:
        write_junit(options["junit"], comparison.suites(fail_on=fail_on))
    if comparison.groups.request.gate and in_workflow():
        for line in comparison.annotations(fail_on=fail_on):
            click.echo(line)
        append_to_summary(comment(comparison.groups))


def _request(options: dict[str, Any]) -> Request:
    from a2perf.rlops.compare.request import Request, choose_baseline, groups_of_tags
    from a2perf.rlops.compare.verdict import Tolerance

    if not options["tags"] and not options["exp_name"]:
        raise UserError("nothing to compare was named", hint="give --exp-name NAME --tags NEW latest")
    groups = groups_of_tags(options["exp_name"], options["tags"])
    baseline = choose_baseline(groups, options["baseline"])
    if baseline is None and options["fail_on"]:
        raise UserError("--fail-on needs a baseline, and there is one group", hint="give two --tags")
    return Request(
        groups=groups,
        baseline=baseline,
        env_ids=tuple(options["env_ids"]) or None,
        metrics=tuple(options["metrics"]),
        last=options["last"],
        tolerance=Tolerance(options["tolerance"], options["tolerance_absolute"], options["tolerance_unseen"]),
        confidence=options["confidence"],
        lower_is_better=frozenset(options["lower_is_better"]),
        question=options["question"],
        gate=any(is_given(name) for name in _GATE_OPTIONS),
    )
