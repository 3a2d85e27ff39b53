"""Participant processes with what a test says and defaults for the rest."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

from a2perf.sandbox import get_sandbox
from a2perf.submission.evaluator.process.confinement import ProvidedConfinement
from a2perf.submission.evaluator.process.participant_process import ParticipantProcess
from a2perf.submission.evaluator.process.participant_spec import ParticipantSpec

_CONFINEMENT = {field.name for field in fields(ProvidedConfinement)}


def make_participant(submission: Path, *, logs: Path, sandbox: str = "process", **settings: Any) -> ParticipantProcess:
    """Returns a participant process that has not been started.

    Args:
        submission: the folder.
        logs: gets its output.
        sandbox: level of confinement.
        settings: further fields of ``ParticipantSpec`` and ``ProvidedConfinement``.
    """
    how = {name: settings.pop(name) for name in _CONFINEMENT & set(settings)}
    spec = ParticipantSpec(submission=submission, logs=logs, **settings)
    return ParticipantProcess(spec, ProvidedConfinement(sandbox=get_sandbox(sandbox), **how))
