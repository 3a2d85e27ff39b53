"""What ``@pytest.mark.a2perf`` means: its arguments, the runs per seed, and the verdict.

The verdict is that of performance tests (``a2perf/experiments/performance_test/condition.py``): k of n seeds must reach
a threshold, and no seed runs after the verdict is certain.
"""

from __future__ import annotations

import inspect
import math
import re
import textwrap
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from a2perf.errors import ConfigError, RunFailed, UserError, did_you_mean
from a2perf.experiments.performance_test.condition import Direction, PassCondition, PerformanceVerdict
from a2perf.plain_text import terminal_text

if TYPE_CHECKING:
    from a2perf.api.results import Result

RETURNS = "returns"
_VALUE = "value"  # judged if there is no task
_WIDTH = 78
_DIRECTIONS: tuple[Direction, ...] = (">=", "<=")


@dataclass(frozen=True)
class PerformanceMark:
    """The checked arguments of a mark.

    Attributes:
        task: name of the task that returned policies are evaluated on; empty for a function that returns numbers.
        condition: threshold, direction and number of seeds.
        seeds: one run per seed, in this order.
        episodes: episodes per run; None for the default of the task.
        options: further keywords of ``a2perf.evaluate``.
    """

    task: str
    condition: PassCondition
    seeds: tuple[int, ...]
    episodes: int | None = None
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def metric(self) -> str:
        """Name of the judged metric."""
        return self.condition.columns[0]


@dataclass(frozen=True)
class SeedValue:
    """The run of one seed.

    Attributes:
        seed: its seed.
        value: the judged number; None for a run that failed.
        met: whether it reached the threshold.
        wall_s: wall time of the function and the evaluation.
        energy: energy of the evaluation as text; empty if unknown.
        energy_kwh: the same as a number.
        bundle: folder of the record; None if the function returned numbers.
        failure: why there is no value; empty otherwise.
    """

    seed: int
    value: float | None
    met: bool
    wall_s: float
    energy: str = ""
    energy_kwh: float | None = None
    bundle: Path | None = None
    failure: str = ""


@dataclass(frozen=True)
class MarkedOutcome:
    """The outcome of a performance test."""

    mark: PerformanceMark
    values: tuple[SeedValue, ...]

    @property
    def met(self) -> int:
        """Number of seeds that reached the threshold."""
        return sum(value.met for value in self.values)

    @property
    def passed(self) -> bool:
        """Whether enough seeds reached the threshold."""
        return self.met >= self.mark.condition.succ_runs

    def sentence(self) -> str:
        """Returns the verdict in one sentence."""
        condition, ran = self.mark.condition, len(self.values)
        bound = f"{self.mark.metric} {condition.direction} {condition.values[0]:g}"
        place = f" on {self.mark.task}" if self.mark.task else ""
        seeds = "seed" if ran == 1 else "seeds"
        of = "" if ran == condition.total_runs else f" ({condition.total_runs - ran} not run, the verdict was certain)"
        required = f"{condition.succ_runs} of {condition.total_runs} required"
        return f"{self.met} of {ran} {seeds} reached {bound}{place}{of}; {required}"

    def text(self) -> str:
        """Returns the verdict and a table with one row per seed."""
        condition = self.mark.condition
        rows = [("seed", self.mark.metric, "verdict", "time", "energy", "bundle")]
        for value in self.values:
            shown = "failed" if value.failure else "reached" if value.met else "missed"
            number = "–" if value.value is None else _number(value.value)
            bundle = "" if value.bundle is None else str(value.bundle)
            rows.append((str(value.seed), number, shown, _seconds(value.wall_s), value.energy, bundle))
        rows += [(str(seed), "–", "not run", "", "", "") for seed in self.mark.seeds[len(self.values) :]]
        used = [at for at in range(len(rows[0])) if any(row[at] for row in rows[1:])]
        widths = {at: max(len(row[at]) for row in rows) for at in used}
        lines = ["  ".join(row[at].ljust(widths[at]) for at in used).rstrip() for row in rows]
        power = textwrap.wrap(condition.hint(), _WIDTH) if condition.total_runs > 1 else []
        return "\n".join([f"{'passed' if self.passed else 'failed'}: {self.sentence()}", *lines, *power])

    def logs(self) -> list[str]:
        """Returns why runs failed, with the last lines of their logs."""
        return [f"seed {value.seed}: {value.failure}" for value in self.values if value.failure]

    def properties(self) -> list[tuple[str, str]]:
        """Returns name and text of each property for JUnit files."""
        condition = self.mark.condition
        bound = f"{self.mark.metric} {condition.direction} {condition.values[0]:g}"
        found = [
            ("a2perf_condition", f"{bound} in {condition.succ_runs} of {condition.total_runs} seeds"),
            ("a2perf_verdict", "passed" if self.passed else "failed"),
        ]
        if self.mark.task:
            found.insert(0, ("a2perf_task", self.mark.task))
        for value in self.values:
            number = "failed" if value.value is None else f"{value.value!r}"
            found.append((f"a2perf_value_seed_{value.seed}", number))
            if value.energy_kwh is not None:
                found.append((f"a2perf_energy_kwh_seed_{value.seed}", f"{value.energy_kwh!r}"))
            if value.bundle is not None:
                found.append((f"a2perf_bundle_seed_{value.seed}", str(value.bundle)))
        return found


def performance(
    task: str = "",
    *,
    reaches: float,
    seeds: int | Sequence[int] = 1,
    passing: int | None = None,
    episodes: int | None = None,
    metric: str = RETURNS,
    direction: Direction | None = None,
    options: Mapping[str, Any] | None = None,
) -> PerformanceMark:
    """Checks the arguments of the mark.

    Args:
        task: task of returned policies, or empty for a function that returns numbers.
        reaches: the threshold.
        seeds: number of seeds from 0, or the seeds.
        passing: number of seeds that must reach the threshold; by default all.
        episodes: episodes per seed; by default those of the task.
        metric: ``"returns"`` (mean return of the episodes) or a key of ``a2perf score --all --json``.
        direction: ``">="`` or ``"<="``; by default the better direction of the metric.
        options: further keywords of ``a2perf.evaluate``, such as ``{"sandbox": "process"}``.

    Raises:
        ConfigError: an argument is not valid.
    """
    if isinstance(task, str) and task:
        from a2perf.api.environments import find_task

        task = find_task(task).name
    elif task:
        raise ConfigError(f"task = {task!r} is not a name", hint='task="dog_pace", see `a2perf envs`')
    every = tuple(range(seeds)) if isinstance(seeds, int) else tuple(seeds)
    if not every or len(set(every)) < len(every) or not all(isinstance(seed, int) for seed in every):
        raise ConfigError(f"seeds = {seeds!r} is not a list of different seeds", hint="seeds=3 or seeds=[0, 1, 2]")
    if isinstance(reaches, bool) or not isinstance(reaches, int | float):
        raise ConfigError(f"reaches = {reaches!r} is not a number", hint="reaches=50.0")
    if episodes is not None and (not isinstance(episodes, int) or episodes < 1):
        raise ConfigError(f"episodes = {episodes!r} leaves no episode", hint="episodes=10")
    if passing is not None and (not isinstance(passing, int) or not 1 <= passing <= len(every)):
        raise ConfigError(
            f"passing = {passing!r} of {len(every)} seeds can never be met", hint=f"give 1 to {len(every)}"
        )
    if not task and metric == RETURNS:
        metric = _VALUE
    condition = PassCondition(
        total_runs=len(every), succ_runs=len(every) if passing is None else passing, columns=(metric,),
        values=(float(reaches),), direction=_direction(metric, direction, has_task=bool(task)),
    )  # fmt: skip
    return PerformanceMark(task, condition, every, episodes, dict(options or {}))


def read_mark(args: Sequence[Any], keywords: Mapping[str, Any], *, seeds: int | None = None) -> PerformanceMark:
    """Returns the checked arguments of a mark.

    Args:
        args: its positional arguments.
        keywords: its keyword arguments.
        seeds: replaces the seeds by 0, ..., ``seeds`` - 1; the required share of passing seeds stays.

    Raises:
        ConfigError: an argument is unknown, missing or not valid.
    """
    known = inspect.signature(performance).parameters
    for name in keywords:
        if name not in known:
            near = did_you_mean(name, known)
            raise ConfigError(f"the mark a2perf has no argument {name!r}{near}", hint=f"use {', '.join(known)}")
    if "reaches" not in keywords or len(args) > 1:
        raise ConfigError(
            "the mark a2perf needs the threshold `reaches`",
            hint='@pytest.mark.a2perf(task="dog_pace", reaches=50.0, seeds=3)',
        )
    mark = performance(*args, **keywords)
    if seeds is None:
        return mark
    share = mark.condition.succ_runs / mark.condition.total_runs
    return performance(*args, **{**keywords, "seeds": seeds, "passing": max(1, math.ceil(share * seeds - 1e-9))})


def run_seeds(mark: PerformanceMark, call: Callable[[int], object], name: str, root: Path) -> MarkedOutcome:
    """Calls a test function once per seed and judges what it returns.

    Args:
        mark: the arguments of the mark.
        call: the test function. ``RunFailed`` counts as a missed seed; other exceptions pass unchanged.
        name: of the test, for the record.
        root: folder for the bundles.

    Raises:
        UserError: the function returned neither a policy nor numbers, or the policy cannot be used.
    """
    values: list[SeedValue] = []
    for seed in mark.seeds:
        began = time.perf_counter()
        try:
            values.append(_judged(mark, call(seed), seed, name, root, began))
        except RunFailed as error:
            took = time.perf_counter() - began
            failure = _with_log(error)
            values.append(SeedValue(seed, None, False, took, bundle=error.bundle, failure=failure))
        met = sum(value.met for value in values)
        if mark.condition.verdict(met, len(values) - met) is not PerformanceVerdict.OPEN:
            break
    return MarkedOutcome(mark, tuple(values))


def folder_name(nodeid: str) -> str:
    """Returns the id of a test as the name of a folder."""
    return re.sub(r"[^A-Za-z0-9_.=-]+", "-", nodeid).strip("-.")[-120:] or "test"


def _judged(mark: PerformanceMark, returned: object, seed: int, name: str, root: Path, began: float) -> SeedValue:
    numbers = _numbers(returned)
    if numbers is not None:
        value, result = numbers, None
    else:
        result = _result(mark, returned, seed, name, root)
        value = _value_of(result, mark.metric)
    energy = None if result is None else result.energy
    return SeedValue(
        seed,
        value,
        mark.condition.is_met([value]),
        time.perf_counter() - began,
        energy="" if energy is None or energy.value is None else _quantity(energy),
        energy_kwh=None if energy is None else energy.value,
        bundle=None if result is None else result.bundle,
    )


def _result(mark: PerformanceMark, returned: object, seed: int, name: str, root: Path) -> Result:
    from a2perf.api.results import Result

    if isinstance(returned, Result):
        return returned
    if returned is None:
        raise UserError("the test function returned None", hint="return a policy, a folder, a result or numbers")
    if not mark.task:
        raise UserError(
            f"the test function returned a {type(returned).__name__}, but the mark names no task",
            hint="add task=..., or return numbers",
        )
    from a2perf.api.evaluation import evaluate

    return evaluate(
        returned, mark.task, episodes=mark.episodes, seed=seed, name=folder_name(name), progress=False,
        root_dir=root / f"seed_{seed}", **cast("Any", mark.options),
    )  # fmt: skip


def _value_of(result: Result, metric: str) -> float:
    if metric in (RETURNS, _VALUE):
        return float(np.mean(result.returns)) if len(result.returns) else math.nan
    value = result.scores[metric].value if metric in result.scores else None
    return math.nan if value is None else float(value)


def _numbers(returned: object) -> float | None:
    """Returns the number, or the mean of several; None for anything else."""
    if isinstance(returned, bool | str | bytes | Path):
        return None
    if isinstance(returned, int | float | np.number):
        return float(returned)
    if isinstance(returned, list | tuple | np.ndarray) and len(np.shape(returned)) <= 1:
        values = np.asarray(returned)
        if values.size and values.dtype.kind in "fiu":
            return float(values.mean())
    return None


def _direction(metric: str, given: Direction | None, *, has_task: bool) -> Direction:
    if given is not None and given not in _DIRECTIONS:
        raise ConfigError(f"direction = {given!r} is neither '>=' nor '<='", hint="choose one of them")
    if metric == RETURNS or not has_task:
        return given or ">="
    from a2perf.metrics import registry

    known = registry.all_metrics()
    if metric not in known:
        near = did_you_mean(metric, [RETURNS, *known])
        raise ConfigError(f"{metric!r} is not a metric{near}", hint='use "returns" or a name of `a2perf score --all`')
    if given is None and known[metric].direction == "none":
        raise ConfigError(f"the metric {metric} has no better or worse", hint='add direction=">=" or "<="')
    return given or ("<=" if known[metric].direction == "min" else ">=")


def _with_log(error: RunFailed) -> str:
    """Returns the message of a failed run with the traceback and the last lines of its log."""
    lines = [terminal_text(line) for line in str(error).splitlines()]
    if error.bundle is not None:
        from a2perf.api.results import read_run
        from a2perf.report.provenance import failure

        try:
            _, log = failure(read_run(error.bundle).run)
        except (UserError, OSError):
            log = ""
        known = "\n".join(lines)
        lines += [f"  {terminal_text(line)}" for line in log.splitlines() if line.strip() and line.strip() not in known]
    return "\n".join(lines)


def _quantity(value: Any) -> str:
    from a2perf.report.tables import Quantity, quantity_text

    return quantity_text(Quantity(value=value.value, unit=value.unit, provenance=value.provenance))


def _number(value: float) -> str:
    from a2perf.report.numbers_text import rounded

    return rounded(value, "").value


def _seconds(value: float) -> str:
    from a2perf.report.numbers_text import rounded

    shown = rounded(value, "s")
    return f"{shown.value} {shown.unit}"
