"""Scores of recorded runs: ``score`` and the ``Scores`` that it returns."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from a2perf.api import score_text
from a2perf.api.recorded import AnyRuns, LazyRun, recorded_runs, unique_folders
from a2perf.api.scored_group import ScoredGroup
from a2perf.api.table import Table, Tabular
from a2perf.metrics.scores import score_found
from a2perf.metrics.values import Profile, profile_named
from a2perf.plain_text import terminal_text
from a2perf.runs.layout import MANIFEST, MODES, SCORES
from a2perf.runs.reading import identify
from a2perf.runs.run import RunFolder, RunIdentity
from a2perf.storage import write_json

if TYPE_CHECKING:
    import pandas
    from matplotlib.figure import Figure


def score(runs: AnyRuns, *, profile: Profile = "corrected", cached: bool = True, processes: int = 1) -> Scores:
    """Scores recorded runs from their files alone, as ``a2perf score`` does.

    Runs of the same submission, task and mode in the same environment are seeds of one experiment. They are scored
    together as one group. No environment and no code of a submission is loaded.

    Args:
        runs: ``Runs``, a ``Result``, a path of a run or of a folder with runs, or a sequence of these.
        profile: set of formulas, ``"corrected"`` or ``"upstream"``.
        cached: use and fill the cache of scores.
        processes: number of processes for more than 150 new runs. With more than one, a script needs
            ``if __name__ == "__main__"``.

    Returns:
        The scores of all groups. The same files give the same scores.

    Raises:
        UserError: a path does not exist, or holds no run.
        ConfigError: an unknown profile, or an argument that is not a run.

    Example:
        >>> scores = a2perf.score("results/recorded")
        >>> frame = scores.to_pandas().query("metric == 'returns'")
        >>> frame[["algorithm", "task", "value", "low", "high"]]
    """
    return scores_of(recorded_runs(runs), profile, cached=cached, processes=processes)


def scores_of(
    runs: Sequence[LazyRun], profile: Profile = "corrected", *, cached: bool = True, processes: int = 1
) -> Scores:
    """Scores runs as their files are now; a run that is in memory and has not changed is not read again."""
    found = unique_folders(runs)
    gone = {path for path, (_, run) in found.items() if not run.is_there()}

    def identity(folder: RunFolder) -> RunIdentity:
        return found[str(folder.path)][1].run.identity if str(folder.path) in gone else identify(folder)

    document = score_found(
        [folder for folder, _ in found.values()],
        profile_named(profile),
        cached=cached and not gone,  # the cache knows runs by their files
        processes=1 if gone else processes,
        read=lambda folder: found[str(folder.path)][1].current(),
        identify_run=identity,
    )
    return Scores(document)


def folder_of_scores(paths: Sequence[str | os.PathLike[str]]) -> Path:
    """Returns the common folder of all runs; never the inside of a bundle, because its files are hashed."""
    folders = [Path(os.path.abspath(path)) for path in paths]
    folders = [folder.parent if folder.is_file() else folder for folder in folders]
    common = Path(os.path.commonpath(folders))
    return common.parent if common.name in MODES and (common / MANIFEST).exists() else common


class Scores(Tabular):
    """The scores of recorded runs. Immutable.

    Example:
        >>> scores = a2perf.score("results/recorded/small/minimal.zip")
        >>> print(scores)                      # what `a2perf score` prints
        >>> scores.groups[0]["returns"].interval
        >>> scores.to_pandas(wide=True)        # one row per group
        >>> scores.plot("energy_gross")
    """

    __slots__ = ("_document", "_groups")

    def __init__(self, document: dict[str, Any]) -> None:
        object.__setattr__(self, "_document", document)
        object.__setattr__(self, "_groups", tuple(ScoredGroup.of(entry) for entry in document["groups"]))

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"Scores are immutable; {name!r} cannot be set")

    @property
    def document(self) -> dict[str, Any]:
        """The content of ``scores.json``, as a copy."""
        copied: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(self._document))
        return copied

    @property
    def groups(self) -> tuple[ScoredGroup, ...]:
        """The scores of each group of seeds, by domain, task, algorithm and mode."""
        return self._groups

    @property
    def profile(self) -> str:
        """The set of formulas."""
        return str(self._document["profile"])

    @property
    def rules(self) -> int:
        """Version of the formulas; only scores of the same version are comparable."""
        return int(self._document["rules"])

    def write(self, folder: str | os.PathLike[str]) -> Path:
        """Writes ``scores.json`` into a folder and returns its path. The same scores give the same bytes.

        Args:
            folder: outside of a bundle, because the files of a bundle are hashed.
        """
        target = Path(folder) / SCORES
        write_json(target, self._document)
        return target

    def text(self, *, every: bool = False, further: str = "") -> str:
        """Returns what ``a2perf score`` prints, control characters unchanged; ``every`` as its option ``--all``."""
        return score_text.document_text(self._document, every=every, further=further)

    def table(self, *, wide: bool = False, metrics: Iterable[str] | None = None) -> Table:
        """Returns the scores as a table.

        Args:
            wide: one row per group and one column per metric, instead of one row per group and metric.
            metrics: names of metrics; by default all that have a value or a reason why not.

        Raises:
            ConfigError: an unknown metric.
        """
        from a2perf.api.score_tables import long_table, wide_table

        return (wide_table if wide else long_table)(self._groups, metrics)

    def to_pandas(self, *, wide: bool = False, metrics: Iterable[str] | None = None) -> pandas.DataFrame:
        """Returns a pandas data frame with one row per group and metric.

        Columns: algorithm, domain, task, mode, metric, value, spread, low, high (ends of the 95 % interval over runs),
        n (number of runs), unit, direction, provenance, condition (why there is no value) and others.

        Args:
            wide: one row per group, one column per metric; ``frame.attrs["units"]`` has the units.
            metrics: names of metrics; by default all.

        Raises:
            ConfigError: an unknown metric.
            MissingDependency: pandas is not installed.
        """
        return self.table(wide=wide, metrics=metrics).to_pandas()

    def plot(self, metric: str = "returns") -> Figure:
        """Draws a metric with its 95 % intervals over runs: one panel per task, one row per algorithm.

        Args:
            metric: its name, for example ``"returns"``, ``"energy_gross"`` or ``"latency_round_trip_median"``.

        Raises:
            ConfigError: no group has a value of this metric.
        """
        from a2perf.api.figures import intervals_figure

        return intervals_figure(self._groups, metric)

    def __len__(self) -> int:
        return len(self._groups)

    def __iter__(self) -> Iterator[ScoredGroup]:
        return iter(self._groups)

    def __eq__(self, other: object) -> bool:
        return self._document == other._document if isinstance(other, Scores) else NotImplemented

    def __hash__(self) -> int:
        return hash((self.profile, self.rules, self._groups))

    def __reduce__(self) -> tuple[Any, ...]:
        return (Scores, (self._document,))

    def __repr__(self) -> str:
        return terminal_text(self.text())

    if TYPE_CHECKING:
        _document: dict[str, Any]
        _groups: tuple[ScoredGroup, ...]
