"""Baselines: helpers for training, tables of candidates, batched robots and websites."""
