"""A policy saved by TF-Agents' ``PolicySaver``, with its checkpoints, as a submission.

    from a2perf.submission.participant.adapters import tf_agents

    load_policy, preprocess_observation, infer_once = tf_agents.contract("policies", policy_name="greedy_policy")

The layout is that of TF-Agents' learners: ``policies/<policy_name>`` is a SavedModel that contains
``policy_specs.pbtxt``, and ``policies/checkpoints/policy_checkpoint_<step>`` contains the variables at other training
steps. TensorFlow and Keras 2 are imported when the policy is loaded.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from a2perf.errors import UserError
from a2perf.submission.participant.adapters.contract import (
    Contract,
    find,
    require_fit,
    require_specs,
    rows_of,
    taking_rows,
)
from a2perf.submission.participant.adapters.origin import require_origin
from a2perf.submission.participant.signatures import ContractError

if TYPE_CHECKING:
    from a2perf.domains.tfa.spaces import SpecNest

SPECS_FILE = "policy_specs.pbtxt"
_CHECKPOINTS = "checkpoints"
_STEP = re.compile(r"policy_checkpoint_0*(\d+)$")
_ENVIRONMENT_STEP = {"step_type": 1, "reward": 0.0, "discount": 1.0}
"""Values of a time step that the contract does not pass to a policy; step_type 1 means the middle of an episode."""


def contract(
    folder: str = "policies",
    *,
    policy_name: str = "greedy_policy",
    checkpoint: str | int | None = None,
    observation: Callable[[Any], Any] | None = None,
    action: Callable[[Any], Any] | None = None,
    episode_start: Callable[[Any], bool] | None = None,
) -> Contract:
    """Returns the three functions of the contract for a saved policy.

    ``load_policy`` takes the participant arguments ``root_dir``, ``policy_name`` and ``checkpoint``.

    Args:
        folder: folder of the policies, relative to ``ROOT_DIR`` or to the submission; or a SavedModel.
        checkpoint: variables to load: a training step, ``"latest"``, or a path; by default those of the SavedModel.
        observation: converts an observation of the environment for the policy, if they differ.
        action: converts an action of the policy for the environment, if they differ.
        episode_start: returns whether an observation of the environment is the first of an episode, which the contract
            does not pass. A policy with a state, for example a recurrent network, needs it.
    """
    default_name, default_checkpoint = policy_name, checkpoint
    read: Callable[[Any], Any] | None = None

    def load_policy(
        env: Any,
        root_dir: str | None = None,
        policy_name: str | None = None,
        checkpoint: str | None = None,
        **of_training: str,
    ) -> SavedPolicy:
        nonlocal read
        path = _saved_model(folder, policy_name or default_name, root_dir)
        require_origin(path, f"the policy {path.name}")
        policy = SavedPolicy(path, stateful=episode_start is not None, action=action)
        seen, acts = policy.specs
        what = f"the policy {path.name}"
        require_specs(what, env, seen if observation is None else None, acts if action is None else None)
        wanted = default_checkpoint if checkpoint is None else checkpoint
        if wanted is not None:
            policy.restore(_checkpoint(path, wanted, root_dir))
        read = policy.reader()
        return policy

    def preprocess_observation(seen: Any) -> Any:
        if read is None:
            raise ContractError("load_policy was not called")
        first = episode_start is not None and bool(episode_start(seen))
        try:
            return first, read(seen if observation is None else observation(seen))
        except UserError as error:  # only if the environment could not be created and compared before
            require_fit("the policy", [error.message])
            raise

    def infer_batch(policy: SavedPolicy, observations: Any) -> list[Any]:
        return policy.act_in_rows([preprocess_observation(row) for row in rows_of(observations)])

    infer_once = taking_rows(lambda policy, observation: policy.act(*observation), infer_batch)
    return Contract(load_policy, preprocess_observation, infer_once)


class SavedPolicy:
    """A policy of TF-Agents, without its environment.

    Raises:
        ContractError: TensorFlow or TF-Agents is not installed, the folder does not contain such a policy, or the
            policy has a state but the caller does not know when an episode starts.
    """

    def __init__(self, path: Path, *, stateful: bool, action: Callable[[Any], Any] | None) -> None:
        from a2perf.domains.tfa.legacy_keras import tf_agents_module

        # TensorFlow does not read OMP_NUM_THREADS.
        if (threads := os.environ.get("OMP_NUM_THREADS")) is not None:
            os.environ.setdefault("TF_NUM_INTRAOP_THREADS", threads)
            os.environ.setdefault("TF_NUM_INTEROP_THREADS", threads)
        self._name = path.name
        self._translate = action
        if not (path / SPECS_FILE).is_file():
            raise ContractError(
                f"{path.name} has no {SPECS_FILE}: it was not saved by TF-Agents' PolicySaver",
                "save it with tf_agents.policies.policy_saver.PolicySaver",
            )
        try:
            eager = tf_agents_module("policies.py_tf_eager_policy")
            self._time_step = tf_agents_module("trajectories.time_step").TimeStep
        except UserError as error:
            raise ContractError(error.message, error.hint) from error
        try:
            self._policy = eager.SavedModelPyTFEagerPolicy(
                str(path), load_specs_from_pbtxt=True, batch_time_steps=False
            )
        except Exception as error:  # a damaged folder fails in many ways
            raise ContractError(
                f"the policy {path.name} cannot be loaded: {type(error).__name__}: {error}",
                "save it again with PolicySaver; a policy saved by another version of TensorFlow may not load",
            ) from error
        self.time_step_spec = self._policy.time_step_spec
        self._initial: Any = self._policy.get_initial_state(batch_size=1)
        self.state: Any = self._initial
        spec = self._policy.policy_state_spec
        if not stateful and (spec or not isinstance(spec, tuple | list | Mapping)):
            raise ContractError(
                f"the policy {path.name} has a state, but the contract does not pass when an episode starts",
                "pass `episode_start` to the adapter, a function that detects the first observation of an episode",
            )

    @property
    def specs(self) -> tuple[SpecNest, SpecNest]:
        """The specs of observations and of actions."""
        return _specs(self.time_step_spec.observation, "observation"), _specs(self._policy.action_spec, "action")

    def restore(self, checkpoint: Path) -> None:
        """Loads the variables of a checkpoint.

        Raises:
            ContractError: the checkpoint does not belong to this policy.
        """
        try:
            self._policy.update_from_checkpoint(str(checkpoint))
        except Exception as error:  # a foreign or damaged checkpoint can raise many types of exception
            text = str(error).strip().splitlines()[0] if str(error).strip() else "no message"
            raise ContractError(
                f"{checkpoint.name} is not a checkpoint of the policy {self._name}: "
                f"{type(error).__name__}: {text:.300}",
                "use a checkpoint of the training run that saved this policy",
            ) from error

    def reader(self) -> Callable[[Any], Any]:
        """Returns a function that converts an observation to the shapes and dtypes of the policy."""
        from a2perf.domains.tfa.spaces import reader

        return reader(self.specs[0])

    def act(self, first: bool, observation: Any) -> Any:
        """Returns the action for an observation."""
        if first:
            self.state = self._initial
        (action,), self.state = self._decide([(first, observation)], self.state)
        return action

    def act_in_rows(self, rows: Sequence[tuple[bool, Any]]) -> list[Any]:
        """Returns an action for each pair of whether an episode begins and its observation.

        Raises:
            ContractError: the policy has a state.
        """
        if self._policy.policy_state_spec not in ((), [], {}):
            raise ContractError(f"the policy {self._name} has a state, which rows do not have", "leave out --batch")
        return self._decide(rows, self._initial)[0]

    def _decide(self, rows: Sequence[tuple[bool, Any]], state: Any) -> tuple[list[Any], Any]:
        from tensorflow import nest

        values = {name: np.full(len(rows), value, np.float32) for name, value in _ENVIRONMENT_STEP.items()}
        values["step_type"] = np.array([0 if first else _ENVIRONMENT_STEP["step_type"] for first, _ in rows], np.int32)
        observation = nest.map_structure(lambda *parts: np.stack(parts), *(seen for _, seen in rows))
        step = self._policy.action(self._time_step(observation=observation, **values), state)
        actions = [nest.map_structure(lambda part, row=row: part[row].numpy(), step.action) for row in range(len(rows))]
        return actions if self._translate is None else [self._translate(action) for action in actions], step.state


def _specs(nest: Any, name: str) -> SpecNest:
    """Converts TF-Agents' tensor or array specs to specs that can be compared with those of an environment."""
    from a2perf.domains.tfa.spaces import ArraySpec

    if isinstance(nest, Mapping):
        return {key: _specs(child, f"{name}/{key}") for key, child in nest.items()}
    if isinstance(nest, tuple | list):
        return tuple(_specs(child, f"{name}/{index}") for index, child in enumerate(nest))
    dtype = np.dtype(getattr(nest.dtype, "as_numpy_dtype", nest.dtype))
    low, high = getattr(nest, "minimum", None), getattr(nest, "maximum", None)
    return ArraySpec(
        tuple(nest.shape),
        dtype,
        None if low is None else np.asarray(low),
        None if high is None else np.asarray(high),
        name,
    )


def _saved_model(folder: str, policy_name: str, root_dir: str | None) -> Path:
    path = find(folder, "folder of policies", root_dir)
    if (path / "saved_model.pb").is_file():
        return path
    if (path / policy_name / "saved_model.pb").is_file():
        return path / policy_name
    there = sorted(file.parent.name for file in path.glob("*/saved_model.pb"))
    raise ContractError(
        f"{folder} has no policy {policy_name!r}; it contains {', '.join(there) or 'none'}",
        "set policy_name in the adapter, or with --participant-args policy_name=...",
    )


def _checkpoint(saved_model: Path, wanted: str | int, root_dir: str | None) -> Path:
    steps: dict[int, Path] = {}
    for place in (saved_model / _CHECKPOINTS, saved_model.parent / _CHECKPOINTS):
        for item in place.glob("policy_checkpoint_*"):
            if (match := _STEP.search(item.name)) is not None:
                steps[int(match.group(1))] = item
    if str(wanted) == "latest" and steps:
        return steps[max(steps)]
    if str(wanted).isdecimal() and int(wanted) in steps:
        return steps[int(wanted)]
    if str(wanted) == "latest" or str(wanted).isdecimal():
        shown = ", ".join(map(str, sorted(steps))) or "none"
        raise ContractError(
            f"{saved_model.name} has no checkpoint {wanted!r}; available training steps: {shown}",
            "choose one of them, or 'latest'",
        )
    return find(str(wanted), "checkpoint", root_dir)
