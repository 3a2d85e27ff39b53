"""A training run: its folder, its protection against another configuration, its checkpoints, curve and progress.

``run.json`` in the artifacts identifies the training run: settings with their SHA-256, environment, seed, spaces. If
the folder belongs to another training run, the call fails and names each field that differs.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np

from a2perf.errors import ConfigError, UserError
from a2perf.storage import json_text, read_json, write_json
from a2perf_baselines.learning._checkpoints import CheckpointFolder, TrainingCheckpoint
from a2perf_baselines.learning._curve import RETURN_TAG, LearningCurve
from a2perf_baselines.learning._progress import Progress
from a2perf_baselines.learning._settings import ID_VARIABLE, KWARGS_VARIABLE, Dataclass, fixed_fields

RECORD = "run.json"
FOLDER_VARIABLE, STEPS_VARIABLE = "A2PERF_ARTIFACTS", "A2PERF_TRAIN_STEPS"
_NOT_GIVEN = "(missing)"


class TrainingRun:
    """A training run, from its first call to its last; created by ``begin``, used as a context manager.

    Attributes:
        total_steps: environment steps of the whole training run: ``settings.total_steps`` or the budget of the run,
            whichever is smaller.
    """

    def __init__(self, settings: Dataclass, folder: Path, env_id: str, env_kwargs: dict[str, Any], seed: int) -> None:
        self.settings: Any = settings
        self.folder, self.env_id, self.env_kwargs, self.seed = folder, env_id, env_kwargs, seed
        wanted = getattr(settings, "total_steps", None)
        budget = os.environ.get(STEPS_VARIABLE)
        limits = [int(limit) for limit in (wanted, budget) if limit is not None]
        self.total_steps = min(limits, default=sys.maxsize)
        self._deadline = time.monotonic() + float(getattr(settings, "time_budget_s", float("inf")))
        self._started = time.monotonic()
        self._elapsed_before = 0.0
        self._progress = Progress(self.total_steps if limits else None)
        self._curve = LearningCurve(folder)
        self._checkpoints = CheckpointFolder(folder)
        self._last_return = ""

    @property
    def out_of_time(self) -> bool:
        """Whether this call has used ``settings.time_budget_s``."""
        return time.monotonic() >= self._deadline

    @property
    def elapsed_s(self) -> float:
        """Duration of this training run in seconds, over all calls, without work that a resume discarded."""
        return self._elapsed_before + time.monotonic() - self._started

    def make_env(self, **kwargs: Any) -> Any:
        """Creates the run's Gymnasium environment; ``kwargs`` override its arguments.

        Raises:
            ConfigError: it does not have an argument.
            MissingDependency: the domain's extra is not installed.
        """
        return self.env_maker(**kwargs)()

    def env_maker(self, **kwargs: Any) -> Callable[[], Any]:
        """Returns a function that creates such an environment; unlike the run, it can be sent to another process."""
        from a2perf.domains.tfa.suite_gym import make_environment

        return functools.partial(make_environment, self.env_id, {**self.env_kwargs, **kwargs})

    def seeds(self, name: str, count: int) -> list[int]:
        """Returns seeds below 2**31 derived from the run's seed and a name; different names give independent seeds."""
        entropy = [self.seed, *hashlib.sha256(name.encode()).digest()]
        return [int(value >> 1) for value in np.random.SeedSequence(entropy).generate_state(count)]

    def require_spaces(self, observation: Any, action: Any) -> None:
        """Records the spaces of the first call and refuses others.

        Raises:
            UserError: the training run began with others; the message names every difference.
        """
        from a2perf.domains.tfa.spaces import leaves, specs_of

        described = {
            leaf.name: f"{leaf.dtype.name}{list(leaf.shape)}"
            for leaf in [*leaves(specs_of(observation, name="observation")), *leaves(specs_of(action, name="action"))]
        }
        record = read_json(self.folder / RECORD)
        if "spaces" not in record:
            write_json(self.folder / RECORD, {**record, "spaces": described})
            return
        _refuse(_differences({"": record["spaces"]}, {"": described}), self.folder)

    def latest(self) -> TrainingCheckpoint | None:
        """Returns the newest complete checkpoint and continues from it; None for a new training run."""
        found = self._checkpoints.latest(self.say)
        if found is None:
            self._curve.cut({})
            return None
        self._elapsed_before = float(found.bookkeeping.get("elapsed_s", 0.0))
        self._curve.cut(found.bookkeeping.get("event_files", {}))
        self.say(f"continuing after {found.step} steps")
        return found

    def save(
        self, step: int, write: Callable[[Path], Any] | None = None, state: Mapping[str, Any] | None = None
    ) -> Path:
        """Writes a checkpoint atomically.

        Args:
            state: counters, states of generators, arrays: msgpack types, NumPy arrays, and ints of any size.

        Returns:
            The checkpoint's folder.
        """
        bookkeeping = {"elapsed_s": self.elapsed_s, "event_files": self._curve.lengths()}
        return self._checkpoints.write(step, write, dict(state or {}), bookkeeping)

    def log(self, values: Mapping[str, float], step: int) -> None:
        """Appends values to the event file, by tag, at an environment step."""
        self._curve.scalars(values, step)

    def average_return(self, value: float, step: int) -> None:
        """Appends a point of the learning curve and shows it."""
        self.log({RETURN_TAG: value}, step)
        self._last_return = f"return {value:.4g}"

    def progress(self, step: int, note: str = "") -> None:
        """Shows the progress; may be called at every step."""
        self._progress.at(step, f"{self._last_return}  {note}".strip())

    def say(self, text: str) -> None:
        """Prints one line."""
        self._progress.say(text)

    def __enter__(self) -> TrainingRun:
        """Returns the run."""
        return self

    def __exit__(self, *error: object) -> None:
        """Closes the event file and ends the display."""
        self._curve.close()
        self._progress.close()


def begin(settings: Dataclass) -> TrainingRun:
    """Opens the training run in ``A2PERF_ARTIFACTS``, or begins one there.

    Args:
        settings: settings of the training run; only fields declared with ``may_change`` may differ after a resume.

    Raises:
        ConfigError: there is no run: an environment variable is missing.
        UserError: the folder holds a training run with another configuration; the message names every difference.
    """
    missing = [name for name in (FOLDER_VARIABLE, ID_VARIABLE) if not os.environ.get(name)]
    if missing:
        raise ConfigError(
            f"a training run was started outside a run: {' and '.join(missing)} not set",
            hint="start it with a2perf, or with `python train.py --env-id ID --output FOLDER`",
        )
    folder = Path(os.environ[FOLDER_VARIABLE])
    env_kwargs = json.loads(os.environ.get(KWARGS_VARIABLE) or "{}")
    run = TrainingRun(settings, folder, os.environ[ID_VARIABLE], env_kwargs, int(os.environ.get("SEED") or 0))
    shared = fixed_fields(settings)
    digest = hashlib.sha256(json_text({"kind": type(settings).__qualname__, **shared}).encode()).hexdigest()
    configuration = {"env_id": run.env_id, "env_kwargs": env_kwargs, "seed": run.seed, "settings": shared}
    # as JSON, in which a tuple is a list
    fresh = json.loads(json_text({"schema": 1, "settings_sha256": digest, **configuration}))
    record = folder / RECORD
    if not record.is_file():
        write_json(record, fresh)
        return run
    try:
        before = read_json(record)
    except ValueError as error:
        raise UserError(f"{RECORD} cannot be read: {error}", hint="train into an empty folder") from error
    free = {field.name for field in fields(settings)} - set(shared)
    kept = {key: before.get(key, {}) for key in configuration}
    kept["settings"] = {name: value for name, value in dict(kept["settings"]).items() if name not in free}
    _refuse(_differences(kept, {key: fresh[key] for key in configuration}), folder)
    return run


def _differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Returns a line per field that differs; nested mappings are compared by path."""
    lines = []
    for key in sorted({*before, *now}):
        old, new = before.get(key, _NOT_GIVEN), now.get(key, _NOT_GIVEN)
        if isinstance(old, Mapping) and isinstance(new, Mapping):
            lines += [f"{key}.{line}" if key else line for line in _differences(old, new)]
        elif old != new:
            lines.append(f"{key} was {_text(old)} and is {_text(new)}")
    return lines


def _text(value: Any) -> str:
    return value if value is _NOT_GIVEN else json.dumps(value)


def _refuse(lines: list[str], folder: Path) -> None:
    if lines:
        raise UserError(
            f"the training run in {folder.name} has another configuration: {'; '.join(lines)}",
            hint="resume it with its original configuration, or train into another folder",
        )
