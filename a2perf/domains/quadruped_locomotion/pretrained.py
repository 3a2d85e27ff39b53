"""The published policies of Peng et al. 2020, read and run with NumPy only.

A policy file is a zip archive with a member ``parameters``, an ``npz`` of float32 arrays. The actor is a perceptron
160 -> 512 -> 256 -> 12 with rectified hidden layers; its action is the mean of the Gaussian that was trained, clipped
to the action space. Nothing in the file is unpickled.
"""

from __future__ import annotations

import functools
import io
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from a2perf.errors import ConfigError

ACTION_BOUND = 6.28318548203  # rad
_LAYERS = ("model/pi_fc0", "model/pi_fc1", "model/pi")
_SIZES = ((160, 512), (512, 256), (256, 12))

Actor = Callable[[NDArray[Any]], NDArray[np.float32]]


def load_actor(path: str | Path) -> Actor:
    """Reads a policy file.

    Returns:
        A function from an observation of shape (160,), or a batch of shape (n, 160), to actions (rad, float32) of shape
        (12,) or (n, 12).

    Raises:
        ConfigError: the file is not a policy of this kind.
    """
    # a partial instead of a closure: it can be pickled for another process
    return functools.partial(_act, _read_layers(Path(path)))


def _act(
    layers: list[tuple[NDArray[np.float32], NDArray[np.float32]]], observation: NDArray[Any]
) -> NDArray[np.float32]:
    hidden = np.asarray(observation, dtype=np.float32)
    for weights, bias in layers[:-1]:
        hidden = np.maximum(hidden @ weights + bias, np.float32(0.0))
    weights, bias = layers[-1]
    action: NDArray[np.float32] = np.clip(hidden @ weights + bias, -ACTION_BOUND, ACTION_BOUND).astype(np.float32)
    return action


def _read_layers(path: Path) -> list[tuple[NDArray[np.float32], NDArray[np.float32]]]:
    try:
        with zipfile.ZipFile(path) as archive, np.load(io.BytesIO(archive.read("parameters"))) as arrays:
            found = {name.removesuffix(":0"): np.asarray(arrays[name], dtype=np.float32) for name in arrays.files}
    except (OSError, KeyError, ValueError, zipfile.BadZipFile) as error:
        raise ConfigError(f"{path} is not a policy file: {error}") from error
    layers = []
    for layer, size in zip(_LAYERS, _SIZES, strict=True):
        weights, bias = found.get(f"{layer}/w"), found.get(f"{layer}/b")
        if weights is None or bias is None or weights.shape != size or bias.shape != size[1:]:
            raise ConfigError(f"{path} is not a policy file: layer {layer} of shape {size} is missing")
        layers.append((weights, bias))
    return layers
