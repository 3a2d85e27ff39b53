"""Imports TensorFlow and TF-Agents for the other modules of this package; import this module before either.

A missing framework raises ``MissingDependency`` with the commands that install it. TensorFlow uses as many threads as
``OMP_NUM_THREADS`` allows.
"""

from __future__ import annotations

import logging
import os
import warnings

from a2perf.domains.tfa.legacy_keras import tf_agents_module

__all__ = ["seed_everything", "tf"]

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")  # hide the start-up messages
if (_threads := os.environ.get("OMP_NUM_THREADS")) is not None:
    os.environ.setdefault("TF_NUM_INTRAOP_THREADS", _threads)
    os.environ.setdefault("TF_NUM_INTEROP_THREADS", _threads)

# A warning about the internals of SavedModels, repeated at every export.
warnings.filterwarnings("ignore", message="Encoding a StructuredValue", category=UserWarning)
logging.getLogger("absl").setLevel(logging.ERROR)

tf_agents_module("agents")

import tensorflow as tf  # noqa: E402  Keras must be selected before


def seed_everything(seed: int) -> None:
    """Seeds the generators of TensorFlow, NumPy and Python, and makes TensorFlow's operations deterministic."""
    tf.keras.utils.set_random_seed(seed % 2**32)
    tf.config.experimental.enable_op_determinism()
