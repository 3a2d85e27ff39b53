"""Environments by configuration: ``suite_gym.create_domain`` and, with TensorFlow, the bridge to TF-Agents."""
