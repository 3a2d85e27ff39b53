"""The runs that every entrant needs, and their gin files: computed both to run a competition and to verify one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from a2perf.domains.registry import get_domain
from a2perf_competition.records import CompetitionTerms, Secret, place_of, task_file

TRAINING_GIN, PUBLIC_GIN, SECRET_GIN = "training.gin", "inference.gin", "secret.gin"


@dataclass(frozen=True)
class RequiredRun:
    """One run of an entrant.

    Attributes:
        place: folder of the bundle, below the entrant's.
        is_further: whether it is a public task besides the first one.
    """

    task: str
    mode: str
    seed: int
    place: str
    gin_file: str
    is_secret: bool
    is_further: bool = False
    trained: str | None = None

    @property
    def bundle(self) -> str:
        """Path of the bundle below the entrant's folder."""
        return f"{self.place}/{self.mode}"


def required_runs(terms: CompetitionTerms, secret: Secret, entrant: str) -> list[RequiredRun]:
    """Returns the required runs of an entrant, given by its place, sorted by seed with the training run first."""
    found: list[RequiredRun] = []
    for seed in terms.seeds:
        further = [task.name for task in terms.further_tasks]
        names = [terms.public_task, *further, *(task.name for task in secret.tasks)]
        trained = None
        if terms.train:
            trained = place_of(secret, entrant, terms.public_task, seed, "train")
            found.append(RequiredRun(terms.public_task, "train", seed, trained, TRAINING_GIN, False))
        for number, task in enumerate(names):
            found.append(
                RequiredRun(
                    task=task,
                    mode="inference",
                    seed=seed,
                    place=place_of(secret, entrant, task, seed, "inference"),
                    gin_file=PUBLIC_GIN if number == 0 else SECRET_GIN,
                    is_secret=number > len(further),
                    is_further=0 < number <= len(further),
                    trained=trained,
                )
            )
    return found


def bindings_of(run: RequiredRun, competition: Path, home: Path) -> dict[str, Any]:
    """Returns the parameters that a run gets in addition to its gin file."""
    found: dict[str, Any] = {"Submission.hidden_paths": [str(competition)]}
    if run.mode == "train":
        return found
    if run.is_secret or run.is_further:
        folder = competition / ("private" if run.is_secret else "public")
        found["Submission.held_out_task"] = str(task_file(folder, run.task))
    if run.trained is not None:
        found["Submission.trained_root_dir"] = str(home / run.trained)
    return found


def gin_texts(terms: CompetitionTerms) -> dict[str, str]:
    """Returns every gin file by name: the training run and the evaluation on the public and on a secret task.

    They are public, part of the commitment, and the same for every entrant. The secret task and the seeds are bound on
    the command line, so the files reveal nothing.
    """
    evaluation = {
        "num_inference_episodes": terms.episodes,
        "num_inference_steps": terms.latency_steps,
        "call_timeout_s": terms.call_timeout_s,
    }
    files = {
        PUBLIC_GIN: _text(terms, "INFERENCE", evaluation, with_task=True),
        SECRET_GIN: _text(terms, "INFERENCE", evaluation, with_task=False),
    }
    if terms.train:
        files[TRAINING_GIN] = _text(terms, "TRAIN", {"train_time_limit_s": terms.train_time_limit_s}, with_task=True)
    return files


def _text(terms: CompetitionTerms, mode: str, own: Mapping[str, object], *, with_task: bool) -> str:
    settings = {
        **own,
        "load_timeout_s": terms.load_timeout_s,
        "run_time_limit_s": terms.run_time_limit_s,
        "memory_limit_bytes": terms.memory_limit_bytes,
        "cpu_limit": terms.cpu_limit,
        "process_limit": terms.process_limit,
        "artifact_limit_bytes": terms.artifact_limit_bytes,
        "record_frames": 4 if mode == "INFERENCE" else 0,
    }
    lines = [
        f"# Competition {terms.name!r}",
        "import a2perf.submission.submission_util",
        f"Submission.mode = %BenchmarkMode.{mode}",
        f"Submission.domain = {terms.domain!r}",
        *(f"Submission.{name} = {value!r}" for name, value in settings.items() if value is not None),
    ]
    if with_task:
        task = get_domain(terms.domain).task(terms.public_task)
        lines.append(f"create_domain.env_name = {task.env_id!r}")
        arguments = {**task.kwargs, **terms.environment_settings}
        lines += [f"create_domain.{name} = {value!r}" for name, value in arguments.items()]
    return "\n".join(lines) + "\n"
