"""Repeating recorded evaluations from Python, with a verdict about each."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Unpack

from a2perf.api.arguments import RunSettings, conductor_of, run_options, whole_number
from a2perf.api.views.table import Table, Tabular

if TYPE_CHECKING:
    from a2perf.runs.reproduction import Reproduction

OPTIONS = (
    "sandbox",
    "allow_weaker",
    "python_env",
    "participant_python",
    "datasets_path",
    "memory_limit_bytes",
    "run_time_limit_s",
)
"""Options of every run that belong to the host of a repetition; the record gives the others."""


@dataclass(frozen=True, repr=False)
class Reproduced(Tabular):
    """The result of ``a2perf.reproduce``; true if every checked bundle was confirmed.

    Attributes:
        folder: output folder: verdicts and repetitions.
        verdicts: one record per bundle.
        bundles: number of evaluations found, more than verdicts after a sample or an interrupt.
        interrupted: whether the call ended before every bundle had a verdict; the same call again resumes.
    """

    folder: Path
    verdicts: Sequence[Reproduction]
    bundles: int
    interrupted: bool

    @property
    def counts(self) -> Mapping[str, int]:
        """Number of bundles by verdict."""
        names = [one.verdict for one in self.verdicts]
        return {name: names.count(name) for name in dict.fromkeys(names)}

    def table(self) -> Table:
        """Returns one row per bundle."""
        columns = {
            name: [getattr(one, name) for one in self.verdicts]
            for name in ("bundle", "submission", "task", "mode", "root_seed", "method", "verdict")
        }
        for name in ("recorded", "repeated", "low", "high", "unit", "repeated_n", "needed"):
            columns[name] = [None if one.statement is None else getattr(one.statement, name) for one in self.verdicts]
        columns["reason"] = [one.reason for one in self.verdicts]
        return Table(
            columns,
            title="Reproductions",
            descriptions={
                "recorded": "mean return of the record",
                "repeated": "mean return of the repetitions",
                "low": "lower end of the interval of repeated minus recorded",
                "high": "upper end of that interval",
                "repeated_n": "number of repeated episodes or training runs",
                "needed": "about how many episodes would settle it",
            },
            kinds={"recorded": "float", "repeated": "float", "low": "float", "high": "float"},
        )

    def __bool__(self) -> bool:
        return not self.interrupted and set(self.counts) == {"CONFIRMED"}

    def __str__(self) -> str:
        from a2perf.experiments.reproduce.text import verdict_text

        return "\n".join([*map(verdict_text, self.verdicts), f"verdicts: {self.folder}"])

    __repr__ = __str__


def reproduce(
    paths: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    folder: str | os.PathLike[str] | None = None,
    *,
    train: bool = False,
    submissions: Iterable[str | os.PathLike[str]] = (),
    allow_changed: bool = False,
    trust_bundle: bool = False,
    entry: str | None = None,
    sample: str | int | None = None,
    sample_seed: int = 0,
    episodes: int | None = None,
    key: str | os.PathLike[str] | None = None,
    force: bool = False,
    workers: int = 1,
    launcher: str = "local",
    launcher_options: Mapping[str, str] | None = None,
    progress: bool | Literal["lines"] | None = None,
    **options: Unpack[RunSettings],
) -> Reproduced:
    """Repeats recorded evaluations from their records.

    A deterministic evaluation has to be bit-equal. Otherwise one comparison of the returns confirms or refutes the
    record, or leaves it open. The same call again resumes, and keeps verdicts of the same conditions.

    Args:
        paths: bundles, folders that hold some, or packed files.
        folder: output folder; by default ``<path>-reproduced``, with the verdicts beside unpacked bundles.
        train: repeat the training runs too.
        submissions: folders of submissions; by default the recorded paths.
        allow_changed: accept a submission of ``submissions`` with other files than the recorded ones.
        trust_bundle: accept arguments of an environment that no registered task has; they can name files of this host.
            Import the package of an environment.
        entry: only this leaderboard entry: ``"name"`` or ``"name:task"``.
        sample: check a random sample: a share such as ``"10%"``, or a number of bundles.
        sample_seed: seed of the sample.
        episodes: episodes to play of an evaluation that is not bit-equal, rounded up to the recorded number times a
            power of two; by default the recorded number. Each doubling is a further look, with its share of the 5 %.
        key: private key that signs the verdicts.
        force: repeat bundles that have a verdict.
        workers: runs at the same time; several runs disturb each other's times and energy.
        launcher: where runs execute: ``"local"``, ``"docker"``, ``"slurm"``, ``"ray"``, or that of a package.
        launcher_options: options of the launcher.
        progress: show progress on standard error: a live table on a terminal and lines elsewhere (the default),
            ``"lines"`` for lines only, False for nothing.
        **options: ``sandbox``, ``allow_weaker``, ``python_env``, ``participant_python``,
            ``datasets_path`` or ``memory_limit_bytes``.

    Returns:
        The verdicts. A bundle that cannot be repeated has the verdict NOT CHECKED and lists what is missing.

    Raises:
        ConfigError: the sample, the entry, the key or an option is not valid, or the launcher is unknown.
        UserError: a path does not exist, or nothing recorded lies in it.

    Example:
        >>> import a2perf
        >>> packed = "results/recorded/small/web_solver.zip"
        >>> checked = a2perf.reproduce(packed, "checked", sample=1)
        >>> checked.counts  # the folder of its submission was not given
        {'NOT CHECKED': 1}
    """
    from a2perf.experiments.reproduce.rebuild import ReproduceRequest
    from a2perf.experiments.reproduce.reproduction import reproduce as repeat

    given = [paths] if isinstance(paths, str | os.PathLike) else list(paths)
    request = ReproduceRequest(
        paths=[Path(path).expanduser() for path in given],
        train=train,
        submissions=[Path(path).expanduser() for path in submissions],
        allow_changed=allow_changed,
        trust_bundle=trust_bundle,
        entry=entry,
        sample_size=None if sample is None else str(sample),
        sample_seed=whole_number("sample_seed", sample_seed, least=0),
        episodes=None if episodes is None else whole_number("episodes", episodes, least=1),
        output=None if folder is None else Path(folder).expanduser(),
        key=None if key is None else Path(key).expanduser(),
        force=force,
        options=run_options("reproduce", options, OPTIONS),
    )
    with conductor_of(launcher, launcher_options, workers, progress) as conductor:
        found = repeat(request, conductor)
    return Reproduced(request.folder, found.verdicts, found.bundles, found.interrupted)
