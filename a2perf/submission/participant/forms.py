"""Submissions of another form: one file with one function, as a domain's `SubmissionForm` describes it.

A folder with ``inference.py`` is an ordinary submission. Domains are loaded only for folders without one.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from a2perf.domains.registry import SubmissionForm

_ORDINARY = "inference.py"


def form_of(folder: Path) -> SubmissionForm | None:
    """Returns the form of a submission; None for the ordinary one with train.py and inference.py."""
    if os.path.lexists(folder / _ORDINARY):
        return None
    from a2perf.domains.registry import domains  # loading it delays the start of a process

    for domain in domains().values():
        for form in domain.forms:
            if os.path.lexists(folder / form.file):
                return form
    return None


def is_submission(folder: Path) -> bool:
    """Returns whether a folder has an ``inference.py``, or the file of another form."""
    return (folder / _ORDINARY).is_file() or form_of(folder) is not None
