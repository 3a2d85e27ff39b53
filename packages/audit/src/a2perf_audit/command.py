"""``a2perf audit``: attacks environments with policies that should not win."""

from __future__ import annotations

import dataclasses
import functools
import importlib
import importlib.util
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from a2perf.constants import ExitCode
from a2perf.errors import ConfigError
from a2perf.submission.options import normalised

if TYPE_CHECKING:  # the help lists this command: importing it must not import Gymnasium
    from a2perf_audit.auditing import Audit
    from a2perf_audit.bench import Subject


@click.command(context_settings=normalised())
@click.argument("targets", nargs=-1, required=True, metavar="ENV|TASK|PROTOCOL...")
@click.option("--env-kwargs", metavar="JSON", default="{}", help="Arguments of the environments.")
@click.option("--expert", metavar="FOLDER|MODULE:FUNCTION", help="A submission, or a function of one observation.")
@click.option("--reward-range", nargs=2, type=float, metavar="LOW HIGH", help="Declared range of a step's reward.")
@click.option("--maximum", type=float, metavar="RETURN", help="Declared greatest return of an episode.")
@click.option("--episodes", type=click.IntRange(5), default=20, show_default=True, help="Episodes per policy.")
@click.option(
    "--search-steps", type=click.IntRange(100), default=30_000, show_default=True, help="Steps of each search."
)
@click.option("--time-limit", type=click.FloatRange(0.1), metavar="SECONDS", help="Longest time of one check.")
@click.option("--output", metavar="DIR", help="Folder for index.html, audit.json and a badge per environment.")
@click.option("--json", "as_json", is_flag=True, help="Print the findings as JSON.")
def audit(
    targets: tuple[str, ...],
    env_kwargs: str,
    expert: str | None,
    reward_range: tuple[float, float] | None,
    maximum: float | None,
    episodes: int,
    search_steps: int,
    time_limit: float | None,
    output: str | None,
    as_json: bool,
) -> int:
    """Attack environments and their scores with policies that should not win.

    \b
    Examples:
      a2perf audit CartPole-v1 --expert my_submission --output audit
      a2perf audit dog_pace my_envs:Lander-v0

    It plays the environment in this process, and an expert's code too. Exit status: 0 every check holds or does not
    apply, 1 a check fails, 2 usage or an expert that raises an exception, 3 a check could not run or did not finish.
    """  # noqa: D301
    from a2perf_audit.auditing import audit as audited
    from a2perf_audit.bench import Subject
    from a2perf_audit.page import text

    kwargs = arguments(env_kwargs)
    audits: list[Audit] = []
    for name, of_task in (task for target in targets for task in _tasks_of(target)):
        subject = Subject(
            name=name,
            kwargs={**of_task, **kwargs},
            reward_range=reward_range,
            maximum=maximum,
            episodes=episodes,
            search_steps=search_steps,
            time_limit_s=time_limit,
            expert_name=expert or "",
        )
        if expert is not None:
            subject = dataclasses.replace(subject, expert=_expert(expert, subject))

        def write(grown: Audit) -> None:
            if output is not None:
                _write(Path(output).expanduser(), [*audits, grown])

        done = audited(subject, functools.partial(click.echo, err=True), grown=write)
        write(done)
        audits.append(done)
    if output is not None:
        click.echo(f"audit: {Path(output).expanduser() / 'index.html'}", err=True)
    found = [one.as_json() for one in audits]
    click.echo(json.dumps(found, indent=2) if as_json else "\n\n".join(map(text, audits)))
    if any(one.failed for one in audits):
        return 1
    return int(ExitCode.INFRASTRUCTURE) if any(one.not_run for one in audits) else 0


def arguments(given: str) -> dict[str, Any]:
    """Returns the arguments of an environment that an option gives as JSON.

    Raises:
        ConfigError: they are not a JSON object.
    """
    try:
        kwargs = json.loads(given)
    except ValueError:
        kwargs = None
    if not isinstance(kwargs, dict):
        raise ConfigError(f"--env-kwargs is not a JSON object: {given!r}")
    return kwargs


def _tasks_of(target: str) -> list[tuple[str, dict[str, Any]]]:
    """Returns the tasks of a protocol, or one environment: names, with the arguments that a name does not imply."""
    from a2perf.domains.registry import ANY
    from a2perf.metrics import protocol

    tasks = protocol.load(target).tasks.values() if target in protocol.names() else ()
    named = [(task.env_id, task.env_kwargs) if task.domain == ANY else (task.name, {}) for task in tasks]
    return named or [(target, {})]


def _expert(given: str, subject: Subject) -> Callable[[Any], Any]:
    folder = Path(given).expanduser()
    if folder.is_dir():
        specification = importlib.util.spec_from_file_location("audited_expert", folder / "inference.py")
        if specification is None or specification.loader is None or not (folder / "inference.py").is_file():
            raise ConfigError(f"{given} has no inference.py", hint="give the folder of a submission")
        module: Any = importlib.util.module_from_spec(specification)
        sys.path.insert(0, str(folder.resolve()))  # a submission imports its other files by name
        env = subject.make()
        os.environ["A2PERF_ENV_ID"] = env.spec.id
        try:
            specification.loader.exec_module(module)
            policy = module.load_policy(env)
        except (Exception, SystemExit) as error:
            raise ConfigError(f"--expert {given} cannot be loaded: {error!r}", hint="correct the submission") from error
        return lambda observation: module.infer_once(policy, module.preprocess_observation(observation))
    name, _, attribute = given.partition(":")
    try:
        found: Callable[[Any], Any] = getattr(importlib.import_module(name), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise ConfigError(f"--expert {given}: {error}", hint="give a folder or MODULE:FUNCTION") from error
    return found


def _write(folder: Path, audits: list[Audit]) -> None:
    from a2perf_audit.page import badge, page

    folder.mkdir(parents=True, exist_ok=True)
    (folder / "index.html").write_text(page(audits), encoding="utf-8")
    (folder / "audit.json").write_text(json.dumps([one.as_json() for one in audits], indent=2))
    for one in audits:
        (folder / f"{one.subject.replace('/', '_').replace(':', '_')}.svg").write_text(badge(one))
