"""Stored reference scores that put scores of different environments on one scale: 0 is the floor, 1 the expert.

They come from a file of the user or from the shipped protocol, never from the compared runs: their lowest and highest
scores change from one comparison to the next.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from a2perf.errors import ConfigError, UserError
from a2perf.metrics import protocol
from a2perf.metrics.protocol import ReferenceScale
from a2perf.metrics.submitted import protocol_of
from a2perf.rlops.compare.panel import Panel
from a2perf.rlops.compare.scores import EPISODE_RETURN
from a2perf.runs.stores.store import RETURN_METRICS

_FORM = '{"CartPole-v1": {"random": 22.0, "expert": 500.0}} in JSON or YAML'


def read_references(path: Path) -> dict[str, ReferenceScale]:
    """Reads reference scores by environment from a file.

    Raises:
        UserError: the file is missing or of another form; the message names the entry.
    """
    import yaml

    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UserError(
            f"the reference scores {path} cannot be read: {error.strerror}", hint=f"write {_FORM}"
        ) from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise UserError(f"{path} is neither JSON nor YAML: {error}", hint=f"write {_FORM}") from error
    if not isinstance(content, dict) or not content:
        raise UserError(f"{path} does not map environments to scores", hint=f"write {_FORM}")
    return scales_of(content, str(path))


def scales_of(given: Mapping[Any, Any], source: str) -> dict[str, ReferenceScale]:
    """Returns reference scores by environment: ``(random, expert)`` or a mapping with both names for each.

    Raises:
        ConfigError: an environment has not two different numbers.
    """
    return {str(env): _reference(source, str(env), value) for env, value in given.items()}


def references_of(panels: Sequence[Panel], given: dict[str, ReferenceScale]) -> dict[str, ReferenceScale]:
    """Returns the references of panels by name; those without any are absent."""
    found = {}
    for panel in panels:
        if panel.unit:  # a cost; references are returns
            continue
        own = given.get(panel.env)
        is_return = panel.metric in (*RETURN_METRICS, EPISODE_RETURN)
        reference = own or (_of_protocol(panel) if is_return else None)
        if reference is not None:
            found[panel.name] = reference
    return found


def _reference(source: str, env: str, value: Any) -> ReferenceScale:
    ends: Any = [value.get("random"), value.get("expert")] if isinstance(value, dict) else value
    numeric = isinstance(ends, list | tuple) and len(ends) == 2
    if not numeric or not all(isinstance(end, int | float) and np.isfinite(end) for end in ends):
        problem = f"{source}: {env} needs two numbers, random and expert, and has {value!r}"
        raise ConfigError(problem, hint=f"write {_FORM}")
    if ends[0] == ends[1]:
        problem = f"{source}: {env} has equal scores of random and expert"
        raise ConfigError(problem, hint="give the scores of two policies")
    return ReferenceScale(float(ends[0]), float(ends[1]), source)


def _of_protocol(panel: Panel) -> ReferenceScale | None:
    """Returns the protocol's references where the task is plain: by its name, or the only one of its environment."""
    prints = panel.fingerprints()
    recorded = protocol_of(run.folder.path for cell in panel.cells for run in cell.runs)
    for name in [recorded] if recorded in protocol.names() else protocol.versions():
        known = protocol.load(name).tasks.values()
        tasks = [task for task in known if panel.env in (task.name, task.env_id) and task.has_references()]
        if len(tasks) == 1 and len(prints) <= 1 and prints <= {tasks[0].fingerprint}:
            return dataclasses.replace(tasks[0].scale(), source=f"protocol {name}, task {tasks[0].name}")
    return None
