"""The goals of ``goals.toml``, each with a measured value and a verdict.

Missed goals stay in the table with their values. Goals without recorded runs are neither met nor missed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from findings import LEARNED, Findings, Row, baseline_of, data, overhead

Verdict = Literal["met", "missed", "not recorded", "not needed"]


@dataclass(frozen=True)
class Judged:
    """A goal on a task.

    Attributes:
        goal: its title.
        task: ``""`` for all tasks.
        wanted: the limit, as text.
        measured: the measured value, as text.
        by: the best baseline.
        verdict: whether the value reaches the limit.
    """

    goal: str
    task: str
    wanted: str
    measured: str
    by: str
    verdict: Verdict


def judge(found: Findings) -> list[Judged]:
    """Returns every goal of every task that it names, in the order of the file."""
    made: list[Judged] = []
    for goal in data("goals.toml")["goal"]:
        if goal["kind"] == "coverage":
            made += _coverage(found, goal)
        elif goal["kind"] == "two_actors":
            made += _throughput(goal)
        else:
            judged = [_JUDGES[goal["kind"]](found, goal, task) for task in _tasks(found, goal)]
            if goal.get("any_of") and any(one.verdict == "met" for one in judged):
                judged = [one if one.verdict == "met" else replace(one, verdict="not needed") for one in judged]
            made += judged
    return made


def _tasks(found: Findings, goal: dict[str, Any]) -> list[str]:
    """Returns the tasks of a goal; a level of websites means the tasks of this level in the protocol."""
    if "level" in goal:
        names = [name for name in found.protocol.tasks if name.startswith(f"difficulty_level_{goal['level']}_")]
        entered = [task.name for task in found.tasks() if task.name in names]
        return entered or names[:1]
    tasks = [str(task) for task in goal["tasks"]]
    if goal.get("any_of"):
        here = {task.name for task in found.tasks()}
        return [task for task in tasks if task in here] or tasks[:1]
    return tasks


def _throughput(goal: dict[str, Any]) -> list[Judged]:
    """Judges the speed-up by two actors for each measured training run; the limit of the host is given with it."""
    wanted = f"≥ {goal['at_least']:g}"
    results = overhead().get("measured", {}).get("baselines", {}).get("results", {})
    judged = []
    for name, values in results.items():
        if "two_actors_over_one" in values:
            ratio = values["two_actors_over_one"]
            text = f"{ratio:.2f}, two processors gave {values['ratio_of_plain_hashing']:.2f}"
            verdict = _verdict(ratio >= goal["at_least"])
            judged.append(Judged(goal["title"], "throughput", wanted, text, baseline_of(name).title, verdict))
    return judged or [_missing(goal, "throughput", wanted)]


def _coverage(found: Findings, goal: dict[str, Any]) -> list[Judged]:
    strongest = ("scripted", "search", "pre-trained")
    judged = []
    for task in found.protocol.core_tasks():
        rows = found.of(task.name)
        learned = [row for row in rows if row.baseline.kind in LEARNED]
        enough = [row for row in learned if row.entry.score.n >= goal["seeds"]]
        counts = [
            f"{len(enough)} learned",
            f"{sum(row.baseline.kind == 'random' for row in rows)} random",
            f"{sum(row.baseline.kind in strongest for row in rows)} strongest",
        ]
        complete = bool(enough) and not any(count.startswith("0") for count in counts)
        verdict: Verdict = "met" if complete else "missed" if rows else "not recorded"
        judged.append(Judged(goal["title"], task.name, "one of each", ", ".join(counts), "", verdict))
    return judged


def _rows(found: Findings, goal: dict[str, Any], task: str) -> list[Row]:
    """Returns the candidates of a goal, best first; those over the time limit come last."""
    rows = [row for row in found.of(task) if row.baseline.kind in goal["by"] and row.mean_return is not None]
    return sorted(rows, key=lambda row: not _in_time(row, goal))


def _in_time(row: Row, goal: dict[str, Any]) -> bool:
    """Returns whether the longest training run of all seeds is within the time limit."""
    if "within_s" not in goal:
        return True
    value = row.value("train", "wall_clock")
    if value is None or value.value is None:
        return False
    return max([value.value, *(one for one in value.per_run if one is not None)]) <= float(goal["within_s"])


def _minutes(row: Row, goal: dict[str, Any]) -> str:
    seconds = row.number("train", "wall_clock")
    if "within_s" not in goal or seconds is None:
        return ""
    return f" in {seconds / 60:.1f} min"


def _missing(goal: dict[str, Any], task: str, wanted: str) -> Judged:
    return Judged(goal["title"], task, wanted, "–", "", "not recorded")


def _share_of_strongest(found: Findings, goal: dict[str, Any], task: str) -> Judged:
    wanted = f"≥ {goal['at_least']:.0%}".replace("%", " %")
    rows, strongest = _rows(found, goal, task), found.best(task, [goal["of"]])
    reference = strongest.mean_return if strongest is not None else None
    if reference is None and task in found.protocol.tasks:
        reference = found.protocol.task(task).reference("expert").mean
    if not rows or reference is None:
        return _missing(goal, task, wanted)
    row = rows[0]
    share = (row.mean_return or 0.0) / reference
    met = share >= goal["at_least"] and _in_time(row, goal)
    return Judged(goal["title"], task, wanted, f"{100 * share:.1f} %{_minutes(row, goal)}", row.label, _verdict(met))


def _return(found: Findings, goal: dict[str, Any], task: str) -> Judged:
    wanted = f"≥ {goal['at_least']:g}"
    rows = _rows(found, goal, task)
    if not rows:
        return _missing(goal, task, wanted)
    row = rows[0]
    value = row.mean_return or 0.0
    met = value >= goal["at_least"] and _in_time(row, goal)
    return Judged(goal["title"], task, wanted, f"{value:.1f}{_minutes(row, goal)}", row.label, _verdict(met))


def _success(found: Findings, goal: dict[str, Any], task: str) -> Judged:
    wanted = f"≥ {goal['at_least']:g}"
    unseen = [row for row in _rows(found, goal, task) if row.baseline.own_websites]
    rows = [(row.number("inference", "success_rate"), row) for row in unseen]
    known = [(value / 100.0, row) for value, row in rows if value is not None]
    if not known:
        return _missing(goal, task, wanted)
    share, row = max(known, key=lambda pair: pair[0])
    return Judged(goal["title"], task, wanted, f"{share:.3f}", row.label, _verdict(share >= goal["at_least"]))


def _above_exact(found: Findings, goal: dict[str, Any], task: str) -> Judged:
    wanted = f"≤ {100 * goal['at_most']:g} %"
    rows = _rows(found, goal, task)
    if not rows:
        return _missing(goal, task, wanted)
    row, best = rows[0], -found.protocol.task(task).reference("expert").mean
    above = round(-(row.mean_return or 0.0) / best - 1.0, 6) + 0.0  # no minus before a zero
    return Judged(
        goal["title"],
        task,
        wanted,
        f"{100 * above:.2f} %".replace("-", "−"),
        row.label,
        _verdict(above <= goal["at_most"]),
    )


def _below_greedy(found: Findings, goal: dict[str, Any], task: str) -> Judged:
    wanted = f"≥ {100 * goal['at_least']:g} %"
    rows, greedy = _rows(found, goal, task), found.best(task, [goal["of"]])
    if not rows or greedy is None or greedy.mean_return is None:
        return _missing(goal, task, wanted)
    row = rows[0]
    below = 1.0 - (row.mean_return or 0.0) / greedy.mean_return
    return Judged(goal["title"], task, wanted, f"{100 * below:.1f} %", row.label, _verdict(below >= goal["at_least"]))


def _above_random(found: Findings, goal: dict[str, Any], task: str) -> Judged:
    wanted = "disjoint"
    rows, random = _rows(found, goal, task), found.best(task, ["random"])
    if not rows or random is None:
        return _missing(goal, task, wanted)
    ends = [_interval(row) for row in (rows[0], random)]
    if None in ends:
        return _missing(goal, task, wanted)
    (low, high), (_, limit) = ((end[0], end[1]) for end in ends if end is not None)
    words = f"[{low:.3f}, {high:.3f}] against at most {limit:.3f}".replace("-", "−")
    return Judged(goal["title"], task, wanted, words, rows[0].label, _verdict(low > limit))


def _interval(row: Row) -> tuple[float, float] | None:
    value = row.value("inference", "returns")
    return value.interval if value is not None else None


def _verdict(met: bool) -> Verdict:
    return "met" if met else "missed"


def counts(judged: Sequence[Judged]) -> dict[str, int]:
    """Returns how many goals were met, missed and not recorded; what another task answered is not counted."""
    return {word: sum(one.verdict == word for one in judged) for word in ("met", "missed", "not recorded")}


_JUDGES = {
    "share_of_strongest": _share_of_strongest,
    "return": _return,
    "success": _success,
    "above_exact": _above_exact,
    "below_greedy": _below_greedy,
    "above_random": _above_random,
}
