"""The two filter languages, part by part, and what they say of a filter that cannot be read."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from a2perf.errors import UserError
from a2perf.rlops.filters import RunQuery, parse_experiment, parse_filters, parse_tag_expression
from a2perf.runs.run_record import config_of
from a2perf.runs.stored_run import StoredRun

RUN = StoredRun(
    run_id="ppo/CartPole-v1/v1/seed_1", path=Path("run"), experiment="ppo", env_id="CartPole-v1", seed=1, version="v1",
    tags=frozenset({"a", "b", "pr-7"}), user="ada", state="finished",
    config={"env_id": "CartPole-v1", "exp_name": "ppo_jax", "gym_id": "Pong", "gamma": 0.99, "cuda": False, "seed": 1},
    started_at="", wall_s=None, source="command", autotag=None,
)  # fmt: skip


@pytest.mark.parametrize(
    ("text", "tags", "without", "user"),
    [
        ("a", ("a",), (), None),
        ("a;b", ("a", "b"), (), None),
        ("a;b!c;d?ada", ("a", "b"), ("c", "d"), "ada"),
        ("!c", (), ("c",), None),
        ("?ada", (), (), "ada"),
        (" a ; a ", ("a",), (), None),
    ],
)
def test_first_language(text: str, tags: tuple[str, ...], without: tuple[str, ...], user: str | None) -> None:
    query = parse_tag_expression(text)
    assert (query.tags, query.without_tags, query.user) == (tags, without, user)


@pytest.mark.parametrize(
    ("text", "fits"),
    [("a;b!c;d?ada", True), ("a;x", False), ("a!b", False), ("a?bob", False), ("!x", True), ("pr-7", True)],
)
def test_first_language_selects(text: str, fits: bool) -> None:
    assert parse_tag_expression(text).matches(RUN) is fits


@pytest.mark.parametrize("text", ["", ";", "!", "?", "a!b!c", "a?b?c", "a?b!c"])
def test_first_language_refuses_what_asks_for_nothing(text: str) -> None:
    with pytest.raises(UserError) as caught:
        parse_tag_expression(text)
    assert caught.value.exit_code == 2


def test_second_language_reads_every_key() -> None:
    group = parse_filters(
        ["?we=openrlbenchmark&wpn=cleanrl&ceik=gym_id&cen=exp_name&metric=charts/episodic_return&xaxis=step",
         r"ppo_jax?tag=a&tag=b&user=ada&cl=PPO\n(ours)&gamma=0.9&gamma=0.99", "dqn"]
    )  # fmt: skip
    assert (group.entity, group.project, group.xaxis) == ("openrlbenchmark", "cleanrl", "step")
    assert group.metrics == ("charts/episodic_return",)
    first, second = group.queries
    assert (first.experiment, first.tags, first.user) == ("ppo_jax", ("a", "b"), "ada")
    assert first.legend == "PPO\n(ours)"
    assert first.config == {"gamma": (0.9, 0.99)}
    assert (first.env_key, first.experiment_key) == ("gym_id", "exp_name")
    assert (second.experiment, second.tags, second.legend) == ("dqn", (), None)


def test_second_language_takes_repeated_metrics_and_no_shared_part() -> None:
    assert parse_filters(["?metrics=a&metrics=b&metric=a", "ppo"]).metrics == ("a", "b")
    group = parse_filters(["ppo?tag=a"])
    assert group.metrics == ()
    assert (group.xaxis, group.env_key) == ("global_step", "env_id")


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
def test_second_language_selects(query: str, fits: bool) -> None:
    assert parse_experiment(query).matches(RUN) is fits


def test_keys_of_environment_and_experiment_are_chosen_by_the_caller() -> None:
    query = parse_experiment("ppo_jax", env_key="gym_id", experiment_key="exp_name")
    assert not query.matches(RUN)  # the store's own name of the experiment is the one under the default key
    chosen = parse_experiment("0.99", env_key="gym_id", experiment_key="gamma")
    assert chosen.matches(RUN)
    assert replace(chosen, env_ids=("Pong",)).matches(RUN)
    assert not replace(chosen, env_ids=("CartPole-v1",)).matches(RUN)


def test_only_finished_runs_unless_asked_otherwise() -> None:
    failed = replace(RUN, state="failed")
    assert not RunQuery().matches(failed)
    assert RunQuery(states=()).matches(failed)
    assert RunQuery(states=("failed",)).matches(failed)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "empty"),
        ([""], "empty"),
        (["?metric=a"], "names no experiment"),
        (["?metrik=a", "ppo"], "did you mean 'metric'"),
        (["?metric", "ppo"], "cannot be read"),
        (["ppo?tag="], "has no value"),
        (["ppo?tag"], "cannot be read"),
    ],
)
def test_second_language_says_what_is_wrong(words: list[str], said: str) -> None:
    with pytest.raises(UserError, match=said) as caught:
        parse_filters(words)
    assert caught.value.exit_code == 2
    assert caught.value.hint


def test_configuration_of_a_command_line() -> None:
    words = [
        "python",
        "train.py",
        "--cuda",
        "False",
        "--learning-rate=3e-4",
        "--track",
        "--hidden",
        "64",
        "32",
        "--name",
        "x",
    ]
    assert config_of(words) == {
        "cuda": False, "learning_rate": 3e-4, "track": True, "hidden": [64, 32], "name": "x",
    }  # fmt: skip
