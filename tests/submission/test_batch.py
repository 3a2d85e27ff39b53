"""Episodes in batches: the policy gets several observations per call, and each episode is the one that it is alone."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import a2perf
from a2perf.errors import ConfigError
from a2perf.submission.evaluator.process.answers import BadAnswer
from a2perf.submission.evaluator.process.rows import actions_of, stacked
from tests.made_submissions import TROT, policy, write_submission

ROWS = "return (observations[:, 2] > 0).astype(int)"
ONE = "return int(observation[2] > 0)"
BATCH = 3


def source(rows: str, top: str = "", infer: str = ONE) -> str:
    """Returns an ``inference.py`` with the body of ``infer_batch``."""
    body = "\n".join(f"    {line}" for line in rows.splitlines())
    return f"{policy(top=top, load='return [0]', infer=infer)}\n\ndef infer_batch(policy, observations):\n{body}\n"


def evaluate(
    entry: Any, root: Path, *bindings: str, env: str = "CartPole-v1", episodes: int = 5, **options: Any
) -> Any:
    """Evaluates up to 100 steps of each episode, with seeds that depend on the root seed alone."""
    return a2perf.evaluate(
        entry,
        env=env,
        env_kwargs={"max_episode_steps": 100},
        episodes=episodes,
        root_dir=root,
        bindings=["Submission.record_frames = 0", "Submission.num_warmup_steps = 2", *bindings],
        progress=False,
        public_seeds=True,
        **options,
    )


def played(root: Path) -> dict[int, Any]:
    """Returns what the journal has of each episode, without times."""
    found = {}
    for line in (root / "inference" / "journal.jsonl").read_text().splitlines():
        entry = json.loads(line)
        if "episode" in entry:
            times = ("wall_s", "policy_cpu_s")
            episode = {name: value for name, value in entry["episode"].items() if name not in times}
            steps = {name: value for name, value in entry.get("steps", {}).items() if not name.endswith("_ns")}
            found[episode["index"]] = (episode, steps)
    return found


def failure_of(rows: str, tmp_path: Path, **options: Any) -> Any:
    """Returns the recorded failure of a run in batches, and the episodes before it."""
    entry = write_submission(tmp_path / "entry", source(rows, **options))
    with pytest.raises(a2perf.RunFailed):
        evaluate(entry, tmp_path / "run", batch=BATCH)
    return json.loads((tmp_path / "run" / "inference" / "manifest.json").read_text())["failure"]


def test_episodes_are_those_that_are_played_alone(tmp_path) -> None:
    entry = write_submission(tmp_path / "entry", source(ROWS))
    alone = evaluate(entry, tmp_path / "alone", repeats=2)
    batch = evaluate(entry, tmp_path / "batch", repeats=2, batch=BATCH)
    assert len(set(alone.returns)) > 1
    assert played(tmp_path / "batch") == played(tmp_path / "alone")
    assert len(played(tmp_path / "batch")) == 10
    check = json.loads((tmp_path / "batch" / "inference" / "metrics" / "rollouts.json").read_text())["batch"]
    assert check["rows"] == BATCH
    assert check["equal"]
    assert check["episode"] < BATCH
    assert batch.latency is None
    assert batch.scores["processor_time_per_decision"].value > 0
    assert alone.latency is not None


class OnWebsites:
    """Presses the elements in turn, each with another row of the profile."""

    def infer_once(self, observation: Any) -> int:
        return int(self.infer_batch({name: array[None] for name, array in observation.items()})[0])

    def infer_batch(self, observations: Any) -> Any:
        elements = observations["dom_elements_mask"].sum(axis=1).astype(int)
        step = np.round(25 * observations["time_step"][:, 0]).astype(int)
        return 7 * step % np.maximum(elements, 1) + 250 * (step % 3)


class OnLegs:
    """Moves the motors by what the robot feels."""

    def infer_once(self, observation: Any) -> Any:
        return self.infer_batch(observation[None])[0]

    def infer_batch(self, observations: Any) -> Any:
        return 0.3 * np.sin(3 * observations[:, :12]).astype(np.float32)


@pytest.mark.parametrize(
    ("made", "task"),
    [
        (OnWebsites, "difficulty_level_2_num_websites_5"),
        (OnWebsites, "composed_1_reversed"),
        (OnLegs, "synthetic_trot_v1" if find_spec("pybullet") else "mujoco_dog_trot"),
    ],
    ids=["websites", "compositions", "robot"],
)
def test_a_vector_environment_of_the_task_plays_the_same_episodes(tmp_path, made: Any, task: str) -> None:
    """Two more episodes than rows: members are reset while others go on, and go on without an episode at the end."""
    options: Any = {"task": task, "episodes": BATCH + 2, "progress": False, "public_seeds": True}
    for rows in (1, BATCH):
        found = a2perf.evaluate(made(), root_dir=tmp_path / str(rows), batch=rows, **options)
    assert played(tmp_path / str(BATCH)) == played(tmp_path / "1")
    assert len(set(found.returns)) > 1
    assert not [text for text in found.run.manifest.warnings if "batch" in text]


def test_a_policy_from_python_takes_rows(tmp_path) -> None:
    class Policy:
        def infer_once(self, observation: Any) -> int:
            return int(observation[2] > 0)

        def infer_batch(self, observations: Any) -> Any:
            return [int(row[2] > 0) for row in observations]

    batch = evaluate(Policy(), tmp_path / "batch", batch=BATCH)
    assert batch.returns.tolist() == evaluate(Policy(), tmp_path / "alone").returns.tolist()


@pytest.mark.parametrize(
    ("rows", "where", "message"),
    [
        (f"{ROWS}[1:]", "infer_batch (call", "returned 2 rows for 3 observations"),
        ("return 0", "infer_batch (call", "without rows for 3 observations"),
        (f"return np.roll({ROWS[7:]}, 1)", "infer_batch, row", "has another action than alone"),
        ("policy[0] += 1\nreturn (np.arange(len(observations)) + policy[0]) % 2", "infer_batch, row", "earlier calls"),
        (f"answer = {ROWS[7:]}\nanswer[1:2] = 5\nreturn answer", "infer_batch, row 1", "the action is 5"),
    ],
    ids=["too few", "no rows", "mixed", "state", "one bad action"],
)
def test_bad_rows_are_named(tmp_path, rows: str, where: str, message: str) -> None:
    # warm-up and the check alone have rows too, so a wrong answer depends on their number
    failure = failure_of(rows, tmp_path)
    assert failure["kind"] == "bad_output"
    assert failure["where"].startswith(where)
    assert message in failure["message"]


def test_episodes_before_a_bad_row_are_played_to_their_end(tmp_path) -> None:
    rows = f"answer = {ROWS[7:]}\npolicy[0] += 1\nif policy[0] > 6: answer[1:2] = 5\nreturn answer"
    failure_of(rows, tmp_path)
    assert list(played(tmp_path / "run")) == [0]


def test_rounding_is_said(tmp_path) -> None:
    rows = "force = np.float32(1e-6 * (len(observations) > 1))\nreturn observations[:, :1] + force"
    entry = write_submission(tmp_path / "entry", source(rows))
    result = evaluate(entry, tmp_path / "run", env="Pendulum-v1", batch=BATCH)
    (said,) = [text for text in result.run.manifest.warnings if "batches" in text]
    assert "differs by rounding" in said


@pytest.mark.parametrize(
    ("binding", "message"),
    [("fresh_policy = 'episode'", "one policy for all"), ("concurrent_episodes = 2", "one policy for all")],
)
def test_batches_need_one_policy(tmp_path, binding: str, message: str) -> None:
    entry = write_submission(tmp_path / "entry", source(ROWS))
    with pytest.raises(ConfigError, match=message):
        evaluate(entry, tmp_path / "run", f"Submission.{binding}", batch=BATCH)


def test_a_submission_without_rows_is_told_what_to_write(tmp_path) -> None:
    entry = write_submission(tmp_path / "entry", policy(infer=ONE))
    with pytest.raises(a2perf.RunFailed, match="has no function infer_batch") as raised:
        evaluate(entry, tmp_path / "run", batch=BATCH)
    assert "def infer_batch(policy, observations)" in str(raised.value)


WATCH = """
import threading, time
name = next(line.split()[0] for line in open("/proc/self/maps") if "a2perf-observations" in line)
low, high = (int(part, 16) for part in name.split("-"))
import ctypes
seen, passed, done = set(), set(), []
size = [0]
def look():
    before = b""
    while not done:
        time.sleep(2e-4)
        now = ctypes.string_at(low, size[0]) if size[0] else b""
        if now and now == before:
            seen.add(now)
        before = now
threading.Thread(target=look, daemon=True).start()
def finish():
    done.append(True)
    # a copy that the scheduler interrupts shows a part of one call: rows written one by one would show three per call
    print("watched", len(seen) > 1, "early", len(seen - passed) > 4, flush=True)
"""


@pytest.mark.slow
def test_no_row_is_readable_before_its_call(tmp_path) -> None:
    """A thread of the policy watches the shared memory while the evaluator steps the other environments."""
    rows = (
        "size[0] = observations.nbytes\npassed.add(observations.tobytes())\npolicy[0] += 1\n"
        "if policy[0] == 12: finish()\nreturn np.zeros((len(observations), 12), np.float32)"
    )
    infer = "return np.zeros(12, np.float32)"
    entry = write_submission(tmp_path / "entry", source(rows, top=WATCH, infer=infer))
    a2perf.evaluate(
        entry,
        env=TROT,
        episodes=4,
        root_dir=tmp_path / "run",
        batch=4,
        progress=False,
        bindings=["Submission.record_frames = 0", "Submission.num_warmup_steps = 0"],
    )
    printed = (tmp_path / "run" / "inference" / "logs" / "stdout.log").read_text()
    assert "watched True early False" in printed


def test_rows_of_nested_values() -> None:
    rows = [{"a": np.array([row, 1.0]), "b": (row, f"text {row}")} for row in range(3)]
    found = stacked(rows)
    assert found["a"].tolist() == [[0, 1], [1, 1], [2, 1]]
    assert found["b"][0].tolist() == [0, 1, 2]
    assert found["b"][1] == ["text 0", "text 1", "text 2"]
    assert actions_of({"x": np.array([[1], [2]]), "y": (3, 4)}, 2)[1] == {"x": np.array([2]), "y": 4}
    assert actions_of(np.array([1, 2]), 2) == [1, 2]
    for wrong in (np.array(1), "ab", None, {}, {"x": [1], "y": [1, 2]}, [1, 2, 3]):
        with pytest.raises(BadAnswer, match=r"rows for 2 observations"):
            actions_of(wrong, 2)


def test_rows_are_stacked_into_given_memory_only_if_all_of_them_fit() -> None:
    places: Any = None
    for dtype, width, count in (("f4", 3, 2), ("f4", 3, 2), ("f8", 3, 2), ("f8", 5, 2), ("f8", 5, 4), ("f8", 5, 4)):
        rows = [{"a": np.full(width, row, dtype), "b": np.ones(2)} for row in range(count)]
        given, places = places, stacked(rows, places)
        assert places["a"].dtype == dtype
        assert places["a"].tolist() == [[row] * width for row in range(count)]
        assert places["b"].tolist() == [[1.0, 1.0]] * count
        fits = given is not None and (given["a"].dtype, given["a"].shape) == (dtype, (count, width))
        assert all((given is not None and given[name] is places[name]) == fits for name in "ab")
    ragged = stacked([{"a": np.zeros(5), "b": np.ones(2 + row)} for row in range(4)], places)
    assert isinstance(ragged["b"], list)
    assert ragged["a"] is not places["a"]
