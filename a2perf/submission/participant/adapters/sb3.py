"""A zip file of Stable-Baselines3 (or its contrib package) as a submission.

    from a2perf.submission.participant.adapters import sb3

    load_policy, preprocess_observation, infer_once = sb3.contract("model.zip", algorithm="PPO")

Stable-Baselines3 and PyTorch are imported when the policy is loaded.
"""

from __future__ import annotations

import importlib
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from a2perf.errors import did_you_mean
from a2perf.submission.participant.adapters.contract import Contract, find, missing, require_specs, taking_rows
from a2perf.submission.participant.adapters.origin import require_origin
from a2perf.submission.participant.signatures import ContractError

if TYPE_CHECKING:
    from stable_baselines3.common.base_class import BaseAlgorithm

_LIBRARIES = ("stable_baselines3", "sb3_contrib")
_KEEP_VALUES = (
    "ActionMasker",
    "Autoreset",
    "HumanRendering",
    "Monitor",
    "NormalizeReward",
    "RecordEpisodeStatistics",
    "RecordVideo",
    "RenderCollection",
    "TimeLimit",
    "VecCheckNan",
    "VecMonitor",
    "VecNormalize",
    "VecTransposeImage",
    "VecVideoRecorder",
)
_INSTALL = "pip install stable-baselines3 (and sb3-contrib for its algorithms), and list it in requirements.txt"


def contract(
    file: str = "model.zip",
    *,
    algorithm: str | type[BaseAlgorithm],
    deterministic: bool = True,
    normalization: str | None = None,
    observation: Callable[[Any], Any] | None = None,
    action: Callable[[Any], Any] | None = None,
) -> Contract:
    """Returns the three functions of the contract for a saved model.

    ``load_policy`` takes the participant arguments ``file``, ``algorithm`` and ``root_dir``.

    Args:
        file: file written by ``model.save``, relative to ``ROOT_DIR`` or to the submission.
        algorithm: the class, or its name such as ``"PPO"``.
        deterministic: whether to take the most likely action instead of sampling one.
        normalization: file written by ``VecNormalize.save``, if the model was trained with it.
        observation: converts an observation of the environment for the model, if they differ.
        action: converts an action of the model for the environment, if they differ.
    """
    default_algorithm = algorithm
    normalize: Callable[[Any], Any] | None = None

    def load_policy(
        env: Any, file: str = file, algorithm: str | None = None, root_dir: str | None = None, **of_training: str
    ) -> Callable[..., Any]:
        nonlocal normalize
        from a2perf.domains.tfa.spaces import specs_of

        path = find(file, "model", root_dir)
        require_origin(path, f"the model {path.name}")
        model = _loaded(path, _algorithm(algorithm or default_algorithm))
        seen = specs_of(model.observation_space, name="observation") if observation is None else None
        acts = specs_of(model.action_space, name="action") if action is None else None
        require_specs(f"the model {path.name}", env, seen, acts)
        if normalization is not None:
            normalize = _normalizer(find(normalization, "normalization", root_dir))
        return _policy(model, deterministic, action)

    def preprocess_observation(seen: Any) -> Any:
        translated = seen if observation is None else observation(seen)
        return translated if normalize is None else normalize(translated)

    def infer_batch(policy: Callable[..., Any], observations: Any) -> Any:
        if observation is not None or action is not None:
            raise ContractError(
                "the adapter's functions `observation` and `action` convert one value, not rows", "leave out --batch"
            )
        return policy(observations if normalize is None else normalize(observations), rows=True)

    infer_once = taking_rows(lambda policy, observation: policy(observation), infer_batch)
    return Contract(load_policy, preprocess_observation, infer_once)


def changing_wrappers(model: BaseAlgorithm) -> list[str]:
    """Returns the names of wrappers that the caller put around a model's environment and that may change values.

    An evaluation makes the environment of the id again, so wrappers that belong to the id are not listed. Neither are
    ``VecNormalize``, which ``normalization`` stands for, and wrappers of Gymnasium and the library that leave
    observations and actions as they are. In another process only wrappers of observations and actions are found.
    """
    import gymnasium

    found: list[Any] = []
    env: Any = model.get_env()
    while (inner := getattr(env, "venv", None)) is not None:
        found.append(type(env))
        env = inner
    if env is not None and not hasattr(env, "envs"):
        bases = (gymnasium.ObservationWrapper, gymnasium.ActionWrapper)
        kinds = [kind for kind in vars(gymnasium.wrappers).values() if isinstance(kind, type)]
        known = [kind for kind in kinds if issubclass(kind, bases) and any(env.env_is_wrapped(kind))]
        found += known or [kind for kind in bases if any(env.env_is_wrapped(kind))]
    one = next(iter(getattr(env, "envs", ())), None)
    registered = gymnasium.registry.get(getattr(getattr(one, "spec", None), "id", ""))
    of_id = [wrapper.name for wrapper in registered.additional_wrappers] if registered is not None else []
    # gymnasium.make adds these around what the id's entry point returns.
    while isinstance(one, gymnasium.Wrapper) and type(one).__name__ not in ("OrderEnforcing", "PassiveEnvChecker"):
        if type(one).__name__ not in of_id and not isinstance(one, gymnasium.RewardWrapper):
            found.append(type(one))
        one = one.env
    return [kind.__name__ for kind in found if not _keeps_values(kind)]


def _keeps_values(wrapper: type) -> bool:
    library = wrapper.__module__.partition(".")[0]
    return library == "a2perf" or (library in ("gymnasium", *_LIBRARIES) and wrapper.__name__ in _KEEP_VALUES)


def pickled_class(file: str) -> type[BaseAlgorithm]:
    """Returns the class of a model from a pickle of cloudpickle."""
    import cloudpickle

    with (Path.cwd() / file).open("rb") as stream:
        found: type[BaseAlgorithm] = cloudpickle.load(stream)  # safe: the participant's file in its process
    return found


def _policy(model: BaseAlgorithm, deterministic: bool, action: Callable[[Any], Any] | None) -> Callable[..., Any]:
    from a2perf.domains.tfa.spaces import action_writer

    write = action_writer(model.action_space)

    def act(observation: Any, rows: bool = False) -> Any:
        chosen, _ = model.predict(observation, deterministic=deterministic)
        if rows:
            return [write(row) for row in chosen]
        written = write(chosen)
        return written if action is None else action(written)

    return act


def _algorithm(given: str | type[BaseAlgorithm]) -> type[BaseAlgorithm]:
    if not isinstance(given, str):
        return given
    known: list[str] = []
    for name in _LIBRARIES:
        try:
            library = importlib.import_module(name)
        except ModuleNotFoundError as error:
            if name == _LIBRARIES[0]:
                raise missing("Stable-Baselines3", error.name, _INSTALL) from error
            continue
        if isinstance(found := getattr(library, given, None), type):
            return found
        known += [word for word in vars(library) if word.isupper() or word.endswith("PPO")]
    raise ContractError(
        f"Stable-Baselines3 has no algorithm {given!r}{did_you_mean(given, known)}",
        f"give one of {', '.join(known)}; those of sb3-contrib have to be installed; or give the class itself",
    )


def _loaded(path: Path, algorithm: type[BaseAlgorithm]) -> BaseAlgorithm:
    try:
        # Loading allocates the whole replay buffer, which inference does not need.
        return algorithm.load(path, device="cpu", buffer_size=1)
    except ModuleNotFoundError as error:
        raise ContractError(
            f"{path.name} needs the package {error.name!r}, which is not installed in the participant's Python",
            "list it in requirements.txt",
        ) from error
    except Exception as error:  # a damaged file and a wrong class fail in many ways
        raise ContractError(
            f"{path.name} cannot be loaded as {algorithm.__name__}: {type(error).__name__}: {error}",
            "pass a file written by model.save, and the algorithm that trained it",
        ) from error


def _normalizer(path: Path) -> Callable[[Any], Any]:
    """Returns the function that scales observations as ``VecNormalize`` did in training."""
    try:
        with path.open("rb") as stream:
            statistics = pickle.load(stream)  # safe: the participant's file in the participant's process
        statistics.training = False
        normalize: Callable[[Any], Any] = statistics.normalize_obs
    except Exception as error:  # a damaged pickle can fail in any way
        raise ContractError(
            f"{path.name} cannot be loaded as VecNormalize: {type(error).__name__}: {error}",
            "pass a file written by VecNormalize.save",
        ) from error
    return normalize
