"""``a2perf check``: everything that is wrong with a submission folder, found before a run is spent on it."""

from __future__ import annotations

import dataclasses
import json
import tempfile
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import click

from a2perf.constants import BenchmarkMode
from a2perf.domains.registry import domains, find_environment, get_domain
from a2perf.domains.tfa.suite_gym import make_environment
from a2perf.errors import AssetUnavailable, ConfigError, SubmissionError, UserError
from a2perf.records import Failure, FailureKind
from a2perf.stranger_files import printable
from a2perf.submission import configuration
from a2perf.submission.evaluator.actions import check_action
from a2perf.submission.evaluator.confinement import confinement
from a2perf.submission.evaluator.failures import ParticipantFailure
from a2perf.submission.evaluator.folder_problems import problems
from a2perf.submission.evaluator.identity import RunTask, new_manifest
from a2perf.submission.evaluator.participants import ParticipantFolders, Participants
from a2perf.submission.gin_origin import locate
from a2perf.submission.main_submission import outside_of
from a2perf.submission.options import normalised, parse_participant_args
from a2perf.submission.run_options import RunOptions, run_options
from a2perf.submission.submission_util import Submission  # makes the configurable names known to gin

MOST_GIN_FILES = 100
"""How many gin files of a folder are read."""


@dataclass(frozen=True)
class CheckFinding:
    """One thing that is wrong: where, what, and how to fix it."""

    where: str
    message: str
    hint: str | None = None


@click.command(context_settings=normalised())
@click.argument("folder", type=click.Path(path_type=Path), metavar="DIR")
@click.option("--env-id", metavar="ID", help="Environment to try it on; by default the one its gin files name.")
@click.option("--steps", default=20, show_default=True, type=click.IntRange(min=1), help="Environment steps to run.")
@click.option(
    "--train-limit", default=30.0, show_default=True, type=click.FloatRange(min=0, min_open=True), metavar="SECONDS",
    help="Wall-clock limit of the trial training.",
)  # fmt: skip
@click.option("--artifacts", type=click.Path(path_type=Path), metavar="DIR", help="Use these instead of training.")
@click.option("--participant-args", default="", metavar="K=V,...", help="Passed to train() and load_policy().")
@run_options(without=("public_seeds", "seeds_from"))
@click.option("--json", "as_json", is_flag=True, help="Print the findings as JSON.")
def check(
    folder: Path, env_id: str | None, steps: int, train_limit: float, artifacts: Path | None, participant_args: str,
    as_json: bool, **chosen: Any,
) -> int:  # fmt: skip
    """Check the submission in DIR and list every problem at once.

    Its files and its gin files are read, train() is tried for a short while and the policy for a few steps, all in
    the participant process of a real run, in its sandbox. Exit status: 0 nothing found, 1 problems, 2 usage.
    """
    if not folder.is_dir():
        raise ConfigError(f"{folder} is not a folder", hint="give the folder that holds train.py and inference.py")
    if artifacts is not None and not artifacts.is_dir():
        raise ConfigError(f"{artifacts} is not a folder", hint="give the artifacts folder of a finished training run")
    options, arguments = RunOptions.taken_from(chosen), parse_participant_args(participant_args)
    place, artifacts = folder.resolve(), None if artifacts is None else artifacts.resolve()
    findings, fit = _static_findings(place)
    gin_findings, named, configured = _gin_findings(place, trusted=options.trusts_submission)
    findings += gin_findings
    with tempfile.TemporaryDirectory(prefix="a2perf-check-") as made, outside_of(place):
        work = Path(made).resolve()
        task = _task(env_id, named)
        given = {**options.settings(), **({"participant_args": arguments} if arguments else {})}
        trial = _Trial(_completed(place, work), place, task, work, configured, given)
        findings += trial.run(fit, artifacts=artifacts, train_limit_s=train_limit, steps=steps)
    if as_json:
        report = {
            "folder": str(folder),
            "env_id": task.env_id,
            "sandbox": trial.level,
            "findings": [asdict(finding) for finding in findings],
        }
        click.echo(json.dumps(report, indent=2))
    elif findings:
        click.echo(f"{folder}: {len(findings)} problem{'s' if len(findings) > 1 else ''}")
        for finding in findings:
            click.echo(_shown(f"  {finding.where}: {finding.message}"))
            if finding.hint:
                click.echo(_shown(f"    hint: {finding.hint}"))
    else:
        click.echo(f"{folder}: no problems; trained and stepped {steps} times on {task.env_id}")
    return 1 if findings else 0


def _shown(text: str) -> str:
    """Returns text with the submission's words as a terminal may show it, line by line."""
    return "\n".join("".join(c if c.isprintable() else ascii(c)[1:-1] for c in line) for line in text.split("\n"))


def _static_findings(folder: Path) -> tuple[list[CheckFinding], set[str]]:
    """Returns what is wrong with the files as they are read, and the modes that can be tried all the same."""
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


def _completed(folder: Path, work: Path) -> Path:
    """Returns the folder, or where an empty file would do for one that is missing, a view of it that has the file.

    The lack of it is a finding already, and must not hide what is wrong with the code.
    """
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


def _gin_findings(folder: Path, *, trusted: bool) -> tuple[list[CheckFinding], dict[str, Any], dict[str, Submission]]:
    """Loads the folder's gin files.

    Returns:
        What is wrong, what the last good file binds to ``create_domain``, and the settings of the last one per mode.
    """
    findings: list[CheckFinding] = []
    named: dict[str, Any] = {}
    configured: dict[str, Submission] = {}
    paths = sorted(folder.glob("*.gin"), reverse=True)  # training.gin before inference.gin, which then decides
    if len(paths) > MOST_GIN_FILES:
        findings.append(
            CheckFinding(".", f"there are more than {MOST_GIN_FILES} gin files", "keep those that are used")
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


def _task(env_id: str | None, named: Mapping[str, Any]) -> RunTask:
    """Returns the task to try: the given id, the one the gin files name, or the first that this host can make.

    Raises:
        ConfigError: an unknown id, or no task can be made here.
        AssetUnavailable: the named one needs a file that is not here.
    """
    chosen = env_id or named.get("env_name")
    if chosen:
        of_environment = (
            {} if env_id else {k: v for k, v in named.items() if k not in ("domain", "env_name", "root_dir")}
        )
        owner, environment = find_environment(str(chosen))
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
        "no environment can be made on this host: " + "; ".join(reasons), hint="`a2perf doctor` says what is missing"
    )


class _Trial:
    """A short training run and a few steps, each in the participant process that a run would open.

    Args:
        folder: the submission, or the view that completes it.
        original: the submission.
        task: what it is tried on.
        work: folder for everything that is made.
        configured: the settings of its gin files by mode.
        given: the settings that the command line sets.
    """

    def __init__(
        self, folder: Path, original: Path, task: RunTask, work: Path, configured: Mapping[str, Submission],
        given: Mapping[str, Any],
    ) -> None:  # fmt: skip

        self.folder, self.original, self.task, self.root = folder, original, task, work / "run"
        self.configured, self.given = configured, given
        self.level = confinement(self._settings("inference"), {}).sandbox.level

    def run(self, fit: set[str], *, artifacts: Path | None, train_limit_s: float, steps: int) -> list[CheckFinding]:
        """Tries the modes in ``fit`` and returns what went wrong."""
        findings: list[CheckFinding] = []
        hint = None
        if artifacts is None:
            artifacts = self._folder("train", "artifacts")
            failure = self._tried(fit, "train", artifacts, lambda opened: _train(opened, train_limit_s))
            if failure is not None and failure.kind.value == "timeout":
                hint = (
                    f"train() was stopped after {train_limit_s:g} s: give --train-limit, --participant-args that "
                    "make it shorter, or --artifacts of a finished training run"
                )
            elif failure is not None:
                findings.append(_finding(failure, None))
                hint = "fix train() first; there may be nothing to load"
        failure = self._tried(fit, "inference", artifacts, lambda opened: self._infer(opened, steps))
        if failure is not None:
            findings.append(_finding(failure, hint))
        return findings

    def _tried(self, fit: set[str], mode: str, root_dir: Path, trial: Callable[[Participants], None]) -> Failure | None:
        """Opens the participant process of a run in one mode and returns how the trial failed."""
        from a2perf.submission.evaluator.participants import Participants

        if mode not in fit:
            return None
        settings = self._settings(mode)
        # a view consists of links, but what counts is where the links of the submission lead
        submitted = dataclasses.replace(settings, participant_module_path=str(self.original))
        folders = ParticipantFolders(
            root_dir=root_dir,
            artifacts=self._folder(mode, "artifacts"),
            logs=self._folder(mode, "logs"),
            bundle=self.root / mode,
        )
        try:
            manifest = new_manifest(submitted, self.task, episodes=0)
            with Participants(settings, self.task, manifest, folders, mode=mode) as opened:
                trial(opened)
        except ParticipantFailure as error:
            return error.failure
        except SubmissionError as error:
            return Failure(kind=FailureKind.CONTRACT, where=mode, message=str(error))
        return None

    def _infer(self, opened: Participants, steps: int) -> None:
        from a2perf.domains.tfa.suite_gym import make_environment

        with closing(make_environment(self.task.env_id, self.task.env_kwargs)) as env:
            policy = opened.load().policy(opened.settings.call_timeout_s)
            observation, _ = env.reset(seed=0)
            for _ in range(steps):
                action = check_action(env.action_space, policy.infer(observation).action)
                observation, _, terminated, truncated, _ = env.step(action)
                if terminated or truncated:
                    observation, _ = env.reset()

    def _settings(self, mode: str) -> Submission:
        """Returns the settings of a run in this mode: of its gin file, if it has one, under those of the command."""
        from a2perf.submission.settings import Submission

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


def _train(opened: Participants, limit_s: float) -> None:
    opened.start().train(opened.settings.participant_args, time_limit_s=limit_s)


def _finding(failure: Failure, hint: str | None) -> CheckFinding:
    message = failure.message
    if failure.traceback:
        message += "\n" + "\n".join(f"      {line}" for line in failure.traceback.rstrip().splitlines())
    return CheckFinding(failure.where, message, hint)
