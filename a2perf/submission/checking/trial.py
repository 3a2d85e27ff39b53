"""The check of a submission: missing files, gin files, then a brief training run and a few steps.

Both trials use the participant process of a real run, which imports the code: nothing of it is parsed here.
``python -m a2perf.submission.checking.trial RESULT`` is a check in a separate process, which reads the request from
standard input: gin's configuration, the working directory and the signal handlers belong to this process, so a check
can run in a notebook or a thread.
"""

from __future__ import annotations

import dataclasses
import json
import signal
import sys
import tempfile
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec

from a2perf.constants import BenchmarkMode
from a2perf.domains.registry import domains, find_environment, get_domain
from a2perf.domains.tfa.suite_gym import make_environment
from a2perf.errors import AssetUnavailable, ConfigError, SubmissionError, UserError
from a2perf.records import Failure, FailureKind
from a2perf.stranger_files import printable
from a2perf.submission import configuration
from a2perf.submission.checking.records import CheckFinding, CheckReply, CheckRequest
from a2perf.submission.evaluator.playing.actions import ActionChecker
from a2perf.submission.evaluator.process.confinement import confinement
from a2perf.submission.evaluator.process.failures import ParticipantFailure
from a2perf.submission.evaluator.process.participant_python import requirement_problems
from a2perf.submission.evaluator.process.participants import ParticipantFolders, Participants
from a2perf.submission.evaluator.submitted.identity import RunTask, new_manifest
from a2perf.submission.gin_origin import locate
from a2perf.submission.main_submission import outside_of
from a2perf.submission.participant.forms import form_of
from a2perf.submission.participant.signatures import FILES
from a2perf.submission.run_options import RunOptions
from a2perf.submission.run_services import ServedRun, open_services
from a2perf.submission.submission_util import Submission  # makes the configurable names known to gin

_MOST_GIN_FILES = 100


def missing_files(folder: Path) -> list[CheckFinding]:
    """Returns the files of the contract that a submission does not have."""
    if form_of(folder) is not None:
        return []
    return [CheckFinding(name, "is missing", hint) for name, hint in FILES.items() if not (folder / name).is_file()]


def _gin_findings(folder: Path, *, trusted: bool) -> tuple[list[CheckFinding], dict[str, Any], dict[str, Submission]]:
    """Loads the folder's gin files.

    Returns:
        Problems, the bindings of ``create_domain`` in the last valid file, and the settings of the last one per mode.
    """
    findings: list[CheckFinding] = []
    named: dict[str, Any] = {}
    configured: dict[str, Submission] = {}
    paths = sorted(folder.glob("*.gin"), reverse=True)  # training.gin before inference.gin, which then decides
    if len(paths) > _MOST_GIN_FILES:
        findings.append(
            CheckFinding(".", f"there are more than {_MOST_GIN_FILES} gin files", "keep only the ones you use")
        )
    for path in paths[:_MOST_GIN_FILES]:
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


def _task_in(named: Mapping[str, Any]) -> RunTask:
    """Returns the task in the gin files, otherwise the first that works on this machine.

    Raises:
        ConfigError: an unknown id, or no task works on this machine.
        AssetUnavailable: the task needs a data file that is missing.
    """
    if named.get("env_name"):
        of_environment = {k: v for k, v in named.items() if k not in ("domain", "env_name", "root_dir")}
        owner, environment = find_environment(str(named["env_name"]))
        return RunTask(owner.name, environment.id, environment.id, of_environment)
    candidates = [get_domain(named["domain"])] if "domain" in named else list(domains().values())
    reasons = []
    for domain in candidates:
        for task in domain.tasks:
            try:
                make_environment(task.env_id, dict(task.kwargs)).close()
            except (AssetUnavailable, ConfigError) as error:
                reasons.append(error.message)
            else:
                return RunTask(domain.name, task.name, task.env_id, dict(task.kwargs))
    raise ConfigError(
        "no environment can be made on this host: " + "; ".join(reasons), hint="`a2perf doctor` lists what is missing"
    )


def _completed(folder: Path, work: Path) -> Path:
    """Returns the folder, or a view of it with empty files for missing ones, which must not hide other problems."""
    missing = [name for name in ("requirements.txt", "__init__.py") if not (folder / name).exists()]
    if not missing:
        return folder
    view = work / "view" / folder.name
    view.mkdir(parents=True)
    for entry in folder.iterdir():
        (view / entry.name).symlink_to(entry.resolve())
    for name in missing:
        (view / name).touch()
    return view


class _Trial:
    """A short training run and a few steps, both in the participant process of a real run."""

    def __init__(
        self,
        folder: Path,
        original: Path,
        task: RunTask,
        work: Path,
        configured: Mapping[str, Submission],
        given: Mapping[str, Any],
    ) -> None:
        self.folder, self.original, self.task, self.root = folder, original, task, work / "run"
        self.configured, self.given = configured, given
        self.findings: list[CheckFinding] = []
        self.level = confinement(self._settings("inference"), {}).sandbox.level

    def run(self, fit: set[str], *, artifacts: Path | None, train_limit_s: float, steps: int) -> list[CheckFinding]:
        """Tries the modes in ``fit`` and returns what went wrong, with problems of requirements.txt."""
        self.findings += requirement_problems(self._settings("inference"), self.original)
        hint = None
        if artifacts is None:
            artifacts = self._folder("train", "artifacts")
            failure = self._tried(
                fit,
                "train",
                artifacts,
                lambda opened: opened.start(time_limit_s=train_limit_s).train(opened.settings.participant_args),
            )
            if failure is not None and failure.kind.value == "timeout":
                hint = (
                    f"train() was stopped after {train_limit_s:g} s: raise --train-time-limit-s, shorten the training "
                    "with --participant-args, or give --artifacts of a finished training run"
                )
            elif failure is not None:
                self.findings.append(_finding(failure, None))
                hint = "fix train() first; there may be nothing to load"
        failure = self._tried(fit, "inference", artifacts, lambda opened: self._infer(opened, steps))
        if failure is not None:
            self.findings.append(_finding(failure, hint))
        return self.findings

    def _tried(self, fit: set[str], mode: str, root_dir: Path, trial: Callable[[Participants], None]) -> Failure | None:
        """Opens the participant process of a run in one mode and returns how the trial failed."""
        if mode not in fit:
            return None
        settings = self._settings(mode)
        # the rules for links concern the submission, not the links that a view consists of
        submitted = dataclasses.replace(settings, participant_module_path=str(self.original))
        folders = ParticipantFolders(
            root_dir=root_dir,
            artifacts=self._folder(mode, "artifacts"),
            logs=self._folder(mode, "logs"),
            bundle=self.root / mode,
        )
        try:
            manifest = new_manifest(submitted, self.task, episodes=0)
            tried = ServedRun(
                submission=settings.folder,
                folder=folders.bundle,
                logs=folders.logs,
                is_recorded=False,
                passed_variables=settings.pass_environment,
            )
            with (
                open_services(settings.services or (), tried) as services,
                Participants(settings, self.task, manifest, folders, mode=mode, services=services) as opened,
            ):
                trial(opened)
        except ParticipantFailure as error:
            return error.failure
        except SubmissionError as error:
            return Failure(kind=FailureKind.CONTRACT, where=mode, message=str(error))
        return None

    def _infer(self, opened: Participants, steps: int) -> None:
        """Takes a few steps; it is a problem if actions had to be clipped into the action space."""
        with closing(make_environment(self.task.env_id, self.task.env_kwargs)) as env:
            participant = opened.load()
            checked = ActionChecker(env.action_space)
            observation, _ = env.reset(seed=0)
            for _ in range(steps):
                action = checked(participant.infer(observation).action)
                observation, _, terminated, truncated, _ = env.step(action)
                if terminated or truncated:
                    observation, _ = env.reset()
            space = " ".join(str(env.action_space).split())
        if checked.clipped:
            message = f"{checked.clipped} of {steps} actions were outside of {space} and were clipped"
            hint = "return actions inside the bounds, for example by np.clip"
            self.findings.append(CheckFinding("infer_once", message, hint))

    def _settings(self, mode: str) -> Submission:
        """Returns the settings of a run in this mode: of its gin file, if it has one, under those of the command."""
        given: dict[str, Any] = {
            "domain": self.task.domain,
            "root_dir": str(self.root),
            "participant_module_path": str(self.folder),
            "public_seeds": True,
            **self.given,
        }
        if self.folder != self.original:  # the view of a folder consists of links into it
            given["readable_paths"] = [str(self.original)]
        configured = self.configured.get(mode)
        return Submission(mode=mode, **given) if configured is None else dataclasses.replace(configured, **given)

    def _folder(self, mode: str, name: str) -> Path:
        path = self.root / mode / name
        path.mkdir(parents=True, exist_ok=True)
        return path


def _finding(failure: Failure, hint: str | None) -> CheckFinding:
    message, _, own_hint = failure.message.partition("\n  Hint: ")
    if failure.traceback:
        message += "\n" + "\n".join(f"      {line}" for line in failure.traceback.rstrip().splitlines())
    return CheckFinding(failure.where, message, "; ".join(filter(None, (own_hint, hint))) or None)


def main() -> None:
    """Reads the request, checks, and writes a ``CheckReply`` to the file that the first argument names."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # also ends the participant and removes its folders
    # not msgspec.json: names of files may be invalid Unicode, which it refuses
    request = msgspec.convert(json.load(sys.stdin), CheckRequest)
    try:
        # This reads the gin files into gin's global configuration and may change the working directory.
        place, options = Path(request.folder), RunOptions(request.options)
        findings = missing_files(place)
        fit = {mode for mode in ("train", "inference") if all(one.where != f"{mode}.py" for one in findings)}
        found, named, configured = _gin_findings(place, trusted=options.trusts_submission)
        findings += found
        arguments = request.participant_args
        with tempfile.TemporaryDirectory(prefix="a2perf-check-") as made, outside_of(place):
            work = Path(made).resolve()
            task = _task_in(named) if request.task is None else RunTask(*request.task)
            given = {**options.settings(), **({"participant_args": arguments} if arguments else {})}
            trial = _Trial(_completed(place, work), place, task, work, configured, given)
            artifacts = None if request.artifacts is None else Path(request.artifacts)
            findings += trial.run(fit, artifacts=artifacts, train_limit_s=request.train_limit_s, steps=request.steps)
        reply = CheckReply(task.env_id, trial.level, tuple(findings))
    except UserError as error:
        reply = CheckReply(refusal=(type(error).__name__, error.message, error.hint))
    except KeyboardInterrupt:
        sys.exit(130)
    Path(sys.argv[1]).write_text(json.dumps(msgspec.to_builtins(reply)))


if __name__ == "__main__":
    main()
