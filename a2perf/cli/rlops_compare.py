"""``a2perf rlops compare``: compares groups of runs and judges a change; takes the flags of both earlier tools."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from a2perf.cli.github_option import GITHUB_OPTION
from a2perf.cli.word_lists import Words, WordsCommand
from a2perf.errors import UserError
from a2perf.submission.options import normalised

if TYPE_CHECKING:
    from a2perf.api.comparing import Comparison
    from a2perf.rlops.compare.aggregate_figures import AggregateStyle
    from a2perf.rlops.compare.figures import Style
    from a2perf.rlops.compare.request import Request

_METHODS = ("Median", "IQM", "Mean", "Optimality Gap")
_OLD = "Accepted for old command lines; "
_POSITIVE = click.IntRange(min=1)


@click.command("compare", cls=WordsCommand, context_settings={**normalised(), "max_content_width": 110})
@click.option("--exp-name", metavar="NAME", help="Experiment to select from, used with --tags.")
@click.option(
    "--tags",
    cls=Words,
    metavar="TAGS...",
    help="One group per filter: 'a;b!c;d?user' has the tags a and b but not c and d.",
)
@click.option("--filters", cls=Words, grouped=True, metavar="FILTER...",
              help="'?metric=M&xaxis=X', then one group per filter: 'ppo?tag=latest&cl=Name'; repeatable.")  # fmt: skip
@click.option("--env-ids", cls=Words, grouped=True, metavar="ENV...",
              help="Environments; repeatable, one list per --filters, paired by position.")  # fmt: skip
@click.option("--metric", "metrics", cls=Words, metavar="NAME...", help="Metrics. Default: the training return.")
@click.option(
    "--baseline", metavar="GROUP", help="Baseline group. Default: the group tagged `latest`, otherwise the last one."
)
@click.option("--tolerance", type=click.FloatRange(min=0), default=0.05, show_default=True,
              help="Largest acceptable loss, as a share of the baseline's mean.")  # fmt: skip
@click.option("--tolerance-absolute", type=click.FloatRange(min=0), default=0.0, show_default=True,
              help="The same in units of the score; the larger counts.")  # fmt: skip
@click.option("--tolerance-unseen", type=click.FloatRange(min=0, max=1, min_open=True), default=0.2, show_default=True,
              metavar="SHARE", help="Share of seeds that may fail undetected; sets how many a PASS needs.")  # fmt: skip
@click.option("--confidence", type=click.FloatRange(min=0.5, max=1, max_open=True), default=0.95, show_default=True,
              metavar="SHARE", help="Confidence level of the intervals.")  # fmt: skip
@click.option("--lower-is-better", cls=Words, metavar="METRIC...", help="Metrics for which lower is better.")
@click.option("--fail-on", type=click.Choice(["regression", "inconclusive"]),
              help="Exit status 1 on a regression, or also on an inconclusive comparison.")  # fmt: skip
@click.option("--reference-scores", type=click.Path(path_type=Path), metavar="FILE",
              help="Scores of a random policy and an expert for each environment.")  # fmt: skip
@click.option(
    "--output-filename", default="compare", show_default=True, metavar="STEM", help="Prefix of the written files."
)
@click.option("--junit", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE",
              help="Write the verdicts as JUnit XML, one test case per candidate and environment.")  # fmt: skip
@GITHUB_OPTION
@click.option("--report/--no-report", default=True, show_default=True, help="Write the HTML report.")
@click.option("--figures/--no-figures", default=True, show_default=True, help="Draw curves.")
@click.option("--metric-last-n-average-window", "last", type=_POSITIVE, default=100, show_default=True, metavar="N",
              help="A run's score is the mean of its last N values.")  # fmt: skip
@click.option("--check-empty-runs/--no-check-empty-runs", default=True, show_default=True,
              help="An environment without runs is an error.")  # fmt: skip
@click.option("--as-of", metavar="DATE", help="Use the tags as of this date.")
@click.option("--store", metavar="DIR", help="Experiment store. Default: $A2PERF_STORE, otherwise ./runs.")
@click.option("--rolling", "--pc.rolling", "rolling", type=_POSITIVE, metavar="N",
              help="Window of the moving average of curves. Default: 100, or a tenth of a short curve.")  # fmt: skip
@click.option("--pc.ncols", "pc_ncols", type=_POSITIVE, default=2, show_default=True, help="Panels per row.")
@click.option("--pc.ncols-legend", "pc_ncols_legend", type=_POSITIVE, default=2, show_default=True,
              help="Columns of the legend.")  # fmt: skip
@click.option("--pc.xlabel", "pc_xlabel", metavar="TEXT", help="Label of the horizontal axis.")
@click.option("--pc.ylabel", "pc_ylabel", metavar="TEXT", help="Label of the vertical axis.")
@click.option("--pc.sharex/--pc.no-sharex", "pc_sharex", default=False, show_default=True,
              help="Use one horizontal axis for all panels.")  # fmt: skip
@click.option("--pc.max-steps", "pc_max_steps", type=click.FloatRange(min=0), metavar="N", help="Draw up to this step.")
@click.option("--pc.time-unit", "pc_time_unit", type=click.Choice(["s", "m", "h"]), default="m", show_default=True,
              help="Unit of wall-clock axes.")  # fmt: skip
@click.option("--pc.cm", "pc_cm", type=click.FloatRange(min=1, max=40), default=4.0, show_default=True,
              help="Width of a panel, inches.")  # fmt: skip
@click.option("--pc.rm", "pc_rm", type=click.FloatRange(min=1, max=40), default=3.0, show_default=True,
              help="Height of a panel, inches.")  # fmt: skip
@click.option("--pc.hspace", "pc_hspace", type=click.FloatRange(min=0), metavar="SHARE",
              help="Vertical space between panels, as a share of their height.")  # fmt: skip
@click.option("--pc.wspace", "pc_wspace", type=click.FloatRange(min=0), metavar="SHARE",
              help="Horizontal space between panels, as a share of their width.")  # fmt: skip
@click.option("--rliable", is_flag=True, help="Aggregate normalised scores over all environments.")
@click.option("--rc.score-normalization-method", "rc_normalization", type=click.Choice(["maxmin", "atari"]),
              help=f"{_OLD}scores are normalised by stored references.")  # fmt: skip
@click.option("--rc.normalized-score-threshold", "rc_threshold", type=float, default=8.0, show_default=True,
              help="Largest normalised score of the performance profile.")  # fmt: skip
@click.option("--rc.nsubsamples", "rc_nsubsamples", type=click.IntRange(2, 1000), default=20, show_default=True,
              help="Number of points of the sample-efficiency curves.")  # fmt: skip
@click.option("--rc.sample-efficiency-plots/--rc.no-sample-efficiency-plots", "rc_efficiency", default=True,
              help="Draw sample efficiency.")  # fmt: skip
@click.option("--rc.performance-profile-plots/--rc.no-performance-profile-plots", "rc_profile", default=True,
              help="Draw performance profiles.")  # fmt: skip
@click.option("--rc.aggregate-metrics-plots/--rc.no-aggregate-metrics-plots", "rc_aggregate", default=True,
              help="Draw aggregate metrics.")  # fmt: skip
@click.option("--rc.sample-efficiency-and-walltime-efficiency-method", "rc_method", type=click.Choice(_METHODS),
              default="IQM", show_default=True, help="Statistic of the efficiency curves.")  # fmt: skip
@click.option("--rc.sample-efficiency-num-bootstrap-reps", "rc_efficiency_reps", type=_POSITIVE, default=1000,
              show_default=True, help="Bootstrap samples of the sample-efficiency curves.")  # fmt: skip
@click.option("--rc.performance-profile-num-bootstrap-reps", "rc_profile_reps", type=_POSITIVE, default=2000,
              show_default=True, help="Bootstrap samples of the performance profiles.")  # fmt: skip
@click.option("--rc.aggregate-metrics-num-bootstrap-reps", "rc_aggregate_reps", type=_POSITIVE, default=2000,
              show_default=True, help="Bootstrap samples of the aggregate metrics.")  # fmt: skip
@click.option("--scan-history", is_flag=True, help=f"{_OLD}the whole history is always read.")
@click.option("--offline", is_flag=True, help=f"{_OLD}the network is never used.")
@click.option("--wandb-project-name", metavar="NAME", help=f"{_OLD}a store has no projects or entities.")
@click.option("--wandb-entity", metavar="NAME", help=f"{_OLD}a store has no projects or entities.")
def compare_command(**options: Any) -> int:
    """Compare groups of runs and judge the candidates against the baseline.

    Each group is a tag expression (--exp-name, --tags) or an experiment (--filters). Writes curves, tables, a record, a
    comment for a pull request and an HTML report, and prints a verdict for each environment and overall: PASS,
    REGRESSION or INCONCLUSIVE. Exit status: 0 done, 1 the verdict named by --fail-on, 2 usage error.
    """
    from a2perf.api.comparing import compare_stored
    from a2perf.rlops.compare.references import need_references, read_references
    from a2perf.rlops.compare.sentences import groups_text, normalisation_text, summary, terminal_text
    from a2perf.rlops.compare.verdict_cases import FAIL_ON
    from a2perf.rlops.compare.writing import output_stem, write
    from a2perf.rlops.store import Store
    from a2perf.runs.store import store_folder

    request = _request(options)
    stem = output_stem(options["output_filename"])
    given = options["reference_scores"]
    references = read_references(given) if given is not None else {}
    store = Store(store_folder(options["store"]))
    comparison = compare_stored(store, request, references=references, repetitions=options["rc_aggregate_reps"])
    groups = comparison.groups
    aggregate_style = None
    if options["rliable"]:
        need_references(groups.panels, groups.references)
        aggregate_style = _aggregate_style(options) if groups.normalised else None
        click.echo(normalisation_text(groups, options["rc_normalization"]), nl=False)
    click.echo(groups_text(groups))
    files = write(
        groups, stem, _style(options), aggregate_style=aggregate_style, with_figures=options["figures"],
        with_page=options["report"],
    )  # fmt: skip
    click.echo(terminal_text(groups))
    click.echo(f"{summary(groups)}\n{len(files)} files: {stem}.*, {stem}_*")
    _report_verdicts(comparison, options)
    return 1 if comparison.verdict in FAIL_ON.get(options["fail_on"], ()) else 0


def _report_verdicts(comparison: Comparison, options: dict[str, Any]) -> None:
    """Writes the verdicts as JUnit XML and as GitHub annotations, if they were requested."""
    from a2perf.experiments.junit import write_junit
    from a2perf.report.github import append_to_summary
    from a2perf.rlops.compare.sentences import comment

    fail_on = options["fail_on"] or "regression"
    if options["junit"] is not None:
        write_junit(options["junit"], comparison.suites(fail_on=fail_on))
    if options["github"]:
        for line in comparison.annotations(fail_on=fail_on):
            click.echo(line)
        append_to_summary(comment(comparison.groups))


def _request(options: dict[str, Any]) -> Request:
    from a2perf.rlops.compare.request import Request, choose_baseline, groups_of_filters, groups_of_tags
    from a2perf.rlops.compare.verdict import Tolerance
    from a2perf.rlops.tags import parse_date

    if options["filters"] and (options["tags"] or options["exp_name"]):
        raise UserError("--filters and --exp-name with --tags are two ways to say the same", hint="use one of them")
    if not options["filters"] and not options["tags"] and not options["exp_name"]:
        raise UserError(
            "nothing to compare was named",
            hint="give --exp-name NAME --tags NEW latest, or --filters 'NAME?tag=NEW' 'NAME?tag=latest'",
        )
    if options["filters"]:
        groups = groups_of_filters(options["filters"], options["env_ids"], options["metrics"])
    else:
        groups = groups_of_tags(options["exp_name"], options["tags"], options["env_ids"], options["metrics"])
    baseline = choose_baseline(groups, options["baseline"])
    if baseline is None and options["fail_on"]:
        raise UserError("--fail-on needs a baseline, and there is one group", hint="give two --tags or two filters")
    return Request(
        groups=groups,
        baseline=baseline,
        last=options["last"],
        tolerance=Tolerance(options["tolerance"], options["tolerance_absolute"], options["tolerance_unseen"]),
        confidence=options["confidence"],
        lower_is_better=frozenset(options["lower_is_better"]),
        check_empty_runs=options["check_empty_runs"],
        as_of=parse_date(options["as_of"]) if options["as_of"] else None,
    )


def _style(options: dict[str, Any]) -> Style:
    from a2perf.rlops.compare.figures import Style

    named = {name.removeprefix("pc_"): value for name, value in options.items() if name.startswith("pc_")}
    return Style(rolling=options["rolling"], **named)


def _aggregate_style(options: dict[str, Any]) -> AggregateStyle:
    from a2perf.rlops.compare.aggregate_figures import AggregateStyle

    return AggregateStyle(
        normalized_score_threshold=options["rc_threshold"],
        nsubsamples=options["rc_nsubsamples"],
        method=options["rc_method"],
        sample_efficiency_plots=options["rc_efficiency"],
        performance_profile_plots=options["rc_profile"],
        aggregate_metrics_plots=options["rc_aggregate"],
        sample_efficiency_num_bootstrap_reps=options["rc_efficiency_reps"],
        performance_profile_num_bootstrap_reps=options["rc_profile_reps"],
    )
