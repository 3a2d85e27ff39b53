"""``a2perf pack`` and ``a2perf unpack``: finished runs in one file."""

from __future__ import annotations

from pathlib import Path

import click

from a2perf.stranger_files import Kind, printable
from a2perf.submission.options import normalised


@click.command(context_settings=normalised())
@click.argument("runs", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="RUN...")
@click.option(
    "-o", "--output", "out", type=click.Path(path_type=Path), metavar="FILE",
    help="Packed file, a .zip. Default: beside RUN, if there is only one.",
)  # fmt: skip
@click.option("--force", is_flag=True, help="Replace FILE if it exists.")
def pack(runs: tuple[Path, ...], out: Path | None, force: bool) -> int:
    """Pack finished runs into one file.

    RUN is a bundle, the root folder of a run, or a folder of runs; it does not change. Commands that read recorded runs
    accept the packed file instead of the folder. Hashes and signatures stay valid. Unfinished runs are refused.
    """
    from a2perf.runs.pack import pack as pack_runs
    from a2perf.runs.packed_archive import opened_archive

    target = pack_runs(runs, out, force=force)
    archive = opened_archive(target)
    files = [member.size for member in archive.members.values() if member.kind is Kind.FILE]
    click.echo(f"{len(files)} file(s), {_size(sum(files))}, packed into {_size(target.stat().st_size)}: {target}")
    return 0


@click.command(context_settings=normalised())
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "-o", "--output", "out", type=click.Path(path_type=Path), metavar="DIR",
    help="Folder of the runs. Default: the folder of FILE.",
)  # fmt: skip
def unpack(file: Path, out: Path | None) -> int:
    """Unpack a file that `a2perf pack` made.

    Every file is restored byte for byte under its original name. Existing folders are never changed.
    """
    from a2perf.runs.pack import unpack as unpack_runs

    for folder in unpack_runs(file, out if out is not None else file.parent):
        click.echo(printable(str(folder)))
    return 0


def _size(count: float) -> str:
    for unit in ("B", "KiB", "MiB"):
        if count < 1024:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} GiB"
