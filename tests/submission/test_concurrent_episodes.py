"""Episodes at the same time: the record of a run does not depend on how many were played at once."""

from __future__ import annotations

import resource
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import msgspec
import numpy as np
import pytest

from a2perf.errors import ConfigError
from a2perf.metrics.trackers.process_tree import TreeSample, TreeSum
from a2perf.records import Manifest, RolloutResults
from a2perf.storage import Journal, read_record
from a2perf.submission.evaluator.playing import play as module
from a2perf.submission.evaluator.playing.episodes import TaskEpisodes
from a2perf.submission.evaluator.process.session import allow_open_files
from a2perf.submission.evaluator.progress import RunProgress
from a2perf.submission.evaluator.submitted.identity import RunTask
from a2perf.submission.settings import Submission
from tests.made_submissions import WEB, gin, policy
from tests.submission.test_repeats import GIN


class Threads:
    """Plays episodes as ``play`` of a test says, in real threads and without participants."""

    def __init__(self, folder: Path, play: Callable[[int, threading.Event], None]) -> None:
        self._folder, self._play = folder, play
        self.started: list[int] = []
        self.cancelled: list[int] = []

    def run(self, count: int, at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(module, "environment", nullcontext)
        monkeypatch.setattr(module, "play", self._play_all)
        settings = Submission(mode="inference", domain="gymnasium", concurrent_episodes=at_once)
        task = RunTask("gymnasium", "CartPole-v1", "CartPole-v1", {})
        journal = Journal(self._folder / "journal.jsonl")
        episodes = TaskEpisodes(settings, task, list(range(count)), journal, RunProgress(quiet=True))
        module.play_concurrently(episodes, Participants(self))

    def _play_all(self, episodes: TaskEpisodes, env: object, participants: Participants) -> None:
        while (planned := episodes.next(participants)) is not None:
            participants.index = planned.index
            self.started.append(planned.index)
            self._play(planned.index, participants.ended)


class Participants:
    def __init__(self, threads: Threads) -> None:
        self._threads, self.ended, self.index = threads, threading.Event(), -1

    def end_process(self) -> None:
        pass

    def beside(self) -> AbstractContextManager[Participants]:
        return nullcontext(Participants(self._threads))

    def cancel(self) -> None:
        self._threads.cancelled.append(self.index)
        self.ended.set()


def test_the_first_failure_in_the_plan_counts_and_later_episodes_are_cancelled(tmp_path, monkeypatch) -> None:
    second_failed = threading.Event()

    def play(index: int, ended: threading.Event) -> None:
        if index == 0:
            assert second_failed.wait(300)  # an episode before a failed one is played to its end
            raise ValueError("first")
        if index == 1:
            second_failed.set()
            raise ValueError("second")
        assert ended.wait(300)
        raise RuntimeError("cancelled")

    threads = Threads(tmp_path, play)
    with pytest.raises(ValueError, match="first"):
        threads.run(5, 3, monkeypatch)
    assert sorted(threads.started)[:2] == [0, 1]
    assert set(threads.started) <= {0, 1, 2}
    assert set(threads.cancelled) <= {2}


def test_an_interrupt_ends_the_episodes_that_are_being_played(tmp_path, monkeypatch) -> None:
    both = threading.Barrier(3)

    def interrupted(running: object) -> None:
        both.wait(300)
        raise KeyboardInterrupt

    def play(index: int, ended: threading.Event) -> None:
        both.wait(300)
        assert ended.wait(300)
        raise RuntimeError("cancelled")

    monkeypatch.setattr(module, "wait", interrupted)
    threads = Threads(tmp_path, play)
    with pytest.raises(KeyboardInterrupt):
        threads.run(4, 2, monkeypatch)
    assert sorted(threads.cancelled) == sorted(threads.started) == [0, 1]


def test_more_threads_than_episodes_and_no_episodes_are_fine(tmp_path, monkeypatch) -> None:
    threads = Threads(tmp_path, lambda index, ended: None)
    threads.run(2, 64, monkeypatch)
    threads.run(0, 64, monkeypatch)
    assert sorted(threads.started) == [0, 1]


def test_concurrent_episodes_imply_a_process_for_each() -> None:
    given = Submission(mode="inference", domain="web_navigation", concurrent_episodes=2)
    assert given.fresh_policy == "episode"
    assert Submission(mode="inference", domain="web_navigation").fresh_policy == "run"


def test_open_files_are_allowed_for_every_episode_or_refused_with_the_possible_number(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    given = Submission(mode="inference", domain="web_navigation", concurrent_episodes=100)
    limits: list[tuple[int, int]] = []
    monkeypatch.setattr(resource, "setrlimit", lambda kind, limit: limits.append(limit))
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (1024, 4096))
    allow_open_files(given, "inference")
    assert limits == [(256 + 16 * 100, 4096)]
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (1024, 1056))
    with pytest.raises(ConfigError, match="need 1856 open files, and this user may open 1056") as caught:
        allow_open_files(given, "inference")
    assert "--concurrent-episodes 50 or less" in str(caught.value)


class _Tree:
    def __init__(self, pid: int, cpu_s: float) -> None:
        self._sample = TreeSample(
            pids=frozenset({pid}),
            cpu_seconds=cpu_s,
            cpu_method="task_clock",
            threads=2,
            rss_bytes=100,
            pss_bytes=60,
            memory_peak_bytes=150,
            io_read_bytes=3,
            io_write_bytes=4,
        )

    def sample(self, *, thorough: bool = False) -> TreeSample:
        return self._sample


def test_trees_at_the_same_time_add_up_and_ended_ones_stay_in_the_counters() -> None:
    trees = TreeSum()
    trees.begin(1, _Tree(1, 2.0))
    trees.begin(2, _Tree(2, 3.0))
    both = trees.sample()
    assert (both.pids, both.cpu_seconds, both.threads) == ({1, 2}, 5.0, 4)
    assert (both.rss_bytes, both.pss_bytes, both.memory_peak_bytes, both.io_write_bytes) == (200, 120, 200, 8)
    trees.end(1)
    one = trees.sample()
    assert (one.pids, one.cpu_seconds, one.threads, one.rss_bytes, one.io_write_bytes) == ({2}, 5.0, 2, 100, 8)
    trees.end(2)
    none = trees.sample()
    assert (none.pids, none.cpu_seconds, none.cpu_method, none.rss_bytes) == (frozenset(), 5.0, "task_clock", 0)


SOMETIMES = policy(
    top="import os, zlib",
    load="return {'actions': int(os.environ['SEED']), 'fails': 'fails' in kwargs}",
    infer="""
    policy["actions"] += 1
    seen = b"".join(observation[name].tobytes() for name in sorted(observation))
    if policy["fails"] and zlib.crc32(seen) % 3 == 0:
        raise ValueError("no answer to this profile")
    return policy["actions"] % 1000
    """,
)
SIX = gin(WEB, **{**GIN, "num_inference_episodes": 6})


@pytest.mark.slow
def test_episodes_at_once_have_the_records_of_episodes_in_turn(submission, launch, tmp_path) -> None:
    path = submission(inference=SOMETIMES, inference_gin=SIX)
    shared = ("--public-seeds", "--repeats", 2, "--perturbations", "order")
    found: dict[str, tuple[list[dict[str, object]], list[dict[str, object]], dict[str, np.ndarray]]] = {}
    for name, options in {"turn": (), "once": ("--concurrent-episodes", 4)}.items():
        outcome = launch(path, "inference.gin", *shared, *options, root=tmp_path / name)
        assert outcome.status == 0, outcome.output
        metrics = outcome.root / "inference" / "metrics"
        rollouts = read_record(metrics / "rollouts.json", RolloutResults)
        assert rollouts.costs is not None
        assert rollouts.costs.steps == sum(episode.length for episode in rollouts.episodes)
        with np.load(metrics / "rollout_steps.npz") as arrays:
            steps = {name: arrays[name] for name in ("episode", "action_xxh3", "reward")}
        found[name] = (
            [_timeless(one) for one in rollouts.episodes],
            [_timeless(one) for one in rollouts.further],
            steps,
        )
        manifest = read_record(outcome.root / "inference" / "manifest.json", Manifest)
        assert manifest.concurrent_episodes == (4 if options else 1)
        assert len(set(manifest.warnings)) == len(manifest.warnings)
    assert found["turn"][:2] == found["once"][:2]
    assert len(found["once"][0]) == 6
    assert len(found["once"][1]) == 12
    for name, values in found["turn"][2].items():
        np.testing.assert_array_equal(values, found["once"][2][name])


def _timeless(episode: object) -> dict[str, object]:
    return {
        name: value for name, value in msgspec.to_builtins(episode).items() if name not in ("wall_s", "policy_cpu_s")
    }


@pytest.mark.slow
def test_the_failure_of_a_run_is_that_of_episodes_in_turn(submission, launch, tmp_path) -> None:
    path = submission(inference=SOMETIMES, inference_gin=SIX)
    failures = {}
    for name, options in {"turn": (), "once": ("--concurrent-episodes", 3)}.items():
        outcome = launch(
            path, "inference.gin", "--public-seeds", "--participant-args", "fails=1", *options, root=tmp_path / name
        )
        assert outcome.status == 1, outcome.output
        failures[name] = read_record(outcome.root / "inference" / "manifest.json", Manifest).failure
    assert failures["once"] == failures["turn"]
