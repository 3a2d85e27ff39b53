"""TensorFlow's variables in the checkpoint of a run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from a2perf.errors import UserError
from a2perf_baselines.learning.tf_agents.frameworks import tf

PREFIX = "tensorflow"


def write(folder: Path, **trackables: Any) -> None:
    """Writes agents, optimizers and counters into a folder, under their names."""
    tf.train.Checkpoint(**trackables).write(str(folder / PREFIX))


def read(folder: Path, **trackables: Any) -> None:
    """Restores the variables of objects that ``write`` saved; variables created later are restored on creation.

    Raises:
        UserError: the checkpoint belongs to other networks, or a variable is missing in it.
    """
    try:
        status = tf.train.Checkpoint(**trackables).read(str(folder / PREFIX))
        status.assert_existing_objects_matched()
    except (AssertionError, ValueError, tf.errors.OpError) as error:
        text = str(error).strip().splitlines()[0] if str(error).strip() else "no reason is given"
        raise UserError(
            f"the checkpoint {folder.name} does not fit these networks: {type(error).__name__}: {text:.300}",
            hint="resume with the version that wrote it, or train into another folder",
        ) from error
