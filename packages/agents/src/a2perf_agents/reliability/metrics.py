"""Reliability of a policy: consistency over repeated episodes, robustness to perturbations, predictability.

A task is one start of an episode: an environment with one episode seed, played several times. The formulas are in
``consistency`` and ``predictability``; here they are applied to the recorded episodes of runs. An episode succeeds if
the environment reports a success. If the environment reports neither success nor failure, the episode succeeds if its
return reaches the threshold of the protocol.

Every number is first computed of each run. The interval is that of the mean over runs. A single run has an interval
over its tasks: that of the mean, or a percentile bootstrap interval where the number is not a mean over tasks.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from a2perf.arrays import Values
from a2perf.domains.registry import domains
from a2perf.metrics.bootstrap import FEWEST_RESAMPLED, mean_interval, percentile_interval
from a2perf.metrics.definition import Metric, metric, numbers_over_runs
from a2perf.metrics.runs_in_mode import ScoredRuns, once_per_run
from a2perf.metrics.values import Lead, MetricResult, Profile
from a2perf.records import Episode
from a2perf.runs.run import Run
from a2perf_agents.reliability import consistency, predictability

LARGEST_K = 8
_RESAMPLES = 500

_PAPER = "arXiv 2602.16666"
_NOT_REPEATED = "no episode was repeated; evaluate with --repeats"
_NOT_PERTURBED = "no episode was perturbed; evaluate with --perturbations"
_NO_SUCCESS = "the environment reports no success, and the protocol has no threshold for the task"
_FEW_REPEATS = {k: f"fewer than {k} repeats" for k in range(1, LARGEST_K + 1)}
_NO_CONFIDENCE = "the policy reports no confidence"

Ints: TypeAlias = NDArray[np.int64]
Pairs: TypeAlias = NDArray[np.float64]
Repeats: TypeAlias = list[Episode]
OfTask: TypeAlias = Callable[[Repeats, Values], float]
"""Computes the value of a task of its repeats and their successes (0, 1, or NaN if unknown); NaN for no value."""


@once_per_run
def tasks_of(run: Run) -> dict[Hashable, Repeats]:
    """Returns the unperturbed episodes of each task of a run, in the order of the repetitions."""
    found: dict[Hashable, Repeats] = {}
    for episodes in (run.episodes, run.further):
        for name, of_task in episodes.items():
            for episode in of_task:
                if not episode.perturbation:
                    index = episode.index if episode.task_index is None else episode.task_index
                    found.setdefault((name, index), []).append(episode)
    return found


def successes_of(episodes: Sequence[Episode], threshold: float | None) -> Values:
    """Returns 1 for a success, 0 for a failure, and NaN if neither is known, shape ``(episodes,)``.

    ``threshold`` is the least return of a success in an environment that reports none; None if there is no such return.
    """

    def success(episode: Episode) -> float:
        if episode.success is not None:
            return float(episode.success)
        return math.nan if threshold is None else float(episode.episode_return >= threshold)

    return np.array([success(episode) for episode in episodes], np.float64)


def _over_tasks(of_task: OfTask, reason: str, *, needs_success: bool = True) -> Callable[..., MetricResult]:
    """Returns a metric over runs that is the mean over the repeated tasks of each run."""

    def over_runs(runs: ScoredRuns, profile: Profile) -> MetricResult:
        of_runs: list[Values] = []
        repeated, unknown = 0, False
        for run in runs.runs:
            values = []
            for episodes in tasks_of(run).values():
                if len(episodes) < 2:
                    continue
                successes = successes_of(episodes, runs.success_return)
                unknown |= needs_success and bool(np.isnan(successes).any())
                values.append(math.nan if needs_success and np.isnan(successes).any() else of_task(episodes, successes))
            repeated += bool(values)
            of_runs.append(np.array(values, np.float64))
        if not repeated:
            return MetricResult(condition=_NOT_REPEATED)
        # n of 0: a table does not list pass^k for every k that exceeds the number of repeats.
        return _result(
            of_runs, profile, _NO_SUCCESS if unknown else reason, 0 if reason in _FEW_REPEATS.values() else repeated
        )

    return over_runs


def _result(of_runs: Sequence[Values], profile: Profile, reason: str, count: int) -> MetricResult:
    """Returns the mean over runs of the means over tasks (NaN for a task without a value), or the reason for none."""
    known = [values[~np.isnan(values)] for values in of_runs]
    result = numbers_over_runs([consistency.mean_over_tasks(values) for values in of_runs], profile, "recorded")
    if result.value is None:
        return MetricResult(condition=reason, n=count)
    tasks = sum(values.size for values in known)
    left_out = sum(values.size for values in of_runs) - tasks
    result.notes.append(f"{tasks} tasks" + (f"; {left_out} more without a value: {reason}" if left_out else ""))
    of_one = [values for values in known if values.size]
    if len(of_one) == 1 and of_one[0].size > 1 and profile == "corrected":
        low, high = mean_interval(of_one[0])
        result.interval = (max(low, 0.0), min(high, 1.0))
        result.spread, result.spread_kind = float(of_one[0].std(ddof=1)), "standard deviation over tasks, ddof 1"
        result.notes.append("one run: the interval is that of the mean over tasks")
    return result


def _with_resampled(
    result: MetricResult, profile: Profile, of_runs: Sequence[tuple[int, Callable[[Ints], float]]]
) -> MetricResult:
    """Adds the percentile interval over resamples of the tasks to the result of a single run, reproducibly.

    There is none with fewer than ``FEWEST_RESAMPLED`` tasks, or if half of the resamples have no value.

    Args:
        of_runs: of each run the number of tasks, and the statistic. It takes the numbers of the drawn tasks, shape
            ``(tasks,)``, and returns NaN for no value.
    """
    if len(of_runs) != 1 or of_runs[0][0] < FEWEST_RESAMPLED or profile != "corrected":
        return result
    tasks, statistic = of_runs[0]
    generator = np.random.default_rng(0)
    draws = np.array([statistic(generator.integers(tasks, size=tasks)) for _ in range(_RESAMPLES)])
    known = draws[~np.isnan(draws)]
    if known.size >= _RESAMPLES / 2:
        low, high = percentile_interval(known)
        result.interval = (float(low), float(high))
        result.notes.append("one run: the interval is a bootstrap over its tasks")
    return result


# --- Consistency


def _distributions(episodes: Repeats, successes: Values) -> float:
    recorded = [episode.actions for episode, won in zip(episodes, successes, strict=True) if won]
    per_repeat: list[list[consistency.Distribution]] = []
    for actions in recorded:
        if actions is None or not (actions.histograms or actions.sequence):
            return math.nan
        if actions.histograms:
            per_repeat.append([dict(enumerate(counts)) for counts in actions.histograms])
        else:
            values, counts = np.unique(actions.sequence, return_counts=True)
            per_repeat.append([dict(zip(values.tolist(), counts.tolist(), strict=True))])
    return consistency.trajectory_consistency_distributions(per_repeat)


def _sequences(episodes: Repeats, successes: Values) -> float:
    recorded = [episode.actions for episode, won in zip(episodes, successes, strict=True) if won]
    sequences = [actions.sequence for actions in recorded if actions is not None and actions.sequence]
    return consistency.trajectory_consistency_sequences(sequences) if len(sequences) == len(recorded) else math.nan


def _resources(episodes: Repeats, successes: Values) -> float:
    costs = [episode.policy_cpu_s for episode in episodes if episode.policy_cpu_s is not None]
    resources = {
        "time": [episode.wall_s for episode in episodes],
        "actions": [float(episode.length) for episode in episodes],
    }
    if len(costs) == len(episodes):
        resources["cost"] = costs
    return consistency.resource_consistency(resources)


def _metric(
    name: str, label: str, formula: str, needs: str, over_runs: Callable[..., MetricResult], **more: Any
) -> Metric:
    given = {"direction": "max", "source": _PAPER, **more}
    made = metric(
        name=name, label=label, formula=formula, needs=needs, category="reliability", unit="1", across=True, **given
    )
    return made(over_runs)


_FEW_SUCCESSES = "fewer than two successes with recorded actions"
_THEN = "mean over tasks, then over runs"
_CONSISTENCY = (
    _metric(
        "outcome_consistency",
        "Outcome consistency",
        f"(2p - 1)^2 with p the success rate over the repeats of a task; {_THEN}",
        "2 repeats of 1 task",
        _over_tasks(lambda episodes, successes: consistency.outcome_consistency(successes), _NO_SUCCESS),
        lead={"inference": Lead.TEXT},
    ),
    _metric(
        "trajectory_consistency_distribution",
        "Trajectory consistency (distribution)",
        "1 - mean pairwise Jensen-Shannon divergence (base 2) of the action distributions of successful repeats; "
        f"{_THEN}",
        "2 successful repeats of 1 task",
        _over_tasks(_distributions, _FEW_SUCCESSES),
        lead=Lead.TABLE,
    ),
    _metric(
        "trajectory_consistency_sequence",
        "Trajectory consistency (sequence)",
        "1 - mean pairwise Levenshtein distance of the actions of successful repeats, divided by the longer length; "
        f"{_THEN}",
        "2 successful repeats of 1 task",
        _over_tasks(_sequences, _FEW_SUCCESSES),
        lead=Lead.TABLE,
    ),
    _metric(
        "resource_consistency",
        "Resource consistency",
        "exp(-mean coefficient of variation, ddof 1) over processor time, wall time and number of actions of repeats; "
        f"{_THEN}",
        "2 repeats of 1 task",
        _over_tasks(_resources, "no resource varies around a mean above 0", needs_success=False),
        lead=Lead.TABLE,
    ),
)


def _pass(k: int, of_counts: Callable[[int, int, int], float]) -> Callable[..., MetricResult]:
    return _over_tasks(lambda _, successes: of_counts(int(successes.sum()), successes.size, k), _FEW_REPEATS[k])


def _pass_all(name: str, k: int) -> Metric:
    formula = f"unbiased estimate C(c, {k}) / C(n, {k}) from c successes in n repeats; {_THEN}"
    return _metric(
        name,
        f"pass^{k}",
        formula,
        f"{max(k, 2)} repeats of 1 task",
        _pass(k, consistency.pass_all_k),
        source="Yao et al. 2024, tau-bench; arXiv 2602.16666",
        lead=Lead.TABLE if k == LARGEST_K else Lead.NONE,
    )


def _pass_any(name: str, k: int) -> Metric:
    formula = f"unbiased estimate 1 - C(n - c, {k}) / C(n, {k}) from c successes in n repeats; {_THEN}"
    return _metric(
        name,
        f"pass@{k}",
        formula,
        f"{max(k, 2)} repeats of 1 task",
        _pass(k, consistency.pass_at_k),
        source="Chen et al. 2021, Evaluating Large Language Models Trained on Code",
    )


_PASSES = (
    _pass_all("pass_all_1", 1),
    _pass_all("pass_all_2", 2),
    _pass_all("pass_all_3", 3),
    _pass_all("pass_all_4", 4),
    _pass_all("pass_all_5", 5),
    _pass_all("pass_all_6", 6),
    _pass_all("pass_all_7", 7),
    _pass_all("pass_all_8", 8),
    _pass_any("pass_any_1", 1),
    _pass_any("pass_any_2", 2),
    _pass_any("pass_any_3", 3),
    _pass_any("pass_any_4", 4),
    _pass_any("pass_any_5", 5),
    _pass_any("pass_any_6", 6),
    _pass_any("pass_any_7", 7),
    _pass_any("pass_any_8", 8),
)


# --- Robustness


def _played(run: Run) -> tuple[list[Repeats], dict[str, list[Repeats]]]:
    """Returns the episodes of each task without a perturbation and, in the same order of tasks, with each of them."""
    plain = tasks_of(run)
    perturbed: dict[str, dict[Hashable, Repeats]] = {}
    for name, episodes in run.further.items():
        for episode in episodes:
            if episode.perturbation:
                of_tasks = perturbed.setdefault(episode.perturbation, {key: [] for key in plain})
                of_tasks.setdefault((name, episode.task_index), []).append(episode)
    return list(plain.values()), {name: list(of_tasks.values()) for name, of_tasks in perturbed.items()}


class _Counts:
    """Successes and episodes of each task; the rate over tasks that are drawn with replacement."""

    def __init__(self, tasks: Sequence[Repeats], threshold: float | None) -> None:
        self._successes = np.array([successes_of(episodes, threshold).sum() for episodes in tasks])
        self._episodes = np.array([len(episodes) for episodes in tasks])

    def rate(self, drawn: Ints | slice = slice(None)) -> float:
        """Returns the success rate; NaN without an episode, or if a success is not known."""
        inside = drawn if isinstance(drawn, slice) else drawn[drawn < self._episodes.size]
        count = self._episodes[inside].sum()
        return float(self._successes[inside].sum() / count) if count else math.nan


def _robustness(chosen: str | None) -> Callable[..., MetricResult]:
    """Returns the metric of one perturbation, or of all that were played."""

    def over_runs(runs: ScoredRuns, profile: Profile) -> MetricResult:
        numbers: list[float] = []
        ratios: dict[str, list[float]] = {}
        resampling: list[tuple[int, Callable[[Ints], float]]] = []
        reason = _NOT_PERTURBED
        for run in runs.runs:
            if not any(episode.perturbation for episodes in run.further.values() for episode in episodes):
                numbers.append(math.nan)
                continue
            tasks, perturbed = _played(run)
            plain = _Counts(tasks, runs.success_return)
            chances = {
                name: _Counts(of_tasks, runs.success_return)
                for name, of_tasks in perturbed.items()
                if chosen in (None, name)
            }

            def mean_ratio(drawn: Ints | slice, plain: _Counts = plain, chances: dict[str, _Counts] = chances) -> float:
                found = [consistency.robustness(one.rate(drawn), plain.rate(drawn)) for one in chances.values()]
                return float(np.mean(found)) if found else math.nan

            numbers.append(mean_ratio(slice(None)))
            if chances:
                reason = _NO_SUCCESS if math.isnan(plain.rate()) else "no success without perturbation"
                resampling.append((len(tasks), mean_ratio))
            for name, one in chances.items():
                ratios.setdefault(name, []).append(consistency.robustness(one.rate(), plain.rate()))
        result = numbers_over_runs(numbers, profile, "recorded")
        if result.value is None:
            return MetricResult(condition=reason, n=len(resampling))
        if chosen is None:
            listed = ", ".join(f"{name} {float(np.mean(values)):.3f}" for name, values in sorted(ratios.items()))
            result.notes.append(f"mean over {len(ratios)} perturbations: {listed}")
        return _with_resampled(result, profile, resampling)

    return over_runs


def _robustness_metric(chosen: str | None, label: str, summary: str) -> Metric:
    return _metric(
        "robustness" if chosen is None else f"robustness_{chosen}",
        label,
        f"min(success rate with perturbation / success rate without, 1), {summary}",
        "1 success, and 1 episode under the perturbation",
        _robustness(chosen),
        lead={"inference": Lead.TEXT} if chosen is None else Lead.NONE,
    )


def _of_each_perturbation() -> list[Metric]:
    summaries: dict[str, list[str]] = {}
    for domain in domains().values():
        for known in domain.perturbations:
            summaries.setdefault(known.name, []).append(known.summary)
    return [
        _robustness_metric(name, f"Robustness ({name.replace('_', ' ')})", "; ".join(said))
        for name, said in summaries.items()
    ]


# --- Predictability


def _of_confidences(formula: Callable[[Values, Values], float]) -> Callable[..., MetricResult]:
    """Returns a metric over runs of the confidences and successes of all unperturbed episodes of each run."""

    def over_runs(runs: ScoredRuns, profile: Profile) -> MetricResult:
        numbers: list[float] = []
        resampling: list[tuple[int, Callable[[Ints], float]]] = []
        reason = _NO_CONFIDENCE
        for run in runs.runs:
            numbers.append(math.nan)
            if all(e.confidence is None for of_task in run.episodes.values() for e in of_task):
                continue
            pairs = [_known(of_task, runs.success_return) for of_task in tasks_of(run).values()]

            def of_tasks(drawn: Ints, pairs: list[Pairs] = pairs) -> float:
                return formula(*np.concatenate([pairs[number] for number in drawn], axis=1))

            numbers[-1] = of_tasks(np.arange(len(pairs)))
            resampling.append((len(pairs), of_tasks))
            known = any(pair.size for pair in pairs)
            reason = "all episodes succeeded, or all failed" if known else _NO_SUCCESS
        result = numbers_over_runs(numbers, profile, "recorded")
        if result.value is None:
            return MetricResult(condition=reason, n=len(resampling))
        return _with_resampled(result, profile, resampling)

    return over_runs


def _known(episodes: Repeats, threshold: float | None) -> Pairs:
    """Returns the confidences and successes of the episodes that have both, shape ``(2, episodes)``."""
    confidences = [math.nan if episode.confidence is None else episode.confidence for episode in episodes]
    pairs = np.array([confidences, successes_of(episodes, threshold)], np.float64)
    return np.asarray(pairs[:, ~np.isnan(pairs).any(axis=0)])


def _predictability(
    name: str, label: str, formula: str, of_episodes: Callable[[Values, Values], float], **more: Any
) -> Metric:
    formula += "; of all unperturbed episodes of a run, then mean over runs"
    return _metric(name, label, formula, "1 episode with a confidence", _of_confidences(of_episodes), **more)


_PREDICTABILITY = (
    _predictability(
        "calibration",
        "Calibration",
        "1 - expected calibration error of the policy's confidence, 10 bins of equal width closed on the right",
        lambda c, s: 1.0 - predictability.expected_calibration_error(c, s),
        source=f"{_PAPER}; Guo et al., ICML 2017",
        lead={"inference": Lead.TEXT},
    ),
    _predictability(
        "discrimination",
        "Discrimination (AUROC)",
        "probability that a success has a higher confidence than a failure, ties 1/2",
        predictability.auroc,
        lead=Lead.TABLE,
    ),
    _predictability(
        "brier_reliability",
        "Brier reliability",
        "1 - mean squared difference of confidence and success",
        lambda c, s: 1.0 - predictability.brier_score(c, s),
        source=f"{_PAPER}; Brier 1950",
    ),
    _predictability(
        "risk_coverage_area",
        "Risk-coverage area",
        "mean over k of the failure rate of the k episodes with the highest confidences; ties in expectation",
        predictability.area_under_risk_coverage,
        direction="min",
        source="Geifman et al., ICLR 2019",
    ),
)


METRICS: tuple[Metric, ...] = (
    *_CONSISTENCY,
    *_PASSES,
    _robustness_metric(None, "Robustness", "mean over the perturbations of the run"),
    *_of_each_perturbation(),
    *_PREDICTABILITY,
)
"""Every metric, those of the perturbations of all domains included."""
