"""Runs the network that `train.py` wrote to the artifacts; needs PyTorch, but not Stable-Baselines3."""

from __future__ import annotations

import os
from pathlib import Path

import torch
from scorer import candidate_values, make_scorer

from a2perf_baselines.candidates import CandidateChoice


class CandidateChooser:
    """Chooses the candidate of highest value.

    Args:
        env: its layout is looked at.
        path: the file with the weights.

    Raises:
        ValueError: it was trained on another domain.
    """

    def __init__(self, env, path: Path) -> None:
        torch.set_num_threads(1)
        self._candidates = CandidateChoice()
        reader = self._candidates.read_from(env)
        saved = torch.load(path, map_location="cpu", weights_only=True)
        layers = saved["weights"]
        width, features = layers["0.weight"].shape
        if features != reader.features - 1:
            raise ValueError(f"{path.name} was trained on another domain: {features} features per candidate")
        self._scorer = make_scorer(features + 1, width)
        self._scorer.load_state_dict(layers)

    @torch.no_grad()
    def choose(self, observation) -> int:
        """Returns the action for an observation."""
        rows = self._candidates.table(observation)
        values = candidate_values(self._scorer, torch.from_numpy(rows)[None])
        return self._candidates.action(values.argmax())


def load_policy(env, **load_kwargs):
    """Loads ``policy.pt`` from ``ROOT_DIR``, the read-only artifacts of the training run."""
    return CandidateChooser(env, Path(os.environ["ROOT_DIR"]) / "policy.pt")


def preprocess_observation(observation):
    """Nothing to change: the table of candidates depends on the environment's layout, which the policy knows."""
    return observation


def infer_once(policy, observation):
    """Returns the action for one observation."""
    return policy.choose(observation)
