"""Chooses the interpreter of the participant process: the evaluator's, a given one, or an isolated environment."""

from __future__ import annotations

import platform
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from a2perf import assets
from a2perf.domains.registry import get_domain
from a2perf.records import PythonEnvRecord
from a2perf.sandbox.view import path_lines
from a2perf.submission.settings import Submission

REQUIREMENTS = "requirements.txt"
"""File of a submission that lists its requirements."""

OVERRIDES = "overrides.txt"
"""Optional file of a submission that overrides the requirements of its packages."""

LOG = "python_env.log"
"""Log of building the environment, in the bundle's folder of logs."""


@dataclass(frozen=True)
class ParticipantPython:
    """The interpreter of a participant process.

    Attributes:
        python: its path; ``None`` for the evaluator's.
        readable: paths that the process must be able to read to run it.
        record: the entry of the manifest.
    """

    python: Path | None
    readable: tuple[Path, ...]
    record: PythonEnvRecord


@contextmanager
def participant_python(settings: Submission, logs: Path) -> Iterator[ParticipantPython]:
    """Provides the configured interpreter; an isolated environment is kept while the context is open.

    An environment is built here, before the participant starts, in a separate sandbox; see ``installer``.

    Args:
        settings: the settings of the run.
        logs: folder for ``python_env.log``, if an environment is built or reused.

    Raises:
        UserError: a requirement cannot be installed, or the interpreter does not run.
    """
    if settings.python_env == "shared" and settings.participant_python is None:
        yield ParticipantPython(None, (), PythonEnvRecord(kind="shared", python_version=platform.python_version()))
        return
    from a2perf.submission.evaluator import python_env

    interpreter = python_env.find_interpreter(settings.participant_python)
    if settings.python_env == "shared":
        given = Path(str(settings.participant_python)).absolute()
        record = PythonEnvRecord(kind="shared", python_version=interpreter.version)
        prefix = given.parent.parent
        # The organizer's environment is trusted, so folders in its .pth files (such as a2perf's checkout) belong to it.
        yield ParticipantPython(given, (prefix, *interpreter.readable, *path_lines(prefix)), record)
        return
    extras, packages = python_env.requirements_of_domain(get_domain(str(settings.domain)))
    recipe = python_env.Recipe(
        python_env.read_requirements(settings.folder / REQUIREMENTS),
        extras,
        interpreter,
        python_env.Sources(
            tuple(Path(folder).expanduser().absolute() for folder in settings.python_env_find_links),
            offline=settings.python_env_offline or assets.is_offline(),
            allow_builds=settings.python_env_builds,
            size_bytes=settings.python_env_size_bytes,
        ),
        packages,
        python_env.read_requirements(settings.folder / OVERRIDES),
    )
    with python_env.environment(recipe, logs / LOG) as env:
        yield ParticipantPython(env.python, env.readable, env.record)
