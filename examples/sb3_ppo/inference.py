"""Runs the policy that `train.py` left in the training artefacts."""

from a2perf.submission.participant.adapters import quadruped

load_policy, preprocess_observation, infer_once = quadruped.contract("policy", algorithm="PPO")
