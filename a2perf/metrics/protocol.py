"""Protocols: what a comparable result is made of, frozen task by task, and the reference scores that normalise it.

A protocol is a file beside this module (``protocols/v2.json``): per task the environment with its fingerprint, training
budgets and seeds, evaluation, timing, thresholds, and measured scores of trivial policies and of an expert. A published
file never changes; what has to differ becomes the next version. ``A2PERF_PROTOCOLS`` names further files, such as those
of `a2perf references`; they never replace a file of this package or its references.

A normalised score is on the ``ReferenceScale`` of the stored means: 0 is the floor, 1 the expert. The floor is the
best policy that ignores what it observes; under v1 it is the random policy.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

import msgspec
import numpy as np
from numpy.typing import ArrayLike

from a2perf.arrays import Values
from a2perf.errors import ConfigError, MissingDependency, UserError, did_you_mean
from a2perf.metrics.bootstrap import is_constant, mean_interval
from a2perf.metrics.values import MetricValue
from a2perf.plain_text import plain_text

if TYPE_CHECKING:
    from a2perf.domains.registry import Domain, Task

LATEST = "v2"
VARIABLE = "A2PERF_PROTOCOLS"
Kind: TypeAlias = Literal["random", "floor", "expert"]
Track: TypeAlias = Literal["fixed_samples", "fixed_energy", "open"]
TRACKS: tuple[Track, ...] = ("fixed_samples", "fixed_energy", "open")


@dataclass(frozen=True)
class ReferenceScale:
    """The scale that puts scores of different tasks side by side: 0 is a floor, 1 an expert.

    The floor is a trivial policy. The scale uses stored scores of the two policies, never the runs under comparison
    (Mnih et al. 2015, "Human-level control through deep reinforcement learning", with an expert policy in the human's
    place). Beyond 1 is better than the expert.
    """

    floor: float
    expert: float
    source: str = ""

    def normalise(self, returns: ArrayLike) -> Values:
        """Returns ``(returns - floor) / (expert - floor)``, shaped like ``returns``."""
        return (np.asarray(returns, dtype=np.float64) - self.floor) / (self.expert - self.floor)

    def return_at(self, score: ArrayLike) -> Values:
        """Returns the returns at normalised scores, shaped like ``score``."""
        return self.floor + np.asarray(score, dtype=np.float64) * (self.expert - self.floor)


class Reference(msgspec.Struct, kw_only=True, frozen=True):
    """A measured score.

    Attributes:
        low: lower end of the 95 % interval of the mean return; equals ``mean`` where the score is exact.
        spread: standard deviation of the ``n`` values (ddof 1); 0 for one value.
        of: what one value is, ``"episodes"`` or ``"seeds"`` (means over the episodes of one trained policy).
        exact: the policy is the best of all, by complete enumeration; the interval is then a point.
        command: command that measures it again.
        seeds: root seeds of the episodes or of the training runs.
    """

    mean: float
    low: float
    high: float
    spread: float
    n: int
    of: str
    exact: bool = False
    policy: str
    command: str
    seeds: list[int]


class Trivial(msgspec.Struct, array_like=True, frozen=True):
    """The measured score of a trivial policy; fields as in ``Reference``, ``n`` counts episodes."""

    mean: float
    low: float
    high: float
    n: int


class Budget(msgspec.Struct, kw_only=True, frozen=True):
    """Budget of a training run: environment steps, or energy of the participant's processes above idle."""

    steps: int
    energy_kwh: float
    reason: str


class Evaluation(msgspec.Struct, kw_only=True, frozen=True):
    """How a trained policy is evaluated.

    Attributes:
        episodes: scored episodes per training seed.
        seeds: the rule that gives their seeds.
        seeds_sha256: over the seeds of all training seeds in order, one decimal number per line; detects a changed
            rule.
        warmup_calls: calls of ``infer_once`` before the timed ones.
        timed_calls: calls that earlier versions timed before the scored steps; see ``Episodes.num_inference_steps``.
    """

    episodes: int
    seeds: str
    seeds_sha256: str
    warmup_calls: int
    timed_calls: int


class ProtocolTask(msgspec.Struct, kw_only=True, frozen=True):
    """One task of a protocol.

    Attributes:
        name: the task's name in its domain, as ``Domain.tasks`` has it.
        train_kwargs: arguments of the environment that are different while training.
        fingerprint: of the id; results of other behaviour are not results of this protocol.
        core: whether it counts in the overall score; the other tasks need no download and are for tests.
        training_seeds: root seeds; each has one training run and one evaluation.
        thresholds: normalised scores for energy and time to threshold; the first is the default.
        references: ``"random"``, ``"floor"`` (a copy of the best of ``trivial``, with its name as ``policy``; missing
            in v1) and ``"expert"``.
        trivial: the best trivial policies that were measured, by name, with zero action and random.
    """

    name: str
    domain: str
    env_id: str
    env_kwargs: dict[str, Any]
    train_kwargs: dict[str, Any]
    fingerprint: str
    core: bool
    training_seeds: list[int]
    budget: Budget
    evaluation: Evaluation
    thresholds: list[float]
    references: dict[str, Reference]
    trivial: dict[str, Trivial] = msgspec.field(default_factory=dict)

    def reference(self, kind: Kind) -> Reference:
        """Returns a stored score; raises ``UserError`` if this task has none."""
        if kind not in self.references:
            raise UserError(
                f"the task {self.name} has no stored score of the {kind} policy", hint="compare its plain returns"
            )
        return self.references[kind]

    def has_references(self) -> bool:
        """Returns whether its returns can be normalised."""
        return {"random", "expert"} <= set(self.references)

    def scale(self) -> ReferenceScale:
        """Returns the scale that its stored scores span; raises what ``reference`` raises."""
        floor = self.reference("floor" if "floor" in self.references else "random")
        return ReferenceScale(floor.mean, self.reference("expert").mean)

    @property
    def floor(self) -> str:
        """What has the score 0, in words."""
        floor = self.references.get("floor")
        return "random policy" if floor is None else f"best trivial policy ({floor.policy})"

    def normalise(self, returns: ArrayLike) -> Values:
        """Returns the normalised scores of returns, shaped like them; raises what ``scale`` raises."""
        return self.scale().normalise(returns)

    def threshold_return(self, level: float | None = None) -> float:
        """Returns the return at a normalised score, by default at the task's first threshold."""
        return float(self.scale().return_at(self.thresholds[0] if level is None else level))


class Generalization(msgspec.Struct, kw_only=True, frozen=True):
    """The generalization of one domain: policies trained on one task are evaluated on all of these.

    ``episodes`` counts those per task and seed.
    """

    trained_on: str
    tasks: list[str]
    episodes: int


class Quick(msgspec.Struct, kw_only=True, frozen=True):
    """The reduced protocol of ``--quick`` with its maxima per seed; its results are marked as not rankable."""

    seeds: int
    episodes: int
    timed_calls: int
    warmup_calls: int
    train_time_limit_s: float


class Protocol(msgspec.Struct, kw_only=True, frozen=True):
    """One version of the protocol; ``tracks`` describes what each track limits and how that is checked."""

    schema: int
    name: str
    summary: str
    tracks: dict[str, str]
    quick: Quick
    tasks: dict[str, ProtocolTask]
    generalization: dict[str, Generalization]
    signature: dict[str, str] | None = None  # the fields of a KeySignature of signed_bytes(file)

    def task(self, name: str) -> ProtocolTask:
        """Returns the task of that name, or of a view of one with its name and arguments; else ``UserError``."""
        if name in self.tasks:
            return self.tasks[name]
        views = self._views()
        if name not in views:
            raise UserError(
                f"protocol {self.name} has no task {name!r}{did_you_mean(name, (*self.tasks, *views))}",
                hint=f"choose one of: {', '.join((*self.tasks, *views))}",
            )
        domain, view = views[name]
        shown = self.tasks[view.view_of]
        env_kwargs = {**shown.env_kwargs, **domain.view_arguments(view.kwargs)}
        return msgspec.structs.replace(shown, name=name, env_kwargs=env_kwargs)

    def ranked_task(self, name: str) -> str:
        """Returns the task of the protocol that results of a task or of a view of one are ranked on."""
        views = self._views()
        return views[name][1].view_of if name in views else name

    def views_of(self, name: str) -> list[str]:
        """Returns the names under which a submission may see a task of the protocol in another form."""
        return [view.name for _, view in self._views().values() if view.view_of == name]

    def _views(self) -> dict[str, tuple[Domain, Task]]:
        """Returns the views of its tasks that the installed domains have, by name, in the order of the tasks."""
        from a2perf.domains.registry import domains  # reading results loads no domain

        known = domains()
        return {
            view.name: (known[task.domain], view)
            for task in self.tasks.values()
            if task.domain in known
            for view in known[task.domain].views_of(task.name)
            if view.name not in self.tasks
        }

    def task_of(self, name: str, fingerprint: str) -> ProtocolTask | None:
        """Returns the task that a recorded run is a run of; None where name or behaviour is another."""
        task = self.tasks.get(name)
        return task if task is not None and task.fingerprint == fingerprint else None

    def core_tasks(self) -> list[ProtocolTask]:
        """Returns the tasks of the overall score."""
        return [task for task in self.tasks.values() if task.core]


class NormalisedReturn(NamedTuple):
    """The mean return of a group on the scale of its task: 0 is the floor and 1 the expert.

    ``interval`` is over runs, None with one run; ``scale`` is the scale in words.
    """

    value: float
    interval: tuple[float, float] | None
    scale: str


class ScoredTask(NamedTuple):
    """A task with reference scores and the name of its protocol."""

    protocol: str
    task: ProtocolTask

    @property
    def scale(self) -> str:
        """The scale in words."""
        text = f"0 {self.task.floor.removesuffix(' policy')}, 1 expert; protocol {self.protocol}"
        if self.protocol in _packaged():
            return text
        # Anybody can write such a file, or remove its signature: it is the reader who has to know which one it is.
        floor, expert = (self.task.reference(kind) for kind in ("floor", "expert"))
        signed = "not signed" if load(self.protocol).signature is None else "signed"
        numbers = f"{floor.mean:.6g} and {expert.mean:.6g} of {plain_text(expert.policy)[:80]}"
        return f"{text} ({numbers}, file {sha256(self.protocol)[:8]}, {signed})"

    def normalised(self, returns: MetricValue | None) -> NormalisedReturn | None:
        """Returns the mean return of runs on the scale of the task; None without a finite one."""
        if returns is None or returns.value is None or not np.isfinite(returns.value):
            return None
        interval = None
        if returns.interval is not None:
            low, high = self.task.normalise(returns.interval).tolist()
            values = np.array([value for value in returns.per_run if value is not None])
            # an unseen run differs from equal ones by a success on this scale, not by the size of a return
            equal = values.size > 1 and is_constant(values)
            interval = mean_interval(np.round(self.task.normalise(values), 12)) if equal else (low, high)
        return NormalisedReturn(float(self.task.normalise(returns.value)), interval, self.scale)


def scored_task(name: str, fingerprint: str, protocol: str = "") -> ScoredTask | None:
    """Returns the task with the references that normalise the returns of a run; None without references.

    ``protocol`` is the one that the run was recorded under; ``""`` takes the newest that knows the task.
    """
    for candidate in [protocol] if protocol else versions():
        task = load(candidate).task_of(name, fingerprint) if candidate in names() else None
        if task is not None and task.has_references():
            return ScoredTask(candidate, task)
    return None


def protocol_task(name: str, env_id: str) -> ProtocolTask | None:
    """Returns the task of that name and environment in the newest protocol that has it; None if none has it."""
    found = (load(candidate).tasks.get(name) for candidate in versions())
    return next((task for task in found if task is not None and task.env_id.rpartition(":")[2] == env_id), None)


def over_tasks(score: MetricValue | None) -> NormalisedReturn | None:
    """Returns the score over the tasks of a generalization run; None without one."""
    if score is None or score.value is None:
        return None
    return NormalisedReturn(score.value, score.interval, "0 floor, 1 expert of each task; mean over tasks")


def fingerprint_of(tasks: Mapping[str, str | None]) -> str | None:
    """Returns one fingerprint for several tasks, from that of each by name; None if one of them is unknown."""
    if not tasks or None in tasks.values():
        return None
    return hashlib.sha256(repr(sorted(tasks.items())).encode()).hexdigest()


def scored_tasks(played: Iterable[str], fingerprint: str, protocol: str = "") -> dict[str, ScoredTask]:
    """Returns the tasks of a generalization run with their references; empty if one has none, or acts differently.

    Args:
        fingerprint: ``fingerprint_of`` these tasks when they were played.
        protocol: the one that the run was recorded under; ``""`` takes the newest that knows the tasks.
    """
    for candidate in [protocol] if protocol else versions():
        known = load(candidate).tasks if candidate in names() else {}
        tasks = {name: known[name] for name in played if name in known and known[name].has_references()}
        if fingerprint and fingerprint == fingerprint_of({name: task.fingerprint for name, task in tasks.items()}):
            return {name: ScoredTask(candidate, task) for name, task in tasks.items()}
    return {}


def names() -> list[str]:
    """Returns the protocols that there are: those that ``A2PERF_PROTOCOLS`` names, then those of the package."""
    return [*sorted(_named()), *_packaged()]


def versions() -> list[str]:
    """Returns the whole protocols, the newest first; a small one has the references of its whole one."""
    return [name for name in reversed(names()) if not name.endswith("-small")]


def content(name: str = LATEST) -> bytes:
    """Returns a protocol's file; raises ``UserError`` if there is none or it cannot be read."""
    if name in _packaged():
        return _packaged()[name]
    if (path := _named().get(name)) is None:
        near = did_you_mean(name, names())
        raise UserError(f"{name!r} is not a protocol{near}", hint=f"there are: {', '.join(names())}")
    try:
        return path.read_bytes()
    except OSError as error:
        raise ConfigError(f"{VARIABLE}: {path} cannot be read: {error.strerror}", hint="correct it") from error


def sha256(name: str = LATEST) -> str:
    """Returns the hash of a protocol's file, which every submission under it records; raises as ``content``."""
    return hashlib.sha256(content(name)).hexdigest()


def load(name: str = LATEST) -> Protocol:
    """Returns a protocol; raises ``UserError`` if there is none, it is not valid, or its signature does not fit."""
    return _parsed(name, content(name))


def signed_bytes(data: bytes) -> bytes:
    """Returns what the signature of a protocol's file covers: its canonical JSON without the signature."""
    document = {**json.loads(data), "signature": None}
    return b"a2perf protocol 1\0" + json.dumps(document, sort_keys=True, separators=(",", ":")).encode()


@functools.cache
def _parsed(name: str, data: bytes) -> Protocol:
    from a2perf.runs.signing import KeySignature

    try:
        found = msgspec.json.decode(data, type=Protocol)
        if found.signature is not None and not KeySignature(**found.signature).fits(signed_bytes(data)):
            raise ValueError("its signature does not fit")
    except MissingDependency:  # which checks signatures
        return found
    except (ValueError, TypeError) as error:
        raise ConfigError(f"the protocol {name} is not valid: {error}", hint="get its file again") from error
    return found


def _named() -> dict[str, Path]:
    found: dict[str, Path] = {}
    for path in map(Path, filter(None, os.environ.get(VARIABLE, "").split(os.pathsep))):
        if path.stem in found and path.absolute() != found[path.stem].absolute():
            message = f"{VARIABLE} names two protocols {path.stem}: {found[path.stem]} and {path}"
            raise ConfigError(message, hint="rename one of the files")
        found[path.stem] = path
    return {name: path for name, path in found.items() if name not in _packaged()}


@functools.cache
def _packaged() -> dict[str, bytes]:
    files = (resources.files("a2perf.metrics") / "protocols").iterdir()
    return dict(sorted((file.name[:-5], file.read_bytes()) for file in files if file.name.endswith(".json")))
