"""Runs of a store made for the tests and for ``perf``: records and curves without running anything."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from a2perf.records import Attempt, Failure, FailureKind, Manifest, RunState, SubmissionIdentity
from a2perf.runs.bundles.run_record import ExperimentRun
from a2perf.storage import write_record
from tests.metrics import event_bytes, made_bundles

START = "2026-11-01T10:00:00.000+00:00"
METRIC = "charts/episodic_return"


def manifest(mode: str = "command", *, state: RunState = RunState.FINISHED, seed: int = 1) -> Manifest:
    failure = Failure(kind=FailureKind.EXIT, where="command", message="exit status 1")
    return made_bundles.manifest(
        mode,
        seed,
        task="CartPole-v1",
        domain="",
        env_id="CartPole-v1",
        env_fingerprint=None,
        state=state,
        submission=SubmissionIdentity(name="ppo", path="/code", sha256="5" * 64, git_commit="4605546" + "0" * 33),
        attempts=[Attempt(started_at=START, host="elsewhere", pid=4242, boot_id="")],
        exit_code=0 if state is RunState.FINISHED else 1,
        failure=failure if state is RunState.FAILED else None,
        tracking={"wall_s": 12.5, "rss_peak_bytes": 2**28, "energy": {"gross_kwh": 0.002, "quality": "estimated"}},
    )


def events(series: Mapping[str, Sequence[tuple[int, float]]], *, wall: float = 1.6e9) -> bytes:
    """An event file; one point a second."""
    return event_bytes.version(wall) + b"".join(
        event_bytes.record(event_bytes.event(step, event_bytes.simple(tag, value), wall + index))
        for tag, points in series.items()
        for index, (step, value) in enumerate(points)
    )


def write_run(
    store: Path,
    run_id: str,
    *,
    experiment: str = "ppo",
    env_id: str = "CartPole-v1",
    seed: int = 1,
    tags: Sequence[str] = (),
    version: str = "v1.0.0",
    user: str = "ada",
    config: Mapping[str, object] | None = None,
    state: RunState = RunState.FINISHED,
    created_at: str = START,
    curves: Mapping[str, Sequence[tuple[int, float]]] | bytes | None = None,
) -> Path:
    run = store / run_id
    record = ExperimentRun(
        experiment=experiment,
        env_id=env_id,
        seed=seed,
        tags=list(tags),
        user=user,
        config=dict(config or {}),
        version=version,
        created_at=created_at,
    )
    write_record(run / "rlops.json", record)
    if curves is not None:
        folder = run / "command" / "artifacts" / f"{env_id}__{experiment}__{seed}"
        folder.mkdir(parents=True, exist_ok=True)
        content = curves if isinstance(curves, bytes) else events(curves)
        (folder / "events.out.tfevents.1600000000.host.1.0").write_bytes(content)
    made = manifest(state=state, seed=seed)  # last, as a run that is finished has all its files
    made.attempts[0].started_at = created_at
    write_record(run / "command" / "manifest.json", made)
    return run


def write_seeds(
    store: Path, tag: str, curves: Mapping[int, Mapping[str, Sequence[tuple[int, float]]]], **given: object
) -> list[Path]:
    """Writes the runs of a version of ``ppo`` on ``E``, which has its tag, given the curves by seed."""
    names = {"experiment": "ppo", "env_id": "E", "tags": [tag], "version": tag, **given}
    top = f"{names['experiment']}/{names['env_id']}/{names['version']}"
    return [write_run(store, f"{top}/seed_{seed}", seed=seed, curves=of, **names) for seed, of in curves.items()]  # type: ignore[arg-type]
