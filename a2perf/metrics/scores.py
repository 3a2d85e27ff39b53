"""Scores of recorded runs: every metric again, from files alone.

Runs that are seeds of one another (``runs.seed_groups``) are scored together. The document is a function of the
recorded files, the profile and the rules: no clock, host or absolute path enters it, so the same input gives the same
bytes. Results are remembered in the cache folder under names, sizes and modification times of the input files.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import itertools
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import msgspec

from a2perf import assets
from a2perf._version import __version__
from a2perf.constants import LONGEST_EPISODE
from a2perf.metrics import application, registry
from a2perf.metrics.runs_in_mode import ScoredRuns, scored_runs
from a2perf.metrics.submitted import protocol_of, submitted_of
from a2perf.metrics.values import MetricValue, Profile, profile_named
from a2perf.runs.bundles.agreement import NOT_COUNTED
from a2perf.runs.bundles.layout import MODES
from a2perf.runs.foreign.foreign_layouts import UNKNOWN_ENVIRONMENT
from a2perf.runs.reading import identify, read_run
from a2perf.runs.run import Run, RunFolder, RunIdentity, noise
from a2perf.runs.seed_groups import grouped, is_environment_known, seed_key
from a2perf.runs.stores.finding import find_runs, fingerprint_of
from a2perf.worker_pool import worker_pool

SCHEMA = 1
_MOST_REMEMBERED = 100_000  # entries of the cache; the oldest go first
_RUNS_WORTH_A_PROCESS = 150  # fewer are scored sooner than another interpreter has started


@dataclass(frozen=True)
class SeedGroup:
    """The runs of one algorithm in one mode that differ in their seeds, with their scores.

    Attributes:
        scores: metrics that have a value or, in this mode, a reason for having none, in the order of the registry.
        tasks: application metrics of each task; empty except in generalization.
    """

    algorithm: str
    mode: str
    runs: tuple[Run, ...]
    data: ScoredRuns
    scores: dict[str, MetricValue]
    tasks: dict[str, dict[str, MetricValue]]
    conditions: tuple[str, ...]

    @property
    def seeds(self) -> list[int | None]:
        """Root seed of each run."""
        return [run.identity.seed for run in self.runs]

    @property
    def policies(self) -> list[str]:
        """Hash of the trained policy of each run, ``""`` if unknown."""
        return [run.identity.policy for run in self.runs]

    @property
    def episodes(self) -> list[int]:
        """Number of episodes of each run."""
        return [sum(map(len, run.returns.get(self.mode, {}).values())) for run in self.runs]

    def seed_names(self) -> list[str]:
        """Returns a name for each run: ``"seed 3"`` if the seeds are unique, else its root."""
        names = ["" if seed is None else f"seed {seed}" for seed in self.seeds]
        if len(set(names)) < len(names) or "" in names:
            return [run.root for run in self.runs]
        return names


def score_runs(
    paths: Sequence[Path], profile: Profile = "corrected", *, cached: bool = True, processes: int = 1
) -> dict[str, Any]:
    """Scores every run at or below the given paths: bundles, runs of any known layout, or files of curves.

    Args:
        processes: how many may share the work when there is much of it; the result is the same. With more than one
            the caller's main module must be importable (``if __name__ == "__main__"``).

    Returns:
        The document of ``scores.json``.

    Raises:
        UserError: a path does not exist, or nothing recorded lies at any of them.
    """
    return score_found(find_runs(paths), profile, cached=cached, processes=processes)


def score_found(
    found: Sequence[RunFolder],
    profile: Profile = "corrected",
    *,
    cached: bool = True,
    processes: int = 1,
    read: Callable[[RunFolder], Run] | None = None,
    identify_run: Callable[[RunFolder], RunIdentity] = identify,
) -> dict[str, Any]:
    """Scores runs that were found before; returns the document of ``scores.json``.

    Args:
        read: returns a run that the caller may hold in memory; by default every run is read from its files. It is not
            used in other processes.
        identify_run: returns the identity of a run; by default from its files.
    """
    profile = profile_named(profile)
    with _Memory(cached) as memory:
        rules = _rules(profile)
        prints = [_fingerprint(run) for run in found]
        keys = [hashlib.sha256(f"{rules}\0{print_}".encode()).hexdigest() for print_ in prints]
        identities = [memory.identity(key, run, identify_run) for key, run in zip(keys, found, strict=True)]
        groups = grouped(range(len(found)), lambda index: seed_key(identities[index], found[index]))
        members = list(groups.values())
        pools = [
            "pool " + hashlib.sha256("\0".join(keys[index] for index in pool).encode()).hexdigest() for pool in members
        ]
        known = [memory.get(pool) for pool in pools]
        new = [at for at, document in enumerate(known) if document is None]
        work = [[found[index] for index in members[at]] for at in new]
        for at, document in zip(new, _score_pools(work, profile, processes, read), strict=True):
            known[at] = _as_json(document)
            memory.put(pools[at], document)
        documents = [document for document in known if document is not None]
    return {
        "schema": SCHEMA,
        "a2perf_version": __version__,
        "rules": registry.RULES,
        "profile": profile,
        "groups": [group for document in documents for group in document["groups"]],
        "runs": sorted((run for document in documents for run in document["runs"]), key=lambda run: run["run"]),
        "problems": registry.problems(),
    }


def score_group(algorithm: str, runs: Sequence[Run], mode: str, profile: Profile) -> SeedGroup:
    """Scores runs that differ in their seeds, in one of their modes."""
    data = scored_runs(runs, mode)
    scores = {name: value for name, value in registry.score(data, profile).items() if _is_listed(value, mode)}
    by_task = application.per_task(data, profile) if mode == "generalization" else {}
    return SeedGroup(algorithm, mode, tuple(runs), data, scores, by_task, tuple(_conditions(runs, data, mode)))


def _conditions(runs: Sequence[Run], data: ScoredRuns, mode: str) -> list[str]:
    """Returns what a reader of the scores of these runs, seeds of one another, should know, in words."""
    conditions = [] if is_environment_known(runs[0].identity, runs[0].folder) else [UNKNOWN_ENVIRONMENT]
    known = [(run.identity.policy, run.identity.seed) for run in runs if run.identity.seed is not None]
    if len(set(known)) < len(known):
        conditions.append("two runs share a seed; they are not independent")
    if mode == "train" and len(data.curves) < len(runs):
        conditions.append(f"{len(runs) - len(data.curves)} of {len(runs)} run(s) hold no curve of returns")
    if mode == "inference" and (missing := sum(not run.returns.get(mode) for run in runs)):
        conditions.append(f"{missing} of {len(runs)} run(s) hold no episodes")
    if contradicting := sum(any(text.startswith(NOT_COUNTED) for text in run.conditions) for run in runs):
        conditions.append(f"{contradicting} of {len(runs)} run(s) contradict themselves and are not counted")
    if changed := sum(run.changed for run in runs) - contradicting:
        conditions.append(f"{changed} of {len(runs)} run(s) were changed after they ended; nothing here can be trusted")
    if unsound := sum(run.identity.state not in ("finished", "recorded") for run in runs):
        conditions.append(f"{unsound} of {len(runs)} run(s) did not finish; what they had measured is scored")
    noisy = [reasons for run in runs if (reasons := noise(run))]
    if noisy:
        share = "" if len(runs) == 1 else f" in {len(noisy)} of {len(runs)} runs"
        said = "; ".join(dict.fromkeys(itertools.chain.from_iterable(noisy)))
        conditions.append(f"Times and energies unreliable, noisy host{share}: {said}.")
    episodes = [episode for run in runs for of_task in run.episodes.values() for episode in of_task]
    if cut := sum(episode.truncated and episode.length == LONGEST_EPISODE for episode in episodes):
        conditions.append(f"{cut} of {len(episodes)} episodes were truncated after {LONGEST_EPISODE:,} steps")
    warnings = [text for run in runs if run.manifest is not None for text in run.manifest.warnings]
    conditions += dict.fromkeys(text for text in warnings if text.startswith("environment: "))
    return conditions


def score_modes(folder: RunFolder, run: Run, profile: Profile = "corrected") -> list[dict[str, Any]]:
    """Returns the groups of ``scores.json`` for a single run: one per mode that it holds."""
    groups: list[dict[str, Any]] = _as_json(_score_pool([folder], profile, lambda _: run)["groups"])
    return groups


def _as_json(document: Any) -> Any:
    """Returns a document as it comes out of the cache: lists for tuples, null for what JSON has no number for."""
    return msgspec.json.decode(msgspec.json.encode(document))


def _score_pools(
    work: Sequence[Sequence[RunFolder]], profile: Profile, processes: int, read: Callable[[RunFolder], Run] | None
) -> Iterator[dict[str, Any]]:
    """Yields the document of each pool in order, one pool in memory at a time in each process."""
    score = functools.partial(_score_pool, profile=profile, read=read)
    if processes < 2 or len(work) < 2 or sum(len(folders) for folders in work) < _RUNS_WORTH_A_PROCESS:
        yield from map(score, work)
        return
    score = functools.partial(_score_pool, profile=profile, read=None)
    with worker_pool(min(processes, len(work))) as executor:
        yield from executor.map(score, work, chunksize=max(1, len(work) // (8 * processes)))


def _score_pool(
    folders: Sequence[RunFolder], profile: Profile, read: Callable[[RunFolder], Run] | None
) -> dict[str, Any]:
    runs = [_read(folder, read) for folder in folders]
    groups = []
    for mode in MODES:
        members = [index for index, run in enumerate(runs) if mode in run.modes()]
        if members:
            groups.append(_entry([folders[i] for i in members], [runs[i] for i in members], mode, profile))
    return {
        "groups": groups,
        "runs": [
            {
                "run": folder.label,
                "layout": folder.layout,
                **asdict(run.identity),
                "curve": None if run.curve is None else run.curve.source,
                "conditions": run.conditions,
            }
            for folder, run in zip(folders, runs, strict=True)
        ],
    }


def _entry(folders: Sequence[RunFolder], runs: Sequence[Run], mode: str, profile: Profile) -> dict[str, Any]:
    identity = runs[0].identity
    group = score_group(identity.algorithm, runs, mode, profile)
    return {
        "domain": identity.domain,
        "task": identity.task,
        "algorithm": group.algorithm,
        "version": identity.version,
        "fingerprint": identity.fingerprint,
        "env_kwargs": identity.env_kwargs,
        "view": identity.view,
        "mode": mode,
        "protocol": protocol_of(folder.path for folder in folders),
        "runs": [folder.label for folder in folders],
        "seeds": group.seeds,
        "policies": group.policies,
        "episodes": group.episodes,
        "conditions": group.conditions,
        "tasks": {
            task: {name: msgspec.to_builtins(value) for name, value in sorted(values.items()) if value.n > 0}
            for task, values in sorted(group.tasks.items())
        },
        "scores": {name: msgspec.to_builtins(value) for name, value in sorted(group.scores.items())},
    }


def _is_listed(value: MetricValue, mode: str) -> bool:
    """Returns whether a metric is listed: it has a value, or it is a metric of that mode and states a reason."""
    if value.value is not None or value.n > 0 or (value.condition or "").startswith(("failed", "threshold")):
        return True
    across_rollouts = value.name.endswith("AcrossRollouts")
    across_runs = value.name[:1].isupper() and not across_rollouts
    return across_runs if mode == "train" else across_rollouts and mode == "inference"


def _read(folder: RunFolder, read: Callable[[RunFolder], Run] | None) -> Run:
    try:
        return (read or read_run)(folder)
    except (OSError, ValueError) as error:
        # a file that changed or vanished while it was read; the other runs are not to suffer
        return Run(identify(folder), conditions=[f"could not be read: {type(error).__name__}"])


def _fingerprint(run: RunFolder) -> str:
    try:
        record = submitted_of(run.path)
        return f"{fingerprint_of(run)} {'' if record is None else record.protocol}"
    except OSError:
        return ""


def _rules(profile: Profile) -> str:
    """Returns what changes when a score may change although its input did not."""
    here = Path(__file__).parent
    sources = sorted([*here.rglob("*.py"), *(here.parent / "runs").rglob("*.py")])
    stamps = [f"{path} {status.st_size} {status.st_mtime_ns}" for path in sources for status in [path.stat()]]
    return "\0".join([__version__, str(registry.RULES), str(SCHEMA), profile, *sorted(registry.all_metrics()), *stamps])


class _Memory:
    """What was computed before, by key; without a usable cache folder everything is computed again."""

    def __init__(self, used: bool) -> None:
        self._used = used
        self._database: sqlite3.Connection | None = None

    def __enter__(self) -> _Memory:
        if self._used:
            try:
                folder = assets.cache_dir()
                folder.mkdir(parents=True, exist_ok=True)
                self._database = sqlite3.connect(folder / "scores.sqlite", timeout=5.0)
                # Only a cache: what a crash loses is computed again.
                self._database.execute("PRAGMA synchronous=OFF")
                self._database.execute("CREATE TABLE IF NOT EXISTS scores (key TEXT PRIMARY KEY, value BLOB)")
            except (OSError, sqlite3.Error):
                self._database = None
        return self

    def __exit__(self, *_: object) -> None:
        if self._database is not None:
            with contextlib.suppress(sqlite3.Error):
                self._database.execute(
                    "DELETE FROM scores WHERE rowid <= (SELECT MAX(rowid) FROM scores) - ?", (_MOST_REMEMBERED,)
                )
                self._database.commit()
            self._database.close()

    def identity(self, key: str, run: RunFolder, identify_run: Callable[[RunFolder], RunIdentity]) -> RunIdentity:
        """Returns what a run is a run of, read from its files when it is not known yet."""
        known = self.get(f"run {key}")
        if known is not None:
            return RunIdentity(**known)
        identity = identify_run(run)
        self.put(f"run {key}", asdict(identity))
        return identity

    def get(self, key: str) -> Any:
        if self._database is None:
            return None
        try:
            row = self._database.execute("SELECT value FROM scores WHERE key = ?", (key,)).fetchone()
            return None if row is None else msgspec.json.decode(row[0])
        except (sqlite3.Error, msgspec.DecodeError):
            return None

    def put(self, key: str, value: Any) -> None:
        if self._database is not None:
            with contextlib.suppress(sqlite3.Error):
                self._database.execute("INSERT OR REPLACE INTO scores VALUES (?, ?)", (key, msgspec.json.encode(value)))
