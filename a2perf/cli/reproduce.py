"""``a2perf reproduce``: repeats recorded evaluations."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from a2perf.api.reproducing import OPTIONS
from a2perf.cli.launch_options import WITH_RESOURCES, LaunchOptions, launch_options
from a2perf.errors import ConfigError
from a2perf.submission.options import normalised
from a2perf.submission.run_options import RunOptions, run_options


@click.command(context_settings=normalised())
@click.argument("paths", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="BUNDLE|FOLDER...")
@click.option("--train", is_flag=True, help="Repeat the training run too.")
@click.option(
    "--submission",
    "submissions",
    multiple=True,
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    metavar="DIR",
    help="Folder of the submission, or of several; repeatable. Default: the recorded path.",
)
@click.option(
    "--allow-changed", is_flag=True, help="Use a submission of --submission with other files than the recorded ones."
)
@click.option(
    "--trust-bundle",
    is_flag=True,
    help="Accept arguments of an environment that no registered task has, and import its package. Only for bundles "
    "from people you trust.",
)
@click.option("--entry", metavar="NAME[:TASK]", help="Only this entry of a leaderboard: a submission, on one task.")
@click.option(
    "--sample",
    metavar="SIZE[:SEED]",
    help="Check a random sample of those that can be repeated here: 10%, or a number.",
)
@click.option(
    "--episodes",
    type=click.IntRange(min=1),
    metavar="N",
    help="Episodes to play of an evaluation that is not bit-equal. Default: as recorded.",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Folder of the repetitions and verdicts. Default: PATH-reproduced, with verdicts beside unpacked bundles.",
)
@click.option("--key", type=click.Path(path_type=Path), metavar="FILE", help="Private key that signs the verdicts.")
@click.option(
    "--fail-on",
    type=click.Choice(["refuted", "inconclusive", "unchecked"]),
    help="Exit status 1 on a refuted or changed bundle; also on an inconclusive one; also on an unchecked one.",
)
@run_options(*(name for name in OPTIONS if "_limit_" not in name))
@launch_options(
    "launcher",
    "workers",
    "force",
    launcher=WITH_RESOURCES,
    force={"help": "Repeat bundles that have a verdict; their earlier repetitions are archived."},
)
@click.option("--json", "as_json", is_flag=True, help="Print the verdicts as JSON.")
def reproduce(as_json: bool, fail_on: str | None, sample: str | None, **given: Any) -> int:
    """Check recorded results: repeat evaluations from their records.

    \b
    Examples:
      a2perf reproduce runs/my_agent/inference
      a2perf reproduce results/recorded --submission examples --sample 10%
      a2perf reproduce runs/my_agent --train

    A deterministic evaluation has to be bit-equal; the first difference is shown. Otherwise one comparison of the
    returns gives CONFIRMED, REFUTED or INCONCLUSIVE: of episodes, or with --train of training runs. Conditions that
    changed are listed first. Run the same command again to resume.

    Exit status: 0 done, 1 a verdict named by --fail-on, 2 usage or configuration, 3 infrastructure, 130 interrupted.
    """  # noqa: D301
    from a2perf.cli.experiment import plain_console
    from a2perf.experiments.reproduce.rebuild import ReproduceRequest
    from a2perf.experiments.reproduce.reproduction import FAIL_ON
    from a2perf.experiments.reproduce.reproduction import reproduce as repeat
    from a2perf.experiments.reproduce.text import as_json as verdicts_json
    from a2perf.experiments.reproduce.text import summary_table, verdict_text

    launch = LaunchOptions.taken_from(given)
    options = RunOptions.taken_from(given)
    size, _, seed = (sample or "").partition(":")
    if seed and not seed.isdecimal():
        raise ConfigError(f"--sample {sample}: {seed!r} is not a seed", hint="write --sample 10%:1")
    request = ReproduceRequest(
        **given,
        sample_size=size or None,
        sample_seed=int(seed or 0),
        options=options,
        resources=launch.resources(options),
        force=launch.given["force"],
    )
    show = (lambda found: None) if as_json else (lambda found: click.echo(verdict_text(found)))
    with launch.conductor(live=not as_json) as conductor:
        plan = (lambda text: None) if as_json else (lambda text: click.echo(text, err=True))
        result = repeat(request, conductor, on_verdict=show, on_plan=plan)
    if as_json:
        click.echo(json.dumps(verdicts_json(result), indent=2))
    else:
        plain_console().print(summary_table(result))
        if result.replaced:
            click.echo(
                f"{len(result.replaced)} drawn bundles cannot be repeated here, others took their place: "
                f"{result.replaced[0]}"
            )
        click.echo(f"verdicts and repetitions: {request.folder}")
    return result.exit_code(FAIL_ON.get(fail_on or "", ()))
