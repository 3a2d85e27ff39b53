"""``a2perf perftest``: tests whether k of n training runs still reach a value."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from a2perf.cli.launch_options import LaunchOptions, launch_options
from a2perf.cli.shared_options import STORE, annotate
from a2perf.errors import MissingDependency
from a2perf.submission.options import normalised

_FOLDER = click.Path(path_type=Path)


@click.command("perftest", context_settings=normalised())
@click.argument("action", type=click.Choice(("run", "list")))
@click.argument("tests", nargs=-1, metavar="[TEST]...")
@click.option("--skip", multiple=True, metavar="TEST", help="Name or glob of tests to leave out, repeatable.")
@click.option(
    "--conf",
    type=_FOLDER,
    default=Path("conf", "performance"),
    show_default=True,
    metavar="DIR",
    help="Folder of tests.",
)
@STORE
@click.option("--n-jobs", type=click.IntRange(min=1), metavar="N", help="Number of runs at the same time.")
@launch_options("launcher")
@click.option("--report", type=_FOLDER, metavar="DIR", help="Folder of results. Default: STORE/performance_tests.")
def perftest(action: str, tests: tuple[str, ...], conf: Path, report: Path | None, **given: Any) -> int:
    """Test whether training runs still perform: k of n runs must reach a value within a budget.

    Runs tests by name (FetchReach/sac_her-test), path or glob, one after another, or lists them with their conditions;
    without TEST, all. Run the command again after an interruption to resume. Exit status: 0 all passed, 1 one failed,
    2 configuration, 3 infrastructure, 130 interrupted.
    """
    from a2perf.experiments.needs import require_training, resolve_env_id
    from a2perf.experiments.performance_test.configuration import find_tests, is_test, name_of, read_test
    from a2perf.experiments.performance_test.run_test import run_test, suite_of, without_verdict, write_results
    from a2perf.runs.stores.store import store_folder

    words, launch = list(tests) or ["*"], LaunchOptions.taken_from(given)
    if action == "list":
        return _list(words, conf)
    folder = store_folder(given["store"])
    paths = find_tests(words, conf=conf)
    others = [path for path in paths if any("*" in word for word in words) and not is_test(path)]
    if others:
        names = ", ".join(name_of(path, conf) for path in others)
        click.echo(f"not tests (no performance_testing_conditions): {names}")
        paths = [path for path in paths if path not in others]
    left_out = {path for path in paths if any(Path(name_of(path, conf)).match(word) for word in given["skip"])}
    # read all files before the first run: a mistake in the last one must not surface after hours
    chosen = [read_test(path, conf=conf) for path in paths if path not in left_out]
    missing: dict[str, MissingDependency] = {}
    for test in chosen:
        try:
            require_training([test.env] if test.training is not None else [])
        except MissingDependency as error:
            if len(chosen) == 1:
                raise
            missing[test.name] = error  # the others run
    if len(paths) > 1:
        click.echo(f"performance tests: {len(chosen)}, {len(left_out)} left out; {_head()}")
    results = report if report is not None else folder / "performance_tests"
    outcomes = []
    for test in chosen:
        if len(chosen) > 1:
            click.echo(f"== {test.name}")
        if test.name in missing:
            outcome = without_verdict(test, missing[test.name])
            click.echo(outcome.message)
        else:
            if test.training is not None and (notice := resolve_env_id(test.env)[1]):
                click.echo(f"notice: {notice}")
            with launch.conductor(workers=given["n_jobs"] or test.n_jobs) as conductor:
                outcome = run_test(test, folder, conductor, say=click.echo)
        outcomes.append(outcome)
        write_results(results, outcomes)
        if outcome.exit_code == 130:
            return 130
    click.echo(f"results: {results}")
    annotate(suite_of(outcomes))
    failed = [outcome.test.name for outcome in outcomes if outcome.exit_code]
    if len(chosen) > 1:
        click.echo("All performance tests passed." if not failed else f"not passed: {', '.join(failed)}")
    statuses = {outcome.exit_code for outcome in outcomes}
    return 1 if 1 in statuses else max(statuses, default=0)


def _list(words: Sequence[str], conf: Path) -> int:
    from a2perf.experiments.performance_test.configuration import find_tests, is_test, name_of, read_test

    for path in find_tests(words, conf=conf):
        if not is_test(path):
            click.echo(f"{name_of(path, conf)}: not a test (no performance_testing_conditions)")
            continue
        test = read_test(path, conf=conf)
        condition = test.condition
        bounds = " and ".join(
            f"{column} {condition.direction} {value:g}"
            for column, value in zip(condition.columns, condition.values, strict=True)
        )
        steps = f" within {condition.max_steps} steps" if condition.max_steps else ""
        click.echo(
            f"{test.name}: {bounds}{steps} in {condition.succ_runs} of {condition.total_runs} runs on {test.env}"
        )
    return 0


def _head() -> str:
    from a2perf.experiments.autotag import git

    branch, commit = git(Path(), "rev-parse", "--abbrev-ref", "HEAD"), git(Path(), "rev-parse", "HEAD")
    return f"branch {branch}, commit {commit}" if commit else "not under version control"
