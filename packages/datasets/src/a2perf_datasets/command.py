"""``a2perf datasets`` and ``a2perf export croissant``."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
import msgspec

from a2perf.cli.shared_options import several
from a2perf.domains.registry import find_task
from a2perf.errors import ConfigError
from a2perf.metrics import protocol
from a2perf.records import Manifest
from a2perf.runs.dataset_notes import Energy
from a2perf.storage import read_record, write_record
from a2perf.stranger_files import printable
from a2perf.submission.evaluator.progress import RunProgress
from a2perf.submission.options import normalised, parse_participant_args
from a2perf.submission.run_options import RunOptions, run_options
from a2perf_datasets import naming, open_dataset
from a2perf_datasets.checkpoints import find_checkpoints, find_trainings, with_submission
from a2perf_datasets.combine import combine as combine_datasets
from a2perf_datasets.croissant import write_croissant
from a2perf_datasets.generate import generate as generate_dataset
from a2perf_datasets.generate import level_policies, random_policy, submission_policy
from a2perf_datasets.inspection import describe, describe_text, levels_text, result_text
from a2perf_datasets.plan import RANDOM, PlannedPolicy, dataset_plan
from a2perf_datasets.reader import list_datasets as all_datasets
from a2perf_datasets.skill_levels import LEVELS, RULES, SkillLevels, cut, evaluate

_RUN_OPTIONS = ("sandbox", "allow_weaker", "python_env", "participant_python")
_JSON = click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
_FORCE = click.option("--force", is_flag=True, help="Archive the existing dataset and start from scratch.")
_COUNT = click.IntRange(min=1)


_collecting = several(
    click.option(
        "--episodes",
        type=_COUNT,
        default=100,
        show_default=True,
        metavar="N",
        help="Number of episodes; for skill levels, per checkpoint.",
    ),
    click.option(
        "--processes",
        type=_COUNT,
        default=1,
        show_default=True,
        metavar="N",
        help="Number of rollout workers; the episodes do not depend on it.",
    ),
    click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, metavar="N", help="Root seed."),
    click.option(
        "--env-arg", "env_args", multiple=True, metavar="K=V", help="Argument of the environment (JSON value)."
    ),
    click.option(
        "--checkpoints",
        default="",
        metavar="[NAME=]GLOB",
        help="Pattern of checkpoints, below the artifacts of a training run; and the participant argument "
        "that gets the path of one.",
    ),
    click.option("--participant-args", default="", metavar="K=V,...", help="Arguments of load_policy(), as strings."),
    run_options(*_RUN_OPTIONS),
)
"""The options of commands that collect episodes."""


@click.group(context_settings=normalised())
def datasets() -> None:
    """Make, combine, list and inspect offline datasets.

    \b
    Examples:
      a2perf datasets generate --submission examples/motion_imitation --task dog_pace --episodes 100
      a2perf datasets list quadruped_locomotion/dog_pace/motion_imitation-v0

    Datasets are stored in MINARI_DATASETS_PATH or A2PERF_DATASETS_DIR, otherwise in the user's data folder. Minari can
    read them.
    """  # noqa: D301


@datasets.command(name="generate", context_settings=normalised())
@click.option("--submission", metavar="DIR|random", help="Submission with the policy; `random` draws random actions.")
@click.option("--task", metavar="NAME", help="Name of a task, with the protocol's arguments, or id of an environment.")
@_collecting
@click.option(
    "--id", "dataset_id", metavar="NAME", help="Name, namespace/name-v0. Default: <domain>/<task>/<policy>-v0."
)
@click.option(
    "--root-dir",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Root folder of the training run with the policy.",
)
@click.option("--checkpoint", type=int, metavar="N", help="Number of the checkpoint. Default: the last one.")
@click.option(
    "--skill-levels",
    "levels_file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Output of `a2perf datasets skill-levels`; with --level.",
)
@click.option("--level", type=click.Choice(LEVELS), help="Use checkpoints of this level.")
@click.option(
    "--num-checkpoints",
    type=_COUNT,
    metavar="N",
    help="Number of checkpoints, drawn with replacement. Default: the size of the level.",
)
@click.option(
    "--info", "infos", multiple=True, metavar="NAME", help="Entry of info to keep, e.g. action_mask; repeatable."
)
@click.option(
    "--action-noise",
    type=click.FloatRange(min=0),
    default=0.0,
    metavar="X",
    help="Add noise to actions, and keep the policy's action as policy_action: standard deviation of the noise in half "
    "of the steps, or probability of another discrete action.",
)
@click.option("--training-energy-kwh", type=float, metavar="KWH", help="Energy of training the policy, if known.")
@click.option("--description", default="", help="One-sentence description of the dataset.")
@click.option("--author", default="", help="Author of the dataset, for Minari.")
@_FORCE
@_JSON
def generate(**options: Any) -> int:
    """Generate a dataset: episodes of a policy, or of the checkpoints of a skill level.

    \b
    Example:
      a2perf datasets generate --submission my_agent --task synthetic_trot_v1 --episodes 100

    The policy runs in a participant process, as in an evaluation. Run the same command again after an interruption to
    resume it.
    """  # noqa: D301
    levels = None if options["levels_file"] is None else read_record(options["levels_file"], SkillLevels)
    if (levels is None) != (options["level"] is None):
        raise ConfigError("--level and --skill-levels need each other", hint="give both, or --submission alone")
    policies, words = _policies(options, levels)
    task = _task(options, levels)
    task["env_kwargs"] = {**task["env_kwargs"], **_json_pairs(options["env_args"])}
    thresholds: dict[str, Any] = {}
    if levels is not None:
        thresholds = {"rule": levels.rule, "measure": levels.measure, **msgspec.to_builtins(levels.bounds)}
    plan = dataset_plan(
        options["dataset_id"] or f"{task['domain']}/{task['task']}/{words}-v0",
        *policies,
        infos=list(options["infos"]),
        skill_level=options["level"] or "",
        thresholds=thresholds,
        confining=_confining(options),
        **task,
        **{name: options[name] for name in ("episodes", "seed", "action_noise", "description", "author")},
    )
    with RunProgress(quiet=options["as_json"]) as progress:
        made = generate_dataset(
            plan,
            naming.root_folder(),
            processes=options["processes"],
            force=options["force"],
            progress=progress,
        )
    _print(msgspec.to_builtins(made.record), options["as_json"], result_text(made))
    return 0


@datasets.command(name="skill-levels", context_settings=normalised())
@click.argument("root_dirs", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="ROOT_DIR...")
@click.option(
    "--submission", type=click.Path(path_type=Path), metavar="DIR", help="Folder of the submission, if it moved."
)
@_collecting
@click.option(
    "--measure",
    type=click.Choice(("mean", "median")),
    default="mean",
    show_default=True,
    help="Statistic used to rank checkpoints by return.",
)
@click.option(
    "--thresholds",
    type=click.Choice(RULES),
    default="sigma",
    show_default=True,
    help="sigma: mean and standard deviation over the checkpoints; references: the task's random and expert scores; "
    "quantiles: of the checkpoints.",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    default=Path("skill_levels.json"),
    show_default=True,
    metavar="FILE",
    help="File of the levels, for `generate`.",
)
@_JSON
def skill_levels(root_dirs: tuple[Path, ...], **options: Any) -> int:
    """Evaluate the checkpoints of training runs and sort them into novice, intermediate and expert.

    ROOT_DIR is the --root-dir of a training run, or a folder with several. Results are stored beside each training run
    in checkpoint_evaluation/evaluation.json; a checkpoint is evaluated only once.
    """
    extra = parse_participant_args(options["participant_args"])
    evaluations, remarks = [], []
    with RunProgress(quiet=options["as_json"]) as progress:
        for training in find_trainings(root_dirs):
            found, notes = find_checkpoints(training, *_pattern(options["checkpoints"]))
            policies, more = with_submission(training, found, options["submission"], extra)
            remarks += [*notes, *more]
            env_kwargs = _environment_of(training.manifest)["env_kwargs"]
            evaluations.append(
                evaluate(
                    training,
                    policies,
                    env_kwargs={**env_kwargs, **_json_pairs(options["env_args"])},
                    episodes=options["episodes"],
                    seed=options["seed"],
                    processes=options["processes"],
                    progress=progress,
                    confining=_confining(options),
                )
            )
    levels = cut(evaluations, rule=options["thresholds"], measure=options["measure"], remarks=remarks)
    write_record(options["output"], levels)
    _print(msgspec.to_builtins(levels), options["as_json"], levels_text(levels))
    return 0


@datasets.command(name="combine", context_settings=normalised())
@click.argument("names", nargs=-1, required=True, metavar="NAME_OR_FOLDER...")
@click.option("--id", "dataset_id", required=True, metavar="NAME", help="Name of the result: namespace/name-v0.")
@_FORCE
@_JSON
def combine(names: tuple[str, ...], dataset_id: str, force: bool, as_json: bool) -> int:
    """Combine datasets of one environment into one, and keep the record of their cost."""
    inputs = [open_dataset(name) for name in names]
    name, root = naming.DatasetId.parse(dataset_id), naming.root_folder()
    made = combine_datasets(inputs, name, root, force=force)
    _print(msgspec.to_builtins(made.record), as_json, result_text(made))
    return 0


@datasets.command(name="list", context_settings=normalised())
@click.argument("name", required=False, metavar="[NAME_OR_FOLDER]")
@_JSON
def list_datasets(name: str | None, as_json: bool) -> int:
    """List all datasets, or show episodes, returns, spaces, policies and cost of one."""
    if name is not None:
        described = describe(open_dataset(name))
        _print(described, as_json, describe_text(described))
        return 0
    found = all_datasets()
    lines = [
        f"{row['dataset_id']}  "
        + (row.get("problem") or f"{row['total_episodes']} episodes, {row['total_steps']} steps")
        for row in found
    ]
    _print(found, as_json, "\n".join(lines) or f"no dataset in {naming.root_folder()}")
    return 0


@click.command(context_settings=normalised())
@click.argument("names", nargs=-1, required=True, metavar="DATASET...")
@click.option("--license", metavar="NAME|URL", help="License of the dataset, e.g. CC-BY-4.0.")
@click.option("--url", metavar="URL", help="Web page of the dataset.")
@click.option("--json", "as_json", is_flag=True, help="Print the files as JSON.")
def croissant(names: tuple[str, ...], license: str | None, url: str | None, as_json: bool) -> int:
    """Write croissant.json for offline datasets: description, license, citation, and every file with its hash.

    \b
    Example:
      a2perf export croissant quadruped_locomotion/dog_pace/random-v0 --license CC-BY-4.0

    DATASET is a name or a folder. Its data folder receives the file. Needs the package mlcroissant.
    """  # noqa: D301
    made = {one: str(write_croissant(open_dataset(one), license=license, url=url)) for one in names}
    click.echo(json.dumps(made, indent=2) if as_json else "\n".join(printable(path) for path in made.values()))
    return 0


def _print(found: Any, as_json: bool, text: str) -> None:
    click.echo(json.dumps(found, indent=2) if as_json else text)


def _policies(options: dict[str, Any], levels: SkillLevels | None) -> tuple[list[PlannedPolicy], str]:
    """Returns the policies, and the last part of the default name of the dataset."""
    if options["submission"] == RANDOM and levels is None and options["root_dir"] is None:
        return [random_policy()], RANDOM
    folder = None if options["submission"] is None else _folder(options["submission"])
    if levels is not None:
        draws = min(options["num_checkpoints"] or len(levels.of(options["level"])), options["episodes"])
        return level_policies(levels, options["level"], draws, options["seed"], folder), options["level"]
    arguments = parse_participant_args(options["participant_args"])
    known = options["training_energy_kwh"]
    energy = None if known is None else Energy(kwh=known, provenance="given", method="--training-energy-kwh")
    if options["root_dir"] is not None:
        training = find_trainings([options["root_dir"]])[0]
        found, _ = find_checkpoints(training, *_pattern(options["checkpoints"]))
        chosen = found[-1]
        if options["checkpoint"] is not None:
            numbers = {checkpoint.number: checkpoint for checkpoint in found}
            if options["checkpoint"] not in numbers:
                raise ConfigError(
                    f"{training.name} has no checkpoint {options['checkpoint']}",
                    hint=f"it has {', '.join(map(str, numbers))}",
                )
            chosen = numbers[options["checkpoint"]]
        (policy,), _ = with_submission(training, [chosen], folder, arguments)
        if energy is not None:
            policy.training_energy = energy
        return [policy], Path(policy.submission).resolve().name
    if folder is None:
        raise ConfigError("no policy was given", hint="give --submission, --root-dir, or --skill-levels with --level")
    return [submission_policy(folder, arguments, energy)], folder.resolve().name


def _task(options: dict[str, Any], levels: SkillLevels | None) -> dict[str, Any]:
    """Returns domain, task, and id and arguments of the environment, as a plan holds them."""
    if options["task"] is not None:
        domain, task = find_task(options["task"])
        return _environment(domain.name, task.name, task.env_id, task.kwargs)
    if levels is not None:
        return {name: getattr(levels, name) for name in ("domain", "task", "env_id", "env_kwargs")}
    if options["root_dir"] is not None:
        return _environment_of(find_trainings([options["root_dir"]])[0].manifest)
    raise ConfigError("no task was given", hint="add --task NAME; `a2perf envs list` shows the tasks")


def _environment_of(manifest: Manifest) -> dict[str, Any]:
    return _environment(manifest.domain, manifest.task, str(manifest.env_id), manifest.env_kwargs)


def _environment(domain: str, task: str, env_id: str, kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the environment of a task in an evaluation: with the protocol's arguments, if it has the task."""
    wanted = protocol.protocol_task(task, env_id)
    env_kwargs = {**kwargs, **({} if wanted is None else wanted.env_kwargs)}
    return {"domain": domain, "task": task, "env_id": env_id, "env_kwargs": env_kwargs}


def _folder(given: str) -> Path:
    folder = Path(given).expanduser()
    if not (folder / "inference.py").is_file():
        raise ConfigError(f"{given} is not a submission: it has no inference.py", hint="give a submission's folder")
    return folder


def _json_pairs(pairs: tuple[str, ...]) -> dict[str, Any]:
    found = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name.isidentifier():
            raise ConfigError(f"--env-arg {pair!r} is not name=value", hint="write --env-arg mode=train")
        try:
            found[name] = json.loads(value)
        except ValueError:
            found[name] = value
    return found


def _pattern(given: str) -> tuple[str | None, str | None]:
    """Returns the pattern of ``--checkpoints``, and the participant argument that gets the path."""
    name, _, pattern = given.rpartition("=")
    return pattern or None, name or None


def _confining(options: dict[str, Any]) -> dict[str, Any]:
    return RunOptions({name: options[name] for name in _RUN_OPTIONS}).settings()
