"""Compares a repetition with the recorded run: every recorded value of every episode, and the conditions of both."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from a2perf.domains.registry import find_environment
from a2perf.errors import ConfigError
from a2perf.experiments.reproduce.selection import manifest_of
from a2perf.plain_text import plain_text
from a2perf.records import Episode, Manifest
from a2perf.runs.bundles import layout
from a2perf.runs.bundles.bundle_reader import read_arrays
from a2perf.runs.bundles.files import files_of
from a2perf.runs.reproduction import ChangedCondition, FirstDifference
from a2perf.runs.run import Run
from a2perf.storage import MAX_RECORD_BYTES, parse_json
from a2perf.stranger_files import printable
from a2perf.submission.evaluator.submitted.folder_content import SCHEME

UNKNOWN = "not recorded"
_NOT_COMPARED = ("index", "wall_s", "policy_cpu_s", "final_info", "reward_terms")
_TIMES = ("runtime", "time", "wall", "latency", "duration")
"""Words in the name of an entry of ``final_info`` that is a time, which no repetition repeats."""
_STEP_ARRAYS = ("observation_xxh3", "action_xxh3", "reward")  # earlier versions had other hashes under other names
_HOST = {
    "processor": "cpu_model",
    "processors": "cpu_usable",
    "kernel": "kernel",
    "GPUs": "gpus",
}
_LONGEST = 80


@dataclass(frozen=True)
class EpisodeComparison:
    """The result of comparing the episodes of two runs.

    Attributes:
        equal: number of those that were repeated bit for bit.
    """

    episodes: int
    equal: int
    values: tuple[str, ...]
    first: FirstDifference | None

    @property
    def bit_equal(self) -> bool:
        """Whether there are episodes and all are equal."""
        return self.episodes > 0 and self.equal == self.episodes


def compare_episodes(recorded: Run, repeated: Run) -> EpisodeComparison:
    """Compares everything that both bundles record per episode, and per step where they record steps.

    Both sides are whole sequences: the same tasks, and in each the same episodes in the same order. Values that the
    record does not contain are not compared: an older version did not know them, or they were removed before the bundle
    was published.
    """
    first: FirstDifference | None = None
    count, equal = 0, 0
    values: dict[str, None] = {}
    for task, episodes in recorded.episodes.items():
        steps = [_steps_of(run, task) for run in (recorded, repeated)]
        known = _recorded_names(recorded, task)
        for episode, again in itertools.zip_longest(episodes, repeated.episodes.get(task, [])):
            count += 1
            difference = _difference(task, episode, again, steps, known, values)
            if difference is None:
                equal += 1
            first = first or difference
    for task in repeated.episodes.keys() - recorded.episodes.keys():
        count += len(repeated.episodes[task])
        first = first or _missing(task, None, repeated.episodes[task][0])
    return EpisodeComparison(count, equal, tuple(values), first)


def changed_conditions(
    recorded: Manifest, repeated: Manifest, submission_sha256: str, fingerprint: str
) -> list[ChangedCondition]:
    """Returns what differs between the record and a repetition, the most important first."""
    submission = recorded.submission.sha256[:12]
    if recorded.submission.scheme != SCHEME:  # it covers other files, and cannot be compared
        submission += " (hash of an older version)"
    pairs: list[tuple[str, Any, Any]] = [
        ("submission", submission, submission_sha256[:12]),
        ("environment fingerprint", (recorded.env_fingerprint or "")[:12], fingerprint[:12]),
        ("files of the environment", _files_of_environment(recorded), _files_of_environment(repeated)),
        ("a2perf", recorded.a2perf_version, repeated.a2perf_version),
        ("a2perf code", recorded.a2perf_sha256[:12], repeated.a2perf_sha256[:12]),
        ("Python", _python(recorded), _python(repeated)),
    ]
    packages, now = ({} if one.python_env is None else one.python_env.packages for one in (recorded, repeated))
    if packages and now:
        names = sorted({*packages, *now})
        pairs += [(name, packages.get(name, "missing"), now.get(name, "missing")) for name in names]
    elif now:
        pairs.append(("packages", "", f"{len(now)} packages"))
    then, here = recorded.host, repeated.host
    pairs += [(name, then.get(key), here.get(key)) for name, key in _HOST.items()]
    pairs.append(("memory", _gib(then.get("memory_bytes")), _gib(here.get("memory_bytes"))))
    if then.get("kernel") == here.get("kernel"):  # the name of the system contains the kernel's
        pairs.append(("system", then.get("os"), here.get("os")))
    if recorded.sandbox is not None and repeated.sandbox is not None:
        pairs.append(("sandbox", recorded.sandbox.level, repeated.sandbox.level))
    return [
        ChangedCondition(name=name, recorded=_text(before) or UNKNOWN, repeated=_text(after) or UNKNOWN)
        for name, before, after in pairs
        if before != after and (_text(before) or name in ("packages", "a2perf code"))
    ]


def _files_of_environment(manifest: Manifest) -> str:
    return "" if manifest.environment is None else manifest.environment.sha256[:12]


def same_host(recorded: Manifest, repeated: Manifest) -> bool | None:
    """Returns whether both runs had the same host; None if the record does not tell.

    Different hardware proves another host; an equal host name proves the same one.
    """
    keys = ("cpu_model", "memory_bytes", "architecture")
    if any(recorded.host.get(key) not in (None, repeated.host.get(key)) for key in keys):
        return False
    names = [manifest.attempts[-1].host if manifest.attempts else "" for manifest in (recorded, repeated)]
    if not names[0] or names[0] == UNKNOWN:
        return None
    return names[0] == names[1]


def offline_checks(run: Run) -> list[str]:
    """Returns what can be checked without repeating the run, one sentence per check that held."""
    manifest = manifest_of(run)
    found = [f"all {len(manifest.files)} files have the hashes of the manifest"]
    seeds = manifest.seeds.get("episodes")
    episodes = next(iter(run.episodes.values()), [])
    if manifest.mode == "inference" and seeds and [episode.seed for episode in episodes] == seeds:
        found.append(f"its {len(episodes)} episodes have the seeds of the manifest")
    if episodes and all(math.isfinite(episode.episode_return) for episode in episodes):
        returns = [episode.episode_return for every in run.episodes.values() for episode in every]
        found.append(f"the mean return of its {len(returns)} recorded episodes is {np.mean(returns):.6g}")
    if manifest.env_id is not None:
        try:
            find_environment(manifest.env_id)
            found.append(f"the environment {manifest.env_id} exists")
        except ConfigError:
            pass
    return found


def _difference(
    task: str,
    before: Episode | None,
    after: Episode | None,
    steps: Sequence[Mapping[str, Any]],
    known: set[str],
    values: dict[str, None],
) -> FirstDifference | None:
    if before is None or after is None or (before.index, before.seed) != (after.index, after.seed):
        return _missing(task, before, after)
    found = [_named_values(episode, known) for episode in (before, after)]
    # A difference of a step explains the ones of the episode, so it comes first.
    at_step = _step_difference(task, before.index, steps, values)
    for name, value in found[0].items():
        values[name] = None
        other = found[1].get(name)
        both_nan = isinstance(value, float) and isinstance(other, float) and math.isnan(value) and math.isnan(other)
        if value != other and not both_nan:
            return at_step or FirstDifference(
                task=task, episode=before.index, array=name, recorded=_text(value), repeated=_text(other)
            )
    return at_step


def _missing(task: str, before: Episode | None, after: Episode | None) -> FirstDifference:
    """Returns the difference of two sequences that have another episode, or none, at the same place."""
    shown = ["missing" if one is None else f"episode {one.index}, seed {one.seed}" for one in (before, after)]
    index = next(one.index for one in (before, after) if one is not None)
    return FirstDifference(task=task, episode=index, array="episode", recorded=shown[0], repeated=shown[1])


def _step_difference(
    task: str, index: int, steps: Sequence[Mapping[str, Any]], values: dict[str, None]
) -> FirstDifference | None:
    if not all(steps):
        return None
    rows = [np.flatnonzero(arrays["episode"] == index) for arrays in steps]
    least = min(len(row) for row in rows)
    found: list[tuple[int, int, str]] = []
    for order, name in enumerate(_STEP_ARRAYS):
        if not all(name in arrays for arrays in steps):
            continue
        values[name.removesuffix("_xxh3")] = None
        left, right = (arrays[name][row[:least]] for arrays, row in zip(steps, rows, strict=True))
        unequal = np.flatnonzero(left.view(np.uint64) != right.view(np.uint64))
        if unequal.size:
            found.append((int(unequal[0]), order, name))
    if not found:
        return None
    step, _, name = min(found)
    shown = [_text(arrays[name][row[step]].item()) for arrays, row in zip(steps, rows, strict=True)]
    if name != "reward":
        shown = [f"hash {text}" for text in shown]
    return FirstDifference(
        task=task, episode=index, step=step, array=name.removesuffix("_xxh3"), recorded=shown[0], repeated=shown[1]
    )


def _steps_of(run: Run, task: str) -> dict[str, NDArray[Any]]:
    """Returns the recorded steps of a task; empty if the bundle has none."""
    name = _file_of(run, task, layout.STEPS, layout.STEPS_FILE)
    if name is None:
        return {}
    try:
        arrays = read_arrays(files_of(run.folder.path), name, ("episode", *_STEP_ARRAYS))
    except (OSError, ValueError, KeyError):
        return {}
    sizes = {array.size for array in arrays.values()}
    complete = {"episode", "reward"} <= set(arrays) and len(sizes) == 1
    wide = complete and all(array.dtype.itemsize == 8 for array in arrays.values())
    return arrays if wide else {}


def _recorded_names(run: Run, task: str) -> set[str]:
    """Returns the names of the fields that any recorded episode of a task contains."""
    name = _file_of(run, task, layout.ROLLOUTS, layout.ROLLOUTS_FILE)
    if name is None:
        return set(msgspec.to_builtins(next(iter(run.episodes[task]))))
    episodes = parse_json(files_of(run.folder.path).read(name, MAX_RECORD_BYTES), name).get("episodes", [])
    return {key for episode in episodes for key in episode}


def _file_of(run: Run, task: str, single: str, of_task: str) -> str | None:
    """Returns the file of a run's only task, or that of one task among several; None without either."""
    files, names = files_of(run.folder.path), (single, f"{layout.TASKS}/{task}/{of_task}")
    return next((name for name in names if files.status(name) is not None), None)


def _named_values(episode: Episode, known: set[str]) -> dict[str, Any]:
    fields = msgspec.to_builtins(episode)
    found = {name: value for name, value in fields.items() if name in known and name not in _NOT_COMPARED}
    found |= {f"reward_terms.{name}": value for name, value in episode.reward_terms.items()}
    informative = {
        f"final_info.{name}": value
        for name, value in episode.final_info.items()
        if not any(word in name.lower() for word in _TIMES)
    }
    return found | informative


def _gib(value: Any) -> str:
    return f"{value / 2**30:.1f} GiB" if isinstance(value, int | float) else ""


def _python(manifest: Manifest) -> str:
    env = manifest.python_env
    version = env.python_version if env is not None and env.python_version else manifest.python.get("version", "")
    return plain_text(f"{manifest.python.get('implementation', '')} {version}".strip())


def _text(value: Any) -> str:
    if value in (None, "", [], {}):
        return ""
    text = repr(value) if isinstance(value, float) else str(value)
    return printable(plain_text(text))[:_LONGEST]
