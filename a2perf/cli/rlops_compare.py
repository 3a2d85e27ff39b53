"""``a2perf rlops compare``: compares groups of runs and judges a change; takes the flags of both earlier tools."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from a2perf.cli.word_lists import Words, WordsCommand
from a2perf.errors import UserError
from a2perf.submission.options import normalised

if TYPE_CHECKING:
    from a2perf.rlops.compare.aggregate_figures import AggregateStyle
    from a2perf.rlops.compare.comparison import Comparison
    from a2perf.rlops.compare.figures import Style
    from a2perf.rlops.compare.request import Request

_METHODS = ("Median", "IQM", "Mean", "Optimality Gap")
_OLD = "Accepted for old command lines; "
_POSITIVE = click.IntRange(min=1)


@click.command("compare", cls=WordsCommand, context_settings={**normalised(), "max_content_width": 110})
@click.option("--exp-name", metavar="NAME", help="The experiment, with --tags.")
@click.option("--tags", cls=Words, metavar="TAGS...", help="One group each: 'a;b!c;d?user' has a and b, lacks c and d.")
@click.option("--filters", cls=Words, grouped=True, metavar="FILTER...",
              help="'?metric=M&xaxis=X' and one group each: 'ppo?tag=latest&cl=Name'; may be given again.")  # fmt: skip
@click.option("--env-ids", cls=Words, grouped=True, metavar="ENV...",
              help="Environments; given again, one list for each --filters, paired by position.")  # fmt: skip
@click.option("--metric", "metrics", cls=Words, metavar="NAME...", help="Metrics; the training return by default.")
@click.option("--baseline", metavar="GROUP", help="The group judged against; the one tagged latest, else the last.")
@click.option("--tolerance", type=click.FloatRange(min=0), default=0.05, show_default=True,
              help="Share of the baseline's mean that a candidate may lose.")  # fmt: skip
@click.option("--tolerance-absolute", type=click.FloatRange(min=0), default=0.0, show_default=True,
              help="The same in units of the score; the larger counts.")  # fmt: skip
@click.option("--tolerance-unseen", type=click.FloatRange(min=0, max=1, min_open=True), default=0.2, show_default=True,
              metavar="SHARE", help="Share of seeds that may fail unseen; sets how many a PASS needs.")  # fmt: skip
@click.option("--confidence", type=click.FloatRange(min=0.5, max=1, max_open=True), default=0.95, show_default=True)
@click.option("--lower-is-better", cls=Words, metavar="METRIC...", help="Metrics of which less is better.")
@click.option("--fail-on", type=click.Choice(["regression", "inconclusive"]),
              help="Exit status 1 on a regression, or also on an inconclusive comparison.")  # fmt: skip
@click.option("--reference-scores", type=click.Path(path_type=Path), metavar="FILE",
              help="Scores of a random policy and an expert for each environment.")  # fmt: skip
@click.option("--output-filename", default="compare", show_default=True, metavar="STEM", help="Files begin with this.")
@click.option("--report/--no-report", default=True, show_default=True, help="Write the HTML report.")
@click.option("--figures/--no-figures", default=True, show_default=True, help="Draw curves.")
@click.option("--metric-last-n-average-window", "last", type=_POSITIVE, default=100, show_default=True, metavar="N",
              help="A run's score is the mean of its last N values.")  # fmt: skip
@click.option("--check-empty-runs/--no-check-empty-runs", default=True, show_default=True,
              help="An environment without runs is an error.")  # fmt: skip
@click.option("--as-of", metavar="DATE", help="Tags as they were then.")
@click.option("--store", metavar="DIR", help="The experiment store; $A2PERF_STORE or ./runs by default.")
@click.option("--rolling", "--pc.rolling", "rolling", type=_POSITIVE, metavar="N",
              help="Curves show means of N values; 100, or a tenth of a short curve, by default.")  # fmt: skip
@click.option("--pc.ncols", "pc_ncols", type=_POSITIVE, default=2, show_default=True, help="Panels in a row.")
@click.option("--pc.ncols-legend", "pc_ncols_legend", type=_POSITIVE, default=2, show_default=True)
@click.option("--pc.xlabel", "pc_xlabel", metavar="TEXT")
@click.option("--pc.ylabel", "pc_ylabel", metavar="TEXT")
@click.option("--pc.sharex/--pc.no-sharex", "pc_sharex", default=False, show_default=True)
@click.option("--pc.max-steps", "pc_max_steps", type=click.FloatRange(min=0), metavar="N", help="Draw no further.")
@click.option("--pc.time-unit", "pc_time_unit", type=click.Choice(["s", "m", "h"]), default="m", show_default=True)
@click.option("--pc.cm", "pc_cm", type=click.FloatRange(min=1, max=40), default=4.0, show_default=True,
              help="Width of a panel, inches.")  # fmt: skip
@click.option("--pc.rm", "pc_rm", type=click.FloatRange(min=1, max=40), default=3.0, show_default=True,
              help="Height of a panel, inches.")  # fmt: skip
@click.option("--pc.hspace", "pc_hspace", type=click.FloatRange(min=0), metavar="SHARE")
@click.option("--pc.wspace", "pc_wspace", type=click.FloatRange(min=0), metavar="SHARE")
@click.option("--rliable", is_flag=True, help="Aggregate normalised scores over all environments.")
@click.option("--rc.score-normalization-method", "rc_normalization", type=click.Choice(["maxmin", "atari"]),
              help=f"{_OLD}scores are normalised by stored references.")  # fmt: skip
@click.option("--rc.normalized-score-threshold", "rc_threshold", type=float, default=8.0, show_default=True)
@click.option("--rc.nsubsamples", "rc_nsubsamples", type=click.IntRange(2, 1000), default=20, show_default=True)
@click.option("--rc.sample-efficiency-plots/--rc.no-sample-efficiency-plots", "rc_efficiency", default=True)
@click.option("--rc.performance-profile-plots/--rc.no-performance-profile-plots", "rc_profile", default=True)
@click.option("--rc.aggregate-metrics-plots/--rc.no-aggregate-metrics-plots", "rc_aggregate", default=True)
@click.option("--rc.sample-efficiency-and-walltime-efficiency-method", "rc_method", type=click.Choice(_METHODS),
              default="IQM", show_default=True)  # fmt: skip
@click.option("--rc.sample-efficiency-num-bootstrap-reps", "rc_efficiency_reps", type=_POSITIVE, default=1000,
              show_default=True)  # fmt: skip
@click.option("--rc.performance-profile-num-bootstrap-reps", "rc_profile_reps", type=_POSITIVE, default=2000,
              show_default=True)  # fmt: skip
@click.option("--rc.aggregate-metrics-num-bootstrap-reps", "rc_aggregate_reps", type=_POSITIVE, default=2000,
              show_default=True)  # fmt: skip
@click.option("--scan-history", is_flag=True, help=f"{_OLD}the whole history is always read.")
@click.option("--offline", is_flag=True, help=f"{_OLD}nothing here asks a network.")
@click.option("--wandb-project-name", metavar="NAME", help=f"{_OLD}a store is one place.")
@click.option("--wandb-entity", metavar="NAME", help=f"{_OLD}a store is one place.")
def compare_command(**options: Any) -> int:
    """Compare groups of runs and judge the candidates against the baseline.

    Each group is a tag expression (--exp-name, --tags) or an experiment (--filters). Writes curves, tables, a record, a
    comment for a pull request and an HTML report, and prints a verdict for each environment and overall: PASS,
    REGRESSION or INCONCLUSIVE. Exit status: 0 done, 1 what --fail-on names, 2 a wrong word.
    """
    from a2perf.rlops.compare.comparison import compare
    from a2perf.rlops.compare.references import need_references, read_references
    from a2perf.rlops.compare.words import lede, terminal_text
    from a2perf.rlops.compare.writing import output_stem, write
    from a2perf.rlops.store import Store
    from a2perf.runs.store import store_folder

    request = _request(options)
    stem = output_stem(options["output_filename"])
    if not stem.name:
        raise UserError(f"--output-filename {options['output_filename']!r} names no file", hint="write compare")
    given = options["reference_scores"]
    references = read_references(given) if given is not None else {}
    store = Store(store_folder(options["store"]))
    comparison = compare(store, request, references=references, repetitions=options["rc_aggregate_reps"])
    aggregate_style = None
    if options["rliable"]:
        need_references(comparison.panels, comparison.references)
        aggregate_style = _aggregate_style(options) if comparison.normalised else None
        _say_normalisation(options["rc_normalization"], comparison)
    _say_groups(comparison)
    try:
        files = write(
            comparison, stem, _style(options), aggregate_style=aggregate_style, with_figures=options["figures"],
            with_page=options["report"],
        )  # fmt: skip
    except OSError as error:
        raise UserError(f"{stem} cannot be written: {error.strerror}", hint="give --output-filename") from error
    click.echo(terminal_text(comparison))
    click.echo(f"{lede(comparison)}\n{len(files)} files: {stem}.*, {stem}_*")
    verdict = comparison.verdict
    failing = {"regression": ["REGRESSION"], "inconclusive": ["REGRESSION", "INCONCLUSIVE"]}.get(options["fail_on"], [])
    return 1 if verdict is not None and verdict.value in failing else 0


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


def _say_normalisation(method: str | None, comparison: Comparison) -> None:
    if method is not None:
        sources = "; ".join(sorted({reference.source for reference in comparison.references.values()}))
        instead = "the lowest and highest of these runs" if method == "maxmin" else "a built-in table of human scores"
        click.echo(
            f"notice: scores are normalised by stored references ({sources}), not by {instead}, so that two reports "
            "can be compared"
        )
    if not comparison.normalised:
        click.echo("notice: a group has no run on some environment, so there are no aggregates")


def _say_groups(comparison: Comparison) -> None:
    for at, group in enumerate(comparison.request.groups):
        role = " (baseline)" if at == comparison.request.baseline else ""
        click.echo(f"{group.name}{role}: {group.query}")
        for panel in comparison.panels:
            runs = panel.cells[at].runs
            seeds = " ".join(str(run.seed) for run in runs)
            click.echo(f"  {panel.env_ids[at]}: {len(runs)} run{'s' if len(runs) != 1 else ''}, seeds {seeds}")
    click.echo("")
