"""Runs the policy that `train.py` wrote to the artifacts."""

from a2perf.domains.quadruped_locomotion.agents import sb3_adapter

load_policy, preprocess_observation, infer_once = sb3_adapter.contract("policy", algorithm="SAC")
