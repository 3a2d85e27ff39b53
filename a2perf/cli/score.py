"""``a2perf score``: scores recorded runs, from their files alone."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

from a2perf.cli.profile_option import PROFILE_OPTION
from a2perf.runs.layout import MANIFEST, MODES, SCORES
from a2perf.storage import write_json
from a2perf.submission.options import normalised

_MOST_CONDITIONS = 20


@click.command(context_settings=normalised())
@click.argument("runs", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="RUN_OR_FOLDER...")
@click.option(
    "-o", "--output", "out", type=click.Path(path_type=Path), metavar="DIR",
    help="Folder that scores.json is written to; beside the runs by default.",
)  # fmt: skip
@PROFILE_OPTION
@click.option("--json", "as_json", is_flag=True, help="Print the scores as JSON.")
def score(runs: tuple[Path, ...], out: Path | None, profile: str, as_json: bool) -> int:
    """Score recorded runs: no environment, domain or code of a participant is loaded.

    RUN_OR_FOLDER is a bundle, a folder of the earlier platform, logs of Stable-Baselines3 (progress.csv, monitor.csv),
    event files, a CSV file with a column of steps and one of returns, or a folder that holds any of these. The same
    input gives the same bytes.
    """
    from a2perf.metrics.scores import score_runs

    document = score_runs(runs, profile, processes=len(os.sched_getaffinity(0)))  # type: ignore[arg-type]
    target = (out if out is not None else _beside(runs)) / SCORES
    write_json(target, document)
    if as_json:
        click.echo(target.read_text(encoding="utf-8"), nl=False)
        return 0
    for group in document["groups"]:
        _say_group(group)
    told = [(run["run"], condition) for run in document["runs"] for condition in run["conditions"]]
    if told:
        click.echo(f"{len(told)} condition(s) of {len({run for run, _ in told})} run(s):")
    for run, condition in told[:_MOST_CONDITIONS]:
        click.echo(f"  {run}: {condition}")
    if len(told) > _MOST_CONDITIONS:
        click.echo(f"  ... and {len(told) - _MOST_CONDITIONS} more in {target}")
    click.echo(f"{len(document['runs'])} run(s), {len(document['groups'])} group(s); profile {profile}, "
               f"rules {document['rules']}: {target}")  # fmt: skip
    return 0


def _beside(runs: tuple[Path, ...]) -> Path:
    """Returns the folder that holds all runs, but never the inside of a bundle, whose files are hashed."""
    folders = [Path(os.path.abspath(run)) for run in runs]
    folders = [folder.parent if folder.is_file() else folder for folder in folders]
    common = Path(os.path.commonpath(folders))
    return common.parent if common.name in MODES and (common / MANIFEST).exists() else common


def _say_group(group: dict[str, Any]) -> None:
    where = "/".join(part for part in (group["domain"], group["task"]) if part)
    title = f"{group['algorithm']} {group['mode']}" + (f" on {where}" if where else "")
    click.echo(f"{title}: {len(group['runs'])} run(s)")
    for condition in group["conditions"]:
        click.echo(f"  ! {condition}")
    for name, entry in group["scores"].items():
        if entry["value"] is None:
            click.echo(f"  {name:34} {entry['condition']}")
            continue
        spread = "" if entry["spread"] is None else f" ± {entry['spread']:.4g}"
        estimated = " (estimated)" if entry["provenance"] in ("estimated", "mixed") else ""
        click.echo(f"  {name:34} {entry['value']:.6g}{spread} {entry['unit']}".rstrip() + estimated)
