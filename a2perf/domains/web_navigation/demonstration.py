"""The part of ``a2perf demo`` on websites; it needs neither compiled code nor a browser, so it comes first."""

from __future__ import annotations

from a2perf.domains.registry import DemonstrationRun

TASK = "difficulty_level_2_num_websites_5"
_READERS = {"random": "minimal", "scripted": "web_solver"}
_SIZE = ("Submission.num_inference_steps = 50", "Submission.num_inference_episodes = 20")


def demonstration_runs(train_seconds: int) -> list[DemonstrationRun]:
    """Returns a run of a random and one of a scripted reader."""
    del train_seconds
    return [
        DemonstrationRun(
            title=f"a {reader} reader on the websites of {TASK}",
            folder=f"websites_{reader}",
            submission=submission,
            gin_file=f"{TASK}/inference.gin",
            bindings=_SIZE,
            first_number_s=5.0,
        )
        for reader, submission in _READERS.items()
    ]
