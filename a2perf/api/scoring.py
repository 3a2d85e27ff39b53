"""Scores of recorded runs: ``score`` and the ``Scores`` that it returns."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from a2perf.api.scored_group import ScoredGroup, document_text
from a2perf.api.views.figures import intervals_figure
from a2perf.api.views.table import Immutable, Kind, Table, Tabular
from a2perf.errors import ConfigError
from a2perf.metrics import registry
from a2perf.metrics.scores import score_found
from a2perf.metrics.values import NORMALISED, MetricValue, Profile, profile_named
from a2perf.plain_text import terminal_text
from a2perf.runs.bundles.files import kind_at
from a2perf.runs.bundles.layout import MANIFEST, MODES, SCORES
from a2perf.runs.reading import AnyRuns, identify, read_runs, run_at, stamp_of
from a2perf.runs.run import IN_MEMORY, Run, RunFolder, RunIdentity
from a2perf.runs.stores.finding import named_uniquely
from a2perf.storage import write_json

if TYPE_CHECKING:
    import pandas
    from matplotlib.figure import Figure

_LONG: dict[str, tuple[Kind, str]] = {
    "algorithm": ("text", "name of the submission or algorithm"),
    "task": ("text", "the task; of each task in generalization, and empty for a value over all tasks"),
    "mode": ("text", "train, inference or generalization"),
    "metric": ("text", "name of the metric"),
    "value": ("float", "the value, in the unit of the row"),
    "spread": ("float", "a standard deviation; spread_kind names the population"),
    "low": ("float", "lower end of the 95 % interval over runs"),
    "high": ("float", "upper end of the 95 % interval over runs"),
    "n": ("int", "number of runs behind the value"),
    "unit": ("text", "unit; empty for the unit of the reward"),
    "direction": ("text", "max: higher is better; min: lower is better"),
    "provenance": ("text", "measured, estimated, mixed or recorded"),
    "condition": ("text", "why there is no value"),
    "domain": ("text", "the domain"),
    "spread_kind": ("text", "the population of the spread"),
    "method": ("text", "how the number was measured or estimated"),
    "profile": ("text", "set of formulas"),
    "version": ("text", "hash of the submission's files"),
    "fingerprint": ("text", "hash of the environment's behaviour"),
    "view": ("text", "what the submission observed; empty for the default of the domain"),
}
_OF_GROUP = ("algorithm", "domain", "mode", "version", "fingerprint", "view")
_IN_UNIT_OF_ROW = ("value", "spread", "low", "high")
_FIRST: dict[str, Kind] = {"algorithm": "text", "task": "text", "mode": "text", "runs": "int"}
_LAST: dict[str, Kind] = {"domain": "text", "version": "text", "fingerprint": "text", "view": "text"}


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
    found = read_runs(runs)
    if any(run.folder.layout == IN_MEMORY.layout for run in found):
        raise ConfigError("a run in memory cannot be scored", hint="give the run of a folder")
    return scores_of(found, profile, cached=cached, processes=processes)


def scores_of(
    runs: Sequence[Run], profile: Profile = "corrected", *, cached: bool = True, processes: int = 1
) -> Scores:
    """Scores runs as their files are now; a run that is in memory and has not changed is not read again."""
    by_key = {run.folder.key: run for run in runs}
    gone = {key for key, run in by_key.items() if kind_at(run.folder.path) is None}

    def identity(folder: RunFolder) -> RunIdentity:
        return by_key[folder.key].identity if folder.key in gone else identify(folder)

    def current(folder: RunFolder) -> Run:
        run = by_key[folder.key]
        is_old = folder.key not in gone and "stamp" in vars(run) and vars(run)["stamp"] != stamp_of(run.folder)
        return run_at(run.folder) if is_old else run

    document = score_found(
        named_uniquely([run.folder for run in by_key.values()]),
        profile_named(profile),
        cached=cached and not gone,  # the cache knows runs by their files
        processes=1 if gone else processes,
        read=current,
        identify_run=identity,
    )
    return Scores(document)


def folder_of_scores(paths: Sequence[str | os.PathLike[str]]) -> Path:
    """Returns the common folder of all runs; never the inside of a bundle, because its files are hashed."""
    folders = [Path(os.path.abspath(path)) for path in paths]
    folders = [folder.parent if folder.is_file() else folder for folder in folders]
    common = Path(os.path.commonpath(folders))
    return common.parent if common.name in MODES and (common / MANIFEST).exists() else common


class Scores(Immutable, Tabular):
    """The scores of recorded runs. Immutable.

    Example:
        >>> scores = a2perf.score("results/recorded/small/minimal.zip")
        >>> print(scores)                      # what `a2perf score` prints
        >>> scores.groups[0]["returns"].interval
        >>> scores.to_pandas(wide=True)        # one row per group
        >>> scores.plot("energy_gross")
    """

    _document: dict[str, Any]
    _groups: tuple[ScoredGroup, ...]

    def __init__(self, document: dict[str, Any]) -> None:
        self.__dict__.update(_document=document, _groups=tuple(map(ScoredGroup.of, document["groups"])))

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

        The folder is not that of a bundle, because the files of a bundle are hashed.
        """
        target = Path(folder) / SCORES
        write_json(target, self._document)
        return target

    def text(self, *, every: bool = False, further: str = "") -> str:
        """Returns what ``a2perf score`` prints, control characters unchanged; ``every`` as its option ``--all``."""
        return document_text(self._document, self.groups, every=every, further=further)

    def table(self, *, wide: bool = False, metrics: Iterable[str] | None = None) -> Table:
        """Returns the scores as a table.

        Args:
            wide: one row per group and one column per metric, instead of one row per group and metric.
            metrics: names of metrics; by default all that have a value or a reason why not.

        Raises:
            ConfigError: an unknown metric.
        """
        return (_wide_table if wide else _long_table)(self.groups, metrics)

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

        A metric that no group has a value of is a ``ConfigError``.
        """
        return intervals_figure(self.groups, metric)

    def __len__(self) -> int:
        return len(self.groups)

    def __iter__(self) -> Iterator[ScoredGroup]:
        return iter(self.groups)

    def __eq__(self, other: object) -> bool:
        return self._document == other._document if isinstance(other, Scores) else NotImplemented

    def __hash__(self) -> int:
        return hash((self.profile, self.rules, self.groups))

    def __reduce__(self) -> tuple[Any, ...]:
        return (Scores, (self._document,))

    def __repr__(self) -> str:
        return terminal_text(self.text())


def _long_table(groups: Sequence[ScoredGroup], metrics: Iterable[str] | None = None) -> Table:
    """Returns one row per group and metric; generalization also has one row per task."""
    chosen = _chosen(groups, metrics)
    columns: dict[str, list[object]] = {name: [] for name in _LONG}
    for group in groups:
        for task, value in _entries(group):
            if value.name not in chosen:
                continue
            low, high = value.interval or (None, None)
            row = {"task": task, "metric": value.name, "low": low, "high": high}
            for name in columns:
                of = group if name in _OF_GROUP else value
                columns[name].append(row[name] if name in row else getattr(of, name))
    return Table(
        columns,
        title="Scores",
        row_units=dict.fromkeys(_IN_UNIT_OF_ROW, "unit"),
        row_provenance=dict.fromkeys(_IN_UNIT_OF_ROW, "provenance"),
        descriptions={name: words for name, (_, words) in _LONG.items()},
        kinds={name: kind for name, (kind, _) in _LONG.items()},
    )


def _wide_table(groups: Sequence[ScoredGroup], metrics: Iterable[str] | None = None) -> Table:
    """Returns one row per group and one column per metric that any group has a value of."""
    metrics_by_name = registry.all_metrics()
    chosen = _chosen(groups, metrics)
    if metrics is None:
        chosen.sort(key=lambda name: name in metrics_by_name and not metrics_by_name[name].leads())
    found = {name: [group.value_of(name) for group in groups] for name in chosen}
    if metrics is None:
        chosen = [name for name in chosen if any(value is not None for value in found[name])]
    columns: dict[str, list[object]] = {name: [getattr(group, name) for group in groups] for name in _FIRST}
    columns["runs"] = [len(group.runs) for group in groups]
    kinds: dict[str, Kind] = {**_FIRST, **dict.fromkeys(chosen, "float"), **_LAST}
    units, provenance = {}, {}
    for name in chosen:
        columns[name] = [None if value is None else value.value for value in found[name]]
        known = [value for value in found[name] if value is not None]
        units[name] = known[0].unit if known else ""
        sources = {value.provenance for value in known}
        if sources:
            provenance[name] = sources.pop() if len(sources) == 1 else "mixed"
    columns |= {name: [getattr(group, name) for group in groups] for name in _LAST}
    return Table(columns, title="Scores by group", units=units, provenance=provenance, kinds=kinds)


def _entries(group: ScoredGroup) -> Iterator[tuple[str, MetricValue]]:
    if (normalised := group.value_of(NORMALISED)) is not None:
        yield group.task, normalised
    for value in group.scores.values():
        yield group.task, value
    for task, values in group.tasks.items():
        for value in values.values():
            yield task, value


def _chosen(groups: Sequence[ScoredGroup], metrics: Iterable[str] | None) -> list[str]:
    known = [NORMALISED] if any(group.normalised for group in groups) else []
    known += dict.fromkeys(name for group in groups for name in group.scores)
    known += sorted({name for group in groups for values in group.tasks.values() for name in values} - set(known))
    if metrics is None:
        return known
    chosen = [metrics] if isinstance(metrics, str) else list(metrics)
    return [registry.resolve(name, known, what="no group has a metric") for name in chosen]
