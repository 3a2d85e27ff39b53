"""The runs that every entrant needs, and their gin files: computed both to run a competition and to verify one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from a2perf.domains.registry import HeldOutTask
from a2perf_competition.records import CompetitionTerms, Secret, place_of, task_file

TRAINING_GIN, PUBLIC_GIN, SECRET_GIN = "training.gin", "inference.gin", "secret.gin"
LIMITS = (
    "load_timeout_s",
    "run_time_limit_s",
    "memory_limit_bytes",
    "cpu_limit",
    "process_limit",
    "artifact_limit_bytes",
)


@dataclass(frozen=True)
class RequiredRun:
    """One run of an entrant.

    Attributes:
        place: folder of the bundle, below the entrant's.
        trained: place of the training run that it needs.
    """

    task: HeldOutTask
    mode: str
    seed: int
    place: str
    gin_file: str
    is_secret: bool = False
    trained: str | None = None

    @property
    def bundle(self) -> str:
        """Path of the bundle below the entrant's folder."""
        return f"{self.place}/{self.mode}"


def required_runs(terms: CompetitionTerms, secret: Secret, entrant: str) -> list[RequiredRun]:
    """Returns the required runs of an entrant, given by its place, sorted by seed with the training run first."""
    found: list[RequiredRun] = []
    public = terms.public_tasks
    for seed in terms.seeds:
        trained = None
        if terms.train:
            trained = place_of(secret, entrant, public[0].name, seed, "train")
            found.append(RequiredRun(public[0], "train", seed, trained, TRAINING_GIN))
        for number, task in enumerate([*public, *secret.tasks]):
            place = place_of(secret, entrant, task.name, seed, "inference")
            gin_file = PUBLIC_GIN if number == 0 else SECRET_GIN
            found.append(RequiredRun(task, "inference", seed, place, gin_file, number >= len(public), trained))
    return found


def bindings_of(run: RequiredRun, competition: Path, home: Path) -> dict[str, Any]:
    """Returns the parameters that a run gets in addition to its gin file."""
    found: dict[str, Any] = {"Submission.hidden_paths": [str(competition)]}
    if run.mode == "train":
        return found
    if run.gin_file == SECRET_GIN:
        folder = competition / ("private" if run.is_secret else "public")
        found["Submission.held_out_task"] = str(task_file(folder, run.task.name))
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
    settings = {**own, **{name: getattr(terms, name) for name in LIMITS}}
    settings["record_frames"] = 4 if mode == "INFERENCE" else 0
    lines = [
        f"# Competition {terms.name!r}",
        "import a2perf.submission.submission_util",
        f"Submission.mode = %BenchmarkMode.{mode}",
        f"Submission.domain = {terms.domain!r}",
        *(f"Submission.{name} = {value!r}" for name, value in settings.items() if value is not None),
    ]
    if with_task:
        task = terms.public_tasks[0]
        lines.append(f"create_domain.env_name = {task.env_id!r}")
        lines += [f"create_domain.{name} = {value!r}" for name, value in task.kwargs.items()]
    return "\n".join(lines) + "\n"
