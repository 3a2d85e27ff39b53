"""Problems of a submission that show without running it: its files and its gin files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from a2perf.constants import BenchmarkMode
from a2perf.errors import UserError
from a2perf.stranger_files import printable
from a2perf.submission import configuration
from a2perf.submission.checking.records import CheckFinding
from a2perf.submission.evaluator.folder_problems import problems
from a2perf.submission.gin_origin import locate
from a2perf.submission.submission_util import Submission  # makes the configurable names known to gin

MOST_GIN_FILES = 100
"""Number of gin files of a folder that are read."""


def static_findings(folder: Path) -> tuple[list[CheckFinding], set[str]]:
    """Returns problems of the files, and the modes that can be tried despite them."""
    found: dict[str, CheckFinding] = {}
    fit = set()
    for mode in ("train", "inference"):
        of_mode = problems(folder, mode)
        if all(problem.file != f"{mode}.py" for problem in of_mode):
            fit.add(mode)
        for problem in of_mode:
            where = problem.file if problem.line is None else f"{problem.file}:{problem.line}"
            found[f"{where}{problem.message}"] = CheckFinding(where, problem.message, problem.hint)
    return list(found.values()), fit


def gin_findings(folder: Path, *, trusted: bool) -> tuple[list[CheckFinding], dict[str, Any], dict[str, Submission]]:
    """Loads the folder's gin files.

    Returns:
        Problems, the bindings of ``create_domain`` in the last valid file, and the settings of the last one per mode.
    """
    findings: list[CheckFinding] = []
    named: dict[str, Any] = {}
    configured: dict[str, Submission] = {}
    paths = sorted(folder.glob("*.gin"), reverse=True)  # training.gin before inference.gin, which then decides
    if len(paths) > MOST_GIN_FILES:
        findings.append(
            CheckFinding(".", f"there are more than {MOST_GIN_FILES} gin files", "keep only the ones you use")
        )
    for path in paths[:MOST_GIN_FILES]:
        try:
            configuration.load(locate(str(path), submission=folder, domain=None, trusted=trusted), [], trusted=trusted)
            settings = Submission()
        except UserError as error:
            findings.append(CheckFinding(printable(path.name), error.message, error.hint))
        else:
            named = {"domain": settings.domain, **configuration.bound_parameters("create_domain")}
            configured[BenchmarkMode(settings.mode).value] = settings
    configuration.clear()
    return findings, named, configured
