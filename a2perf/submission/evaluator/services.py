"""Opens the services of a run, see ``a2perf.submission.run_services``, around its participant processes."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TypeAlias

from a2perf.runs.bundle import Bundle
from a2perf.submission.run_services import ServedRun, ServiceSession, open_services
from a2perf.submission.settings import Submission

Sessions: TypeAlias = tuple[ServiceSession, ...]


def services_of(settings: Submission, bundle: Bundle, say: Callable[[str], None]) -> AbstractContextManager[Sessions]:
    """Opens the services of a recorded run."""
    run = ServedRun(
        submission=settings.folder,
        folder=bundle.path,
        logs=bundle.logs,
        attempt=bundle.manifest.attempts[-1].number,
        passed_variables=settings.pass_environment,
        warn=bundle.manifest.warnings.append,
        say=say,
    )
    return open_services(settings.services or (), run)
