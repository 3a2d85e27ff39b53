"""What a training run with TF-Agents needs beyond the algorithm: actor processes, checkpoints, saved policies.

Importing this loads nothing; its modules import TensorFlow, with Keras 2 chosen, or say how to install it.
"""
