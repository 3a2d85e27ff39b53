"""Repeating recorded evaluations from Python, with a verdict about each."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Unpack

from a2perf.api.arguments import RunSettings, run_options, whole_number
from a2perf.api.views.table import Table, Tabular

if TYPE_CHECKING:
    from a2perf.runs.bundles.reproduction import CheckedClaim, Reproduction

OPTIONS = (
    "sandbox", "allow_weaker", "python_env", "participant_python", "datasets_path",
    "memory_limit_bytes", "run_time_limit_s",
)  # fmt: skip
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
        """Returns one row per claim of each bundle; one row for a bundle without a judged claim."""
        rows: list[tuple[Reproduction, CheckedClaim | None]] = []
        for one in self.verdicts:
            rows += [(one, claim) for claim in one.claims] or [(one, None)]
        columns = {
            name: [getattr(one, name) for one, _ in rows]
            for name in ("bundle", "submission", "task", "mode", "root_seed", "method")
        }
        columns["verdict"] = [one.verdict if claim is None else claim.verdict for one, claim in rows]
        for name in ("claim", "claimed", "estimate", "low", "high", "reruns", "needed"):
            columns[name] = [None if claim is None else getattr(claim, name) for _, claim in rows]
        columns["reason"] = [one.reason if claim is None else claim.reason for one, claim in rows]
        return Table(
            columns,
            title="Reproductions",
            descriptions={
                "estimate": "mean of the repetitions",
                "low": "lower end of its 95 % interval",
                "high": "upper end of its 95 % interval",
                "reruns": "episodes, or runs for a cost",
                "needed": "about how many more would settle the claim",
            },
            kinds={"claimed": "float", "estimate": "float", "low": "float", "high": "float"},
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
    claims: str | Iterable[str] = (),
    train: bool = False,
    submissions: Iterable[str | os.PathLike[str]] = (),
    allow_changed: bool = False,
    trust_bundle: bool = False,
    entry: str | None = None,
    sample: str | int | None = None,
    sample_seed: int = 0,
    max_reruns: int = 10,
    key: str | os.PathLike[str] | None = None,
    force: bool = False,
    workers: int = 1,
    launcher: str = "local",
    launcher_options: Mapping[str, str] | None = None,
    progress: bool | Literal["lines"] | None = None,
    **options: Unpack[RunSettings],
) -> Reproduced:
    """Repeats recorded evaluations from their records and judges their claims.

    A deterministic evaluation has to be bit-equal. Otherwise a sequential test confirms or refutes the claims, or
    leaves them open. The same call again resumes, and keeps existing verdicts.

    Args:
        paths: bundles, folders that hold some, or packed files.
        folder: output folder; by default ``<path>-reproduced``, with the verdicts beside unpacked bundles.
        claims: claims to check, ``"return>=380"`` or ``"latency<=3 ms"``; by default the recorded return and successes.
        train: repeat the training runs too.
        submissions: folders of submissions; by default the recorded paths.
        allow_changed: accept a submission of ``submissions`` with other files than the recorded ones.
        trust_bundle: accept arguments of an environment that no registered task has; they can name files of this host.
            Import the package of an environment.
        entry: only this leaderboard entry: ``"name"`` or ``"name:task"``.
        sample: check a random sample: a share such as ``"10%"``, or a number of bundles.
        sample_seed: seed of the sample.
        max_reruns: repetitions of a bundle after which a claim stays open.
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
        ConfigError: a claim, the sample, the entry, the key or an option is not valid, or the launcher is unknown.
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
    from a2perf.launch.conductor import Conductor
    from a2perf.launch.interface import get_launcher
    from a2perf.terminal import console

    given = [paths] if isinstance(paths, str | os.PathLike) else list(paths)
    request = ReproduceRequest(
        paths=[Path(path).expanduser() for path in given],
        claims=[claims] if isinstance(claims, str) else list(claims), train=train,
        submissions=[Path(path).expanduser() for path in submissions], allow_changed=allow_changed,
        trust_bundle=trust_bundle, entry=entry, sample_size=None if sample is None else str(sample),
        sample_seed=whole_number("sample_seed", sample_seed, least=0),
        max_reruns=whole_number("max_reruns", max_reruns, least=1),
        output=None if folder is None else Path(folder).expanduser(),
        key=None if key is None else Path(key).expanduser(), force=force,
        options=run_options("reproduce", options, OPTIONS),
    )  # fmt: skip
    shown = None if progress is False else console(stderr=True)
    where = get_launcher(launcher, **(launcher_options or {}))
    count = whole_number("workers", workers, least=1)
    with Conductor(where, count, console=shown, live=progress != "lines") as conductor:
        found = repeat(request, conductor)
    return Reproduced(request.folder, found.verdicts, found.bundles, found.interrupted)
