"""The data of the report: every scored entry of the recorded bundles, their protocol, and the curves.

Scores come only from ``a2perf.report.leaderboard``, which keeps report and leaderboard consistent; here they are
sorted and looked up. ``results/recorded/submissions.toml`` describes each baseline.
"""

from __future__ import annotations

import functools
import tomllib
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from a2perf.arrays import Values
from a2perf.errors import UserError
from a2perf.metrics import protocol as protocols
from a2perf.metrics.protocol import Protocol, ProtocolTask
from a2perf.metrics.runs_in_mode import scored_runs
from a2perf.metrics.values import MetricValue
from a2perf.records import Manifest, RolloutResults
from a2perf.report.leaderboard import Entry, LeaderboardRecord
from a2perf.runs import RunFolder, find_runs, layout, read_run
from a2perf.runs.inventory import manifest_in
from a2perf.runs.submission_info import FALLBACK_FILE, described_submissions
from a2perf.storage import MAX_RECORD_BYTES, parse_record

HERE = Path(__file__).resolve().parent
RECORDED = HERE.parents[1] / "results" / "recorded"
OWN_WEBSITES = ("tf_agents_bc",)
"""Baselines that train on websites they sample themselves, so they have not seen the websites they are scored on."""
LEARNED = ("learned", "imitation")
KIND_WORDS = {
    "random": "random",
    "scripted": "scripted",
    "search": "search",
    "pre-trained": "pre-trained",
    "imitation": "learned from demonstrations",
    "learned": "learned from scratch",
    "language-model": "asks a language model",
    "other": "not described",
}
"""Kinds of baseline in the order in which they are listed."""


def data(name: str) -> dict[str, Any]:
    """Returns one of the data files beside this module."""
    return tomllib.loads((HERE / name).read_text(encoding="utf-8"))


@dataclass(frozen=True)
class Baseline:
    """What a submission is.

    Attributes:
        key: name of its folder below ``examples/``.
        kind: a key of ``KIND_WORDS``.
        summary: one sentence.
        own_websites: its web policies have not seen the websites that they are scored on.
    """

    key: str
    title: str
    kind: str
    framework: str
    summary: str
    own_websites: bool = False

    @property
    def learns(self) -> bool:
        """Whether its policy was trained."""
        return self.kind in LEARNED


@functools.cache
def described() -> dict[str, Baseline]:
    """Returns the baselines that ``results/recorded/submissions.toml`` describes, in its order."""
    return {
        key: Baseline(key, info.title, info.kind, info.framework, info.summary, own_websites=key in OWN_WEBSITES)
        for key, info in described_submissions(RECORDED / FALLBACK_FILE).items()
    }


def baseline_of(name: str) -> Baseline:
    """Returns the description of a submission; its name if there is none.

    Args:
        name: of the submission, followed by its language models in brackets if it had some.
    """
    key, bracket, models = name.partition(" (")
    found = described().get(key)
    if found is None:
        return Baseline(name, name, "other", "", f"Not described in {FALLBACK_FILE}.")
    return replace(found, key=name, title=f"{found.title}{bracket}{models}")


@dataclass(frozen=True)
class Row:
    """A baseline on a task.

    Attributes:
        label: its title, with the hash of its files if a task has several versions.
        place: of its baseline among all, which gives the colour.
        folders: its runs by mode.
    """

    entry: Entry
    baseline: Baseline
    label: str
    place: int
    folders: dict[str, list[RunFolder]] = field(default_factory=dict)

    def value(self, mode: str, metric: str) -> MetricValue | None:
        """Returns a metric that has a value, else None."""
        found = self.entry.value(mode, metric)
        return found if found is not None and found.value is not None else None

    def number(self, mode: str, metric: str) -> float | None:
        """Returns a metric's number, else None."""
        found = self.value(mode, metric)
        return None if found is None else found.value

    @property
    def mean_return(self) -> float | None:
        """Mean return of the evaluated episodes, mean over seeds."""
        return self.number("inference", "returns")

    @property
    def trained(self) -> bool:
        """Whether there is a training run; random and scripted policies have none."""
        return bool(self.folders.get("train"))

    @functools.cached_property
    def curves(self) -> list[tuple[Values, Values]]:
        """Steps and returns of each training run that logged them."""
        if not self.baseline.learns or not self.trained:
            return []
        runs = [read_run(folder) for folder in self.folders["train"]]
        pairs = [
            (np.asarray(steps, np.float64).ravel(), np.asarray(values, np.float64).ravel())
            for steps, values in scored_runs(runs, "train").curves
        ]
        known = [(steps[keep], values[keep]) for steps, values in pairs if (keep := np.isfinite(values)).any()]
        return [(steps[order], values[order]) for steps, values in known if (order := np.argsort(steps)).size]

    @property
    def steps(self) -> float | None:
        """Environment steps per training run according to its curve, mean over seeds."""
        return float(np.mean([steps[-1] for steps, _ in self.curves])) if self.curves else None

    @functools.cached_property
    def lengths(self) -> Values:
        """Steps of every evaluated episode."""
        found = []
        for folder in self.folders.get("inference", ()):
            try:
                content = folder.files().read(layout.ROLLOUTS, MAX_RECORD_BYTES)
                results = parse_record(content, RolloutResults, layout.ROLLOUTS)
            except (OSError, UserError):
                continue
            found += [float(episode.length) for episode in results.episodes]
        return np.array(found, np.float64)

    def picture(self) -> bytes | None:
        """Returns the film strip of its first episode as PNG; None if it was not kept."""
        for folder in self.folders.get("inference", ()):
            files, name = folder.files(), f"{layout.MEDIA}/episode_000.png"
            if files.status(name) is not None:
                return files.read(name, MAX_RECORD_BYTES)
        return None

    def manifests(self) -> list[Manifest]:
        """Returns the records of its runs."""
        return [manifest_in(folder.files()) for held in self.folders.values() for folder in held]


@dataclass(frozen=True)
class Findings:
    """All data of the report.

    Attributes:
        record: the leaderboard over the same bundles.
        protocol: the one under which most was recorded.
        rows: its entries.
        others: entries under other protocols, by its name.
    """

    record: LeaderboardRecord
    protocol: Protocol
    rows: list[Row]
    others: dict[str, list[Row]]

    def tasks(self, domain: str = "") -> list[ProtocolTask]:
        """Returns the tasks of the protocol that have entries, in its order."""
        entered = {row.entry.task for row in self.rows}
        return [task for task in self.protocol.tasks.values() if task.name in entered and domain in ("", task.domain)]

    def domains(self) -> list[str]:
        """Returns the domains of these tasks."""
        return list(dict.fromkeys(task.domain for task in self.tasks()))

    def of(self, task: str) -> list[Row]:
        """Returns the entries of a task, best first; those without a score last."""
        rows = [row for row in self.rows if row.entry.task == task]
        return sorted(rows, key=lambda row: -np.inf if row.mean_return is None else row.mean_return, reverse=True)

    def best(self, task: str, kinds: Iterable[str]) -> Row | None:
        """Returns the entry of these kinds with the highest return on a task."""
        wanted = set(kinds)
        return next((row for row in self.of(task) if row.baseline.kind in wanted and row.mean_return is not None), None)

    def baselines(self) -> list[Baseline]:
        """Returns the baselines that entered, by kind and in the order of ``submissions.toml``."""
        known = {row.baseline.key: row.baseline for row in self.rows}
        kinds, order = list(KIND_WORDS), list(described())
        return sorted(
            known.values(),
            key=lambda one: (kinds.index(one.kind), order.index(one.key) if one.key in order else len(order), one.key),
        )

    def runs(self) -> int:
        """Returns the number of runs under the protocol."""
        return sum(len(row.entry.runs) for row in self.rows)


def find(record: LeaderboardRecord, recorded: Path) -> Findings:
    """Sorts the entries of a leaderboard.

    Args:
        record: of the site that was built over ``recorded``.
        recorded: folder of bundles.

    Raises:
        UserError: nothing there was made under a protocol.
    """
    folders = {folder.label: folder for folder in find_runs([recorded])}
    entries: dict[tuple[str, ...], Entry] = {}
    for board in record.boards:
        for ranked in board.rows:
            entry = ranked.entry  # one that kept a budget stands on the open board too
            entries.setdefault((entry.name, entry.version, entry.domain, entry.task, entry.protocol), entry)
    known = set(protocols.names())
    counted = Counter(entry.protocol for entry in entries.values() if entry.protocol in known)
    if not counted:
        raise UserError(f"nothing in {recorded} was recorded under a protocol", hint="make results")
    main = max(counted, key=lambda name: (counted[name], name))
    several = Counter((entry.name, entry.task, entry.protocol) for entry in entries.values())
    names = {entry.name for entry in entries.values()}
    # only learners appear in charts, and the first colours are the most distinct
    keys = sorted(names, key=lambda name: (not baseline_of(name).learns, [*described(), name].index(name), name))
    rows: dict[str, list[Row]] = {}
    for entry in entries.values():
        baseline = baseline_of(entry.name)
        twice = several[entry.name, entry.task, entry.protocol] > 1
        label = f"{baseline.title} ({entry.version[:7]})" if twice else baseline.title
        held: dict[str, list[RunFolder]] = {}
        for line in entry.runs:
            if line.counts() and line.run in folders:
                held.setdefault(line.mode, []).append(folders[line.run])
        rows.setdefault(entry.protocol, []).append(Row(entry, baseline, label, keys.index(entry.name), held))
    found = rows.pop(main)
    return Findings(record, protocols.load(main), found, dict(sorted(rows.items())))


def seeds_of(rows: Sequence[Row]) -> int:
    """Returns the fewest seeds of any entry."""
    return min((row.entry.score.n for row in rows if row.entry.score.n), default=0)


def overhead() -> dict[str, Any]:
    """Returns the overhead of the platform that ``measure.py`` recorded; empty before the first recording."""
    path = HERE / "overhead.json"
    return dict(msgspec.json.decode(path.read_bytes())) if path.is_file() else {}
