"""Runs the policy that `train.py` wrote to the artifacts, on websites of any size; needs NumPy only.

The argument ``weights=level_1`` (or 2, 3) runs a shipped policy instead (``--participant-args weights=level_3``).
"""

from __future__ import annotations

import os
from pathlib import Path

from scorer import CandidateScorer

from a2perf.submission.participant.adapters.origin import require_origin
from a2perf_baselines.web_navigation.pairs import PairReader

SHIPPED = Path(__file__).parent / "weights"


class CandidateChooser:
    """Chooses the candidate with the highest score.

    Args:
        scorer: the network.
    """

    def __init__(self, scorer: CandidateScorer) -> None:
        self._scorer, self._reader = scorer, PairReader()

    def choose(self, observation) -> int:
        """Returns the action for an observation; action 0 if a page has no candidate."""
        table = self._reader.table(observation)
        return int(table.actions[self._scorer.scores(table).argmax()]) if len(table.actions) else 0


def load_policy(env, weights: str | None = None, **load_kwargs):
    """Loads the policy.

    Args:
        env: the environment.
        weights: name of a shipped policy; by default the one of the training run in ``ROOT_DIR``.
        **load_kwargs: ignored, such as arguments of the training.

    Raises:
        FileNotFoundError: there is no such policy.
    """
    path = Path(os.environ["ROOT_DIR"]) / "policy.npz" if weights is None else SHIPPED / f"{weights}.npz"
    if not path.is_file():
        shipped = ", ".join(sorted(file.stem for file in SHIPPED.glob("*.npz")))
        raise FileNotFoundError(f"there is no {path.name}. Hint: train first, or set weights to one of: {shipped}")
    if weights is None:
        require_origin(path, "the policy")
    return CandidateChooser(CandidateScorer.read(path))


def preprocess_observation(observation):
    """Returns the observation unchanged: the policy reads it whole."""
    return observation


def infer_once(policy, observation):
    """Returns the action for one observation."""
    return policy.choose(observation)
