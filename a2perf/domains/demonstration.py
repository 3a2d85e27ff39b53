"""What a domain contributes to ``a2perf demo``: runs of example submissions."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class DemonstrationRun:
    """One command of the demonstration.

    Attributes:
        title: what it shows.
        folder: of the run, below the demonstration's folder.
        submission: name of an example.
        gin_file: name of a packaged gin file below the domain's.
        bindings: further gin bindings.
        participant_args: of the submission.
        first_number_s: about when the first number is there; quick runs come first, s.
        progress: a file of the run whose new lines are shown meanwhile; empty for none.
    """

    title: str
    folder: str
    submission: str
    gin_file: str
    bindings: tuple[str, ...] = ()
    participant_args: str = ""
    first_number_s: float = 0.0
    progress: str = ""
