"""Checkpoints of Stable-Baselines3: model, normalisation, replay memory, states of the generators.

The files have the library's formats and can be opened with it. Only the used part of the replay memory is written.
"""

from __future__ import annotations

from a2perf_baselines.learning.sb3 import frameworks  # noqa: F401  # isort: skip  raises MissingDependency

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import torch
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.buffers import ReplayBuffer
from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm
from stable_baselines3.common.vec_env import VecNormalize

from a2perf.errors import UserError
from a2perf_baselines.learning import restore_rng, rng_state

MODEL, NORMALIZATION, MEMORY = "model.zip", "normalization.pkl", "replay_memory.npz"
_ARRAYS = ("observations", "next_observations", "actions", "rewards", "dones", "timeouts")


def write_policy(folder: Path, model: BaseAlgorithm, envs: VecNormalize) -> None:
    """Writes the files that the adapter ``sb3`` loads."""
    folder.mkdir(parents=True, exist_ok=True)
    model.save(folder / MODEL)
    envs.save(str(folder / NORMALIZATION))


def write_training(folder: Path, model: BaseAlgorithm, envs: VecNormalize) -> None:
    """Writes the state of a training run except the generators."""
    write_policy(folder, model, envs)
    if isinstance(model, OffPolicyAlgorithm):
        memory = _memory(model)
        used = memory.buffer_size if memory.full else memory.pos
        arrays = {name: getattr(memory, name)[:used] for name in _ARRAYS}
        with (folder / MEMORY).open("wb") as stream:
            np.savez(stream, position=np.array([memory.pos, int(memory.full)]), **arrays)


def read_training(folder: Path, model: BaseAlgorithm, envs: VecNormalize) -> None:
    """Restores the files of ``write_training`` into a model and its environments, except the model's weights.

    Raises:
        UserError: the files are damaged, or the replay memory has another size.
    """
    try:
        with (folder / NORMALIZATION).open("rb") as stream:
            statistics = pickle.load(stream)  # safe: the participant wrote it, and this is the participant's process
        envs.obs_rms, envs.ret_rms = statistics.obs_rms, statistics.ret_rms
        if isinstance(model, OffPolicyAlgorithm):
            memory = _memory(model)
            with np.load(folder / MEMORY, allow_pickle=False) as arrays:
                for name in _ARRAYS:
                    getattr(memory, name)[: len(arrays[name])] = arrays[name]
                memory.pos, memory.full = int(arrays["position"][0]), bool(arrays["position"][1])
    except (OSError, ValueError, KeyError, AttributeError, EOFError, pickle.UnpicklingError) as error:
        raise UserError(
            f"the checkpoint {folder.name} cannot be read: {error}", hint="train into an empty folder"
        ) from error


def generators(model: BaseAlgorithm) -> dict[str, Any]:
    """Returns the states of all generators of a learner, for ``Run.save``."""
    kind, keys, position, has_gauss, gauss = np.random.get_state()
    return {
        "torch": torch.get_rng_state().numpy(),
        "numpy": {"kind": kind, "keys": keys, "position": position, "has_gauss": has_gauss, "gauss": gauss},
        "actions": rng_state(model.action_space.np_random),
    }


def restore_generators(model: BaseAlgorithm, states: dict[str, Any]) -> None:
    """Restores the states that ``generators`` returned."""
    torch.set_rng_state(torch.from_numpy(states["torch"].copy()))
    numpy = states["numpy"]
    np.random.set_state((numpy["kind"], numpy["keys"], numpy["position"], numpy["has_gauss"], numpy["gauss"]))
    restore_rng(model.action_space.np_random, states["actions"])


def _memory(model: OffPolicyAlgorithm) -> ReplayBuffer:
    memory = model.replay_buffer
    assert isinstance(memory, ReplayBuffer)
    return memory
