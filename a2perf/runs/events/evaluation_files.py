"""``evaluations.npz`` of Stable-Baselines3: what its ``EvalCallback`` saw at each evaluation during training."""

from __future__ import annotations

import zipfile

import numpy as np
from numpy.typing import NDArray

from a2perf.errors import UserError
from a2perf.runs.bundles.files import BundleFiles
from a2perf.runs.events.series_cache import LogContent
from a2perf.storage import MAX_VALUES

NAME = "evaluations.npz"
_SERIES = {"results": "eval/mean_reward", "ep_lengths": "eval/mean_ep_length", "successes": "eval/success_rate"}


def read_evaluations(files: BundleFiles, name: str) -> LogContent:
    """Reads the mean over the episodes of each evaluation, under the names that Stable-Baselines3 logs it with.

    Raises:
        StrangerFileError: the file cannot be opened.
        UserError: it is not such a file, or holds too many values.
    """
    try:
        with files.open(name) as stream, zipfile.ZipFile(stream) as archive:
            steps = _array(archive, "timesteps")
            held = [member for member in _SERIES if f"{member}.npy" in archive.namelist()]
            columns = {member: _array(archive, member).reshape(steps.size, -1).mean(axis=1) for member in held}
    except (zipfile.BadZipFile, KeyError, ValueError, EOFError, NotImplementedError, RuntimeError, TypeError) as error:
        raise UserError("not evaluations of Stable-Baselines3", hint="copy the file again") from error
    unknown = np.full(steps.size, np.nan)
    return LogContent({_SERIES[member]: np.stack([steps, means, unknown]) for member, means in columns.items()})


def _array(archive: zipfile.ZipFile, member: str) -> NDArray[np.float64]:
    if archive.getinfo(f"{member}.npy").file_size > 8 * MAX_VALUES:
        raise UserError(f"holds more than {MAX_VALUES} values", hint="evaluate fewer episodes")
    with archive.open(f"{member}.npy") as stream:
        return np.asarray(np.lib.format.read_array(stream, allow_pickle=False), np.float64)
