"""Proximal policy optimization on PyTorch for environments that step hundreds of episodes in one call."""
