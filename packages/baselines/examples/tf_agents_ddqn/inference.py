"""The policy that `train.py` left: it chooses the valid candidate of highest value."""

from __future__ import annotations

from a2perf_baselines import tf_agents_candidates

load_policy, preprocess_observation, infer_once = tf_agents_candidates.contract("policies")
