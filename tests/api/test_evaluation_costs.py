"""What an evaluation is ranked by: its scored steps alone."""

from __future__ import annotations

import functools

import pytest

import a2perf
from a2perf.storage import read_json
from tests.made_submissions import policy, write_submission

WORKS = """
began = time.process_time()
while time.process_time() < began + 0.004:
    pass
return int(observation[2] + 0.5 * observation[3] > 0)
"""
KINDS = ("scored_steps", "loading", "timed_calls", "rest")


@pytest.fixture(scope="module")
def evaluated(tmp_path_factory: pytest.TempPathFactory):
    """Returns a function that evaluates a policy of 4 ms per decision and 0.3 s of loading, once per setting."""
    work = tmp_path_factory.mktemp("costs")
    loads = "end = time.process_time() + 0.3\nwhile time.process_time() < end:\n    pass"
    entry = write_submission(work / "entry", policy(top="import time", load=loads, infer=WORKS))

    @functools.cache
    def evaluate(timed_calls: int) -> a2perf.Result:
        root, timed = work / str(timed_calls), f"Submission.num_inference_steps = {timed_calls}"
        return a2perf.evaluate(
            entry,
            env="CartPole-v1",
            env_kwargs={"max_episode_steps": 100},
            episodes=1,
            bindings=[timed],
            root_dir=root,
            progress=False,
        )

    return evaluate


def number(result: a2perf.Result, name: str) -> float:
    value = result.scores[name].value
    assert value is not None, result.scores[name].condition
    return value


def test_costs_per_decision_do_not_depend_on_timed_calls(evaluated) -> None:
    few, many = evaluated(50), evaluated(500)
    for name in ("processor_time_per_decision", "energy_per_decision"):
        assert number(many, name) == pytest.approx(number(few, name), rel=0.1), name
    assert number(few, "processor_time_per_decision") == pytest.approx(0.004, rel=0.1)
    assert number(many, "processor_time_timed_calls") > 2.0
    assert number(many, "energy_gross") > 2 * number(few, "energy_gross") / 1.5


def test_parts_of_an_evaluation_add_up_to_its_total(evaluated) -> None:
    result = evaluated(50)
    assert sum(number(result, f"energy_{kind}") for kind in KINDS) == pytest.approx(number(result, "energy_gross"))
    assert sum(number(result, f"processor_time_{kind}") for kind in KINDS) == pytest.approx(number(result, "cpu_time"))
    assert 0.3 < number(result, "processor_time_loading") < 1.2  # imports too, whose time depends on the machine
    steps = read_json(result.run.folder.path / "metrics" / "rollouts.json")["costs"]["steps"]
    assert number(result, "processor_time_per_episode") == pytest.approx(
        steps * number(result, "processor_time_per_decision")
    )
    assert number(result, "energy_per_episode") == pytest.approx(steps * number(result, "energy_per_decision"))


def test_only_costs_of_scored_steps_have_an_order(evaluated) -> None:
    scores = evaluated(50).scores
    ordered = {name for name, value in scores.items() if value.unit in ("kWh", "J", "W") and value.direction != "none"}
    assert ordered == {"energy_per_decision", "energy_per_episode"}
    assert scores["cpu_time"].direction == scores["wall_clock"].direction == "none"
    assert scores["energy_per_decision"].uncertainty is not None


def test_transport_is_measured_beside_the_processor_time_per_decision(evaluated) -> None:
    result = evaluated(50)
    transport = number(result, "processor_time_transport")
    assert 0 < transport < 0.1 * number(result, "processor_time_per_decision")
    assert result.scores["processor_time_transport"].direction == "none"
    assert number(result, "latency_transport") > 0


def test_a_run_without_scored_steps_has_no_latency_per_decision(evaluated) -> None:
    """Timed calls are another quantity: they never stand in its place."""
    result = evaluated(50)
    folder = result.run.folder.path
    (folder / "metrics" / "rollout_steps.npz").rename(folder / "moved")
    try:
        again = a2perf.read_runs(folder)[0]
        assert "latency_round_trip_mean" not in again.scores
        assert number(again, "latency_infer_once_median") > 0.003
        assert again.latency is None
    finally:
        (folder / "moved").rename(folder / "metrics" / "rollout_steps.npz")
