"""Turns a trained quadruped policy that acts relative to the reference motion into a submission.

    from a2perf_baselines.quadruped_locomotion import sb3_adapter

    load_policy, preprocess_observation, infer_once = sb3_adapter.contract("policy", algorithm="PPO")

``sb3_training`` in this package writes the folder: model and normalisation of Stable-Baselines3, and ``control.json``
with the meaning of actions and observations.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from a2perf.submission.participant.adapters import sb3
from a2perf.submission.participant.adapters.contract import Contract, environment_specs, find
from a2perf.submission.participant.signatures import ContractError

if TYPE_CHECKING:
    from stable_baselines3.common.base_class import BaseAlgorithm


def contract(folder: str = "policy", *, algorithm: str | type[BaseAlgorithm]) -> Contract:
    """Returns the three functions of the contract.

    Args:
        folder: of the policy, relative to ``ROOT_DIR`` or else to the submission.
        algorithm: the class, or its name: ``"PPO"``.
    """
    from a2perf_baselines.quadruped_locomotion.residual_control import ResidualControl

    control = ResidualControl()
    load, normalize, infer = sb3.contract(
        f"{folder}/model.zip",
        algorithm=algorithm,
        normalization=f"{folder}/normalization.pkl",
        observation=lambda seen: control.observe(seen),
        action=lambda chosen: chosen,
    )

    def load_policy(env: Any, root_dir: str | None = None, **of_training: str) -> Any:
        nonlocal control
        specs = environment_specs(env)
        if specs is not None and getattr(specs[0], "shape", None) != (160,):
            raise ContractError(
                "the environment's observations show no reference motion",
                "run the policy on a task of quadruped_locomotion",
            )
        policy = load(env, root_dir=root_dir)
        control = ResidualControl.read(find(folder, "policy", root_dir))
        return policy

    def preprocess_observation(seen: Any) -> tuple[Any, Any]:
        return normalize(seen), control.reference(seen)

    def infer_once(policy: Any, observation: tuple[Any, Any]) -> Any:
        normalized, reference = observation
        return control.environment_action(infer(policy, normalized), reference)

    return Contract(load_policy, preprocess_observation, infer_once)
