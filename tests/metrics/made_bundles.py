"""Recorded runs made by hand for the tests and the benchmark: bundles, earlier folders, trainers' logs."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

import numpy as np

from a2perf.errors import UserError
from a2perf.records import (
    Attempt,
    Episode,
    LatencyResults,
    LatencySummary,
    Manifest,
    RolloutResults,
    RunState,
    SubmissionIdentity,
    TrainResults,
)
from a2perf.runs.bundles.bundle import write_manifest
from a2perf.runs.bundles.inventory import record_files
from a2perf.storage import read_record, write_json, write_record
from tests.metrics import event_bytes as made

RETURN = "Metrics/AverageReturn"
EPISODE_STEPS = 10
EMISSIONS = (
    "timestamp,project_name,run_id,duration,emissions,emissions_rate,cpu_power,gpu_power,ram_power,cpu_energy,"
    "gpu_energy,ram_energy,energy_consumed,ram_process,ram_total_size"
)
STOCK = EMISSIONS.replace("ram_process,", "") + ",pue"


def manifest(mode: str, seed: int, *, task: str = "trot", name: str = "agent", **changes: Any) -> Manifest:
    fields: dict[str, Any] = {
        "a2perf_version": "1.0.0",
        "mode": mode,
        "domain": "quadruped_locomotion",
        "task": task,
        "env_id": "Env-v0",
        "env_kwargs": {},
        "env_fingerprint": "f" * 8,
        "root_seed": seed,
        "seeds": {},
        "participant_args": {},
        "submission": SubmissionIdentity(name=name, path="agent", sha256="a" * 8),
        "config_sha256": "c" * 8,
        "state": RunState.FINISHED,
        "attempts": [Attempt(started_at="", host="h", pid=1, boot_id="")],
    }
    return Manifest(**{**fields, **changes})


def ask_for_episodes(path: Path, record: Manifest) -> None:
    """Makes a manifest ask for the episodes that lie in its bundle, as far as they can be read."""
    for file in sorted(path.glob("metrics/**/rollouts.json")):
        with contextlib.suppress(UserError, OSError):
            seeds = [episode.seed for episode in read_record(file, RolloutResults).episodes]
            if file.parent == path / "metrics":
                record.seeds["episodes"] = seeds
            else:
                record.seeds.setdefault("episodes_by_task", {})[file.parent.name] = seeds
                record.env_kwargs = {"tasks": list(record.seeds["episodes_by_task"])}


def seal(path: Path, **changes: Any) -> Path:
    """Lists the files of a bundle in its manifest, as the end of a run does, and changes its fields."""
    record = read_record(path / "manifest.json", Manifest)
    ask_for_episodes(path, record)
    for field, value in changes.items():
        setattr(record, field, value)
    if record.state in (RunState.FINISHED, RunState.FAILED):
        record_files(path, record)
    write_manifest(path, record)
    return path


def emissions_rows(rows: int, *, run_id: str = "r", power: float = 40.0, ram: float = 0.5) -> str:
    lines = []
    for row in range(1, rows + 1):
        energy = power * row / 3.6e6
        stamp = f"2026-01-01T{row // 3600:02d}:{row // 60 % 60:02d}:{row % 60:02d}"
        lines.append(f"{stamp},p,{run_id},{row}.0,0.0,0.0,{power},0.0,1.0,{energy},0.0,0.0,{energy},{ram},16.0")
    return "\n".join(lines) + "\n"


def latency_summary(seconds: Any, includes: str = "infer_once only", clock: str = "participant process") -> Any:
    """Returns the summary of these times of calls."""
    quantiles = {"median_s": 0.5, "p90_s": 0.9, "p99_s": 0.99, "min_s": 0.0, "max_s": 1.0}
    return LatencySummary(
        includes=includes,
        clock=clock,
        count=len(seconds),
        warmup_count=50,
        first_s=0.014,
        mean_s=float(seconds.mean()),
        std_s=float(seconds.std()),
        throughput_hz=float(1 / seconds.mean()),
        **{name: float(np.quantile(seconds, quantile)) for name, quantile in quantiles.items()},
    )


def episodes(returns: list[float], *, success: bool | None = None) -> list[Episode]:
    return [
        Episode(
            index=i,
            seed=i,
            episode_return=value,
            length=EPISODE_STEPS,
            terminated=True,
            truncated=False,
            success=success,
        )
        for i, value in enumerate(returns)
    ]


def write_inference(root: Path, seed: int, *, count: int = 20, **changes: Any) -> Path:
    """An inference bundle with rollouts, latency, tracking and emissions."""
    rng = np.random.default_rng(seed)
    path = root / "inference"
    (path / "metrics").mkdir(parents=True)
    returns = rng.normal(10.0 + seed, 1.0, count).tolist()
    record = manifest("inference", seed, **changes)
    write_record(path / "manifest.json", record)
    write_record(
        path / "metrics" / "rollouts.json",
        RolloutResults(task=record.task, env_id="Env-v0", episodes=episodes(returns, success=True)),
    )
    write_record(
        path / "metrics" / "latency.json",
        LatencyResults(observations="recorded", infer_once=latency_summary(np.full(count * EPISODE_STEPS, 1e-3))),
    )
    times = rng.integers(900_000, 1_100_000, count * EPISODE_STEPS)
    np.savez(path / "metrics" / "latency.npz", infer_ns=times, preprocess_ns=times // 10, round_trip_ns=times * 9)
    of_episodes = np.arange(count * EPISODE_STEPS) // EPISODE_STEPS
    np.savez(path / "metrics" / "rollout_steps.npz", episode=of_episodes, round_trip_ns=times * 2, cpu_ns=times)
    (path / "metrics" / "inference_emissions.csv").write_text(EMISSIONS + "\n" + emissions_rows(20))
    return seal(path)


def write_train(root: Path, seed: int, *, points: int = 300, events: bool = True, **changes: Any) -> Path:
    """A training bundle with a curve, as event file or as progress.csv."""
    rng = np.random.default_rng(seed)
    path = root / "train"
    (path / "metrics").mkdir(parents=True)
    (path / "artifacts").mkdir()
    write_record(path / "manifest.json", manifest("train", seed, **changes))
    write_record(
        path / "metrics" / "train.json",
        TrainResults(
            wall_s=60.0 + seed, participant_wall_s=61.0, exit_reason="returned", artifact_bytes=1, artifact_files=1
        ),
    )
    values = np.linspace(0, 10, points) + rng.normal(0, 0.3, points)
    if events:
        data = made.version() + made.curve(RETURN, values.tolist())
        (path / "artifacts" / "events.out.tfevents.1.host").write_bytes(data)
    else:
        lines = [f"{100 * index},{value!r}" for index, value in enumerate(values.tolist())]
        (path / "artifacts" / "progress.csv").write_text("env_steps,mean_return\n" + "\n".join(lines) + "\n")
    (path / "metrics" / "train_emissions.csv").write_text(EMISSIONS + "\n" + emissions_rows(60, power=50.0))
    return seal(path)


def write_earlier(base: Path, seed: int, *, hosts: int = 0) -> Path:
    """A run in the earlier platform's grammar of folders; returns the work unit."""
    unit = base / "quadruped_locomotion" / "0001" / "dog_pace" / "ppo" / f"debug_seed_{seed}_skill_level_none" / "1"
    (unit / "metrics").mkdir(parents=True)
    (unit / "metrics" / "train_emissions.csv").write_text(EMISSIONS + "\n" + emissions_rows(60, run_id="learner"))
    write_json(
        unit / "metrics" / "inference_metrics_results.json",
        {"inference_time": {"values": [0.014, 0.001, 0.002]}, "rollout_returns": {"values": [1.0 + seed, 2.0, 3.0]}},
    )
    (unit / "metrics" / "generalization_rollouts.json").write_text(
        json.dumps({"dog_trot": [1.0, 2.0], "dog_spin": [3.0]})
    )
    if not hosts:
        (unit / "train").mkdir()
        data = made.curve(RETURN, [float(seed + step) for step in range(100)])
        (unit / "train" / "events.out.tfevents.1").write_bytes(made.version() + data)
    for host in range(hosts):
        folder = unit / "collect" / f"actor_{host}"
        (folder / "metrics").mkdir(parents=True)
        (folder / "summaries" / "0").mkdir(parents=True)
        (folder / "metrics" / "train_emissions.csv").write_text(
            EMISSIONS + "\n" + emissions_rows(60, run_id=f"a{host}")
        )
        data = made.curve(RETURN, [float(host + step) for step in range(100)])
        (folder / "summaries" / "0" / "events.out.tfevents.1").write_bytes(made.version() + data)
    return unit
