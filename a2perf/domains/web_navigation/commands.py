"""``a2perf data websites``: generates and measures websites of each level."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import click

from a2perf.domains.web_navigation import LEVELS
from a2perf.errors import UserError

if TYPE_CHECKING:
    from a2perf.domains.web_navigation.generator import Measured

SHIPPED_SEED = 20240


@click.group()
def websites() -> None:
    """Websites of web navigation."""


@websites.command()
@click.option("--out", type=click.Path(file_okay=False, path_type=Path), default=Path("websites"), show_default=True,
              help="Folder of the designs.")  # fmt: skip
@click.option("--level", "levels", type=click.IntRange(1, 3), multiple=True, help="Level; repeatable. Default: all.")
@click.option("--count", type=click.IntRange(1), default=1000, show_default=True, help="Designs per level.")
@click.option("--seed", type=click.IntRange(0), default=SHIPPED_SEED, show_default=True, help="Seed of the generator.")
@click.option("--workers", type=click.IntRange(1), default=1, show_default=True, help="Processes; same result for any.")
def generate(out: Path, levels: tuple[int, ...], count: int, seed: int, workers: int) -> None:
    """Draw websites, measure their difficulty and keep those of each level.

    Difficulty is the share of 2000 episodes that a uniform choice among valid actions solves. Rerun the command to
    resume.
    """
    from a2perf.domains.web_navigation import designs as sets
    from a2perf.domains.web_navigation import generator
    from a2perf.storage import Journal, write_atomic

    measured: dict[int, list[Measured]] = {}
    for level in levels or LEVELS:
        path = out / f"level_{level:02d}_seed_{seed}.jsonl"
        with (
            Journal(path) as journal,
            _Pool(workers) as pool,
            click.progressbar(length=count, label=f"level {level}") as bar,
        ):
            measured[level] = []
            for one in generator.generate(level, seed, count, journal, pool.measure):
                measured[level].append(one)
                bar.update(1)
        about = {
            "level": level,
            "seed": seed,
            "episodes": generator.EPISODES,
            "success": [one.success for one in measured[level]],
            "length": [one.length for one in measured[level]],
        }
        write_atomic(out / f"designs_{level:02d}.json.gz", sets.pack([one.design for one in measured[level]], about))
    _report(measured)


@websites.command()
@click.option("--out", hidden=True)
def difficulty(out: str | None) -> None:
    """Print the measured difficulty of the shipped websites."""
    from a2perf.domains.web_navigation import designs as sets
    from a2perf.domains.web_navigation.generator import Measured

    if out is not None:
        raise UserError(
            "the option --out was removed",
            hint="python docs/environments/web_pictures.py, in a checkout, draws the plot",
        )
    measured = {}
    for level in LEVELS:
        record = sets.shipped_record(level)
        rows = zip(sets.unpack(record), record["success"], record["length"], strict=True)
        measured[level] = [Measured(-1, design, success, length) for design, success, length in rows]
    _report(measured)


def _report(measured: dict[int, list[Measured]]) -> None:
    from a2perf.domains.web_navigation.generator import SUMMARY_HEADER, summary

    rows = [SUMMARY_HEADER, *summary(measured)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(SUMMARY_HEADER))]
    for row in rows:
        click.echo("  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)))


class _Pool:
    """Measures candidates in other processes, results in order."""

    def __init__(self, workers: int) -> None:
        self._workers = workers
        self._pool = ProcessPoolExecutor(workers) if workers > 1 else None

    def __enter__(self) -> _Pool:
        return self

    def __exit__(self, *_: object) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)

    def measure(self, jobs: Iterable[tuple[int, int, int]]) -> Iterator[Measured | None]:
        """Yields the measured candidates of endless jobs in their order."""
        from a2perf.domains.web_navigation.generator import draw_candidate

        if self._pool is None:
            yield from itertools.starmap(draw_candidate, jobs)
            return
        source = iter(jobs)
        ahead: list[Future[Measured | None]] = []
        while True:
            while len(ahead) < 8 * self._workers:
                ahead.append(self._pool.submit(draw_candidate, *next(source)))
            yield ahead.pop(0).result()
