"""Designs as tables of features, and batches of episodes, for training a placer."""
