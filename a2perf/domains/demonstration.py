"""The contribution of a domain to ``a2perf demo``: runs of example submissions."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class DemonstrationRun:
    """One command of the demonstration.

    Attributes:
        folder: of the run, below the demonstration's folder.
        gin_file: name of a packaged gin file below the domain's.
        first_number_s: approximate time to the first number, s; quick runs come first.
        progress: a file of the run; its new lines are shown during the run. Empty for none.
    """

    title: str
    folder: str
    submission: str
    gin_file: str
    bindings: tuple[str, ...] = ()
    participant_args: str = ""
    first_number_s: float = 0.0
    progress: str = ""
