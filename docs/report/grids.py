"""The tables of the report, made of recorded numbers."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable
from typing import Any

import gymnasium
from cells import (
    NONE,
    as_published_words,
    lengths_words,
    memory_words,
    metric_words,
    pair_words,
    reference_words,
    score_words,
    short_words,
    space_words,
    steps_words,
    time_words,
)
from document import Grid
from findings import KIND_WORDS, Findings, Row, baseline_of, data, described, overhead
from goals import judge

import a2perf.domains  # noqa: F401 - registers the ids
from a2perf.domains.registry import get_domain
from a2perf.errors import UserError
from a2perf.report.numbers_text import Scale, row_scale, written
from a2perf.report.ranks import leaders

LEFT, RIGHT = "left", "right"
_RETURN = ("inference", "returns")


def goals_grid(found: Findings) -> Grid:
    """Returns every goal with its result."""
    judged = judge(found)
    rows: list[tuple[str, ...]] = []
    for one in judged:
        if not rows or rows[-1][0] != one.goal:
            heading = (one.goal[0].upper() + one.goal[1:],)
            if heading not in rows:
                rows.append(heading)
        rows.append((one.task, one.wanted, one.measured, one.by or NONE, one.verdict))
    return Grid(
        "goals", "Goals and results. The baseline with the highest return is listed, among those within the time limit "
        "if there is one.",
        ("task", "wanted", "measured", "by", "goal"), (LEFT, LEFT, LEFT, LEFT, LEFT), tuple(rows),
    )  # fmt: skip


def tasks_grid(found: Findings) -> Grid:
    """Returns the tasks with their references and the lengths of their episodes."""
    rows: list[tuple[str, ...]] = []
    for domain in found.domains():
        rows.append((get_domain(domain).title,))
        for task in found.tasks(domain):
            random, strongest = found.best(task.name, ["random"]), found.best(task.name, KIND_WORDS)
            rows.append((
                task.name, task.env_id,
                reference_words(task.reference("random")), reference_words(task.reference("expert")),
                lengths_words(random), lengths_words(strongest), str(task.evaluation.episodes),
            ))  # fmt: skip
    return Grid(
        "tasks", f"The tasks of protocol {found.protocol.name}. Returns of the random policy and of the expert, "
        "with the intervals that the protocol stores; mean, shortest and longest recorded episode in steps.",
        ("task", "environment", "random", "expert", "length, random", "length, best", "episodes per seed"),
        (LEFT, LEFT, RIGHT, RIGHT, RIGHT, RIGHT, RIGHT), tuple(rows),
        notes="An expert without an interval is the best of all placements, by complete enumeration.",
    )  # fmt: skip


def spaces_grid(found: Findings) -> Grid:
    """Returns the observation and action spaces of each domain, read from the environments."""
    rows = []
    for domain in found.domains():
        for task in found.tasks(domain):
            try:
                env = gymnasium.make(task.env_id, **task.env_kwargs)
            except UserError:
                continue  # the data of this task are missing here; other tasks of the domain have the same spaces
            rows.append((get_domain(domain).title, space_words(env.observation_space), space_words(env.action_space)))
            env.close()
            break
        else:
            rows.append((get_domain(domain).title, "data not installed on this host", ""))
    return Grid(
        "spaces", "Observations and actions, the same in all tasks of a domain.",
        ("domain", "observation", "action"), (LEFT, LEFT, LEFT), tuple(rows),
    )  # fmt: skip


def baselines_grid(found: Findings) -> Grid:
    """Returns the submissions with the number of tasks that they were recorded on."""
    rows: list[tuple[str, ...]] = []
    kind = ""
    for baseline in found.baselines():
        if baseline.kind != kind:
            kind = baseline.kind
            rows.append((KIND_WORDS[kind].capitalize(),))
        tasks = {row.entry.task for row in found.rows if row.baseline.key == baseline.key}
        rows.append((baseline.title, baseline.key, baseline.framework or NONE, str(len(tasks)), baseline.summary))
    return Grid(
        "baselines", "The submissions in `examples/` and the number of tasks that they were recorded on.",
        ("baseline", "folder", "framework", "tasks", "description"), (LEFT, LEFT, LEFT, RIGHT, LEFT), tuple(rows),
    )  # fmt: skip


def matrix_grid(found: Findings) -> Grid:
    """Returns normalised scores, one row per baseline and one column per task."""
    tasks = found.tasks()
    rows = []
    for baseline in found.baselines():
        cells = []
        for task in tasks:
            mine = [row for row in found.of(task.name) if row.baseline.key == baseline.key]
            leading = task_leaders(found, task.name)
            cells.append("\n".join(score_words(row, star=row.label in leading) for row in mine) or NONE)
        rows.append((baseline.title, *cells))
    return Grid(
        "matrix", "Normalised scores (0: random policy, 1: expert of the protocol): interquartile mean over seeds with "
        "its bootstrap interval. ★: no interval of the task lies above."
        " No star if all are tied.",
        ("baseline", *(short_words(task.name) for task in tasks)), (LEFT, *(RIGHT for _ in tasks)), tuple(rows),
    )  # fmt: skip


def task_leaders(found: Findings, task: str) -> set[str]:
    """Returns the labels of the entries that may be the best of a task, by the rule of all tables (``leaders``)."""
    rows = [row for row in found.of(task) if row.entry.score.low is not None]
    return {rows[index].label for index in leaders([(row.entry.score.low, row.entry.score.high) for row in rows])}


def results_grid(found: Findings, domain: str) -> Grid | None:
    """Returns returns and costs of a domain, one row per baseline and task; None without entries."""
    tasks = found.tasks(domain)
    if not tasks:
        return None
    columns = [*_RESULT_COLUMNS]
    entered = [row for task in tasks for row in found.of(task.name)]
    energies = [energy for row in entered if (energy := row.number("train", "energy_gross"))]
    # one unit per table; training runs of a few seconds need mWh
    unit = Scale(1e-3, "Wh") if energies and statistics.median(energies) >= _SMALL_KWH else Scale(1e-6, "mWh")
    columns.insert(
        _ENERGY_AT, ("training energy", lambda row: metric_words(row.value("train", "energy_gross"), scale=unit))
    )
    columns = [column for column in columns if any(column[1](row) != NONE for row in entered)]
    rows: list[tuple[str, ...]] = []
    for task in tasks:
        rows.append((task.name,))
        for row in found.of(task.name):
            seeds = f"{row.entry.score.n} of {len(task.training_seeds)}"
            words = [row.label, *(make(row) for _, make in columns), seeds]
            rows.append(tuple(words))
    return Grid(
        f"results-{domain}", f"{get_domain(domain).title}: mean over seeds ± standard deviation; below returns and "
        "scores their 95 % interval. Training figures are per training run, evaluation energy per evaluation.",
        ("baseline", *(title for title, _ in columns), "seeds"),
        (LEFT, *(RIGHT for _ in columns), RIGHT), tuple(rows),
        notes="≈ estimated by a model; all other numbers were measured or recorded. – not trained or not recorded.",
    )  # fmt: skip


def reliability_grid(found: Findings) -> Grid | None:
    """Returns the reliability of learned baselines; None without any."""
    chosen = [(mode, name) for mode, name, _ in _RELIABILITY]
    rows: list[tuple[str, ...]] = []
    for task in found.tasks():
        learned = [row for row in found.of(task.name) if row.baseline.learns]
        if learned:
            rows.append((task.name,))
        rows += [(row.label, *(_bare(row, mode, name) for mode, name in chosen)) for row in learned]
    if not rows:
        return None
    return Grid(
        "reliability", "Reliability of learned baselines, in units of return or of return per step. "
        "↑ higher is better, ↓ lower is better.",
        ("baseline", *(title for *_, title in _RELIABILITY)), (LEFT, *(RIGHT for _ in chosen)), tuple(rows),
    )  # fmt: skip


def _bare(row: Row, mode: str, name: str) -> str:
    """Returns a metric without its unit, which the heading has."""
    value = row.number(mode, name)
    return NONE if value is None else written(value, Scale(1.0, "")).text()


def published_grid(found: Findings) -> Grid | None:
    """Returns published numbers and ours; None without entries on such a task."""
    published = data("published.toml")
    rows: list[tuple[str, ...]] = []
    for task in found.tasks("quadruped_locomotion"):
        theirs = [one for one in published["result"] if task.name in one["returns"]]
        if not theirs:
            continue
        rows.append((task.name,))
        for one in theirs:
            ours = tuple(
                pair_words(one[name][task.name]) for name in ("returns", "training_h", "memory_gb", "latency_ms")
            )
            rows.append((f"{one['algorithm']}, published", *ours, str(one["seeds"])))
        rows += [as_published_words(row) for row in found.of(task.name) if row.mean_return is not None]
    if not rows:
        return None
    return Grid(
        "published", "Quadruped locomotion: published returns and ours. Settings differ, see the text.",
        ("baseline", "return", "training, h", "peak memory, GB", "latency, ms", "seeds"),
        (LEFT, RIGHT, RIGHT, RIGHT, RIGHT, RIGHT), tuple(rows),
        notes="Published: " + "; ".join(dict.fromkeys(one["source"] for one in published["result"])) + ".",
    )  # fmt: skip


def costs_grid(found: Findings) -> Grid | None:
    """Returns published costs of Ariane and ours; None without entries."""
    published = data("published.toml")
    rows: list[tuple[str, ...]] = [("published",)]
    for one in published["cost"]:
        cost = sum(published["weights"][part] * value for part, value in one["parts"].items())
        rows.append((one["algorithm"], f"{cost:.3f}", str(one["seeds"])))
    ours = [task for task in found.tasks("circuit_training") if task.name.startswith("ariane")]
    for task in ours:
        rows.append((task.name,))
        rows += [
            (row.label, f"{-(row.mean_return or 0.0):.3f}", str(row.entry.score.n))
            for row in found.of(task.name) if row.mean_return is not None
        ]  # fmt: skip
    if not ours:
        return None
    return Grid(
        "costs", "Ariane: cost of a placement, lower is better, computed from the published parts with the weights of "
        "the environment. Settings differ, see the text.",
        ("baseline", "cost", "seeds"), (LEFT, RIGHT, RIGHT), tuple(rows),
        notes="Published: " + "; ".join(dict.fromkeys(one["source"] for one in published["cost"])) + ".",
    )  # fmt: skip


def steps_grid(found: Findings) -> Grid:
    """Returns the overhead per step of an evaluation, from the recorded calls."""
    rows = []
    for domain in found.domains():
        entries = [row for row in found.rows if row.entry.domain == domain]
        values = [{name: row.number("inference", f"latency_{name}_median") for name in _CALLS} for row in entries]
        whole = [value for value in values if None not in value.values()]
        if not whole:
            continue
        wire = [value["round_trip"] - value["infer_once"] - value["preprocess_observation"] for value in whole]  # type: ignore[operator]
        policy = [value["infer_once"] + value["preprocess_observation"] for value in whole]  # type: ignore[operator]
        rows.append((
            get_domain(domain).title, time_words(statistics.median(wire)), time_words(min(policy)),
            time_words(max(policy)), str(len(whole)),
        ))  # fmt: skip
    return Grid(
        "steps", "Time per step for the transport between evaluator and submission: round trip minus preprocessing and "
        "policy, median over the medians of the recorded entries; and the fastest and slowest policy.",
        ("domain", "transport", "fastest policy", "slowest policy", "entries"), (LEFT, RIGHT, RIGHT, RIGHT, RIGHT),
        tuple(rows),
    )  # fmt: skip


def overhead_grid() -> Grid | None:
    """Returns the overhead of the platform in the recorded benchmarks; None without a recording."""
    recorded = overhead()
    rows = []
    for script, path, words, unit, factor in _OVERHEAD:
        value: Any = recorded.get("measured", {}).get(script, {})
        for key in path:
            value = value.get(key, {}) if isinstance(value, dict) else {}
        if isinstance(value, (int, float)):
            number = written(value * factor, row_scale([value * factor], unit)).text()
            rows.append((words, f"{number} {row_scale([value * factor], unit).unit}", f"perf/{script}.py"))
    if not rows:
        return None
    host = recorded["host"]
    return Grid(
        "overhead", "Overhead of the platform, from its benchmarks.", ("operation", "cost", "benchmark"),
        (LEFT, RIGHT, LEFT), tuple(rows),
        notes=f"Recorded on {recorded['day']} by `python docs/report/measure.py` with Python {host['python']} on "
        f"{host['processors']} processors of {host['model']}, which also ran other programs.",
    )  # fmt: skip


def throughput_grid() -> Grid | None:
    """Returns the speed of training runs and of their environments; None without a recording."""
    results = overhead().get("measured", {}).get("baselines", {}).get("results", {})
    rows = []
    for name, values in results.items():
        if "steps_per_s" not in values:
            continue  # a benchmark without training
        whole, alone = values["steps_per_s"], values["environment_steps_per_s"]
        share, two = values["share_of_environment"], values["two_actors_over_one"]
        host = values["ratio_of_plain_hashing"]
        title, part = baseline_of(name).title, "–" if share is None else f"{100 * share:.0f} %"
        rows.append((title, f"{whole:.0f}", f"{alone:.0f}", part, f"{two:.2f}", f"{host:.2f}"))
    if not rows:
        return None
    return Grid(
        "throughput", "Environment steps per second of training runs and of the environment alone, the share of the "
        "training time that the environment takes, and the speed-up by a second actor process.",
        ("baseline", "training", "environment", "share", "two actors", "two processors"),
        (LEFT, RIGHT, RIGHT, RIGHT, RIGHT, RIGHT), tuple(rows),
        notes="Last column: speed-up of two plain hashing loops at that moment, the most that the host allowed. Share: "
        "processor time inside the environment's calls of one run; the two speeds come from separate runs. "
        "From `perf/baselines.py`.",
    )  # fmt: skip


def others_grid(found: Findings) -> Grid | None:
    """Returns the scores that were recorded under other protocols; None without any."""
    rows: list[tuple[str, ...]] = []
    for name, entries in found.others.items():
        rows.append((f"protocol {name}" if name else "under no protocol",))
        for row in sorted(entries, key=lambda row: (row.entry.domain, row.entry.task, -(row.entry.score.value or 0.0))):
            why = row.entry.not_ranked[0].split(":")[0] if row.entry.not_ranked else ""
            rows.append((row.entry.task, row.label, metric_words(row.value(*_RETURN)), score_words(row),
                         str(row.entry.score.n), why or NONE))  # fmt: skip
    if not rows:
        return None
    return Grid(
        "others", "Runs under other protocols; never ranked together with the tables above.",
        ("task", "baseline", "return", "normalised", "seeds", "not ranked because"),
        (LEFT, LEFT, RIGHT, RIGHT, RIGHT, LEFT), tuple(rows),
    )  # fmt: skip


_RESULT_COLUMNS: list[tuple[str, Callable[[Row], str]]] = [
    ("return", lambda row: metric_words(row.value(*_RETURN), interval=True)),
    ("normalised", lambda row: score_words(row)),
    ("success", lambda row: metric_words(row.value("inference", "success_rate"))),
    ("training steps", steps_words),
    ("training time", lambda row: metric_words(row.value("train", "wall_clock"))),
    ("evaluation energy", lambda row: metric_words(row.value("inference", "energy_gross"), scale=Scale(1e-6, "mWh"))),
    ("latency", lambda row: metric_words(row.value("inference", "latency_infer_once_median"))),
    ("peak memory", memory_words),
]
_ENERGY_AT, _SMALL_KWH = 5, 1e-4
_RELIABILITY = (
    ("train", "IqrAcrossRuns", "across runs ↓\nIQR"),
    ("train", "LowerCVarOnAcross", "risk across runs ↑\nCVaR"),
    ("train", "IqrWithinRuns", "within runs ↓\nIQR per step"),
    ("train", "LowerCVaROnDiffs", "short-term risk ↓\nCVaR per step"),
    ("train", "LowerCVaROnDrawdown", "long-term risk ↓\nCVaR"),
    ("inference", "IqrAcrossRollouts", "across rollouts ↓\nIQR"),
    ("inference", "LowerCVaRAcrossRollouts", "risk across rollouts ↑\nCVaR"),
)
_CALLS = ("round_trip", "infer_once", "preprocess_observation")
_OVERHEAD: tuple[tuple[str, tuple[str, ...], str, str, float], ...] = (
    ("platform_cost", ("run with an empty train(), all trackers on (s, target 1.5)",),
     "whole run with an empty train(), all trackers on", "s", 1.0),
    ("platform_cost", ("a2perf --help (s, target 0.3)",), "a2perf --help", "s", 1.0),
    ("transport", ("quadruped, 160 float32", "median_us"), "round trip of a quadruped's observation", "s", 1e-6),
    ("transport", ("quadruped, 160 float32", "bare_median_us"), "the same bytes over a bare socket", "s", 1e-6),
    ("transport", ("graph, dict of 1 MB", "median_us"), "round trip of an observation of a megabyte", "s", 1e-6),
    ("transport", ("start", "policy_loaded_ms"), "start of a participant process with a policy", "s", 1e-3),
    ("trackers", ("sampling_20_processes_at_1_hz", "own_percent_of_one_core"),
     "sampling a tree of twenty processes once per second", "% of a core", 1.0),
    ("trackers", ("latency_timer", "added_per_call_ns"), "latency timer, per call", "s", 1e-9),
    ("trackers", ("short_children", "sampler_over_truth"),
     "share of the processor time of short-lived children that is seen", "", 1.0),
    ("trackers", ("waits", "stop_ms"), "stopping the trackers", "s", 1e-3),
)  # fmt: skip


def known(found: Findings) -> Iterable[str]:
    """Returns the described folders without recorded runs."""
    entered = {row.baseline.key.partition(" (")[0] for row in found.rows}
    return [key for key in described() if key not in entered]
