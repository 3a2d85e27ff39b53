"""What the adapters share: the three functions, the files of a policy, and whether it fits the environment.

Everything that is wrong with a policy is a ``ContractError``: the participant's to fix, and shown without a traceback.
Imports the standard library; Gymnasium and NumPy when spaces are compared.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from a2perf.errors import AssetUnavailable, MissingDependency
from a2perf.submission.participant.signatures import ContractError

if TYPE_CHECKING:
    from a2perf.domains.tfa.spaces import SpecNest

_SHOWN = 12


class Contract(NamedTuple):
    """The functions that a2perf calls, in the order in which an ``inference.py`` unpacks them.

    Attributes:
        load_policy: ``load_policy(env, **participant_args)``; it lets pass what only train() knows, since one command
            line serves both.
        preprocess_observation: ``preprocess_observation(observation)``.
        infer_once: ``infer_once(policy, observation)``.
    """

    load_policy: Callable[..., Any]
    preprocess_observation: Callable[[Any], Any]
    infer_once: Callable[[Any, Any], Any]


def folders(root_dir: str | None = None) -> list[Path]:
    """Returns where a policy is looked for: ``root_dir``, ``ROOT_DIR`` (what training left), the submission itself."""
    given = [root_dir, os.environ.get("ROOT_DIR")]
    return [*dict.fromkeys(Path(name).expanduser() for name in given if name), Path.cwd()]


def find(name: str | Path, what: str, root_dir: str | None = None) -> Path:
    """Returns the path of a file or folder of the policy.

    Args:
        name: its path, relative to one of ``folders``.
        what: what it is, for the message.
        root_dir: see ``folders``.

    Raises:
        ContractError: it is in none of them; the message says what is there instead.
    """
    places = folders(root_dir)
    for place in places:
        if (place / name).exists():
            return place / name
    there = sorted(str(item.relative_to(place)) for place in places[:-1] if place.is_dir() for item in place.iterdir())
    shown = ", ".join(there[:_SHOWN]) + (f" and {len(there) - _SHOWN} more" if len(there) > _SHOWN else "")
    raise ContractError(
        f"there is no {what} {str(name)!r} in the artifacts of the training, which hold {shown or 'nothing'}, "
        "nor in the submission",
        "run the training with the same root_dir first, have it write there what it learns (A2PERF_ARTIFACTS), or give "
        "the right name to the adapter",
    )


def environment_specs(env: Any) -> tuple[SpecNest, SpecNest] | None:
    """Returns the specs of the environment's observations and actions; ``None`` where it cannot be made here.

    A participant's own Python need not have what the environment needs; then the first observation tells.

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
    """Refuses a policy that does not fit.

    Args:
        what: the policy, for the message.
        lines: its differences from the environment; see ``spaces.differences``.

    Raises:
        ContractError: there are any; the message has them all, with the id of the environment.
    """
    if lines:
        shown = "; ".join(lines[:_SHOWN]) + (f"; and {len(lines) - _SHOWN} more" if len(lines) > _SHOWN else "")
        raise ContractError(
            f"{what} was trained for another environment than {os.environ.get('A2PERF_ENV_ID', 'this one')}: {shown}",
            "train it on this task, or give the adapter the functions `observation` and `action` that translate",
        )


def missing(framework: str, module: str | None, hint: str) -> ContractError:
    """Returns the error of a framework that is not installed."""
    return ContractError(
        f"the policy needs {framework}, but the package {module!r} is not installed in the participant's Python", hint
    )
