"""Shared by the adapters: the three functions, the lookup of policy files, and the check against the environment.

Every problem with a policy is a ``ContractError``, which is shown without a traceback. Imports only the standard
library, and Gymnasium and NumPy when spaces are compared.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from a2perf.errors import AssetUnavailable, MissingDependency
from a2perf.submission.participant.signatures import BATCH_ATTRIBUTE, ContractError

if TYPE_CHECKING:
    from a2perf.domains.tfa.spaces import SpecNest

_SHOWN = 12


def taking_rows(
    infer_once: Callable[[Any, Any], Any], infer_batch: Callable[[Any, Any], Any]
) -> Callable[[Any, Any], Any]:
    """Returns ``infer_once`` with ``infer_batch``, which maps stacked observations to one action per row."""
    setattr(infer_once, BATCH_ATTRIBUTE, infer_batch)
    return infer_once


def rows_of(observations: Any) -> list[Any]:
    """Returns the single observations that ``infer_batch`` gets stacked."""
    if isinstance(observations, Mapping):
        return [
            dict(zip(observations, row, strict=True)) for row in zip(*map(rows_of, observations.values()), strict=True)
        ]
    if isinstance(observations, tuple):
        return list(zip(*map(rows_of, observations), strict=True))
    return list(observations)


class Contract(NamedTuple):
    """The functions that a2perf calls, in the order in which an ``inference.py`` unpacks them.

    Attributes:
        load_policy: ``load_policy(env, **participant_args)``. It ignores arguments that are only for train(), because
            both get the same command line.
    """

    load_policy: Callable[..., Any]
    preprocess_observation: Callable[[Any], Any]
    infer_once: Callable[[Any, Any], Any]


def folders(root_dir: str | None = None) -> list[Path]:
    """Returns the folders to search for a policy: ``root_dir``, ``ROOT_DIR`` (training artifacts), the submission."""
    given = [root_dir, os.environ.get("ROOT_DIR")]
    return [*dict.fromkeys(Path(name).expanduser() for name in given if name), Path.cwd()]


def find(name: str | Path, what: str, root_dir: str | None = None) -> Path:
    """Returns the path of a file or folder of the policy.

    Raises:
        ContractError: none of the folders contains it; the message lists what they contain.
    """
    places = folders(root_dir)
    for place in places:
        if (place / name).exists():
            return place / name
    there = sorted(str(item.relative_to(place)) for place in places[:-1] if place.is_dir() for item in place.iterdir())
    shown = ", ".join(there[:_SHOWN]) + (f" and {len(there) - _SHOWN} more" if len(there) > _SHOWN else "")
    raise ContractError(
        f"{what} {str(name)!r} not found in the training artifacts ({shown or 'which are empty'}) or in the submission",
        "train first with the same --root-dir, save the policy in A2PERF_ARTIFACTS, or pass the right name to the "
        "adapter",
    )


def environment_specs(env: Any) -> tuple[SpecNest, SpecNest] | None:
    """Returns the specs of the environment's observations and actions; ``None`` if it cannot be created here.

    The participant's Python may not have the packages of the environment. Then the first observation is checked.

    Raises:
        ContractError: a space that is not an array of fixed shape.
    """
    from a2perf.domains.tfa.spaces import SpaceMismatch, specs_of

    try:
        return specs_of(env.observation_space, name="observation"), specs_of(env.action_space, name="action")
    except SpaceMismatch as error:
        raise ContractError(error.message, error.hint) from error
    except (ImportError, MissingDependency, AssetUnavailable):
        return None


def require_fit(what: str, lines: list[str]) -> None:
    """Raises an error if a policy does not match the environment.

    Raises:
        ContractError: there are differences; the message lists them with the id of the environment.
    """
    if lines:
        shown = "; ".join(lines[:_SHOWN]) + (f"; and {len(lines) - _SHOWN} more" if len(lines) > _SHOWN else "")
        raise ContractError(
            f"{what} does not match the environment {os.environ.get('A2PERF_ENV_ID', 'of this run')}: {shown}",
            "train it on this task, or pass `observation` and `action` functions to the adapter that convert them",
        )


def require_specs(what: str, env: Any, observation: SpecNest | None, action: SpecNest | None) -> None:
    """Raises an error if the specs of a policy and of the environment differ; ``None`` for those that are converted.

    Raises:
        ContractError: see ``require_fit``.
    """
    from a2perf.domains.tfa.spaces import differences

    if (observation is None and action is None) or (ours := environment_specs(env)) is None:
        return
    lines = [] if observation is None else differences(observation, ours[0], bounds=False, name="observation")
    lines += [] if action is None else differences(action, ours[1], bounds=True, name="action")
    require_fit(what, lines)


def missing(framework: str, module: str | None, hint: str) -> ContractError:
    """Returns the error for a framework that is not installed."""
    return ContractError(
        f"the policy needs {framework}, but the package {module!r} is not installed in the participant's Python", hint
    )
