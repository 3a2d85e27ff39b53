"""The check of a submission folder before a run: every problem at once, each with its fix.

The check runs in a separate process: it reads gin files into gin's global configuration and may change the working
directory, which must not happen in a notebook or while other threads run.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from a2perf import errors
from a2perf.api.arguments import RunSettings, participant_arguments, run_options, whole_number
from a2perf.api.environments import TaskInfo, find_task
from a2perf.errors import ConfigError, InfrastructureError, UserError
from a2perf.submission.options import parse_participant_args
from a2perf.submission.run_options import OPTIONS
from a2perf.system import POSIX

if TYPE_CHECKING:
    from a2perf.submission.checking.records import CheckFinding, CheckReply, CheckRequest

_STOP_S = 10.0
_OPTIONS = tuple(
    name for name, one in OPTIONS.items() if not one.one_run and name not in ("public_seeds", "seeds_from")
)


@dataclass(frozen=True)
class CheckReport:
    """The result of ``a2perf.check``; true if the submission has no problem.

    Attributes:
        folder: the submission, as given.
        env_id: environment of the trial.
        sandbox: level of isolation of the trial, ``"bubblewrap"``.
        steps: environment steps of the trial.
        findings: the problems, each with ``where``, ``message`` and ``hint``.
    """

    folder: Path
    env_id: str
    sandbox: str
    steps: int
    findings: tuple[CheckFinding, ...]

    def __bool__(self) -> bool:
        return not self.findings

    def __str__(self) -> str:
        if not self.findings:
            return f"{self.folder}: no problems; trained and stepped {self.steps} times on {self.env_id}"
        count = len(self.findings)
        lines = [f"{self.folder}: {count} problem{'s' if count > 1 else ''}"]
        for finding in self.findings:
            lines.append(_shown(f"  {finding.where}: {finding.message}"))
            if finding.hint:
                lines.append(_shown(f"    Hint: {finding.hint}"))
        return "\n".join(lines)

    __repr__ = __str__

    def as_json(self) -> dict[str, Any]:
        """Returns the report as a JSON object, as ``a2perf check --json`` prints it."""
        findings = [{"where": one.where, "message": one.message, "hint": one.hint} for one in self.findings]
        return {"folder": str(self.folder), "env_id": self.env_id, "sandbox": self.sandbox, "findings": findings}


def check(
    submission: str | os.PathLike[str],
    *,
    task: str | TaskInfo | None = None,
    steps: int = 20,
    train_limit_s: float = 30.0,
    artifacts: str | os.PathLike[str] | None = None,
    participant_args: Mapping[str, Any] | None = None,
    **options: Unpack[RunSettings],
) -> CheckReport:
    """Checks a submission folder and lists every problem at once.

    Reads its gin files, runs ``train()`` briefly and then the policy for a few steps, in the same sandboxed process as
    a real run. Changes nothing in the calling process.

    Args:
        submission: the folder that holds ``train.py`` and ``inference.py``.
        task: name of a task or id of an environment; by default the one in the gin files.
        steps: environment steps to run, at least 1.
        train_limit_s: wall-clock limit of the trial training run, s.
        artifacts: load the artifacts in this folder instead of training.
        participant_args: arguments of ``train()`` and ``load_policy()``; the values become strings.
        **options: options of every run, see ``RunSettings``, except ``public_seeds`` and ``seeds_from``.

    Returns:
        The report: false if there are problems, ``findings`` lists them.

    Raises:
        ConfigError: the folder does not exist, no such task or option, or an argument is out of its range.
        AssetUnavailable: a data file of the task is missing; the hint fetches it.
        MissingDependency: a package that the task needs is not installed; the hint installs it.

    Example:
        >>> import a2perf
        >>> report = a2perf.check("examples/minimal", task="synthetic_trot_v1", steps=3)
        >>> bool(report)
        True
    """
    from a2perf.submission.checking.records import CheckRequest

    folder = Path(submission)
    if not folder.is_dir():
        raise ConfigError(f"{folder} is not a folder", hint="give the folder that holds train.py and inference.py")
    if artifacts is not None and not Path(artifacts).is_dir():
        raise ConfigError(f"{artifacts} is not a folder", hint="give the artifacts folder of a finished training run")
    try:
        limit_s = float(train_limit_s)
    except (TypeError, ValueError):
        limit_s = 0.0
    if not limit_s > 0:
        raise ConfigError(f"train_limit_s={train_limit_s!r} is not valid", hint="give a number of seconds above 0")
    found = None if task is None else find_task(task)
    request = CheckRequest(
        folder=str(folder.resolve()),
        task=None if found is None else (found.domain, found.name, found.qualified_id, dict(found.kwargs)),
        steps=whole_number("steps", steps, least=1),
        train_limit_s=limit_s,
        artifacts=None if artifacts is None else str(Path(artifacts).resolve()),
        participant_args=parse_participant_args(participant_arguments(participant_args)),
        options=dict(run_options("check", options, _OPTIONS).given),
    )
    reply = _checked_elsewhere(request)
    if reply.refusal is not None:
        kind, message, hint = reply.refusal
        raised = getattr(errors, kind, UserError)
        raise (raised if issubclass(raised, UserError) else UserError)(message, hint=hint)
    return CheckReport(folder, reply.env_id, reply.sandbox, steps, reply.findings)


def _checked_elsewhere(request: CheckRequest) -> CheckReply:
    """Runs the check in a process that ends with this one, and relays what it writes to standard error."""
    import msgspec

    from a2perf.launch import die_with_parent
    from a2perf.submission.checking.records import CheckReply

    with tempfile.TemporaryDirectory(prefix="a2perf-check-") as work, open(f"{work}/output", "w+b") as output:
        result = Path(work) / "result.json"
        # -P keeps Python from importing modules of the working directory, which may be the submission's folder
        command = [sys.executable, "-P", "-m", "a2perf.submission.checking.trial", str(result)]
        if POSIX:  # elsewhere a process cannot become another one
            command = [sys.executable, "-I", "-S", die_with_parent.__file__, str(os.getpid()), "all", *command]
        # a separate session: the terminal sends Ctrl-C to this process only, which then ends the check once
        with subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=output, stderr=subprocess.STDOUT, start_new_session=True
        ) as process:
            try:
                process.communicate(json.dumps(msgspec.to_builtins(request)).encode())
            except BaseException:
                process.terminate()
                try:
                    process.wait(_STOP_S)
                except subprocess.TimeoutExpired:
                    process.kill()
                raise
        output.seek(0)
        sys.stderr.write(output.read().decode(errors="replace").replace("\r\n", "\n"))
        if not result.exists():
            status = process.returncode
            ended = f"signal {-status}" if status < 0 else f"exit status {status}"
            raise InfrastructureError(f"the process of the check ended with {ended}", hint="run the check again")
        return msgspec.convert(json.loads(result.read_bytes()), CheckReply)


def _shown(text: str) -> str:
    """Returns text from the submission with control characters escaped and a bar before each further line.

    A line may not begin with it: a workflow of GitHub would obey ``::add-mask::``, even behind spaces.
    """
    lines = ("".join(c if c.isprintable() else ascii(c)[1:-1] for c in line) for line in text.split("\n"))
    return "\n    | ".join(lines)
