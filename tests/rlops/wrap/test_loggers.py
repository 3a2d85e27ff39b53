"""Loggers of a script are listened to, and notice nothing of it."""

from __future__ import annotations

from collections import deque
from pathlib import Path
from typing import Any

import pytest

from a2perf.experiments.script_wrapper.live_values import LiveValues
from a2perf.experiments.script_wrapper.loggers import Loggers
from tests.event_logs import event_files_below, read_event_file
from tests.rlops.wrap.wrapped import wrap_text

SPINNING_UP = """
import gymnasium

SEED = 0


class Logger:
    def __init__(self):
        self.said, self.row = [], {}

    def log(self, msg, color="green"):
        self.said.append((msg, color))
        return msg

    def log_tabular(self, key, val=None):
        self.row[key] = val


class EpochLogger(Logger):
    pass


def main(env, seed=SEED, epochs=2):
    logger = EpochLogger()
    assert logger.log("one") == "one"
    logger.log("two", color="green")
    logger.log(msg="three", color="red")
    logger.log("four", "blue")
    assert logger.said == [("one", "green"), ("two", "green"), ("three", "red"), ("four", "blue")], logger.said
    assert seed == SEED == 7
    world = gymnasium.make(env)
    for epoch in range(epochs):
        world.reset(seed=seed)
        while not any(world.step(0)[2:4]):
            pass
    print("all was as it should be", world.spec.id)
"""


def test_a_script_in_the_manner_of_spinning_up_runs_unharmed(tmp_path: Path):
    done = wrap_text(tmp_path, SPINNING_UP)
    assert done.status == 0, done.err
    assert "all was as it should be CartPole-v1" in done.out
    assert done.said("logger") == "logger: not found: no Logger with log(key, value)"
    assert len(done.scalars["charts/episodic_return"][0]) == 2


class Awkward:
    """A logger class that does what it likes; every method returns what it got."""

    broken = False

    @property
    def num_steps(self) -> int:
        raise RuntimeError("no steps yet")

    def log(self, key: Any, value: Any, *more: Any, step: Any = None) -> Any:
        if self.broken:
            raise OSError("disk")
        return key, value, more, step

    def _episodes_stats(self) -> Any:
        return self.statistics

    statistics: Any = None


def listened(folder: Path) -> tuple[LiveValues, Any]:
    """Returns the values and a logger of a new class that is listened to."""
    values = LiveValues(folder)
    kind = type("Logger", (), dict(vars(Awkward)))
    Loggers(values).look_in([kind])
    assert kind.log is not Awkward.log
    return values, kind()


@pytest.mark.parametrize(
    ("args", "kwargs"),
    [
        (("k", 1.0), {}),
        (("k",), {"value": 1.0}),
        ((), {"key": "k", "value": 1.0}),
        ((), {"value": 1.0, "key": "k"}),
        (("k", 1.0, "more"), {"step": 3}),
    ],
)
def test_a_value_is_recorded_however_it_is_given(tmp_path: Path, args: Any, kwargs: Any):
    values, logger = listened(tmp_path)
    assert logger.log(*args, **kwargs) == Awkward().log(*args, **kwargs)
    values.close()
    assert values.counts == {"k": 1}


def test_what_a_logger_raises_is_what_it_raises_and_the_value_is_there(tmp_path: Path):
    values, logger = listened(tmp_path)
    logger.broken = True
    with pytest.raises(OSError, match="disk"):
        logger.log("k", 2.0)
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'value'"):
        logger.log("k")
    with pytest.raises(TypeError, match="unexpected keyword argument 'color'"):
        logger.log("k", 1.0, color="green")
    values.close()
    (path,) = event_files_below(tmp_path)
    assert read_event_file(path).scalars["k"].values.tolist() == [2.0]


class Hostile:
    """Fails at whatever is done with it."""

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(name)

    def __str__(self) -> str:
        raise RuntimeError("str")

    def __array__(self, *_: Any) -> Any:
        raise RuntimeError("array")

    __float__ = __len__ = __iter__ = __bool__ = __str__


@pytest.mark.parametrize(
    "value",
    [pytest.param(Hostile(), id="hostile"), None, "text", [1.0, 2.0], {"a": 1}, float("nan"), 10**400, object()],
)
@pytest.mark.parametrize("key", ["k", 3, None, pytest.param(Hostile(), id="hostile")])
def test_no_value_and_no_key_makes_a_call_fail(tmp_path: Path, key: Any, value: Any):
    values, logger = listened(tmp_path)
    assert logger.log(key, value) == (key, value, (), None)
    values.close()


@pytest.mark.parametrize(
    "statistics",
    [
        None,
        (None, None),
        ("ab", "c"),
        (Hostile(), Hostile()),
        {"episode_rewards": 3},
        ([1.0, 3.0], deque([2, 4])),
    ],
)
def test_statistics_of_any_kind_come_back_as_they_were(tmp_path: Path, statistics: Any):
    values, logger = listened(tmp_path)
    logger.statistics = statistics
    assert logger._episodes_stats() is statistics
    values.close()
    if isinstance(statistics, tuple) and isinstance(statistics[1], deque):
        assert values.counts == {"10_ep_mean_reward": 1, "10_ep_mean_length": 1}


def test_an_iterator_among_the_statistics_is_left_to_the_script(tmp_path: Path):
    values, logger = listened(tmp_path)
    logger.statistics = (iter([1.0, 2.0]), iter([3]))
    rewards, _ = logger._episodes_stats()
    assert list(rewards) == [1.0, 2.0]
    values.close()


def test_a_stream_is_not_taken_apart(tmp_path: Path):
    values, logger = listened(tmp_path)
    with (tmp_path / "log.txt").open("w") as stream:
        logger.log("k", stream)
        stream.write("still open")
    assert (tmp_path / "log.txt").read_text() == "still open"
    values.close()
