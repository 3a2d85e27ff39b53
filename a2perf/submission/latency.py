"""The latency phase: how long the participant takes to answer one observation.

``infer_once`` and ``preprocess_observation`` are timed in the participant process, each between two clock reads; the
round trip is timed by the evaluator and includes the transport. The warm-up calls come first and are counted apart, and
so is the very first call of all.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from a2perf.metrics.trackers.latency import summarize_latency
from a2perf.records import LatencyResults, LatencySummary
from a2perf.storage import write_record
from a2perf.submission.progress import RunProgress
from a2perf.submission.rollouts import rollout
from a2perf.submission.seeds import spawn_seeds

if TYPE_CHECKING:
    from a2perf.submission.participant_process import ParticipantProcess
    from a2perf.submission.submission_util import Submission

MOST_TRANSPORT_NS = 5_000_000
"""More than this between the participant's clock and the evaluator's is not transport, on a host that works."""

_REPORT_EVERY = 500
_MAX_RECORDED_BYTES = 256 * 2**20


class _EnoughError(Exception):
    """Ends the recording of observations."""


def measure(
    settings: Submission, env: Any, participant: ParticipantProcess, folder: Path, progress: RunProgress
) -> None:
    """Times ``num_inference_steps`` calls and writes ``latency.json`` and ``latency.npz``.

    Raises:
        ParticipantFailure: the participant failed.
    """
    if settings.inference_data == "recorded":
        observations = _record(settings, env, participant, progress)
    else:
        observations = _sample(settings, env)
    steps, warmup = settings.num_inference_steps, settings.num_warmup_steps
    progress.phase(
        f"latency of infer_once on {len(observations)} {settings.inference_data} observations", warmup + steps
    )
    infer_ns = np.zeros(warmup + steps, dtype=np.int64)
    preprocess_ns = np.zeros_like(infer_ns)
    round_trip_ns = np.zeros_like(infer_ns)
    for step in range(warmup + steps):
        answer = participant.infer(observations[step % len(observations)], timeout_s=settings.call_timeout_s)
        infer_ns[step] = answer.infer_ns
        preprocess_ns[step] = answer.preprocess_ns
        round_trip_ns[step] = answer.round_trip_ns
        if step % _REPORT_EVERY == 0:
            progress.advance(step)
    first = participant.first_inference or answer

    def summary(values: NDArray[np.int64], includes: str, clock: str, first_ns: int) -> LatencySummary | None:
        timed_s = (values[warmup:] * 1e-9).tolist()
        return summarize_latency(timed_s, first_s=first_ns * 1e-9, warmup_count=warmup, includes=includes, clock=clock)

    suspicion = clock_suspicion(infer_ns[warmup:] + preprocess_ns[warmup:], round_trip_ns[warmup:])
    if suspicion is not None:
        participant.warnings.append(suspicion)
    np.savez_compressed(
        folder / "latency.npz",
        infer_ns=infer_ns[warmup:], preprocess_ns=preprocess_ns[warmup:], round_trip_ns=round_trip_ns[warmup:],
    )  # fmt: skip
    write_record(
        folder / "latency.json",
        LatencyResults(
            observations=f"{len(observations)} {settings.inference_data}",
            infer_once=summary(infer_ns, "infer_once only", "participant process", first.infer_ns),
            preprocess_observation=summary(
                preprocess_ns, "preprocess_observation only", "participant process", first.preprocess_ns
            ),
            round_trip=summary(
                round_trip_ns, "preprocess_observation, infer_once and transport", "evaluator", first.round_trip_ns
            ),
        ),
    )


def clock_suspicion(claimed_ns: NDArray[np.int64], round_trip_ns: NDArray[np.int64]) -> str | None:
    """Returns a warning where the participant's clock leaves most of the evaluator's waiting unexplained.

    A participant can make its own clock run slow, or work before its clock starts; it cannot make the evaluator wait
    less. Times that are too long are refused outright, see ``answers``.

    Args:
        claimed_ns: by the participant process's clock.
        round_trip_ns: of the same calls by the evaluator's clock.
    """
    if len(claimed_ns) == 0:
        return None
    claimed, waited = float(np.median(claimed_ns)), float(np.median(round_trip_ns))
    if waited - claimed <= max(MOST_TRANSPORT_NS, claimed):
        return None
    return (
        f"its clock claims {claimed / 1e6:.3f} ms a call, but the evaluator waited {waited / 1e6:.3f} ms: do not rank"
        " by infer_once, the round trip is the evaluator's own"
    )


def _record(settings: Submission, env: Any, participant: ParticipantProcess, progress: RunProgress) -> list[Any]:
    """Plays episodes on seeds of their own until enough observations were met; nothing of them is scored."""
    wanted = max(1, min(settings.num_recorded_observations, settings.num_inference_steps))
    progress.phase("recording observations", wanted)
    observations: list[Any] = []
    recorded_bytes = 0

    def keep(observation: Any, action: Any) -> None:
        nonlocal recorded_bytes
        observations.append(_copy(observation))
        recorded_bytes += _size(observation)
        if len(observations) >= wanted or recorded_bytes > _MAX_RECORDED_BYTES:
            raise _EnoughError
        if len(observations) % 100 == 0:
            progress.advance(len(observations))

    policy = participant.policy(timeout_s=settings.call_timeout_s)
    seeds = iter(spawn_seeds(settings.seed, "latency", wanted))
    try:
        for index, seed in enumerate(seeds):
            rollout(env, policy, index=index, seed=seed, clip_actions=settings.clip_actions, on_step=keep)
    except _EnoughError:
        pass
    return observations


def _sample(settings: Submission, env: Any) -> list[Any]:
    env.observation_space.seed(spawn_seeds(settings.seed, "sampled_observations", 1)[0])
    count = max(1, min(settings.num_recorded_observations, settings.num_inference_steps))
    return [env.observation_space.sample() for _ in range(count)]


def _copy(observation: Any) -> Any:
    """Copies an observation, since an environment may write the next one into the same arrays."""
    if isinstance(observation, dict):
        return {name: _copy(item) for name, item in observation.items()}
    if isinstance(observation, tuple | list):
        return tuple(_copy(item) for item in observation)
    return observation.copy() if isinstance(observation, np.ndarray) else observation


def _size(observation: Any) -> int:
    if isinstance(observation, dict):
        return sum(_size(item) for item in observation.values())
    if isinstance(observation, tuple | list):
        return sum(_size(item) for item in observation)
    return int(getattr(observation, "nbytes", 64))
