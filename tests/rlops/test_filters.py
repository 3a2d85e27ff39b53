"""The two filter languages, part by part, and what they say of a filter that cannot be read."""

from __future__ import annotations

import pytest

from a2perf.errors import UserError
from a2perf.rlops.filters import RunQuery, parse_experiment, parse_tag_expression
from a2perf.runs.bundles.run_record import ExperimentRun, config_of
from a2perf.runs.run import Run, RunIdentity

RECORD = ExperimentRun(
    experiment="ppo",
    env_id="CartPole-v1",
    seed=1,
    version="v1",
    tags=["a", "b", "pr-7"],
    user="ada",
    config={"env_id": "CartPole-v1", "exp_name": "ppo_jax", "gym_id": "Pong", "gamma": 0.99, "cuda": False, "seed": 1},
)
RUN = Run(RunIdentity(state="finished"), record=RECORD)


@pytest.mark.parametrize(
    ("text", "fits"),
    [
        ("a;b!c;d?ada", True),
        ("a;x", False),
        ("a!b", False),
        ("a?bob", False),
        ("!x", True),
        ("pr-7", True),
        ("?ada", True),
        (" a ; a ", True),
    ],
)
def test_tag_expression_selects(text: str, fits: bool) -> None:
    assert parse_tag_expression(text).matches(RUN) is fits


@pytest.mark.parametrize("text", ["", ";", "!", "?", "a!b!c", "a?b?c", "a?b!c"])
def test_tag_expression_refuses_what_asks_for_nothing(text: str) -> None:
    with pytest.raises(UserError) as caught:
        parse_tag_expression(text)
    assert caught.value.exit_code == 2


def test_experiment_filter_reads_every_key() -> None:
    query = parse_experiment(r"ppo_jax?tag=a&tag=b&user=ada&cl=PPO\n(ours)&gamma=0.9&gamma=0.99")
    assert (query.experiment, query.tags, query.user) == ("ppo_jax", ("a", "b"), "ada")
    assert query.legend == "PPO\n(ours)"
    assert query.config == {"gamma": (0.9, 0.99)}
    plain = parse_experiment("dqn")
    assert (plain.experiment, plain.tags, plain.legend) == ("dqn", (), None)


@pytest.mark.parametrize(
    ("query", "fits"),
    [
        ("ppo", True),
        ("dqn", False),
        ("ppo?gamma=0.99", True),
        ("ppo?gamma=0.9&gamma=0.990", True),  # repeated values are alternatives, numbers compare as numbers
        ("ppo?gamma=0.9", False),
        ("ppo?cuda=False", True),
        ("ppo?cuda=0", False),
        ("ppo?seed=1", True),
        ("ppo?tag=a&tag=b", True),
        ("ppo?tag=a&tag=c", False),
        ("ppo?unknown=1", False),
    ],
)
def test_experiment_filter_selects(query: str, fits: bool) -> None:
    assert parse_experiment(query).matches(RUN) is fits


def test_only_finished_runs_unless_asked_otherwise() -> None:
    failed = Run(RunIdentity(state="failed"), record=RECORD)
    assert not RunQuery().matches(failed)
    assert RunQuery(states=()).matches(failed)
    assert RunQuery(states=("failed",)).matches(failed)


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("", "empty"),
        ("?we=openrlbenchmark&wpn=cleanrl", "names no experiment; a shared part such as '[?]we=..' was removed"),
        ("ppo?tag=", "has no value"),
        ("ppo?tag", "cannot be read"),
    ],
)
def test_experiment_filter_says_what_is_wrong(word: str, said: str) -> None:
    with pytest.raises(UserError, match=said) as caught:
        parse_experiment(word)
    assert caught.value.exit_code == 2
    assert caught.value.hint


def test_configuration_of_a_command_line() -> None:
    line = "python train.py --cuda False --learning-rate=3e-4 --track --hidden 64 32 --name x"
    assert config_of(line.split()) == {
        "cuda": False,
        "learning_rate": 3e-4,
        "track": True,
        "hidden": [64, 32],
        "name": "x",
    }
