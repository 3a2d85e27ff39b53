"""The gin files of a competition: for entrants, and for the runs on either split."""

from __future__ import annotations

from pathlib import Path

from a2perf.domains.registry import get_domain
from a2perf.launch.competition.records import SecretTask, Terms

TRAINING, PUBLIC = "training.gin", "inference.gin"


def training(terms: Terms) -> str:
    """Returns the training on the public task."""
    return _text(terms, "TRAIN", {"train_time_limit_s": terms.train_time_limit_s}, with_task=True)


def public_evaluation(terms: Terms) -> str:
    """Returns the evaluation on the public task, as entrants may run it themselves."""
    return _text(terms, "INFERENCE", _evaluation(terms), with_task=True)


def secret_evaluation(terms: Terms, task: SecretTask, task_file: Path, seeds_file: Path) -> str:
    """Returns the evaluation on one secret task."""
    own = {"held_out_task": str(task_file), "evaluation_seeds_file": str(seeds_file)}
    return _text(terms, "INFERENCE", {**_evaluation(terms), **own}, with_task=False)


def scored_public_evaluation(terms: Terms, seeds_file: Path) -> str:
    """Returns the evaluation on the public task with the organizer's seeds."""
    own = {"evaluation_seeds_file": str(seeds_file)}
    return _text(terms, "INFERENCE", {**_evaluation(terms), **own}, with_task=True)


def _evaluation(terms: Terms) -> dict[str, object]:
    return {
        "num_inference_episodes": terms.episodes,
        "num_inference_steps": terms.latency_steps,
        "call_timeout_s": terms.call_timeout_s,
    }


def _text(terms: Terms, mode: str, own: dict[str, object], *, with_task: bool) -> str:
    settings = {
        **own,
        "load_timeout_s": terms.load_timeout_s,
        "memory_limit_bytes": terms.memory_limit_bytes,
        "record_frames": 0,
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
        lines += [f"create_domain.{name} = {value!r}" for name, value in task.kwargs.items()]
    return "\n".join(lines) + "\n"
