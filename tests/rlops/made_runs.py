"""Runs of a store made for the tests and for ``perf``: records and curves without running anything."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from pathlib import Path

from a2perf.records import Attempt, Failure, FailureKind, Manifest, RunState, SubmissionIdentity
from a2perf.runs.event_checksums import crc32c
from a2perf.runs.run_record import ExperimentRun
from a2perf.storage import write_record

START = "2026-11-01T10:00:00.000+00:00"
METRIC = "charts/episodic_return"


def manifest(mode: str = "command", *, state: RunState = RunState.FINISHED, wall_s: float = 12.5) -> Manifest:
    return Manifest(
        a2perf_version="1.0.0",
        mode=mode,
        domain="",
        task="CartPole-v1",
        env_id="CartPole-v1",
        env_kwargs={},
        env_fingerprint=None,
        submission=SubmissionIdentity(name="ppo", path="/code", sha256="5" * 64, git_commit="4605546" + "0" * 33),
        root_seed=1,
        seeds={},
        participant_args={},
        config_sha256="0" * 64,
        state=state,
        attempts=[Attempt(started_at=START, host="elsewhere", pid=4242, boot_id="")],
        exit_code=0 if state is RunState.FINISHED else 1,
        failure=Failure(kind=FailureKind.EXIT, where="command", message="exit status 1")
        if state is RunState.FAILED
        else None,
        tracking={"wall_s": wall_s, "rss_peak_bytes": 2**28, "energy": {"gross_kwh": 0.002, "quality": "estimated"}},
    )


def event_record(payload: bytes) -> bytes:
    def stored(data: bytes) -> bytes:
        crc = crc32c(data)
        return struct.pack("<I", (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF)

    length = struct.pack("<Q", len(payload))
    return length + stored(length) + payload + stored(payload)


def _varint(value: int) -> bytes:
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def events(series: Mapping[str, Sequence[tuple[int, float]]], *, wall: float = 1.6e9) -> bytes:
    """An event file in the layout of PyTorch's writer; one point a second."""
    pieces = [event_record(struct.pack("<Bd", 0x09, wall) + b"\x1a\x0dbrain.Event:2")]
    for tag, points in series.items():
        name = tag.encode()
        for index, (step, value) in enumerate(points):
            inner = b"\x0a" + _varint(len(name)) + name + b"\x15" + struct.pack("<f", value)
            summary = b"\x0a" + _varint(len(inner)) + inner
            event = struct.pack("<Bd", 0x09, wall + index) + b"\x10" + _varint(step)
            pieces.append(event_record(event + b"\x2a" + _varint(len(summary)) + summary))
    return b"".join(pieces)


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
    made = manifest(state=state)  # last, as a run that is finished has all its files
    made.attempts[0].started_at = created_at
    made.root_seed = seed
    write_record(run / "command" / "manifest.json", made)
    return run
