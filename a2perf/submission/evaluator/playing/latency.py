"""Timed calls: how long the participant takes to answer an observation that it has not seen before.

The scored steps are the sample. Further calls are made after them if there were fewer than ``MANY_STEPS``, or before
them, as many as ``Submission.num_inference_steps`` asks for. Their observations come from rollouts with separate seeds.
Each observation is used once, nothing is scored, and the evaluator steps the environment outside of the timed calls.
The participant process times ``preprocess_observation`` and ``infer_once``. The evaluator times the round trip, which
includes both and the transport. The processor time of the whole process tree per step is recorded too, see
``step_account``. Warm-up calls come before the first of both and are not in the sample. A policy can tell these calls
from scored steps: rankings use the round trip and the processor time of the scored steps.
"""

from __future__ import annotations

import itertools
import math
import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from a2perf.records import LatencyResults, LatencySummary
from a2perf.runs.bundles.layout import LATENCY_FILE, LATENCY_VALUES_FILE
from a2perf.storage import write_record
from a2perf.submission.evaluator.playing import step_account
from a2perf.submission.evaluator.playing.rollouts import Policy, rollout
from a2perf.submission.evaluator.playing.seeds import RunSeeds
from a2perf.submission.evaluator.playing.step_account import StepAccount, mean_costs
from a2perf.submission.evaluator.process.participant_process import ParticipantProcess
from a2perf.submission.evaluator.progress import RunProgress
from a2perf.submission.settings import Submission
from a2perf.system import stall_limit

MOST_TRANSPORT_NS = 5_000_000
"""Largest plausible transport time: a larger gap between the participant's and the evaluator's clock is suspicious."""

MANY_STEPS = 300
"""So many scored steps need no further calls."""

MORE_S = 1.0
"""Without a setting, as many further calls take at most so much longer than the scored episodes."""

_REPORT_EVERY = 500
_INCLUDES = {
    "infer_once": ("infer_ns", "infer_once only", "participant process"),
    "preprocess_observation": ("preprocess_ns", "preprocess_observation only", "participant process"),
    "round_trip": ("round_trip_ns", "preprocess_observation, infer_once and transport", "evaluator"),
    "processor_time": ("tree_cpu_ns", "processor time of the whole process tree, also between calls", "kernel"),
}


class _EnoughError(Exception):
    """Ends the rollouts once enough calls have been timed."""


def measure(
    settings: Submission,
    env: Any,
    participant: ParticipantProcess,
    seeds: RunSeeds,
    folder: Path,
    progress: RunProgress,
) -> None:
    """Warms up, times the calls that ``num_inference_steps`` asks for, and writes ``latency.json`` and ``latency.npz``.

    Raises:
        ParticipantFailure: the participant failed.
    """
    steps, warmup = settings.num_inference_steps or 0, settings.num_warmup_steps
    progress.phase(f"latency of {steps} calls on {settings.inference_data} observations", warmup + steps)
    account = StepAccount(participant.tree)
    _call(settings, env, participant, seeds, account, progress, steps=warmup + steps, warmup=warmup)
    _write(settings, participant, account, folder)


def warm_up(
    settings: Submission,
    env: Any,
    participant: ParticipantProcess,
    policy: Policy,
    seeds: RunSeeds,
    progress: RunProgress,
) -> None:
    """Makes the warm-up calls before scored steps that are the sample; ``policy`` is how the process is called.

    Raises:
        ParticipantFailure: the participant failed.
    """
    if settings.num_warmup_steps:
        account = StepAccount(participant.tree)
        _call(settings, env, policy, seeds, account, progress, steps=settings.num_warmup_steps)


def measure_few(
    settings: Submission,
    env: Any,
    participant: ParticipantProcess,
    seeds: RunSeeds,
    folder: Path,
    progress: RunProgress,
    *,
    scored_s: float,
) -> None:
    """Times calls in addition to few scored steps, which took ``scored_s`` seconds, and writes the same files.

    Raises:
        ParticipantFailure: the participant failed.
    """
    progress.phase(f"latency of at most {MANY_STEPS} calls on {settings.inference_data} observations", MANY_STEPS)
    account = StepAccount(participant.tree)
    participant.on_observation = None
    limit_s = scored_s + MORE_S
    used = settings.num_warmup_steps  # at most one seed per call
    _call(settings, env, participant, seeds, account, progress, steps=MANY_STEPS, limit_s=limit_s, used=used)
    _write(settings, participant, account, folder)


def _call(
    settings: Submission,
    env: Any,
    policy: Policy,
    seeds: RunSeeds,
    account: StepAccount,
    progress: RunProgress,
    *,
    steps: int,
    warmup: int = 0,
    limit_s: float = math.inf,
    used: int = 0,
) -> None:
    """Makes ``steps`` calls on observations of separate rollouts, or those of ``limit_s`` seconds, but at least one.

    Args:
        warmup: number of calls, of ``steps``, that the account discards.
        used: number of seeds that earlier calls have used at most.
    """
    calls, end_s = 0, time.monotonic() + limit_s

    def count(*step: Any) -> None:
        nonlocal calls
        calls += 1
        if calls % _REPORT_EVERY == 0:
            progress.advance(calls)
        if calls == steps or time.monotonic() >= end_s:
            raise _EnoughError
        if calls == warmup:
            account.restart()

    try:
        if settings.inference_data == "fresh":
            with stall_limit(settings.stall_s, account.calls):
                for index, seed in enumerate(itertools.islice(seeds.unending("latency"), used, None)):
                    rollout(env, policy, index=index, seed=seed, account=account, on_step=(count,))
        else:
            env.observation_space.seed(seeds.draw("sampled_observations", used + 1)[used])
            while True:
                account.before_call()
                account.after_call(policy.infer(env.observation_space.sample()))
                count()
    except _EnoughError:
        pass


def _write(settings: Submission, participant: ParticipantProcess, account: StepAccount, folder: Path) -> None:
    columns = account.columns()
    account.mark()
    costs = mean_costs([account.totals()])
    assert costs is not None
    followed = columns["call_cpu_ns"] + columns["between_cpu_ns"]
    # Short-lived processes are known only in total, so every step gets an equal share.
    columns["tree_cpu_ns"] = followed + round(costs.short_lived_s * 1e9)
    first = participant.first_inference
    assert first is not None
    firsts = {"infer_ns": first.infer_ns, "preprocess_ns": first.preprocess_ns, "round_trip_ns": first.round_trip_ns}

    def summary(name: str) -> LatencySummary:
        column, includes, clock = _INCLUDES[name]
        seconds = columns[column] * 1e-9
        least, median, p90, p99, most = np.percentile(seconds, (0, 50, 90, 99, 100)).tolist()
        mean = float(seconds.mean())
        return LatencySummary(
            includes=includes,
            clock=clock,
            count=seconds.size,
            warmup_count=settings.num_warmup_steps,
            mean_s=mean,
            first_s=float(firsts.get(column, columns[column][0])) * 1e-9,
            std_s=float(seconds.std(ddof=1)) if seconds.size > 1 else 0.0,
            min_s=least,
            median_s=median,
            p90_s=p90,
            p99_s=p99,
            max_s=most,
            throughput_hz=1 / mean if mean > 0 else 0.0,
        )

    claimed = columns["infer_ns"] + columns["preprocess_ns"]
    warnings = (clock_suspicion(claimed, columns["round_trip_ns"]), step_account.warning(costs, "latency phase"))
    participant.warnings += [text for text in warnings if text is not None]
    arrays: dict[str, Any] = {**columns}
    np.savez_compressed(folder / LATENCY_VALUES_FILE, **arrays)
    write_record(
        folder / LATENCY_FILE,
        LatencyResults(
            observations=f"{len(columns['infer_ns'])} {settings.inference_data}",
            infer_once=summary("infer_once"),
            preprocess_observation=summary("preprocess_observation"),
            round_trip=summary("round_trip"),
            processor_time=summary("processor_time"),
            costs=costs,
        ),
    )


def clock_suspicion(claimed_ns: NDArray[np.int64], round_trip_ns: NDArray[np.int64]) -> str | None:
    """Returns a warning if the participant's times explain less than half of the evaluator's waiting time.

    A participant can slow down its own clock or work before its clock starts, but it cannot shorten the evaluator's
    wait. Times longer than the round trip are refused, see ``answers``.
    """
    if len(claimed_ns) == 0:
        return None
    claimed, waited = float(np.median(claimed_ns)), float(np.median(round_trip_ns))
    if waited - claimed <= max(MOST_TRANSPORT_NS, claimed):
        return None
    return (
        f"the participant reports {claimed / 1e6:.3f} ms per call, but the evaluator waited {waited / 1e6:.3f} ms: rank"
        " by round_trip, not by infer_once"
    )
