"""The temporary home and the environment variables of a participant process."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

from a2perf.fault_point import fault_point
from a2perf.runs.bundles.process_identity import left_behind, mark
from a2perf.system import POSIX

ASSET_SHELF = Path(".cache", "a2perf", "assets")
"""Folder in the participant's home with links to the host's data files."""


_PREFIX = "a2perf-home-"
THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS")


def make_home(assets: Mapping[str, Path]) -> Path:
    """Creates a temporary home with links to data files of the host; the caller deletes it.

    Raises:
        ValueError: a name leads out of the folder of data files.
    """
    sweep()
    home = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{mark()}-"))
    shelf = home / ASSET_SHELF
    for name, path in assets.items():
        place = Path(name)
        if place.is_absolute() or ".." in place.parts:
            raise ValueError(f"{name!r} is not the name of a data file")
        (shelf / place).parent.mkdir(parents=True, exist_ok=True)
        (shelf / place).symlink_to(path.absolute())
    fault_point("evaluator: home made")
    return home


def sweep() -> None:
    """Deletes homes left by evaluators that were killed before the guard took over the deletion."""
    for found in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        if left_behind(found.name.removeprefix(_PREFIX)):
            shutil.rmtree(found, ignore_errors=True)  # a home of another user stays


def variables(home: Path, python: str, artifacts: Path | None, given: Mapping[str, str]) -> dict[str, str]:
    """Returns the complete environment of the participant process.

    Args:
        python: its interpreter; the folder of the interpreter comes first in ``PATH``.
        given: variables of the contract and of the configuration; they override the others.
    """
    result = {
        "PATH": os.pathsep.join([os.path.dirname(python), os.environ.get("PATH", os.defpath)]),
        "HOME": str(home),
        "LANG": "C.UTF-8",
        "PYTHONDONTWRITEBYTECODE": "1",  # inherited by child processes: byte code would change the submission's hash
        **dict.fromkeys(THREAD_VARIABLES, "1"),  # all submissions are timed with one thread by default
    }
    if artifacts is not None:
        result["A2PERF_ARTIFACTS"] = str(artifacts)
    if not POSIX:  # otherwise the working directory, a part of the submission, is the folder of temporary files
        result |= dict.fromkeys(("USERPROFILE", "TEMP", "TMP"), str(home))
    return result | dict(given)
