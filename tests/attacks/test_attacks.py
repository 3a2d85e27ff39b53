"""Each attack at each level that claims to stop it: real processes, and the outcome that is recorded."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gymnasium.spaces import Box

from a2perf.sandbox import LADDER
from a2perf.submission.evaluator.playing.actions import ActionChecker
from a2perf.submission.evaluator.playing.latency import clock_suspicion
from a2perf.submission.evaluator.process import participant_process
from a2perf.submission.evaluator.process.failures import ParticipantFailure
from tests.attacks.catalogue import ASSAULTS, LIMITS, MIB, PROBES, Assault, Probe, levels_that_stop

SPACE = Box(-1, 1, (2,), np.float32)


def filled(arguments: dict[str, Any], words: dict[str, str | int]) -> dict[str, Any]:
    """Replaces ``{name}`` in the arguments of an attack."""

    def fill(value: Any) -> Any:
        if not isinstance(value, str):
            return value
        name = value.strip("{}")
        return words[name] if value == f"{{{name}}}" else value.format(**words)

    return {name: fill(value) for name, value in arguments.items()}


def probes_at(level: str) -> list[Probe]:
    return [probe for probe in PROBES if level in levels_that_stop(probe.stopped_from)]


@pytest.mark.parametrize("level", LADDER)
def test_probes_are_stopped_and_nothing_outside_changes(level: str, stage, available, noted) -> None:
    available(level)
    stage.artifacts.chmod(0o755)
    answers = {}
    with stage.process(level, **LIMITS) as participant:
        participant.start()
        participant.load_policy({})
        for probe in probes_at(level):
            observation = {"attack": probe.name, **filled(probe.arguments, stage.words)}
            answers[probe.what] = (probe, participant.infer(observation, timeout_s=30).action)
    for what, (probe, answer) in answers.items():
        noted(what, "kept inside" if probe.harmless else answer, [level])
    assert {what: answer for what, (probe, answer) in answers.items() if not answer.startswith("stopped: ")} == {
        what: answer for what, (probe, answer) in answers.items() if probe.harmless and "came through" in answer
    }
    assert stage.secret not in repr(answers)
    assert stage.untouched()
    assert stage.connections() == 0
    assert stage.signals == []
    assert all(path.stat().st_size <= LIMITS["file_size_bytes"] for path in stage.artifacts.rglob("*") if path.exists())


@pytest.mark.parametrize(
    ("assault", "level"),
    [
        pytest.param(assault, level, id=f"{assault.name}-{level}")
        for assault in ASSAULTS
        for level in levels_that_stop(assault.stopped_from)
    ],
)
def test_assault_has_its_recorded_outcome(
    assault: Assault, level: str, stage, available: Callable[[str], None], noted, monkeypatch
) -> None:
    if assault.name == "late_answer":  # it lives on, which is waited for
        monkeypatch.setattr(participant_process, "ENDING_GRACE_S", 0.5)
    available(level)
    observation = {"attack": f"assault_{assault.name}", **filled(assault.arguments, stage.words)}
    failure = None
    participant = stage.process(level, **{"processes": 64, **assault.limits})
    try:
        with participant:
            participant.start()
            participant.load_policy({})
            for _ in range(assault.calls):
                answer = participant.infer(observation, timeout_s=assault.timeout_s)
            if assault.name in ("wrong_shape", "not_a_number"):
                ActionChecker(SPACE)(answer.action)
            if assault.name == "times_too_short":
                assert answer.infer_ns < 1000
                claimed, waited = np.array([answer.infer_ns + answer.preprocess_ns]), np.array([answer.round_trip_ns])
                assert "rank by round_trip, not by infer_once" in str(clock_suspicion(claimed, waited))
    except ParticipantFailure as error:
        failure = error.failure
    recorded = failure.kind.value if failure is not None else _RECORDED.get(assault.name, "the run goes on")
    noted(assault.what, recorded, [level])
    assert (failure.kind if failure else None) is assault.outcome, failure
    if failure is not None:
        assert assault.says in failure.message
    assert stage.untouched()
    assert not Path(str(stage.words["planted"])).exists()
    check = _CHECKS.get(assault.name)
    if check is not None:
        check(stage, participant)


def _output_is_cut(stage, participant) -> None:
    dropped = participant.ending.dropped_bytes["stdout"]
    assert dropped == 99 * MIB
    assert (stage.folder / "logs" / "stdout.log").stat().st_size < MIB + 100
    assert any("beyond the cap were dropped" in warning for warning in participant.warnings)


def _no_daemon_is_left(stage, participant) -> None:
    before = (stage.artifacts / "alive").read_text()
    time.sleep(0.1)  # ten of its beats
    assert (stage.artifacts / "alive").read_text() == before


def _artifacts_are_the_evaluators(stage, participant) -> None:
    assert (stage.artifacts / "alive").stat().st_uid == stage.folder.stat().st_uid
    (stage.artifacts / "alive").unlink()


def _daemon(stage, participant) -> None:
    _no_daemon_is_left(stage, participant)
    _artifacts_are_the_evaluators(stage, participant)


_RECORDED = {
    "times_too_short": "a warning; the round trip is true",
    "output": "the rest is dropped, a warning",
    "daemons": "ended with the run",
    "kill_everything": "only its processes",
}
_CHECKS: dict[str, Callable[[Any, Any], None]] = {"output": _output_is_cut, "daemons": _daemon}
