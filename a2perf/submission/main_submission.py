"""The evaluator: the process that a launcher starts (``python -m a2perf.submission.main_submission``).

It parses the gin configuration, builds the settings and runs the configured mode. Flags take dashes or underscores.
"""

from __future__ import annotations

import contextlib
import dataclasses
import gc
import importlib
import json
import os
import sys
import tempfile
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from a2perf.constants import BenchmarkMode, ExitCode
from a2perf.errors import ConfigError, UserError
from a2perf.runs.bundles.layout import MANIFEST, METRICS
from a2perf.sandbox import limits
from a2perf.submission import configuration
from a2perf.submission.evaluator import tracking
from a2perf.submission.evaluator.process import participant_home
from a2perf.submission.evaluator.progress import RunProgress, run_progress
from a2perf.submission.evaluator.submitted.folder_content import bundle_folder
from a2perf.submission.gin_origin import is_inside, locate
from a2perf.submission.given_paths import settled, submission_folder
from a2perf.submission.options import normalised, parse_participant_args, set_verbosity
from a2perf.submission.run_options import RunOptions, run_options
from a2perf.submission.settings import Submission
from a2perf.system import ENDS_WITH_INPUT, end_with_input
from a2perf.terminal import guarded

_WARM_UP_STEPS = 50


@click.command(context_settings=normalised())
@click.option(
    "--submission-gin-config-path",
    "--gin-config",
    "gin_config",
    required=True,
    metavar="FILE",
    help="Gin file: a path, or the name of a packaged file of the domain.",
)
@click.option("--participant-module-path", "--submission", "submission", metavar="DIR", help="Submission folder.")
@click.option("--participant-args", default="", metavar="K=V,...", help="Arguments of train() and load_policy().")
@click.option("--root-dir", metavar="DIR", help="Folder of the run. Default: a temporary folder.")
@click.option(
    "--extra-gin-bindings",
    "--gin-bindings",
    "bindings",
    multiple=True,
    metavar="BINDING",
    help="Gin binding `Name.parameter = value` that overrides the gin file; repeatable.",
)
@click.option("--domain", metavar="NAME", help="Domain; overrides the gin file.")
@click.option("--task", metavar="NAME", help="Task; overrides the environment of the gin file.")
@click.option("--seed", type=int, help="Root seed of the run.")
@run_options(one_run=True)
@click.option("--force", is_flag=True, help="Archive an existing bundle and start again.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
@click.option("--verbosity", metavar="LEVEL", help="Level of messages: debug, info, warning, error or fatal.")
def main(**flags: Any) -> None:
    """Runs one submission in one mode on one task."""
    gc.disable()  # until the run opens its bundle: what is imported stays, and collections would take a tenth of that
    if os.environ.pop(ENDS_WITH_INPUT, None):
        end_with_input(0, orderly=True)
    with guarded():
        status = _status(flags)
        sys.stdout.flush()
        sys.stderr.flush()
    # Skip the interpreter's shutdown, which would wait for a tracker library that is importing in a daemon thread.
    os._exit(status)


def _status(flags: dict[str, Any]) -> int:
    verbosity = flags.pop("verbosity")
    progress = run_progress()
    try:
        if set_verbosity(verbosity) < 0 and type(progress) is RunProgress:
            progress = run_progress(quiet=True)
        return run(options=RunOptions.taken_from(flags), progress=progress, **flags)
    except UserError as error:
        progress.refused(error)
        return int(error.exit_code)
    except KeyboardInterrupt:
        return 130
    except SystemExit as error:  # of an environment, a policy's domain or one of their libraries
        print(f"a2perf: a library of the environment called sys.exit({error.code!r})", file=sys.stderr)
        return int(ExitCode.INFRASTRUCTURE)
    except Exception:  # a bug in a2perf must not count as a failure of the participant
        traceback.print_exc()
        return int(ExitCode.INFRASTRUCTURE)


def run(
    *,
    gin_config: str,
    submission: str | None,
    participant_args: str = "",
    root_dir: str | None = None,
    bindings: tuple[str, ...] = (),
    domain: str | None = None,
    task: str | None = None,
    seed: int | None = None,
    options: RunOptions = RunOptions(),  # noqa: B008 -- immutable
    force: bool = False,
    as_json: bool = False,
    progress: RunProgress | None = None,
) -> int:
    """Parses the configuration and runs the configured mode to its bundle; the arguments are the flags of that name.

    ``progress`` receives progress; by default it is printed to standard error.

    Returns:
        The exit status: 0 success, 1 the participant failed, 3 infrastructure, 130 interrupted.

    Raises:
        UserError: a flag, the configuration or the submission's folder is wrong.
    """
    from a2perf.submission import submission_util  # makes the configurable names known to gin

    folder = None if submission is None else submission_folder(submission).resolve()
    trusted = options.trusts_submission
    of_task = task_bindings(domain, task)  # first: an unknown task is a clearer error than a missing gin file
    config = locate(gin_config, submission=folder, domain=domain, task=task, trusted=trusted)
    dropped = configuration.load(config, bindings, task=of_task, trusted=trusted)
    flags: dict[str, Any] = {
        "root_dir": str(_writable_folder(root_dir, folder)),
        "participant_module_path": None if folder is None else str(folder),
        "participant_args": parse_participant_args(participant_args) or None,
        "domain": domain or None,
        "seed": seed,
    }
    given = {name: value for name, value in flags.items() if value is not None}
    settings = submission_util.Submission(**given, **options.settings())
    if folder is None and not settings.run_offline_metrics_only:
        raise ConfigError("the option --submission is missing", hint="add `--submission DIR`")
    if folder is not None and is_inside(Path.cwd(), folder):
        settings = _from_here(settings)
    progress = progress or RunProgress()
    if dropped:
        names = ", ".join(f"create_domain.{name}" for name in dropped)
        progress.say(f"left out of {config.name}, because it belongs to another task: {names}")
    with outside_of(folder):
        if settings.run_offline_metrics_only:
            from a2perf.submission import rescoring

            status = rescoring.run(settings, progress=progress)
        else:
            # Even if the run turns out to be finished: the process that finished it may have been killed before its
            # clean-up.
            participant_home.sweep()
            limits.sweep(limits.place())
            # The module has the name of the mode; the other modes are not imported.
            mode = importlib.import_module(f"a2perf.submission.evaluator.{BenchmarkMode(settings.mode).value}")
            status = mode.run(settings, force=force, progress=progress)
            for remark in tracking.remarks(settings.root / BenchmarkMode(settings.mode).value):
                progress.say(remark)
    if as_json:
        print(json.dumps(_result(settings, status), indent=2))
    return int(status)


def warm_up(
    *,
    gin_config: str,
    submission: str | None,
    bindings: tuple[str, ...],
    domain: str | None,
    task: str | None,
    **flags: Any,
) -> None:
    """Imports what a run with these flags imports, and plays an episode in its environment; no submission is imported.

    Raises:
        UserError: the configuration is wrong.
    """
    from a2perf.domains.package_code import package_sha256
    from a2perf.domains.tfa.suite_gym import create_domain
    from a2perf.sandbox import strongest_level
    from a2perf.submission import submission_util
    from a2perf.submission.evaluator.submitted.identity import RunTask

    folder = None if submission is None else submission_folder(submission).resolve()
    trusted = RunOptions.taken_from(flags).trusts_submission
    config = locate(gin_config, submission=folder, domain=domain, task=task, trusted=trusted)
    configuration.load(config, bindings, task=task_bindings(domain, task), trusted=trusted)
    given: dict[str, Any] = {"domain": domain} if domain else {}
    settings = submission_util.Submission(**given, participant_module_path=submission)
    chosen = RunTask.configured(str(settings.domain))
    package_sha256()  # every manifest names it
    strongest_level()  # of this host, found by a trial start
    configuration.clear()
    with outside_of(folder):
        importlib.import_module(f"a2perf.submission.evaluator.{BenchmarkMode(settings.mode).value}")
        with contextlib.closing(
            create_domain(env_name=chosen.env_id, framework="gymnasium", **chosen.env_kwargs)
        ) as env:
            env.action_space.seed(0)
            env.reset(seed=0)
            for _ in range(_WARM_UP_STEPS):
                _, _, terminated, truncated, _ = env.step(env.action_space.sample())
                if terminated or truncated:
                    break


@contextlib.contextmanager
def outside_of(submission: Path | None) -> Iterator[None]:
    """Changes the working directory if it is inside the submission.

    numba (``.numba_config.yaml``) and codecarbon (``.codecarbon.config``) read settings from the working directory,
    which would let the participant configure the evaluator.
    """
    if submission is None or not is_inside(Path.cwd(), submission):
        yield
        return
    with contextlib.chdir("/"):
        yield


def _from_here(settings: Submission) -> Submission:
    def absolute(given: str) -> str:
        is_path = "://" not in given and (os.sep in given or Path(given).exists())
        return str(Path(given).expanduser().absolute()) if is_path else given

    def here(record: Any) -> dict[str, Any]:
        paths = [entry.name for entry in dataclasses.fields(record) if entry.metadata.get("path")]
        given = {name: value for name in paths if (value := getattr(record, name))}
        return {
            name: absolute(value) if isinstance(value, str) else [absolute(item) for item in value]
            for name, value in given.items()
        }

    services = tuple(dataclasses.replace(service, **here(service)) for service in settings.services or ())
    return dataclasses.replace(settings, services=services, **here(settings))


def _result(settings: Any, status: int) -> dict[str, Any]:
    mode = settings.mode.value
    manifest = settings.root / mode / MANIFEST
    values = settings.root / METRICS
    return {
        "exit_code": status,
        "bundle": str(settings.root / mode),
        "manifest": json.loads(manifest.read_text()) if manifest.exists() else None,
        "metrics": {path.stem: json.loads(path.read_text()) for path in sorted(values.glob(f"{mode}*.json"))},
        "settings": {entry.name: str(getattr(settings, entry.name)) for entry in dataclasses.fields(settings)},
    }


def task_bindings(domain: str | None, task: str | None) -> list[str]:
    """Returns the gin bindings that select a task by name; an empty list for ``None``.

    Raises:
        ConfigError: no domain has a task of that name.
    """
    if task is None:
        return []
    from a2perf.domains.registry import find_task, get_domain

    owner, found = find_task(task)
    if domain and owner.name != get_domain(domain).name:
        owner, found = get_domain(domain), get_domain(domain).task(task)
    return [
        f"Submission.domain = {owner.name!r}",
        f"create_domain.env_name = {found.env_id!r}",
        *(f"create_domain.{name} = {value!r}" for name, value in found.kwargs.items()),
    ]


def _writable_folder(given: str | None, submission: Path | None) -> Path:
    if given is None:
        return Path(tempfile.mkdtemp(prefix="a2perf-run-"))
    folder = settled(given, submission, "the root directory")
    if submission is not None:
        bundle_folder(submission, folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(
            f"the root directory {given} cannot be created: {error.strerror}",
            hint="give a --root-dir that you may write to",
        ) from error
    if not os.access(folder, os.W_OK | os.X_OK):
        raise ConfigError(
            f"no write access to the root directory {given}", hint="give a --root-dir that you may write to"
        )
    return folder


if __name__ == "__main__":
    main()
