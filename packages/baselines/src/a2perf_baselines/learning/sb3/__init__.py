"""The parts of a training script for Stable-Baselines3: vector environments, a callback, checkpoints.

``environments`` adapts a Gymnasium vector environment, ``training_callback`` logs, evaluates, saves and resumes,
``checkpoint`` writes and restores checkpoints. Import them after ``frameworks``.
"""
