"""Finds problems of a submission without running it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from a2perf.errors import command_line
from a2perf.stranger_files import BoundExceeded, StrangerFileError, open_regular, read_regular_file
from a2perf.submission.checking.records import CheckFinding
from a2perf.submission.evaluator.submitted.source_problems import findings
from a2perf.submission.participant.forms import form_of
from a2perf.submission.participant.signatures import FILES

_MAX_SOURCE_BYTES = 2**20


def problems(folder: Path, mode: str | None = None) -> list[CheckFinding]:
    """Returns every problem of a submission that can be found without running it.

    Args:
        mode: ``"train"`` checks only train.py, other modes only inference.py, ``None`` both. All four files must exist
            in every mode.
    """
    top = folder.resolve()
    if not top.is_dir():
        kind = "is not a folder" if top.exists() else "does not exist"
        return [CheckFinding(str(folder), f"the submission {kind}", hint="give the folder that contains train.py")]
    try:
        with os.scandir(top) as names:
            empty = all(item.name == "__pycache__" for item in names)
    except OSError as error:
        return [
            CheckFinding(
                str(folder),
                f"the submission cannot be read: {error.strerror}",
                hint=command_line("chmod", "u+rx", folder),
            )
        ]
    if empty:
        return [CheckFinding(str(folder), "the submission is empty", hint=command_line("a2perf", "init", folder))]
    found: list[CheckFinding] = []
    form = form_of(top)
    if form is not None:
        return list(_file_problems(top, form.file, f"write `def {form.expected}:` in {form.file}", parse=True))
    for name, hint in FILES.items():
        wanted = mode is None or name == "__init__.py" or (name == "train.py") == (mode == "train")
        found.extend(_file_problems(top, name, hint, parse=wanted and name.endswith(".py")))
    return found


def _file_problems(top: Path, name: str, hint: str, *, parse: bool) -> Iterator[CheckFinding]:
    if not os.path.lexists(top / name):
        yield CheckFinding(name, "is missing", hint=hint)
        return
    real = Path(os.path.realpath(top / name))
    if not real.is_relative_to(top):
        yield CheckFinding(name, "is a link that leads out of the submission", hint="copy the file into the folder")
        return
    relative = real.relative_to(top)
    try:
        os.close(open_regular(top, relative))
        source = read_regular_file(top, relative, max_bytes=_MAX_SOURCE_BYTES) if parse else b""
    except BoundExceeded:
        yield CheckFinding(name, f"is larger than {_MAX_SOURCE_BYTES // 2**20} MiB", hint="move data to other files")
    except StrangerFileError as error:
        yield CheckFinding(name, f"cannot be read: {error.message}", hint=hint)
    else:
        if source or (parse and name != "__init__.py"):
            yield from (CheckFinding.at(name, *finding) for finding in findings(name, source))
