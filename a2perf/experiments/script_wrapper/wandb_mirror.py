"""Mirrors logged values to Weights & Biases, if the package is installed and the user requests it.

Offline unless ``WANDB_MODE`` is set: no data leaves the machine by accident. Every value has its step as a
separate field, because the service drops values if the step decreases.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from a2perf._version import __version__
from a2perf.errors import MissingDependency
from a2perf.experiments.script_wrapper.live_values import Mirror
from a2perf.experiments.script_wrapper.order import ScriptOrder


def open_mirror(order: ScriptOrder) -> Mirror:
    """Starts a run of the service and returns the mirror.

    Raises:
        MissingDependency: the package is not installed.
    """
    os.environ.setdefault("WANDB_MODE", "offline")
    os.environ.setdefault("WANDB_SILENT", "true")
    try:
        import wandb
    except ImportError as error:
        raise MissingDependency("wandb is not installed", hint="pip install wandb") from error
    script = Path(order.script)
    run = wandb.init(
        project=order.mirror,
        entity=order.mirror_entity or None,
        name=f"{script.stem}/{order.env}",
        group=str(script),
        dir=order.folder,
        config={"seed": order.seed, "env": order.env, "script": str(script), "a2perf": __version__},
    )

    return _Mirror(run)


class _Mirror:
    def __init__(self, run: Any) -> None:
        self._run = run

    def log(self, tag: str, value: float, step: int) -> None:
        self._run.log({tag: value, "global_step": step})

    def close(self) -> None:
        self._run.finish()
