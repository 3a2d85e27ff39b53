"""Submissions and gin files: a test gives what differs from the simplest ones."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType
from typing import Any

TROT = "QuadrupedLocomotion-SyntheticTrot-v0" if find_spec("pybullet") else "QuadrupedLocomotionMuJoCo-DogTrot-v0"
TOY = "CircuitTraining-ToyMacro-v0"
WEB = "WebNavigation-Difficulty-01-v0"

IDLE = "def train(**arguments):\n    pass\n"
STANDS = "return np.zeros(env.action_space.shape, np.float32)"
"""Body of a ``load_policy`` whose policy is an action that is always valid."""

_NOTHING: Mapping[str, Any] = MappingProxyType({})


def policy(
    *, top: str = "", load: str = "return None", preprocess: str = "return observation", infer: str = "return policy"
) -> str:
    """Returns the source of an ``inference.py`` from the code at its top and the bodies of its functions."""
    bodies = {
        "load_policy(env, **kwargs)": load,
        "preprocess_observation(observation)": preprocess,
        "infer_once(policy, observation)": infer,
    }
    functions = (
        f"def {head}:\n{textwrap.indent(textwrap.dedent(body).strip(), '    ')}\n" for head, body in bodies.items()
    )
    return "\n\n".join([f"import numpy as np\n{textwrap.dedent(top).strip()}\n", *functions])


def write_submission(
    folder: Path, inference: str | None = None, train: str = IDLE, requirements: str = "", **modules: str
) -> Path:
    """Writes a submission's folder; ``modules`` are further Python files."""
    folder.mkdir(parents=True, exist_ok=True)
    sources = {"inference": policy() if inference is None else inference, "train": train, "__init__": "", **modules}
    for name, text in sources.items():
        (folder / f"{name}.py").write_text(textwrap.dedent(text))
    (folder / "requirements.txt").write_text(requirements)
    return folder


def gin(env_id: str, mode: str = "inference", *, kwargs: Mapping[str, Any] = _NOTHING, **settings: Any) -> str:
    """Returns a gin file.

    Args:
        env_id: the environment; its first part names the domain.
        kwargs: arguments of the environment.
        settings: settings of ``Submission``.
    """
    domain = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", env_id.partition("-")[0].removesuffix("MuJoCo")).upper()
    lines = [
        "import a2perf.submission.submission_util",
        f"Submission.mode = %BenchmarkMode.{mode.upper()}",
        f"Submission.domain = %BenchmarkDomain.{domain}",
        *(f"Submission.{name} = {value!r}" for name, value in settings.items()),
        *(f"create_domain.{name} = {value!r}" for name, value in {"env_name": env_id, **kwargs}.items()),
    ]
    return "\n".join(lines) + "\n"
