"""Runs that the tests of exporters share: shipped ones, and one in memory with every difficult value."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence

import numpy as np

from a2perf.records import Manifest, RunState, SubmissionIdentity
from a2perf.runs.reading import read_runs
from a2perf.runs.run import Run, RunIdentity
from a2perf.runs.series import Series
from a2perf_trackers.description import RunDescription, describe
from tests.shipped_runs import SHIPPED

LEARNED = SHIPPED / "learning" / "numpy_ars.zip"
"""A training run and an inference run of five seeds."""


def shipped(seed: int = 1) -> list[Run]:
    """Returns the training run and the inference run of one seed."""
    return [run for run in read_runs([LEARNED]) if run.identity.seed == seed]


def manifest(seeds: dict[str, object] | None = None, **more: object) -> Manifest:
    """Returns a manifest with arguments that must not be published."""
    return Manifest(
        a2perf_version="1.0",
        mode="train",
        domain="quadruped_locomotion",
        task="dog_pace",
        env_id="QuadrupedLocomotion-DogPace-v0",
        env_kwargs={"terrain": "hidden hills"},
        env_fingerprint="f",
        submission=SubmissionIdentity(name="ppo", path="/home/ada/ppo", sha256="abc"),
        root_seed=7,
        seeds=seeds or {"scheme": 1, "participant": 123454321},
        participant_args={"lr": "3e-4", "hub_token": "hf_sesame", "layers": "64,64", "is_big": "True"},
        command=["a2perf", "--secret", "xyzzy"],
        config_sha256="c",
        state=RunState.FINISHED,
        attempts=[],
        **more,  # type: ignore[arg-type]
    )


def difficult(name: str = "pp/o 🤖 <b>\x1b[31m") -> Run:
    """Returns a training run with a strange name, NaN, infinities, a repeated step and fractional steps."""
    values = np.array([0.1, np.nan, np.inf, -np.inf, 1e-300, 1 / 3])
    steps = np.array([0.0, 10.0, 10.0, 20.0, 2.0**40, 2.0**40 + 1.4])
    return Run(
        RunIdentity(domain="web", task="täsk/1:*", algorithm=name, mode="train", seed=None, state="failed"),
        curve=Series("Metrics/AverageReturn", "memory", steps, values, 1.7e9 + np.arange(6) * 0.125, "epoch", 1.7e9),
        returns={"train": {}},
        manifest=manifest(),
        conditions=["metrics/latency.npz could not be read: <damage>"],
    )


def of_several_modes() -> Run:
    """Returns a run that holds two modes, and tasks with names that differ only in characters of no tracker."""
    generalized = {"a/b": np.array([1.0, 2.0]), "a:b": np.array([3.0, 5.0]), "returns": np.array([8.0])}
    return Run(
        RunIdentity(algorithm="earlier", seed=3),
        returns={"inference": {"t": np.array([0.1, 0.2, 0.4])}, "generalization": generalized},
    )


def descriptions(runs: Sequence[Run]) -> list[RunDescription]:
    return [describe(run) for run in runs]


def without_package(package: str, call: str) -> str:
    """Returns the MissingDependency that a call of ``a2perf_trackers.<package>`` raises without the package."""
    code = f"""
import sys
sys.modules[{package!r}] = None  # an import of it raises ImportError
from a2perf.errors import MissingDependency
from a2perf_trackers import {package} as exporter
RUNS = {str(LEARNED)!r}
try:
    exporter.{call}
except MissingDependency as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=300)
    return done.stdout.rstrip()
