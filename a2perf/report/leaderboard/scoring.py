"""Scores the runs of an entry: every metric of the registry, and the score that entries are ordered by.

The score is the interquartile mean over runs of the mean episode return, normalised with the protocol's stored
references: 0 is its floor, 1 its expert (Agarwal et al. 2021, "Deep RL at the Edge of the Statistical
Precipice"). Runs are read one entry at a time and dropped as soon as it is scored.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import msgspec
import numpy as np

from a2perf.metrics import registry
from a2perf.metrics.application import returns
from a2perf.metrics.bootstrap import bootstrap
from a2perf.metrics.definition import provenance_over_runs
from a2perf.metrics.protocol import ScoredTask, scored_task
from a2perf.metrics.runs_in_mode import scored_runs
from a2perf.metrics.system import energy_gross
from a2perf.metrics.values import Lead, MetricValue, not_enough
from a2perf.records import Record, SubmissionInfo
from a2perf.report.leaderboard.entries import EntryKey, EntryRuns, RecordingFacts, RunLine
from a2perf.report.names import plain
from a2perf.runs.bundles.layout import MODES
from a2perf.runs.reading import read_run
from a2perf.runs.run import Run, RunFolder, noise

REPETITIONS = 10_000
NOT_RECORDED = "not recorded"
BUILDS = "code of its packages ran while they were built (python_env = 'built'), which no cost counts"
_LARGEST = 1e100  # beyond, sums over runs overflow


Contestant: TypeAlias = tuple[str, str, str]
"""Name of a submission, hash of its files, and what it observed: a submission may enter a task in several views."""
References: TypeAlias = Callable[[EntryKey], ScoredTask | None]
"""Looks up the references of an entry's task; None for a task or an environment that the protocol does not know."""


def stored_references(key: EntryKey) -> ScoredTask | None:
    """Returns the references of the entry's task in its protocol, or in the newest one for runs under no protocol."""
    return scored_task(key.task, key.fingerprint, key.terms.protocol)


class Score(Record, kw_only=True):
    """The score that entries are ordered by; ``condition`` is the reason if there is none.

    Attributes:
        value: interquartile mean over runs.
        low: lower end of its 95 % interval; None with one run.
        normalised: whether 0 is the floor and 1 the expert; else the unit is that of the reward.
    """

    value: float | None = None
    low: float | None = None
    high: float | None = None
    per_run: list[float] = msgspec.field(default_factory=list)
    n: int = 0
    normalised: bool = False
    condition: str | None = None


class Entry(Record, kw_only=True):
    """A submission on a task, scored.

    Attributes:
        env_kwargs: arguments of the evaluation environment, as JSON, without those of the view.
        view: what the submission observed, ``"text"``; ``""`` for the default of the domain.
        on_noisy_hosts: modes with a run on a noisy host; their costs have no rank.
        provenance: of its energy: ``"measured"``, ``"estimated"``, ``"mixed"`` or ``"not recorded"``.
    """

    name: str
    version: str
    domain: str
    task: str
    env_id: str
    fingerprint: str
    env_kwargs: str
    protocol: str
    track: str
    provenance: str
    reference: str
    rules: int
    score: Score
    scores: dict[str, dict[str, MetricValue]]
    runs: list[RunLine]
    not_ranked: list[str]
    notes: list[str]
    view: str = ""
    info: SubmissionInfo = msgspec.field(default_factory=SubmissionInfo)
    recording: RecordingFacts = msgspec.field(default_factory=RecordingFacts)
    with_models: list[str] = msgspec.field(default_factory=list)
    on_noisy_hosts: list[str] = msgspec.field(default_factory=list)

    @property
    def contestant(self) -> Contestant:
        """What has one row in a table."""
        return self.name, self.version, self.view

    def had_a_model(self, mode: str) -> bool:
        """Returns whether its runs could call a language model; their energy is that of the submission alone."""
        return mode in self.with_models

    def value(self, mode: str, metric: str) -> MetricValue | None:
        """Returns a metric's value, None where the entry has none."""
        return self.scores.get(mode, {}).get(metric)


def score_entry(entry: EntryRuns, reference: ScoredTask | None) -> Entry:
    """Reads an entry's runs and scores those that finished and are unchanged."""
    notes: list[str] = []
    scores: dict[str, dict[str, MetricValue]] = {}
    with_models: list[str] = []
    on_noisy_hosts: list[str] = []
    builds = False
    for mode in MODES:
        members = [(f, line) for f, line in zip(entry.folders, entry.lines, strict=True) if line.mode == mode]
        read = [read_member(folder, line) for folder, line in members if line.counts()]
        runs = [run for run in read if run is not None]
        if any(run.manifest is not None and run.manifest.models for run in runs):
            with_models.append(mode)
        environments = [run.manifest.python_env for run in runs if run.manifest is not None]
        builds = builds or any(env is not None and env.builds for env in environments)
        if any(noise(run) for run in runs):
            on_noisy_hosts.append(mode)
        if runs:
            threshold = None if reference is None else reference.task.threshold_return()
            found = registry.score(scored_runs(runs, mode, threshold=threshold))
            # of training it lists why there is no value, such as a threshold that was never reached
            first = [metric.name for metric in registry.leading(Lead.COLUMN, mode)] if mode == "train" else []
            scores[mode] = {name: value for name, value in found.items() if value.value is not None or name in first}
    if reference is None:
        notes.append("no stored references for this task: the score is the return itself")
    score = _score(scores, reference)
    kinds = [value.provenance for mode in scores.values() if (value := mode.get(energy_gross.name)) is not None]
    return Entry(
        name=entry.key.name,
        version=entry.key.version,
        domain=entry.key.domain,
        task=entry.key.task,
        env_id=entry.key.env_id,
        fingerprint=entry.key.fingerprint,
        env_kwargs=plain(" | ".join(sorted(entry.env_kwargs))),
        protocol=entry.key.terms.protocol,
        track=entry.key.terms.track,
        provenance=provenance_over_runs(kinds) if kinds else NOT_RECORDED,
        reference="" if reference is None else reference.protocol,
        rules=registry.RULES,
        view=entry.key.view,
        score=score,
        scores=scores,
        runs=entry.lines,
        not_ranked=_reasons(entry, score, reference) + [BUILDS] * builds,
        notes=notes,
        info=entry.info,
        recording=entry.recording,
        with_models=with_models,
        on_noisy_hosts=on_noisy_hosts,
    )


def read_member(folder: RunFolder, line: RunLine) -> Run | None:
    """Reads a run; returns None if it vanished or changed, without affecting the others."""
    try:
        run = read_run(folder)
    except (OSError, ValueError) as error:
        line.state = "unreadable"
        line.conditions.append(f"could not be read: {type(error).__name__}")
        return None
    line.conditions += [plain(condition) for condition in run.conditions]
    return run


def _score(scores: dict[str, dict[str, MetricValue]], reference: ScoredTask | None) -> Score:
    plain = scores.get("inference", {}).get(returns.name)
    if plain is None:
        return Score(condition="no episode of a finished evaluation", normalised=reference is not None)
    per_run = np.array([value for value in plain.per_run if value is not None], np.float64)
    if reference is not None:
        per_run = reference.task.normalise(per_run)
    if not (np.abs(per_run) < _LARGEST).all():
        return Score(condition="a run's return is not a finite number", normalised=reference is not None)
    estimate = bootstrap(per_run, repetitions=REPETITIONS, method="small")
    return Score(
        value=float(np.asarray(estimate.value)),
        low=estimate.low,
        high=estimate.high,
        per_run=per_run.tolist(),
        n=int(per_run.size),
        normalised=reference is not None,
    )


def _reasons(entry: EntryRuns, score: Score, reference: ScoredTask | None) -> list[str]:
    """Returns why an entry has no rank.

    One failed or changed run is enough: otherwise a participant could drop bad runs.
    """
    reasons = []
    count = len(entry.lines)
    invalid = [line for line in entry.lines if line.invalid()]
    unfinished = [line for line in entry.lines if not line.invalid() and not line.counts()]
    if invalid:
        reasons.append(f"{len(invalid)} of {count} runs invalid: {invalid[0].run}: {invalid[0].invalid()}")
    if unfinished:
        first = unfinished[0]
        reasons.append(f"{len(unfinished)} of {count} runs not finished: {first.run}: {first.failure or first.state}")
    if score.value is None:
        reasons.append(score.condition or not_enough(0, 1))
    reasons += entry.key.terms.against
    if len(entry.env_kwargs) > 1:
        reasons.append("its runs were evaluated with different arguments of the environment")
    seeds = [line.seed for line in entry.lines if line.mode == "inference"]
    if len(set(seeds)) < len(seeds):
        reasons.append("two evaluations share a seed")
    if not reasons and entry.key.terms.protocol and reference is not None:
        asked = len(reference.task.training_seeds)
        missing = asked - len(set(seeds))
        if missing > 0:
            reasons.append(f"{missing} of the protocol's {asked} seeds missing")
    return reasons
