"""Runs the agent that ``train.py`` wrote, or an agent of the zoo: its ``model.zip`` beside this file."""

from a2perf.submission.participant.adapters import sb3

load_policy, preprocess_observation, infer_once = sb3.contract("model.zip", algorithm="PPO")
