"""TensorFlow and TF-Agents as the other modules of this room import them; import this before either.

An absent framework is a ``MissingDependency`` with the lines that install it. TensorFlow gets as many threads as
``OMP_NUM_THREADS`` gives the numeric libraries.
"""

from __future__ import annotations

import logging
import os
import warnings

from a2perf.domains.tfa.legacy_keras import tf_agents_module

__all__ = ["seed_everything", "tf"]

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")  # its start-up notes would come before the training run's own lines
if (_threads := os.environ.get("OMP_NUM_THREADS")) is not None:
    os.environ.setdefault("TF_NUM_INTRAOP_THREADS", _threads)
    os.environ.setdefault("TF_NUM_INTEROP_THREADS", _threads)

# What SavedModels are made of is of no interest to those who watch a training run.
warnings.filterwarnings("ignore", message="Encoding a StructuredValue", category=UserWarning)
logging.getLogger("absl").setLevel(logging.ERROR)

tf_agents_module("agents")

import tensorflow as tf  # noqa: E402  Keras has to be chosen first


def seed_everything(seed: int) -> None:
    """Seeds the generators of TensorFlow, NumPy and Python, and makes TensorFlow's operations repeatable."""
    tf.keras.utils.set_random_seed(seed % 2**32)
    tf.config.experimental.enable_op_determinism()
