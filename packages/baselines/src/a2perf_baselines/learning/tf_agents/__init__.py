"""The parts of a training script for TF-Agents: actor processes, checkpoints, saved policies.

Importing this package imports nothing else. Its modules import TensorFlow with Keras 2; without TensorFlow they raise
an error with the command that installs it.
"""
