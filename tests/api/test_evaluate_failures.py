"""A policy that fails, crashes or cheats: the error in Python, the record on disk, and where its code ran."""

from __future__ import annotations

import json
import os
import pickle
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

import a2perf
from a2perf.constants import ExitCode
from a2perf.errors import RunFailed
from tests.api.evaluate_runs import TASK, evaluate, participant_has_started
from tests.waiting import until


def raises(observation: Any) -> int:
    raise ValueError("no idea\x1b[31m")


def exits(observation: Any) -> int:
    print("last words", flush=True)
    os._exit(7)


def crashes(observation: Any) -> int:
    import ctypes

    return ctypes.string_at(0)[0]


def hoards(observation: Any) -> int:
    return len([bytearray(2**28) for _ in range(64)])


@pytest.mark.parametrize(
    ("policy", "kind", "text"),
    [
        (raises, "exception", "the submission failed in infer_once (call 1) (exception): ValueError: no idea"),
        (exits, "exit", "the submission failed in infer_once"),
        (crashes, "signal", "the submission failed in infer_once"),
        (hoards, "memory", "the submission failed in infer_once (call 1) (memory)"),
    ],
)
def test_a_failure_is_an_exception_with_the_text_of_the_command(
    policy: Any, kind: str, text: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(RunFailed) as caught:
        evaluate(policy, tmp_path / "root", memory_limit_bytes=2**30, allow_weaker=True)
    error = caught.value
    assert text in str(error)
    assert "output of the submission: " in str(error)
    assert "\x1b" not in str(error)
    assert error.exit_code is ExitCode.PARTICIPANT_FAILED
    assert error.bundle == tmp_path / "root" / "inference"
    failed = a2perf.read_run(error.bundle)
    assert failed.state == "failed"
    assert failed.failure is not None
    assert failed.run.manifest is not None
    assert failed.run.manifest.failure is not None
    assert failed.run.manifest.failure.kind.value == kind
    assert capfd.readouterr() == ("", "")
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), again.bundle) == (str(error), error.bundle)
    if policy is exits:
        assert "last words" in (error.bundle / "logs" / "stdout.log").read_text()


def test_another_policy_in_the_same_root_is_below_it_unless_the_first_is_archived(tmp_path: Path) -> None:
    first = evaluate(lambda observation: 0, tmp_path / "root", episodes=1)
    second = evaluate(lambda observation: 1, tmp_path / "root", episodes=1)
    assert (first.bundle.parent, second.bundle.parents[2].parent) == (tmp_path / "root", tmp_path / "root")
    evaluate(lambda observation: 2, tmp_path / "root", episodes=1, force=True)
    assert len(list((tmp_path / "root" / "attic").iterdir())) == 1


class Announced:
    """Its pickle executes code when it is loaded."""

    def act(self, observation: Any) -> int:
        return 0

    def __reduce__(self) -> Any:
        return _announce, ()


def _announce() -> Announced:
    print("loaded in", os.getpid(), os.path.basename(sys.argv[0]), flush=True)
    return Announced()


def test_only_the_participant_process_loads_the_pickle(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    result = evaluate(Announced(), tmp_path / "root")
    said = (result.bundle / "logs" / "stdout.log").read_text().split()
    assert said[:2] == ["loaded", "in"]
    assert len(said) == 4, "it was loaded more than once"
    assert said[3] == "inference.py"
    evaluator = result.run.manifest.attempts[0].pid  # type: ignore[union-attr]
    assert int(said[2]) not in (evaluator, os.getpid())
    assert capfd.readouterr() == ("", "")


def test_what_a_policy_prints_stays_in_its_log(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    def prints(observation: Any) -> int:
        print("hello")
        print("oops", file=sys.stderr)
        return 0

    result = evaluate(prints, tmp_path / "root")
    assert "hello" in (result.bundle / "logs" / "stdout.log").read_text()
    assert "oops" in (result.bundle / "logs" / "stderr.log").read_text()
    assert capfd.readouterr() == ("", "")


def test_a_killed_evaluator_is_reported_and_starts_again_on_request(tmp_path: Path) -> None:
    def slow(observation: Any) -> int:
        time.sleep(0.05)
        return 0

    manifest = tmp_path / "root" / "inference" / "manifest.json"

    def kill() -> None:
        until(lambda: participant_has_started(tmp_path / "root"))
        os.kill(json.loads(manifest.read_text())["attempts"][-1]["pid"], signal.SIGKILL)

    killer = threading.Thread(target=kill)
    killer.start()
    with pytest.raises(RunFailed, match="its evaluator was ended by SIGKILL") as caught:
        evaluate(slow, tmp_path / "root")
    killer.join(300)
    assert caught.value.exit_code is ExitCode.INFRASTRUCTURE
    assert caught.value.bundle == manifest.parent
    # at level `process` the policy can have killed it
    with pytest.raises(RunFailed, match="the recorded end of the same run; --retry infrastructure or --force"):
        evaluate(slow, tmp_path / "root")
    result = evaluate(slow, tmp_path / "root", force=True)
    assert (result.state, result.task, len(result.returns)) == ("finished", TASK, 2)
    assert result.run.manifest is not None
    assert [attempt.outcome for attempt in result.run.manifest.attempts] == ["infrastructure", "finished"]
