"""Runs the actor that `train.py` wrote to the artifacts; needs NumPy only.

The argument ``weights=dog_pace`` (or dog_trot, dog_spin) runs shipped weights instead, which the authors trained
(``--participant-args weights=dog_pace``).
"""

from __future__ import annotations

import os
from pathlib import Path

from actor import FILE, Actor

from a2perf.errors import ConfigError
from a2perf.submission.participant.adapters.origin import require_origin

SHIPPED = Path(__file__).parent / "weights"


def load_policy(env, weights: str | None = None, **load_kwargs):
    """Loads the actor.

    Args:
        env: the environment.
        weights: name of shipped weights; by default the actor of the training run in ``ROOT_DIR``.
        **load_kwargs: ignored, such as arguments of the training.

    Raises:
        ConfigError: there are no such weights.
    """
    path = Path(os.environ["ROOT_DIR"]) / FILE if weights is None else SHIPPED / f"{weights}.npz"
    if not path.is_file():
        shipped = ", ".join(sorted(file.stem for file in SHIPPED.glob("*.npz")))
        raise ConfigError(f"there is no {path.name}", hint=f"train first, or set weights to one of: {shipped}")
    if weights is None:
        require_origin(path, "the actor")
    return Actor.load(path)


def preprocess_observation(observation):
    """Returns the observation unchanged."""
    return observation


def infer_once(policy, observation):
    """Returns the action for one observation, float32, shape (12,)."""
    return policy(observation)
