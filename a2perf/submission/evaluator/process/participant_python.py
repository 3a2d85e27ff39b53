"""Chooses the interpreter of the participant process: the evaluator's, a given one, or an isolated environment."""

from __future__ import annotations

import platform
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import msgspec

from a2perf import assets
from a2perf.domains.registry import get_domain
from a2perf.errors import SubmissionError, UserError
from a2perf.records import PythonEnvRecord
from a2perf.sandbox.view import path_lines
from a2perf.stranger_files import read_regular_file
from a2perf.submission.checking.records import CheckFinding
from a2perf.submission.evaluator.process.failures import ParticipantFailure
from a2perf.submission.evaluator.process.own_code import listed_packages, normalised_name
from a2perf.submission.settings import PythonEnv, Submission

REQUIREMENTS = "requirements.txt"
"""File of a submission that lists its requirements."""

OVERRIDES = "overrides.txt"
"""Optional file of a submission that overrides the requirements of its packages."""

_MAX_BYTES = 2**20

LOG = "python_env.log"
"""Log of building the environment, in the bundle's folder of logs."""


@dataclass(frozen=True)
class ParticipantPython:
    """The interpreter of a participant process."""

    python: Path | None
    readable: tuple[Path, ...]
    record: PythonEnvRecord


@contextmanager
def participant_python(settings: Submission, logs: Path) -> Iterator[ParticipantPython]:
    """Provides the configured interpreter; an isolated environment is kept while the context is open.

    An environment is built here, before the participant starts, in a separate sandbox; see ``installer``.

    Args:
        logs: folder for ``python_env.log``, if an environment is built or reused.

    Raises:
        UserError: a requirement cannot be installed, or the interpreter does not run.
    """
    if settings.shares_packages:
        version, packages = platform.python_version(), listed_packages(_site_folders(settings))
        yield ParticipantPython(None, (), PythonEnvRecord(kind="shared", python_version=version, packages=packages))
        return
    from a2perf.submission.evaluator import python_env

    interpreter = python_env.find_interpreter(settings.participant_python)
    if settings.python_env == "shared":
        given = Path(str(settings.participant_python)).absolute()
        prefix = given.parent.parent
        packages = listed_packages(_site_folders(settings))
        record = PythonEnvRecord(kind="shared", python_version=interpreter.version, packages=packages)
        # The organizer's environment is trusted, so folders in its .pth files (such as a2perf's checkout) belong to it.
        yield ParticipantPython(given, (prefix, *interpreter.readable, *path_lines(prefix)), record)
        return
    extras, domain_packages = python_env.requirements_of_domain(get_domain(str(settings.domain)))
    size_bytes = max(8 * 2**30, settings.artifact_limit_bytes or 0)
    recipe = python_env.Recipe(
        python_env.read_requirements(settings.folder / REQUIREMENTS),
        extras,
        interpreter,
        python_env.Sources(offline=assets.is_offline(), size_bytes=size_bytes),
        domain_packages,
        python_env.read_requirements(settings.folder / OVERRIDES),
    )
    with python_env.environment(recipe, logs / LOG) as env:
        yield ParticipantPython(env.python, env.readable, env.record)


def required_packages(settings: PythonEnv, folder: Path) -> dict[str, str]:
    """Returns the versions in a shared interpreter of NumPy, Gymnasium and the submission's requirements, by name."""
    try:
        text = read_regular_file(folder, Path(REQUIREMENTS), max_bytes=_MAX_BYTES).decode(errors="replace")
    except UserError:
        text = ""
    installed = listed_packages(_site_folders(settings))
    named = {normalised_name(found) for found in re.findall(r"^\s*([A-Za-z0-9][\w.-]*)", text, re.MULTILINE)}
    return {name: installed.get(name, "") for name in sorted({"numpy", "gymnasium", *named})}


def _site_folders(settings: PythonEnv) -> list[Path]:
    if settings.participant_python is None:
        return [Path(place) for place in sys.path if place.endswith("-packages")]
    return sorted(Path(settings.participant_python).absolute().parent.parent.glob("lib/python3*/*-packages"))


def requirement_problems(settings: PythonEnv, folder: Path) -> list[CheckFinding]:
    """Returns the lines of requirements.txt that are not valid or that the participant's packages do not satisfy.

    An isolated environment satisfies every valid line. The packages of another interpreter are not compared.
    """
    from a2perf.submission.evaluator.python_env import read_requirements

    try:
        found = read_requirements(folder / REQUIREMENTS)
    except SubmissionError as error:
        return [CheckFinding(REQUIREMENTS, error.message, hint=error.hint)]
    if not settings.shares_packages:
        return []
    hint = "--python-env isolated installs it for the submission; or install it next to a2perf"
    return [
        CheckFinding(line.place, f"{line.text!r} is not satisfied here: {reason}", hint)
        for line, reason in found.unsatisfied_here().items()
    ]


def explain_missing_module(error: BaseException | None, settings: PythonEnv, folder: Path) -> None:
    """Adds to the failure of an import what requirements.txt names and the shared packages do not satisfy."""
    if not isinstance(error, ParticipantFailure) or not error.failure.message.startswith("ModuleNotFoundError"):
        return
    problems = requirement_problems(settings, folder)
    if problems:
        places = ", ".join(item.where for item in problems[:3])
        text = f"{error.failure.message} ({places}: {problems[0].message}; add --python-env isolated)"
        error.failure = msgspec.structs.replace(error.failure, message=text)
