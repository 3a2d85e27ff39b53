"""What a checkpoint of Stable-Baselines3 is made of: model, normalisation, replay memory, states of the generators.

Files are those of the library, so that they can be opened with it; of the replay memory only the part in use is
written.
"""

from __future__ import annotations

from a2perf.learning.sb3 import frameworks  # noqa: F401  # isort: skip  says what is missing

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
from a2perf.learning import restore_rng, rng_state

MODEL, NORMALIZATION, MEMORY = "model.zip", "normalization.pkl", "replay_memory.npz"
_ARRAYS = ("observations", "next_observations", "actions", "rewards", "dones", "timeouts")


def write_policy(folder: Path, model: BaseAlgorithm, envs: VecNormalize) -> None:
    """Writes what the adapter ``sb3`` loads."""
    folder.mkdir(parents=True, exist_ok=True)
    model.save(folder / MODEL)
    envs.save(str(folder / NORMALIZATION))


def write_training(folder: Path, model: BaseAlgorithm, envs: VecNormalize) -> None:
    """Writes everything that continues from here needs, but for the generators."""
    write_policy(folder, model, envs)
    if isinstance(model, OffPolicyAlgorithm):
        memory = _memory(model)
        used = memory.buffer_size if memory.full else memory.pos
        arrays = {name: getattr(memory, name)[:used] for name in _ARRAYS}
        with (folder / MEMORY).open("wb") as stream:
            np.savez(stream, position=np.array([memory.pos, int(memory.full)]), **arrays)


def read_training(folder: Path, model: BaseAlgorithm, envs: VecNormalize) -> None:
    """Restores what ``write_training`` wrote into a model and its environments, the model's weights apart.

    Raises:
        UserError: the files are damaged, or belong to a replay memory of another size.
    """
    try:
        with (folder / NORMALIZATION).open("rb") as stream:
            statistics = pickle.load(stream)  # the participant's own file, in the participant's process
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
    """Returns the states of every generator that a learner draws from, fit for ``Run.save``."""
    kind, keys, position, has_gauss, gauss = np.random.get_state()
    return {
        "torch": torch.get_rng_state().numpy(),
        "numpy": {"kind": kind, "keys": keys, "position": position, "has_gauss": has_gauss, "gauss": gauss},
        "actions": rng_state(model.action_space.np_random),
    }


def restore_generators(model: BaseAlgorithm, states: dict[str, Any]) -> None:
    """Gives every generator the state that ``generators`` returned."""
    torch.set_rng_state(torch.from_numpy(states["torch"].copy()))
    numpy = states["numpy"]
    np.random.set_state((numpy["kind"], numpy["keys"], numpy["position"], numpy["has_gauss"], numpy["gauss"]))
    restore_rng(model.action_space.np_random, states["actions"])


def _memory(model: OffPolicyAlgorithm) -> ReplayBuffer:
    memory = model.replay_buffer
    assert isinstance(memory, ReplayBuffer)
    return memory
