"""A policy object becomes a submission folder with an ``inference.py`` and the policy's files.

Finds out what the object is, how it is called, and what has to travel with it. The evaluator never loads the policy;
the participant process does.
"""

from __future__ import annotations

import functools
import hashlib
import inspect
import json
import platform
import re
import tempfile
import types
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from a2perf.api import live_policy_pickle
from a2perf.api.live_policy_pickle import pinned, unpicklable
from a2perf.errors import ConfigError, UserError
from a2perf.plain_text import plain_text
from a2perf.submission.participant.adapters.live import CALLS, FORWARD
from a2perf.submission.participant.adapters.sb3 import changing_wrappers
from a2perf.submission.participant.signatures import is_a, misfit, names_of, signature_of

if TYPE_CHECKING:
    from stable_baselines3.common.base_class import BaseAlgorithm

_DIGEST_DIGITS = 8
_MOST_NAME = 60
_TRAIN = '''"""There is nothing to train: the policy was given to a2perf.evaluate."""


def train(**participant_args: str) -> None:
    """Returns at once; inference.py loads the policy of this folder."""
'''
_INFERENCE = '''"""Loads the policy that was given to a2perf.evaluate."""

from a2perf.submission.participant.adapters import {adapter}

load_policy, preprocess_observation, infer_once = {adapter}.contract({arguments})
'''
_LIBRARIES = {"stable_baselines3": "stable-baselines3", "sb3_contrib": "sb3-contrib"}
_MODEL, _CLASS, _NORMALIZATION = "model.zip", "algorithm.pkl", "normalization.pkl"
_HASHED = (np.ndarray, types.FunctionType, functools.partial)
_FOLDER, _NAME = "policies", "policy"


@dataclass(frozen=True)
class LivePolicy:
    """A policy that is ready to be written as a submission, which the evaluator runs like any other.

    Attributes:
        name: valid as the name of a folder; ``title`` is the name as it was given.
        identity: hash of the policy's code and state.
        adapter: module of ``participant.adapters`` that loads it.
        arguments: Python source of the arguments of the adapter's ``contract``.
        write: writes the policy's files into a folder.
        packages: lines of ``requirements.txt``.
        weights: files and folders that ``write`` leaves and that differ between trained policies of one algorithm;
            empty if the policy is code only.
        code: hash of the code in these files.
    """

    name: str
    title: str
    identity: str
    adapter: str
    arguments: str
    write: Callable[[Path], object]
    packages: Sequence[str] = ()
    framework: str = ""
    weights: Sequence[str] = ()
    code: str = ""

    @property
    def inference(self) -> str:
        """Source of ``inference.py``."""
        return _INFERENCE.format(adapter=self.adapter, arguments=self.arguments)

    @property
    def digest(self) -> str:
        """Identifies the content of the submission; different policies have different digests."""
        parts = (self.identity, self.inference, self.title, *self.packages)
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:_DIGEST_DIGITS]

    def written_to(self, place: Path) -> Path:
        """Writes the submission as ``<place>/<name>``, unless it is there.

        Raises:
            ConfigError: the folder cannot be written.
            UserError: the policy's library cannot save it.
        """
        folder = place / self.name
        if folder.is_dir():
            return folder
        try:
            place.mkdir(parents=True, exist_ok=True)
            # Another thread may write the same policy: the folder appears complete or not at all.
            with tempfile.TemporaryDirectory(dir=place, prefix=".writing-") as temporary:
                written = Path(temporary) / self.name
                written.mkdir()
                self._write(written)
                written.rename(folder)
        except OSError as error:
            if folder.is_dir():
                return folder
            raise ConfigError(
                f"the submission cannot be written to {place}: {error.strerror}", hint="give a root_dir you can write"
            ) from error
        return folder

    def _write(self, folder: Path) -> None:
        self.write(folder)
        (folder / "__init__.py").touch()
        (folder / "train.py").write_text(_TRAIN, encoding="utf-8")
        (folder / "inference.py").write_text(self.inference, encoding="utf-8")
        (folder / "requirements.txt").write_text("".join(f"{line}\n" for line in self.packages), encoding="utf-8")
        described: dict[str, Any] = {"title": self.title[:_MOST_NAME], "framework": self.framework}
        if self.weights:  # files of one policy may differ each time that they are written
            described |= {"weights": list(self.weights), "code": self.code, "policy": self.identity}
        lines = [f"{key} = {json.dumps(value, ensure_ascii=False)}\n" for key, value in described.items() if value]
        (folder / "a2perf.toml").write_text("".join(lines), encoding="utf-8")


def folder_name(title: str) -> str:
    """Returns a name that is valid as the name of a folder and of a submission.

    Raises:
        ConfigError: it has no letter or digit.
    """
    plain = re.sub(r"[^A-Za-z0-9._-]+", "_", title).strip("._-")[:_MOST_NAME]
    if not plain:
        raise ConfigError(f"the name {title!r} has no letter or digit", hint="name='my_policy'")
    return plain


def live_policy(policy: Any, name: str | None = None) -> LivePolicy:
    """Prepares a policy for its process, without importing any framework.

    ``a2perf.evaluate`` lists what a policy may be. Its name is by default that of the function or class.

    Raises:
        UserError: it cannot be called with one observation, or cannot be pickled; the message names the part.
    """
    title = plain_text(_default_name(policy) if name is None else name)
    plain = folder_name(title)
    if is_a(policy, "stable_baselines3.common.base_class", "BaseAlgorithm"):
        return _of_sb3_model(policy, plain, title)
    if is_a(policy, "tf_agents.policies.tf_policy", "TFPolicy"):
        return _of_tf_agents_policy(policy, plain, title)
    call = _call_of(policy)
    try:
        content, identity = live_policy_pickle.pickled(policy), live_policy_pickle.identity(policy)
        code = _code_of(policy)
    except Exception as error:  # __reduce__ and __getstate__ of the caller's classes may raise anything
        raise unpicklable(policy, error) from error
    python = ".".join(platform.python_version_tuple()[:2])
    return LivePolicy(
        plain,
        title,
        identity,
        "live",
        f'"policy.pkl", call="{call}", python="{python}"',
        write=lambda folder: (folder / "policy.pkl").write_bytes(content),
        packages=live_policy_pickle.packages_of(content),
        framework="PyTorch" if call == FORWARD else "",
        weights=("policy.pkl",) if code else (),
        code=code,
    )


def _code_of(policy: Any) -> str:
    """Returns a hash of what trained policies of one algorithm share; ``""`` if the policy is code only."""
    if isinstance(policy, types.MethodType) and not isinstance(policy.__self__, type):
        return live_policy_pickle.identity((_code_of(policy.__self__), policy.__name__))
    if isinstance(policy, types.FunctionType | types.BuiltinFunctionType | types.MethodType | functools.partial):
        return ""
    architecture = str(policy) if is_a(policy, "torch.nn.modules.module", "Module") else ""
    return live_policy_pickle.identity((type(policy), architecture))


def _call_of(policy: Any) -> str:
    """Returns how a policy is called, after checking that it can be called with one observation."""
    if isinstance(policy, type):
        raise UserError(
            f"the policy is the class {policy.__name__}, not an object", hint=f"give an object: {policy.__name__}(...)"
        )
    if isinstance(policy, types.ModuleType):
        raise UserError(
            f"the policy is the module {policy.__name__}",
            hint="give the folder of the submission as a path, or one function of the module",
        )
    is_module = is_a(policy, "torch.nn.modules.module", "Module")
    methods = [name for name in CALLS if callable(getattr(policy, name, None))]
    chosen = next((name for name in methods if name != "__call__"), FORWARD if is_module else None)
    if chosen is None:
        if not methods:
            raise UserError(
                f"the policy is a {type(policy).__name__}, which has none of {', '.join(CALLS)}",
                hint="give a function of one observation, an object with act(observation), or a submission folder",
            )
        chosen = "__call__"
    if chosen == "__call__":
        _check_call(policy, _default_name(policy))
    else:
        _check_call(getattr(policy, chosen), f"{type(policy).__name__}.{chosen}")
    return chosen


def _check_call(function: Any, shown: str) -> None:
    plain = function.func if isinstance(function, functools.partial) else function
    if inspect.iscoroutinefunction(plain) or inspect.isgeneratorfunction(plain) or inspect.isasyncgenfunction(plain):
        raise UserError(
            f"the policy {shown} is async or a generator", hint="give a plain function that returns an action"
        )
    signature = signature_of(function)
    if misfit(signature, None) is not None:
        raise UserError(
            f"the policy {shown}{names_of(signature)} cannot be called with one observation",
            hint="give a function of one observation, such as `lambda observation: policy(observation, ...)`",
        )


def _default_name(policy: Any) -> str:
    if isinstance(policy, functools.partial):
        return _default_name(policy.func)
    if isinstance(policy, types.MethodType):
        owner = policy.__self__
        return owner.__name__ if isinstance(owner, type) else type(owner).__name__
    if isinstance(policy, types.FunctionType | types.BuiltinFunctionType):
        return "policy" if policy.__name__ == "<lambda>" else policy.__name__
    return type(policy).__name__


def _of_sb3_model(model: BaseAlgorithm, name: str, title: str) -> LivePolicy:
    """Prepares a model with the normalization of its environment.

    Raises:
        UserError: its environment has other wrappers that may change values, or it cannot be pickled.
    """
    kind = type(model)
    library = kind.__module__.partition(".")[0]
    normalization = model.get_vec_normalize_env()
    if changing := changing_wrappers(model):
        raise UserError(
            f"the environment of the model {name} has wrappers that may change observations or actions, which the "
            f"evaluation does not have: {', '.join(changing)}",
            hint="register an environment that has them, or give a function that applies them and calls model.predict;"
            f" if they change nothing, give {kind.__name__}.load(file)",
        )
    # a name of the library, or the caller's class from its file
    algorithm = f'"{kind.__name__}"' if library in _LIBRARIES else f'sb3.pickled_class("{_CLASS}")'
    arguments = f'"{_MODEL}", algorithm={algorithm}'
    if normalization is not None:
        arguments += f', normalization="{_NORMALIZATION}"'
    try:
        settings = _settings(model, normalization)
        scaled = None if normalization is None else vars(normalization).get("obs_rms")
        code = live_policy_pickle.identity(settings)
        identity = live_policy_pickle.identity((settings, model.policy.state_dict(), scaled))
        of_class = None if library in _LIBRARIES else live_policy_pickle.pickled(kind)
    except Exception as error:  # __reduce__ of the caller's classes may raise anything
        raise unpicklable(model.policy, error) from error

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

    packages = pinned([_LIBRARIES.get(library, "stable-baselines3"), "stable-baselines3"])
    weights = [_MODEL, *([] if normalization is None else [_NORMALIZATION]), *([] if of_class is None else [_CLASS])]
    return LivePolicy(
        name,
        title,
        identity,
        "sb3",
        arguments,
        write,
        packages,
        framework="Stable-Baselines3",
        weights=weights,
        code=code,
    )


def _settings(model: BaseAlgorithm, normalization: Any) -> list[Any]:
    """Returns what decides about the actions beside weights; the file of ``model.save`` holds times and addresses."""
    parts: list[Any] = [
        f"{type(model).__module__}.{type(model).__qualname__}",
        repr(model.observation_space),
        repr(model.action_space),
        type(model.policy),
        str(model.policy),
        model.policy_kwargs,
    ]
    if type(model).__module__.partition(".")[0] not in _LIBRARIES:
        parts.append(type(model))
    if normalization is not None:
        scaled = {name: vars(normalization).get(name) for name in ("clip_obs", "epsilon", "norm_obs")}
        parts.append({**scaled, "keys": getattr(normalization, "norm_obs_keys", None)})
    return parts


def _of_tf_agents_policy(policy: Any, name: str, title: str) -> LivePolicy:
    """Prepares a ``tf_agents.policies.tf_policy.TFPolicy``."""

    def write(folder: Path) -> None:
        from tf_agents.policies import policy_saver

        try:
            policy_saver.PolicySaver(policy, batch_size=None).save(str(folder / _FOLDER / _NAME))
        except Exception as error:  # tracing runs the caller's code
            raise UserError(
                f"the policy {name} cannot be saved: {type(error).__name__}: {error}",
                hint="try tf_agents.policies.policy_saver.PolicySaver(policy) and correct what it names",
            ) from error

    arguments, packages = f'"{_FOLDER}", policy_name="{_NAME}"', pinned(("tf-agents", "tensorflow", "tf-keras"))
    digest = hashlib.sha256()
    for line in _described(policy, set()):
        digest.update(line.encode() + b"\0")
    code = digest.hexdigest()
    for variable in policy.variables():
        array = variable.numpy()
        digest.update(f"{array.dtype} {array.shape}".encode() + array.tobytes())
    return LivePolicy(
        name,
        title,
        digest.hexdigest(),
        "tf_agents",
        arguments,
        write,
        packages,
        framework="TF-Agents",
        weights=(_FOLDER,),
        code=code,
    )


def _described(policy: Any, seen: set[int]) -> list[str]:
    """Returns lines about a policy and the policies it wraps: types, specs, settings, and the caller's code."""
    seen.add(id(policy))
    kind = type(policy)
    lines = [f"{kind.__module__}.{kind.__qualname__}", repr(policy.time_step_spec), repr(policy.action_spec)]
    if not kind.__module__.startswith("tf_agents."):
        lines.append(_hash(kind))
    for key, value in sorted(vars(policy).items()):
        if "name" in key:  # TensorFlow numbers the names of a process: policy, policy_1
            continue
        if isinstance(value, bool | int | float | str | None):
            lines.append(f"{key}={value!r}")
        elif hasattr(value, "time_step_spec") and hasattr(value, "variables") and id(value) not in seen:
            lines += [key, *_described(value, seen)]
        elif type(value) in _HASHED and not str(getattr(value, "__module__", "")).startswith(
            ("tf_agents.", "tensorflow.")
        ):
            lines.append(f"{key}={_hash(value)}")
        elif hasattr(value, "get_config"):
            lines.append(f"{key}={type(value).__name__}")
    return lines


def _hash(value: Any) -> str:
    try:
        return live_policy_pickle.identity(value)
    except Exception:  # such a policy is a new one each time, which is never wrong
        return uuid.uuid4().hex
