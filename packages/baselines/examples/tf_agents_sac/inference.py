"""The policy that `train.py` left, by the packaged adapter."""

from __future__ import annotations

from a2perf.submission.participant.adapters import tf_agents

load_policy, preprocess_observation, infer_once = tf_agents.contract()
