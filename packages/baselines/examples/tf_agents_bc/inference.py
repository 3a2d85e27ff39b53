"""The cloned policy that `train.py` left, by the packaged adapter of its kind."""

from __future__ import annotations

import os

from a2perf.submission.participant.adapters import tf_agents
from a2perf_baselines import tf_agents_candidates
from a2perf_baselines.learning import domain_name

OVER_CANDIDATES = ("circuit_training", "web_navigation")

chooses = bool(os.environ.get("A2PERF_ENV_ID")) and domain_name() in OVER_CANDIDATES
contract = tf_agents_candidates.contract if chooses else tf_agents.contract
load_policy, preprocess_observation, infer_once = contract()
