"""Whether a recorded run agrees with itself: the one checker of `a2perf validate` and of every reader of bundles.

The manifest lists what had to be played: its seeds, settings, repeats, perturbations and tasks. Every other file of the
bundle must hold exactly that, in order and once. Hashes cannot show this: whoever changes a file can hash it again.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np

from a2perf.records import Episode, LatencyResults, Manifest, Record, RunState, TrainResults
from a2perf.runs.bundles import inventory, layout
from a2perf.runs.bundles.bundle_reader import BundleReader, RecordedEpisodes, read_arrays
from a2perf.runs.bundles.files import BundleFiles
from a2perf.runs.bundles.tables import table_of

MOST = 1e100
"""The largest return that counts; squares and sums of larger ones overflow."""
NOT_COUNTED = "not counted"
"""Begins the conditions of a run that contradicts itself: readers leave its measurements out."""


@dataclass(frozen=True)
class PlannedEpisode:
    """An episode to play.

    Attributes:
        task_index: position of the seed among the seeds of the run.
        repeat: number of the repetition, from 0.
        perturbation: name of the perturbation; empty for the environment as it is.
    """

    index: int
    seed: int
    task_index: int
    repeat: int = 0
    perturbation: str = ""

    @property
    def is_scored(self) -> bool:
        """Whether the scores of the run count it."""
        return self.repeat == 0 and not self.perturbation


def episode_plan(repeats: int, perturbations: Sequence[str], seeds: Sequence[int]) -> Iterator[PlannedEpisode]:
    """Yields all episodes in the order of play: every repetition of all seeds, then every perturbation."""
    parts = [*((repeat, "") for repeat in range(repeats)), *((0, name) for name in perturbations)]
    for part, (repeat, perturbation) in enumerate(parts):
        for number, seed in enumerate(seeds):
            yield PlannedEpisode(len(seeds) * part + number, seed, number, repeat, perturbation)


class _Seeds(Record):
    episodes: list[int] = []
    episodes_by_task: dict[str, list[int]] = {}
    episode_count: int | None = None


class _Settings(Record):
    num_inference_episodes: int | None = None
    num_generalization_episodes: int | None = None
    num_inference_steps: int | None = None
    generalization_tasks: list[str] | None = None


@dataclass(frozen=True)
class _Asked:
    """What the manifest says that one task had to be.

    Attributes:
        count: number of scored episodes; None if only the seeds tell.
        tracking: the costs of the task in the manifest, or the main ones of a shipped bundle.
    """

    task: str
    folder: str
    seeds: list[int]
    count: int | None
    tracking: dict[str, Any]


def integrity(files: BundleFiles, manifest: Manifest, *, unpublished: Iterable[str] = ()) -> list[str]:
    """Returns the signs of manipulation in a bundle, one sentence each, whether its run succeeded or not.

    These are additions, removals and changes since the end of the run, see ``inventory.problems``, files that cannot
    be read, and ``disagreements``.
    """
    changed = inventory.problems(files, manifest, unpublished=unpublished)
    reader = BundleReader(files, manifest)
    found = [*changed, *disagreements(reader)]
    return found if changed else [*found, *reader.conditions]


def disagreements(reader: BundleReader) -> list[str]:
    """Returns what in a bundle contradicts its manifest, at most one sentence per task.

    A run that did not finish may hold less than was planned, never anything else. Files that cannot be read are left
    out; they are conditions of the reader.
    """
    manifest, folder = reader.manifest, reader.files.path.name
    if manifest is None:
        return []
    if folder in layout.MODES and manifest.mode != folder:
        return [f"{layout.MANIFEST} is of the mode {manifest.mode}, its folder is {folder}"]
    if manifest.mode not in layout.MODES:
        return []
    try:
        seeds, settings = msgspec.convert(manifest.seeds, _Seeds), msgspec.convert(manifest.settings, _Settings)
        of_tasks = (
            (manifest.env_kwargs.get("tasks", []), manifest.tracking) if manifest.mode == "generalization" else ([], {})
        )
        tasks, costs = msgspec.convert(of_tasks, tuple[list[str], dict[str, dict[str, Any]]])
    except msgspec.ValidationError as error:
        return [f"{layout.MANIFEST}: {error}"]
    if manifest.mode == "train":
        return _first(_training(reader, manifest), _tracking(reader, layout.METRICS, manifest.tracking))
    if manifest.mode == "inference":
        count = settings.num_inference_episodes or seeds.episode_count
        asked = {manifest.task: _Asked(manifest.task, layout.METRICS, seeds.episodes, count, manifest.tracking)}
    else:
        count = settings.num_generalization_episodes or seeds.episode_count
        asked = {
            task: _Asked(
                task, f"{layout.TASKS}/{task}", seeds.episodes_by_task.get(task, []), count, costs.get(task, {})
            )
            for task in tasks
        }
    found = _first(_tasks(reader, settings.generalization_tasks, seeds.episodes_by_task, asked))
    for task in asked.values():
        found += _first(_episodes(reader, manifest, task), _tracking(reader, task.folder, task.tracking))
    return found + _first(_latency(reader, settings.num_inference_steps))


def _first(*checks: Iterable[str]) -> list[str]:
    return list(itertools.islice(itertools.chain(*checks), 1))


def _tasks(
    reader: BundleReader, chosen: Sequence[str] | None, seeds: Collection[str], asked: Collection[str]
) -> Iterator[str]:
    """Compares the tasks that have episodes and seeds with those that the run was asked for."""
    finished = reader.manifest is not None and reader.manifest.state is RunState.FINISHED
    for where, tasks in (
        (f"the settings of {layout.MANIFEST}", chosen or asked),
        (f"the seeds of {layout.MANIFEST}", seeds if finished and seeds else asked),
        (layout.METRICS, {*asked, *reader.evaluations}),
    ):
        if set(tasks) != set(asked):
            yield f"{where}: the tasks are {_names(tasks)}, the run was asked for {_names(asked)}"


def _episodes(reader: BundleReader, manifest: Manifest, asked: _Asked) -> Iterator[str]:
    """Compares the episodes of one task with the plan, the journal and their steps."""
    seeds, finished = asked.seeds, manifest.state is RunState.FINISHED
    if seeds and asked.count not in (None, len(seeds)):
        yield f"{layout.MANIFEST} has {len(seeds)} seeds of episodes of {asked.task}, its settings {asked.count}"
    if len(seeds) != len(set(seeds)):
        yield "two episodes share a seed"
    evaluation = reader.evaluations.get(asked.task)
    if evaluation is None:
        name = f"{asked.folder}/{layout.ROLLOUTS_FILE}"
        if finished and seeds and reader.files.status(name) is None:
            yield f"{name} is missing"
        return
    found = [*evaluation.episodes, *evaluation.further]
    parts = manifest.repeats + len(manifest.perturbations)
    if finished and len(found) != len(seeds) * parts:
        yield f"{evaluation.name} holds {len(found)} episodes, {layout.MANIFEST} asks for {len(seeds) * parts}"
    for place, episode in enumerate(found if finished or seeds else ()):  # killed early, it has no seeds yet
        if finished and episode.index != place:
            yield f"{evaluation.name} holds episode {episode.index} in place of episode {place}"
        if not _is_planned(episode, manifest, seeds):
            yield f"{evaluation.name}: episode {episode.index} is not the one that {layout.MANIFEST} asks for"
    if len({episode.index for episode in found}) != len(found):
        yield f"{evaluation.name} holds an episode twice"
    for episode in found:  # sums over runs stay finite: no run takes the results of its neighbours down
        if MOST < abs(episode.episode_return) < math.inf:
            yield f"{evaluation.name}: the return {episode.episode_return:g} of episode {episode.index} is too large"
    if evaluation.results is None:
        return
    about = (evaluation.results.task, evaluation.results.env_id)
    if about != (asked.task, about[1] if manifest.env_id is None else manifest.env_id):
        yield f"{evaluation.name} is of {_names(about)}, its run of {asked.task}"
    if reader.is_ended:
        journalled = reader.journalled(evaluation.journal)
        if journalled is not None and journalled != (evaluation.episodes, evaluation.further):
            yield f"{evaluation.name} and {evaluation.journal} hold different episodes"
        yield from _steps(reader, evaluation)


def _is_planned(episode: Episode, manifest: Manifest, seeds: Sequence[int]) -> bool:
    """Returns whether ``episode_plan`` has this episode, without the plan: a stranger's manifest may ask for 1e18."""
    part, number = divmod(episode.index, len(seeds)) if seeds else (-1, 0)
    if not 0 <= part < manifest.repeats + len(manifest.perturbations):
        return False
    repeated = part < manifest.repeats
    perturbation = "" if repeated else manifest.perturbations[part - manifest.repeats]
    task_index = number if episode.task_index is None else episode.task_index  # older records have none
    return (episode.seed, task_index, episode.repeat, episode.perturbation) == (
        seeds[number],
        number,
        part if repeated else 0,
        perturbation,
    )


def _steps(reader: BundleReader, evaluation: RecordedEpisodes) -> Iterator[str]:
    """Compares the steps with the episodes: their number, and the sum of their rewards."""
    name = f"{evaluation.folder}/{layout.STEPS_FILE}"
    arrays = reader.tolerant(name, lambda name: read_arrays(reader.files, name))
    if arrays is None:
        return
    lengths = [episode.length for episode in evaluation.episodes]
    if any(length < 0 for length in lengths) or any(column.size != sum(lengths) for column in arrays.values()):
        yield f"{name} and {evaluation.name} hold different numbers of steps"
        return
    played = np.repeat(np.array([episode.index for episode in evaluation.episodes]), lengths)
    if "episode" in arrays and not np.array_equal(arrays["episode"], played):
        yield f"{name} and {evaluation.name} hold different episodes"
    if "reward" in arrays:
        rewards = np.split(arrays["reward"], np.cumsum(lengths))[:-1]  # none without episodes
        # accumulate adds in the order of the steps, as the evaluator did; sum does not
        totals = [float(np.add.accumulate(part)[-1]) if part.size else 0.0 for part in rewards]
        if totals != [episode.episode_return for episode in evaluation.episodes]:
            yield f"{evaluation.name}: a return is not the sum of the rewards in {name}"


def _latency(reader: BundleReader, asked: int | None) -> Iterator[str]:
    """Compares the timed calls with their summary and with the settings."""
    results = reader.record(layout.LATENCY, LatencyResults) if reader.is_ended else None
    arrays = reader.tolerant(layout.LATENCY_VALUES, lambda name: read_arrays(reader.files, name))
    if results is None or arrays is None:
        return
    summaries = (results.infer_once, results.preprocess_observation, results.round_trip, results.processor_time)
    counts = {one.count for one in summaries if one is not None} | {column.size for column in arrays.values()}
    if len(counts if asked is None else counts | {asked}) > 1:
        settings = "" if asked is None else f", {layout.MANIFEST} asks for {asked}"
        yield f"{layout.LATENCY_VALUES} and {layout.LATENCY} hold {_names(counts)} calls{settings}"


def _training(reader: BundleReader, manifest: Manifest) -> Iterator[str]:
    results = reader.record(layout.TRAIN, TrainResults) if reader.is_ended else None
    if results is not None and results.wall_s != manifest.timings_s.get("train", results.wall_s):
        yield f"{layout.TRAIN} and {layout.MANIFEST} hold different times of training"


def _tracking(reader: BundleReader, folder: str, recorded: dict[str, Any]) -> Iterator[str]:
    """Compares the report of the trackers with the manifest's and with the rows of the trace."""
    name, trace = f"{folder}/{layout.TRACKING_FILE}", f"{folder}/{layout.TRACE_FILE}"
    report = reader.tolerant(name, reader.json_object) if reader.is_ended else None
    if report is None:
        return
    if any(report.get(key) != value for key, value in recorded.items()):
        yield f"{name} and {layout.MANIFEST} hold different costs"
    rows = reader.tolerant(trace, lambda name: table_of(reader.files, name).numbers("elapsed_s"))
    if rows is None or "samples" not in report:
        return
    attempts = 1 if reader.manifest is None else max(1, len(reader.manifest.attempts))
    # A resumed run continues the trace of the attempt before, of which the report holds no samples.
    further = rows.size - report["samples"]
    if further < 0 or (further > 0 and attempts == 1) or np.count_nonzero(np.diff(rows) < 0) >= attempts:
        yield f"{trace} does not hold the samples of {name}"


def _names(values: Iterable[Any]) -> str:
    return ", ".join(sorted(map(str, values))) or "none"
