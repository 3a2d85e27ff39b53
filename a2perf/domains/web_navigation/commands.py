"""``a2perf data websites``: generates and measures websites of each level."""

from __future__ import annotations

import functools
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import click

from a2perf.domains.web_navigation import LEVELS

if TYPE_CHECKING:
    from a2perf.domains.web_navigation.sites.generator import Measured

SHIPPED_SEED = 20240


@click.group()
def websites() -> None:
    """Websites of web navigation."""


@websites.command()
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("websites"),
    show_default=True,
    help="Folder of the designs.",
)
@click.option("--level", "levels", type=click.IntRange(1, 3), multiple=True, help="Level; repeatable. Default: all.")
@click.option("--count", type=click.IntRange(1), default=1000, show_default=True, help="Designs per level.")
@click.option("--seed", type=click.IntRange(0), default=SHIPPED_SEED, show_default=True, help="Seed of the generator.")
@click.option("--workers", type=click.IntRange(1), default=1, show_default=True, help="Processes; same result for any.")
def generate(out: Path, levels: tuple[int, ...], count: int, seed: int, workers: int) -> None:
    """Draw websites, measure their difficulty and keep those of each level.

    Difficulty is the share of 2000 episodes that a uniform choice among valid actions solves. Rerun the command to
    resume.
    """
    from a2perf.domains.web_navigation.sites import designs as sets
    from a2perf.domains.web_navigation.sites import generator
    from a2perf.storage import Journal, write_atomic

    measured: dict[int, list[Measured]] = {}
    for level in levels or LEVELS:
        path = out / f"level_{level:02d}_seed_{seed}.jsonl"
        measure = functools.partial(_in_processes, workers) if workers > 1 else None
        with Journal(path) as journal, click.progressbar(length=count, label=f"level {level}") as bar:
            measured[level] = []
            for one in generator.generate(level, seed, count, journal, measure):
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


def _report(measured: Mapping[int, Sequence[Measured]]) -> None:
    """Prints the measured difficulty per level: percentiles of success and length, medians of fields and pages."""
    import numpy as np

    head = "level,designs,success min,5%,median,95%,max,steps min,median,max,fields,pages"
    rows = [head.split(",")]
    for level, designs in sorted(measured.items()):
        success = np.percentile([one.success for one in designs], [0, 5, 50, 95, 100])
        length = np.percentile([one.length for one in designs], [0, 50, 100])
        fields = np.median([len(one.design.fields) for one in designs])
        pages = np.mean([one.design.pages for one in designs])
        cells = [*(f"{value:.4f}" for value in success), *(f"{value:.0f}" for value in (*length, fields))]
        rows.append([str(level), str(len(designs)), *cells, f"{pages:.2f}"])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        click.echo("  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)))


def _in_processes(workers: int, jobs: Iterable[tuple[int, int, int]]) -> Iterator[Measured | None]:
    """Measures candidates of endless jobs in other processes; yields them in their order."""
    from a2perf.domains.web_navigation.sites.generator import draw_candidate

    source, ahead = iter(jobs), deque[Future["Measured | None"]]()
    with ProcessPoolExecutor(workers) as pool:
        try:
            while True:
                while len(ahead) < 8 * workers:
                    ahead.append(pool.submit(draw_candidate, *next(source)))
                yield ahead.popleft().result()
        finally:
            pool.shutdown(cancel_futures=True)
