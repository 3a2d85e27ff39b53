"""The evaluator: the process that a launcher starts (``python -m a2perf.submission.main_submission``).

It parses the gin configuration, builds ``Submission`` and runs it. Flags take dashes or underscores.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import sys
import tempfile
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from a2perf.constants import ExitCode
from a2perf.errors import ConfigError, UserError
from a2perf.submission import configuration
from a2perf.submission.evaluator.folder_content import bundle_folder
from a2perf.submission.evaluator.progress import RunProgress
from a2perf.submission.gin_origin import is_inside, locate
from a2perf.submission.given_paths import settled
from a2perf.submission.options import normalised, parse_participant_args
from a2perf.terminal import guarded

if TYPE_CHECKING:
    from a2perf.submission.submission_util import Submission

_PATHS = (
    "metric_values_dir", "seeds_from", "held_out_task", "trained_root_dir", "evaluation_seeds_file", "readable_paths",
    "python_env_find_links", "participant_python", "datasets_path",
)  # fmt: skip
"""Settings that name files, which may be given relative to the working directory."""


@click.command(context_settings=normalised())
@click.option("--submission-gin-config-path", "--gin-config", "gin_config", required=True, metavar="FILE")
@click.option("--participant-module-path", "--submission", "submission", metavar="DIR")
@click.option("--participant-args", default="", metavar="K=V,...")
@click.option("--root-dir", metavar="DIR", help="Folder of the run; a temporary one by default.")
@click.option("--metric-values-dir", metavar="DIR", help="Where the classic result files go; ROOT/metrics by default.")
@click.option("--extra-gin-bindings", "--gin-bindings", "bindings", multiple=True, metavar="BINDING")
@click.option("--run-offline-metrics-only", type=bool, is_flag=False, flag_value=True, default=None)
@click.option("--domain", metavar="NAME")
@click.option("--task", metavar="NAME")
@click.option("--datasets-path", metavar="DIR")
@click.option("--seed", type=int)
@click.option("--public-seeds", is_flag=True, default=None)
@click.option("--seeds-from", metavar="BUNDLE")
@click.option("--sandbox", metavar="LEVEL")
@click.option("--allow-weaker", is_flag=True, default=None)
@click.option("--memory-limit-bytes", type=int, metavar="BYTES")
@click.option("--python-env", metavar="KIND")
@click.option("--python-env-find-links", multiple=True, metavar="DIR")
@click.option("--participant-python", metavar="FILE")
@click.option("--trust-submission-config", is_flag=True)
@click.option("--force", is_flag=True)
@click.option("--json", "as_json", is_flag=True)
@click.option("--verbosity", default=None, help="Accepted for old command lines.")
def main(**flags: Any) -> None:
    """Runs one submission in one mode on one task."""
    with guarded():
        status = _status(flags)
        sys.stdout.flush()
        sys.stderr.flush()
    # A tracker library may still be importing in a daemon thread; a finished run does not wait for it.
    os._exit(status)


def _status(flags: dict[str, Any]) -> int:
    try:
        return evaluate(**{name: value for name, value in flags.items() if name != "verbosity"})
    except UserError as error:
        click.echo(f"a2perf: {error}", err=True)
        return int(error.exit_code)
    except KeyboardInterrupt:
        return 130
    except Exception:  # a bug of ours is never counted against the participant
        traceback.print_exc()
        return int(ExitCode.INFRASTRUCTURE)


def evaluate(
    *,
    gin_config: str,
    submission: str | None,
    participant_args: str = "",
    root_dir: str | None = None,
    metric_values_dir: str | None = None,
    bindings: tuple[str, ...] = (),
    run_offline_metrics_only: bool | None = None,
    domain: str | None = None,
    task: str | None = None,
    datasets_path: str | None = None,
    seed: int | None = None,
    public_seeds: bool | None = None,
    seeds_from: str | None = None,
    sandbox: str | None = None,
    allow_weaker: bool | None = None,
    memory_limit_bytes: int | None = None,
    python_env: str | None = None,
    python_env_find_links: tuple[str, ...] = (),
    participant_python: str | None = None,
    trust_submission_config: bool = False,
    force: bool = False,
    as_json: bool = False,
) -> int:
    """Parses the configuration and runs the submission; the arguments are the flags of the same names.

    Returns:
        The exit status.

    Raises:
        UserError: a flag, the configuration or the submission's folder is wrong.
    """
    from a2perf.submission import submission_util  # makes the configurable names known to gin

    folder = None if submission is None else _existing_folder(submission)
    config = locate(gin_config, submission=folder, domain=domain, trusted=trust_submission_config)
    configuration.load(config, [*task_bindings(domain, task), *bindings], trusted=trust_submission_config)
    flags: dict[str, Any] = {
        "root_dir": str(_writable_folder(root_dir, folder)),
        "metric_values_dir": metric_values_dir,
        "participant_module_path": None if folder is None else str(folder),
        "participant_args": parse_participant_args(participant_args),
        "run_offline_metrics_only": run_offline_metrics_only,
        "domain": domain,
        "datasets_path": datasets_path,
        "seed": seed,
        "public_seeds": public_seeds,
        "seeds_from": seeds_from,
        "sandbox": sandbox,
        "allow_weaker": allow_weaker,
        "memory_limit_bytes": memory_limit_bytes,
        "python_env": python_env,
        "python_env_find_links": python_env_find_links,
        "participant_python": participant_python,
    }
    given = {name: value for name, value in flags.items() if value not in (None, {}, ())}
    settings = submission_util.Submission(**given)
    if folder is None and not settings.run_offline_metrics_only:
        raise ConfigError("no submission was given", hint="add `--submission DIR`")
    if folder is not None and is_inside(Path.cwd(), folder):
        settings = _from_here(settings)
    with outside_of(folder):
        status = settings.run(force=force, progress=RunProgress())
    if as_json:
        print(json.dumps(_result(settings, status), indent=2))
    return status


@contextlib.contextmanager
def outside_of(submission: Path | None) -> Iterator[None]:
    """Leaves a submission's folder for as long: libraries read settings from the working directory.

    What numba (``.numba_config.yaml``) or codecarbon (``.codecarbon.config``) finds there would be the participant's.
    """
    if submission is None or not is_inside(Path.cwd(), submission):
        yield
        return
    with contextlib.chdir("/"):
        yield


def _from_here(settings: Submission) -> Submission:
    """Returns the settings with paths that do not depend on the working directory."""

    def absolute(given: str) -> str:
        is_path = "://" not in given and (os.sep in given or Path(given).exists())
        return str(Path(given).expanduser().absolute()) if is_path else given

    given = {name: getattr(settings, name) for name in _PATHS}
    settled_here: dict[str, Any] = {
        name: absolute(value) if isinstance(value, str) else [absolute(item) for item in value]
        for name, value in given.items()
        if value
    }
    return dataclasses.replace(settings, **settled_here)


def _result(settings: Any, status: int) -> dict[str, Any]:
    mode = settings.mode.value
    manifest = settings.root / mode / "manifest.json"
    values = settings.root / "metrics"
    return {
        "exit_code": status,
        "bundle": str(settings.root / mode),
        "manifest": json.loads(manifest.read_text()) if manifest.exists() else None,
        "metrics": {path.stem: json.loads(path.read_text()) for path in sorted(values.glob(f"{mode}*.json"))},
        "settings": {entry.name: str(getattr(settings, entry.name)) for entry in dataclasses.fields(settings)},
    }


def task_bindings(domain: str | None, task: str | None) -> list[str]:
    """Returns the gin bindings that choose a task by its name; none for ``None``.

    Raises:
        ConfigError: no domain has it.
    """
    if task is None:
        return []
    from a2perf.domains.registry import domains, get_domain

    owners = [get_domain(domain)] if domain else [known for known in domains().values() if _has_task(known, task)]
    if not owners:
        names = [entry.name for known in domains().values() for entry in known.tasks]
        raise ConfigError(f"{task!r} is not a task of any domain", hint=f"choose one of: {', '.join(names)}")
    found = owners[0].task(task)
    return [
        f"Submission.domain = {owners[0].name!r}",
        f"create_domain.env_name = {found.env_id!r}",
        *(f"create_domain.{name} = {value!r}" for name, value in found.kwargs.items()),
    ]


def _has_task(domain: Any, task: str) -> bool:
    return any(entry.name == task for entry in domain.tasks)


def _existing_folder(given: str) -> Path:
    folder = Path(given).expanduser()
    if not folder.is_dir():
        kind = "is a file" if folder.exists() else "does not exist"
        raise ConfigError(
            f"the submission folder {given} {kind}", hint="give the folder that holds train.py and inference.py"
        )
    return folder.resolve()


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
            f"the root directory {given} cannot be made: {error.strerror}",
            hint="choose a --root_dir that you may write",
        ) from error
    if not os.access(folder, os.W_OK | os.X_OK):
        raise ConfigError(
            f"the root directory {given} cannot be written", hint="choose a --root_dir that you may write"
        )
    return folder


if __name__ == "__main__":
    main()
