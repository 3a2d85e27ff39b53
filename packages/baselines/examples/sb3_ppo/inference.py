"""Runs the policy that `train.py` wrote to the artifacts."""

from a2perf_baselines.quadruped_locomotion import sb3_adapter

load_policy, preprocess_observation, infer_once = sb3_adapter.contract("policy", algorithm="PPO")
