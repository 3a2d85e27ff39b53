"""Which interpreter a run's participant process gets: the evaluator's, another one, or an environment of its own."""

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
"""The file of a submission that says what it needs."""

OVERRIDES = "overrides.txt"
"""The file of a submission that replaces what packages demand of each other; it may be missing."""

LOG = "python_env.log"
"""In the folder of logs of a bundle: what building the environment said."""


@dataclass(frozen=True)
class ParticipantPython:
    """The interpreter of a participant process.

    Attributes:
        python: its path; ``None`` is the evaluator's own.
        readable: what the process must be able to read to run it.
        record: what the manifest says about it.
    """

    python: Path | None
    readable: tuple[Path, ...]
    record: PythonEnvRecord


@contextmanager
def participant_python(settings: Submission, logs: Path) -> Iterator[ParticipantPython]:
    """Provides the interpreter that the configuration asks for; it stays for as long as the context is open.

    An environment is built here, before the participant starts, in a sandbox for the installation; see ``installer``.

    Args:
        settings: the run's configuration.
        logs: gets ``python_env.log`` where an environment is made or used again.

    Raises:
        UserError: a requirement cannot be had, or the interpreter does not run.
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
        # The organizer's own environment: what its .pth files name (a2perf's checkout, say) is part of it.
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
