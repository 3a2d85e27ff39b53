"""The runs that every entrant needs: computed both to run a competition and to verify one."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from a2perf.experiments.competition import gin_files
from a2perf.experiments.competition.creation import task_file
from a2perf.experiments.competition.records import CompetitionTerms, Secret, place_of


@dataclass(frozen=True)
class RequiredRun:
    """One run of an entrant.

    Attributes:
        mode: ``"train"`` or ``"inference"``.
        place: folder of the bundle, below the entrant's.
        is_secret: whether the task was secret.
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


def required_runs(terms: CompetitionTerms, secret: Secret, entrant: int) -> list[RequiredRun]:
    """Returns the required runs of an entrant, given by its number, sorted by seed with the training run first."""
    found: list[RequiredRun] = []
    for seed in terms.seeds:
        further = [task.name for task in terms.further_tasks]
        names = [terms.public_task, *further, *(task.name for task in secret.tasks)]
        trained = None
        if terms.train:
            trained = place_of(secret, entrant, terms.public_task, seed, "train")
            found.append(RequiredRun(terms.public_task, "train", seed, trained, gin_files.TRAINING, False))
        for number, task in enumerate(names):
            found.append(
                RequiredRun(
                    task=task,
                    mode="inference",
                    seed=seed,
                    place=place_of(secret, entrant, task, seed, "inference"),
                    gin_file=gin_files.PUBLIC if number == 0 else gin_files.SECRET,
                    is_secret=number > len(further),
                    is_further=0 < number <= len(further),
                    trained=trained,
                )
            )
    return found


def bindings_of(run: RequiredRun, competition: Path, home: Path) -> dict[str, Any]:
    """Returns the parameters that a run gets in addition to its gin file.

    Args:
        home: folder of the entrant's runs.
    """
    found: dict[str, Any] = {"Submission.hidden_paths": [str(competition)]}
    if run.mode == "train":
        return found
    if run.is_secret or run.is_further:
        folder = competition / ("private" if run.is_secret else "public")
        found["Submission.held_out_task"] = str(task_file(folder, run.task))
    if run.trained is not None:
        found["Submission.trained_root_dir"] = str(home / run.trained)
    return found
