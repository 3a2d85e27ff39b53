"""Recorded runs as the evaluator leaves them, made through the records; no environment and no participant runs."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from PIL import Image

from a2perf.metrics.protocol import ProtocolTask
from a2perf.records import (
    Attempt,
    Episode,
    Failure,
    LatencyResults,
    Manifest,
    RolloutResults,
    RunState,
    SandboxRecord,
    StepCosts,
    SubmissionIdentity,
    TrainResults,
)
from a2perf.runs.tracking_record import (
    ComponentEnergy,
    Emissions,
    EnergyUncertainty,
    HostConditions,
    PhaseCost,
    TrackedEnergy,
    TrackingReport,
)
from a2perf.storage import read_record, write_record
from tests.metrics import made_bundles

TERMS = {"pose": 0.32, "velocity": 0.04, "end_effector": 0.11}


class RunMaker:
    """Writes bundles below one folder."""

    def __init__(self, top: Path) -> None:
        self.top = top

    def manifest(self, root: str, mode: str, **changes: Any) -> Manifest:
        """Returns a manifest of a finished run, with changes."""
        attempt = Attempt(
            started_at="2026-03-01T10:00:00.000+00:00",
            finished_at="2026-03-01T10:00:41.500+00:00",
            host="node",
            pid=10,
            boot_id="b",
            outcome="returned",
        )
        submission = SubmissionIdentity(
            name=root, path=f"examples/{root}", sha256="ab" * 32, git_commit="c0ffee" + "0" * 34, git_dirty=False
        )
        fields: dict[str, Any] = {
            "task": "dog_pace",
            "env_id": "QuadrupedLocomotion-DogPace-v0",
            "env_kwargs": {"mode": "test"},
            "env_fingerprint": "3f" * 32,
            "submission": submission,
            "config_sha256": "cd" * 32,
            "attempts": [attempt],
            "seeds": {"participant": 11, "latency": 12, "evaluation": "root seed"},
            "participant_args": {"policy": "dog_pace"},
            "exit_code": 0,
            "exit_reason": "returned",
            "sandbox": SandboxRecord(level="process", guarantees=["session", "rlimits"]),
            "host": {"cpu_model": "Xeon", "cores": 2, "memory_bytes": 8 * 2**30},
            "python": {"version": "3.11.9", "implementation": "CPython"},
            "timings_s": {"attempt": 41.5},
        }
        manifest = made_bundles.manifest(mode, 7, **{**fields, **changes})
        write_record(self.top / root / mode / "manifest.json", manifest)
        return manifest

    def rollouts(self, root: str, returns: list[float], *, mode: str = "inference", task: str | None = None) -> None:
        """Writes ``rollouts.json``; with ``task`` that of one generalization task."""
        rng = np.random.default_rng(5)
        episodes = [
            Episode(
                index=index,
                seed=1000 + index,
                episode_return=float(value),
                length=697 if value > 50 else 212,
                terminated=bool(value <= 50),
                truncated=bool(value > 50),
                termination=None if value > 50 else "fall",
                wall_s=1.4,
                reward_terms={name: mean + 0.02 * rng.standard_normal() for name, mean in TERMS.items()},
            )
            for index, value in enumerate(returns)
        ]
        folder = self.top / root / mode / "metrics"
        path = folder / "rollouts.json" if task is None else folder / "tasks" / task / "rollouts.json"
        costs = StepCosts(
            steps=sum(episode.length for episode in episodes),
            account="cgroup_v2",
            round_trip_s=1.6e-4,
            tree_s=1.2e-4,
            in_calls_s=1.1e-4,
            between_calls_s=1e-5,
            short_lived_s=0.0,
            transport_s=4.2e-5,
            transport_cpu_s=2e-5,
        )
        manifest = read_record(self.top / root / mode / "manifest.json", Manifest)
        results = RolloutResults(
            task=task or manifest.task, env_id=manifest.env_id or "", episodes=episodes, costs=costs
        )
        write_record(path, results)
        made_bundles.ask_for_episodes(self.top / root / mode, manifest)
        write_record(self.top / root / mode / "manifest.json", manifest)

    def complete(self, root: str) -> None:
        """Writes a finished inference run with everything in it."""
        self.manifest(root, "inference")
        self.rollouts(root, [120.0, 122.0, 124.0, 118.0, 40.0])
        self.latency(root)
        self.costs(root, "inference")
        self.strip(root)

    def scored(
        self, name: str, task: tuple[str, ProtocolTask], seed: int, scores: list[float], *, fingerprint: str = ""
    ) -> None:
        """Writes an inference run with episodes of these normalised scores."""
        low, high = (task[1].reference(kind).mean for kind in ("floor", "expert"))
        root = f"{name}/{task[0]}/{seed}"
        self.manifest(
            root,
            "inference",
            domain=task[1].domain,
            task=task[0],
            root_seed=seed,
            env_fingerprint=fingerprint or task[1].fingerprint,
            submission=identity(name),
        )
        self.rollouts(root, [low + score * (high - low) for score in scores])

    def latency(self, root: str, count: int = 3000) -> None:
        """Writes ``latency.json`` and ``latency.npz``: log-normal calls with a slow tail."""
        rng = np.random.default_rng(3)
        infer = (105e3 * np.exp(0.18 * rng.standard_normal(count))).astype(np.int64)
        infer[rng.integers(0, count, max(1, count // 80))] *= 6
        arrays = {"infer_ns": infer, "preprocess_ns": infer // 20, "round_trip_ns": infer + 42_000}
        folder = self.top / root / "inference" / "metrics"
        folder.mkdir(parents=True, exist_ok=True)
        np.savez(folder / "latency.npz", **arrays)
        played = read_record(folder / "rollouts.json", RolloutResults).episodes
        of_episodes = np.repeat([episode.index for episode in played], [episode.length for episode in played])
        steps = {"round_trip_ns": arrays["round_trip_ns"], "cpu_ns": infer}
        steps = {name: np.resize(values, of_episodes.size) for name, values in steps.items()}
        np.savez(folder / "rollout_steps.npz", episode=of_episodes, **steps)
        summary = made_bundles.latency_summary
        made = {
            "infer_once": summary(infer * 1e-9),
            "preprocess_observation": summary(infer // 20 * 1e-9, "preprocess_observation only"),
            "round_trip": summary(arrays["round_trip_ns"] * 1e-9, "round trip", "evaluator"),
        }
        write_record(folder / "latency.json", LatencyResults(observations="recorded", **made))

    def costs(
        self, root: str, mode: str, *, seconds: int = 40, quality: str = "estimated", noisy: tuple[str, ...] = ()
    ) -> None:
        """Writes the emissions CSV, the system trace and ``tracking.json``."""
        rng = np.random.default_rng(9)
        folder = self.top / root / mode / "metrics"
        folder.mkdir(parents=True, exist_ok=True)
        power = 22 + 9 * np.clip(np.sin(np.arange(seconds) / 6), 0, 1) + rng.standard_normal(seconds)
        kwh = np.cumsum(power + 3.0) / 3.6e6
        emissions, trace = [], []
        for second in range(seconds):
            emissions.append(
                {
                    "timestamp": f"2026-03-01T10:00:{second:02d}",
                    "project_name": "p",
                    "run_id": "r1",
                    "duration": second + 1,
                    "emissions": kwh[second] * 0.4,
                    "cpu_power": power[second],
                    "gpu_power": 0.0,
                    "ram_power": 3.0,
                    "energy_consumed": kwh[second],
                    "country_iso_code": "USA",
                    "region": "Massachusetts",
                    "ram_process": "",
                    "method": "TDP model",
                    "quality": quality,
                }
            )
            phase = "load" if second < 6 else "latency" if second < 16 else "rollouts"
            rss = (180 + 60 * (second >= 3) + 30 * (second >= 16) + second * 0.4) * 2**20
            trace.append(
                {
                    "timestamp": 1.7e9 + second,
                    "elapsed_s": second,
                    "phase": phase if mode == "inference" else "train",
                    "cpu_percent": 60 + 5 * power[second] / 10,
                    "rss_bytes": rss,
                    "pss_bytes": rss * 0.8 if second % 5 == 0 else "",
                    "cpu_power_w": power[second],
                    "gpu_power_w": "",
                    "ram_power_w": 3.0,
                    "gpu_memory_bytes": "",
                }
            )
        _write_rows(folder / f"{mode}_emissions.csv", emissions)
        _write_rows(folder / "system_trace.csv", trace)
        component = ComponentEnergy(
            gross_kwh=float(kwh[-1]),
            net_kwh=float(kwh[-1]) * 0.8,
            power_mean_w=float(power.mean()),
            power_peak_w=float(power.max()),
            idle_w=4.0,
            method="tdp_model:table",
            quality=quality,
            scope="tree",
            gross_uncertainty=_unsure(float(kwh[-1])),
            net_uncertainty=_unsure(float(kwh[-1]) * 0.8),
        )
        energy = TrackedEnergy(
            cpu=component,
            gross_kwh=component.gross_kwh,
            net_kwh=component.net_kwh,
            method="cpu=tdp_model:table",
            quality=quality,
            gross_uncertainty=component.gross_uncertainty,
            net_uncertainty=component.net_uncertainty,
        )
        phases = {
            "load": PhaseCost(wall_s=6.0, cpu_seconds=5.0, energy_gross_kwh=4e-5, rss_peak_bytes=240 * 2**20),
            "latency": PhaseCost(wall_s=10.0, cpu_seconds=9.0, energy_gross_kwh=7e-5, rss_peak_bytes=240 * 2**20),
            "rollouts": PhaseCost(wall_s=24.0, cpu_seconds=25.0, energy_gross_kwh=2e-4, rss_peak_bytes=290 * 2**20),
        }
        report = TrackingReport(
            mode=mode,
            wall_s=float(seconds),
            samples=seconds,
            cpu_seconds=39.2,
            cpu_method="cgroup v2",
            rss_peak_bytes=290 * 2**20,
            rss_mean_bytes=250.0 * 2**20,
            pss_peak_bytes=227 * 2**20,
            energy=energy,
            emissions=Emissions(kg_co2eq=float(kwh[-1]) * 0.4, kg_per_kwh=0.4, method="codecarbon"),
            host=HostConditions(noisy=bool(noisy), reasons=list(noisy)),
            phases=phases,
            own_cpu_percent=0.4,
        )
        (folder / "tracking.json").write_bytes(msgspec.json.encode(report))

    def training(self, root: str, points: int = 60, **changes: Any) -> None:
        """Writes a training bundle with a learning curve in ``progress.csv``."""
        self.manifest(root, "train", **changes)
        folder = self.top / root / "train"
        record = TrainResults(
            wall_s=38.25, participant_wall_s=40.0, exit_reason="returned", artifact_bytes=81_920, artifact_files=3
        )
        write_record(folder / "metrics" / "train.json", record)
        (folder / "artifacts" / "logs").mkdir(parents=True)
        rng = np.random.default_rng(2)
        returns = 12 + 60 * (1 - np.exp(-np.arange(points) / 15)) + 3 * rng.standard_normal(points)
        rows = [
            {"iteration": index, "env_steps": 4800 * (index + 1), "mean_return": value}
            for index, value in enumerate(returns)
        ]
        _write_rows(folder / "artifacts" / "logs" / "progress.csv", rows)

    def strip(self, root: str, mode: str = "inference") -> None:
        """Writes a picture strip."""
        path = self.top / root / mode / "media" / "episode_000.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (1920, 180), "grey").save(path)

    def failed(self, root: str, failure: Failure, *, mode: str = "train", log: str = "") -> None:
        """Writes a bundle of a failed run, with a log."""
        self.manifest(root, mode, state=RunState.FAILED, failure=failure, exit_code=1, exit_reason=failure.kind.value)
        path = self.top / root / mode / "logs" / "participant.log"
        path.parent.mkdir(parents=True)
        path.write_text(log)


def identity(name: str) -> SubmissionIdentity:
    """Returns an identity whose hash depends on the name."""
    return SubmissionIdentity(name=name, path=name, sha256=name.encode().hex().ljust(64, "0"))


def _write_rows(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    with path.open("w", newline="") as stream:
        writer = csv.DictWriter(stream, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def _unsure(kwh: float) -> EnergyUncertainty:
    """5 % of the model and 2 % of the sampling, as standard uncertainties."""
    expanded = 2 * float(np.hypot(0.05, 0.02)) * kwh
    return EnergyUncertainty(expanded_kwh=expanded, model_kwh=0.05 * kwh, sampling_kwh=0.02 * kwh)
