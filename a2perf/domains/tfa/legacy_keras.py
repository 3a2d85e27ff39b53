"""Imports TensorFlow and TF-Agents with Keras 2, with errors that name the fix.

TF-Agents 0.19 is written for Keras 2. From TensorFlow 2.16 on that is the package tf-keras, and TensorFlow takes it
only when ``TF_USE_LEGACY_KERAS`` is set before its Keras is first touched.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from types import ModuleType

from a2perf.errors import MissingDependency, UserError

INSTALL = (
    "pip install 'tensorflow==2.19.*' dm-tree cloudpickle decorator gast gym-notices, and then "
    "pip install --no-deps tf-agents==0.19.0 'tensorflow-probability==0.23.*' gym==0.23.0 'tf-keras==2.19.*'"
)
"""Two steps: the release of TF-Agents pins versions that conflict with other packages."""

_LEGACY_KERAS = "TF_USE_LEGACY_KERAS"


def prepare_keras() -> None:
    """Chooses Keras 2 if tf-keras is installed; works only before TensorFlow's Keras is imported."""
    if importlib.util.find_spec("tf_keras") is not None:
        os.environ.setdefault(_LEGACY_KERAS, "1")


def tf_agents_module(name: str) -> ModuleType:
    """Imports a module of TF-Agents, and TensorFlow with it.

    Raises:
        MissingDependency: TensorFlow, TF-Agents or something that they need is not installed.
        UserError: TensorFlow was imported before in a way that TF-Agents cannot work with.
    """
    tensorflow_came_first = "tensorflow" in sys.modules
    prepare_keras()
    try:
        return importlib.import_module(f"tf_agents.{name}")
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("a2perf"):
            raise
        raise MissingDependency(
            f"TF-Agents needs the package {error.name!r}, which is not installed", hint=INSTALL
        ) from error
    except AttributeError as error:
        if "__internal__" not in str(error):
            raise
        first = " and TensorFlow was imported before it could be chosen" if tensorflow_came_first else ""
        raise UserError(
            f"TF-Agents needs Keras 2, but TensorFlow runs with Keras 3{first}",
            hint=f"install tf-keras of TensorFlow's version and set {_LEGACY_KERAS}=1 before TensorFlow is imported",
        ) from error
