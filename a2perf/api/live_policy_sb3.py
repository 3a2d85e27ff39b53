"""A model of Stable-Baselines3 as a submission: the file of ``model.save`` and the adapter ``sb3``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from a2perf.api import live_policy_blame, live_policy_pickle
from a2perf.api.live_policy_folder import LivePolicy, pinned
from a2perf.errors import UserError

if TYPE_CHECKING:
    from stable_baselines3.common.base_class import BaseAlgorithm

_LIBRARIES = {"stable_baselines3": "stable-baselines3", "sb3_contrib": "sb3-contrib"}
_MODEL, _CLASS, _NORMALIZATION = "model.zip", "algorithm.pkl", "normalization.pkl"


def of_model(model: BaseAlgorithm, name: str, title: str) -> LivePolicy:
    """Prepares a model with the normalization of its environment.

    Args:
        model: the model.
        name: name of the submission.
        title: name as it was given.

    Raises:
        UserError: a class of the model cannot be pickled.
    """
    kind = type(model)
    library = kind.__module__.partition(".")[0]
    normalization = model.get_vec_normalize_env()
    arguments = f'"{_MODEL}", algorithm={_algorithm(kind, library)}'
    if normalization is not None:
        arguments += f', normalization="{_NORMALIZATION}"'
    try:
        identity = live_policy_pickle.identity(_content(model, normalization))
        of_class = None if library in _LIBRARIES else live_policy_pickle.pickled(kind)
    except Exception as error:  # __reduce__ of the caller's classes may raise anything
        raise live_policy_blame.unpicklable(model.policy, error) from error

    def write(folder: Path) -> None:
        try:
            with live_policy_pickle.by_value():
                model.save(folder / _MODEL)
                if normalization is not None:
                    normalization.save(str(folder / _NORMALIZATION))
        except Exception as error:
            raise UserError(
                f"the model {name} cannot be saved: {type(error).__name__}: {error}",
                hint="try model.save(...) and remove what it names",
            ) from error
        if of_class is not None:
            (folder / _CLASS).write_bytes(of_class)

    packages = [_LIBRARIES.get(library, "stable-baselines3"), "stable-baselines3"]
    return LivePolicy(
        name, title, identity, "sb3", arguments, write,
        packages=pinned(packages),
        framework="Stable-Baselines3",
    )  # fmt: skip


def _algorithm(kind: type, library: str) -> str:
    """Returns the source of the adapter's argument: a name of the library, or the caller's class from its file."""
    return f'"{kind.__name__}"' if library in _LIBRARIES else f'sb3.pickled_class("{_CLASS}")'


def _content(model: BaseAlgorithm, normalization: Any) -> list[Any]:
    """Returns what decides about the actions; the file of ``model.save`` also holds times and addresses."""
    parts: list[Any] = [
        f"{type(model).__module__}.{type(model).__qualname__}",
        repr(model.observation_space), repr(model.action_space),
        type(model.policy), str(model.policy), model.policy.state_dict(), model.policy_kwargs,
    ]  # fmt: skip
    if type(model).__module__.partition(".")[0] not in _LIBRARIES:
        parts.append(type(model))
    if normalization is not None:
        scaled = {name: vars(normalization).get(name) for name in ("obs_rms", "clip_obs", "epsilon", "norm_obs")}
        parts.append({**scaled, "keys": getattr(normalization, "norm_obs_keys", None)})
    return parts
