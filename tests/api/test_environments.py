"""Environments by the name of their task: equal to Gymnasium's own, with errors that name the nearest task."""

from __future__ import annotations

import pickle
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from click.testing import CliRunner

import a2perf
from a2perf.api.environments import find_task
from a2perf.cli.data import envs
from a2perf.domains.registry import domains
from a2perf.errors import AssetUnavailable, ConfigError, MissingDependency
from tests.commands import run_command, run_python

TOY, TOY_ID = "toy_macro_stdcell", "CircuitTraining-ToyMacro-v0"
LEVEL = "difficulty_level_1_num_websites_5"


def test_make_is_gymnasiums_make_with_the_arguments_of_the_task() -> None:
    ours, theirs = a2perf.make(LEVEL), gymnasium.make("WebNavigation-Difficulty-01-v0", **find_task(LEVEL).kwargs)
    assert ours.spec == theirs.spec
    assert find_task(LEVEL).kwargs["num_websites"] == 5
    first, second = ours.reset(seed=3)[0], theirs.reset(seed=3)[0]
    assert all(np.array_equal(first[name], second[name]) for name in first)
    assert a2perf.make(TOY_ID).spec == gymnasium.make(TOY_ID).spec
    (listed,) = (task for task in a2perf.tasks("circuit_training") if task.name == TOY)
    for given in (f"a2perf:{TOY_ID}", listed):
        assert a2perf.make(given).spec == gymnasium.make(TOY_ID).spec


def test_arguments_override_those_of_the_task() -> None:
    env = a2perf.make(LEVEL, num_websites=2, max_episode_steps=4, render_mode="rgb_array")
    assert env.spec is not None
    assert (env.spec.kwargs["num_websites"], env.spec.max_episode_steps, env.render_mode) == (2, 4, "rgb_array")
    assert find_task(LEVEL).kwargs["num_websites"] == 5


@pytest.mark.parametrize("mode", ["sync", "async", "vector_entry_point"])
def test_vector_environments_have_the_spaces_and_seeds_of_single_ones(mode: str) -> None:
    single = a2perf.make(LEVEL)
    envs = a2perf.make_vec(LEVEL, 2, vectorization_mode=mode)
    try:
        assert envs.num_envs == 2
        assert envs.single_observation_space == single.observation_space
        assert envs.single_action_space == single.action_space
        observations, _ = envs.reset(seed=[7, 8])
        for place, seed in enumerate((7, 8)):
            alone = single.reset(seed=seed)[0]
            assert all(np.array_equal(observations[name][place], alone[name]) for name in alone)
    finally:
        envs.close()


@pytest.mark.parametrize("where", ["script", "thread", "standard input"])
def test_async_environments_need_no_main_guard(where: str, tmp_path: Path) -> None:
    code = (
        "import a2perf, threading\n"
        "def work():\n"
        f"    envs = a2perf.make_vec({TOY!r}, 2, vectorization_mode='async')\n"
        "    print(envs.reset(seed=0)[0]['mask'].shape)\n    envs.close()\n"
    )
    code += (
        "thread = threading.Thread(target=work)\nthread.start()\nthread.join()\n" if where == "thread" else "work()\n"
    )
    script = tmp_path / "script.py"
    script.write_text(code)
    argv = [sys.executable, "-"] if where == "standard input" else [sys.executable, str(script)]
    given = code if where == "standard input" else None
    done = run_command(argv, tmp_path, input=given)
    shape = gymnasium.make(TOY_ID).observation_space["mask"].shape  # type: ignore[index]
    assert done.stdout == f"{(2, *shape)}\n", done.stderr


BAD: dict[str, tuple[Callable[[], Any], str]] = {
    "'dog_pce' is not a task of any domain; did you mean 'dog_pace'?": (lambda: a2perf.make("dog_pce"), "envs list"),
    "'nothing like it' is not a task of any domain": (lambda: a2perf.make("nothing like it"), "a2perf envs list"),
    "an environment is given by its id, not as a NoneType": (
        lambda: a2perf.make(None),  # type: ignore[arg-type]
        "gymnasium.register",
    ),
    "'QuadrupedLocomotion-DogPce-v0' is not a known environment; did you mean 'QuadrupedLocomotion-DogPace-v0'?": (
        lambda: a2perf.make("QuadrupedLocomotion-DogPce-v0"),
        "`a2perf envs list` shows every id",
    ),
    "'CartPole-v9' is not a known environment": (lambda: a2perf.make("CartPole-v9"), "a2perf envs list"),
    "'quadruped' is not a known domain; did you mean 'quadruped_locomotion'?": (
        lambda: a2perf.tasks("quadruped"),
        "choose one of",
    ),
    "num_envs=0 is not valid": (lambda: a2perf.make_vec(TOY, 0), "whole number, 1 or more"),
    "num_envs=2.0 is not valid": (lambda: a2perf.make_vec(TOY, 2.0), "whole number"),  # type: ignore[arg-type]
    "vectorization_mode is 'asink'; did you mean 'async'?": (
        lambda: a2perf.make_vec(TOY, vectorization_mode="asink"),
        "sync, async",
    ),
    "has no vector environment": (
        lambda: a2perf.make_vec(TOY, vectorization_mode="vector_entry_point"),
        "'sync' or 'async'",
    ),
    "'sed' is not an argument of the circuit environment; did you mean 'seed'?": (
        lambda: a2perf.make(TOY, sed=1),
        "seed",
    ),
}


@pytest.mark.parametrize("message", BAD)
def test_bad_arguments_say_what_is_valid(message: str) -> None:
    call, hint = BAD[message]
    with pytest.raises(ConfigError) as caught:
        call()
    assert message in caught.value.message
    assert hint in str(caught.value.hint)


def test_a_missing_data_file_names_the_command_that_fetches_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("A2PERF_DATA_DIR", raising=False)
    monkeypatch.setenv("A2PERF_CACHE_DIR", str(tmp_path))
    task = find_task("ariane")
    assert (task.needs, task.available) == ("a2perf data fetch circuit_training", False)
    with pytest.raises(AssetUnavailable, match="a2perf data fetch"):
        a2perf.make("ariane")


def test_an_id_that_requires_arguments_is_listed_with_an_example_that_makes_it() -> None:
    listed = CliRunner().invoke(envs, ["list"], standalone_mode=False).output
    ids = [(one.id, dict(one.example)) for domain in domains().values() for one in domain.environments if one.example]
    assert ids
    for name, example in ids:
        (line,) = [line for line in listed.splitlines() if line.split()[:1] == [name]]
        assert line.endswith(", ".join(f"{key}={value!r}" for key, value in example.items()))
        task = find_task(name)
        assert (task.needs.startswith("arguments: "), task.available) == (True, False)
        with pytest.raises(ConfigError):
            a2perf.make(name)
        a2perf.make(name, **example).close()


def test_a_missing_package_names_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    code = (
        "import sys; sys.modules['pybullet'] = None\nimport a2perf\n"
        "try:\n    a2perf.make('synthetic_trot')\n"
        "except a2perf.UserError as error:\n    print(type(error).__name__, error)"
    )
    done = run_python(code, check=True)
    assert done.stdout.startswith(MissingDependency.__name__)
    fix = "pip install -e '.[quadruped-locomotion]'" if sys.version_info < (3, 12) else "use CPython 3.11"
    assert fix in done.stdout


# --- the list of tasks ------------------------------------------------------------------------------------------------


def test_tasks_are_an_immutable_sequence() -> None:
    tasks = a2perf.tasks()
    circuits = a2perf.tasks("circuit_training")
    assert tasks[0].name == "dog_pace"
    assert isinstance(tasks[:2], a2perf.Tasks)
    assert tasks[:2].names == ["dog_pace", "dog_trot"]
    assert {task.domain for task in circuits} == {"circuit_training"}
    assert [task for task in tasks if task in circuits] == list(circuits)
    assert pickle.loads(pickle.dumps(tasks)) == tasks
    assert hash(tasks) == hash(a2perf.tasks())
    assert tasks != circuits
    assert len({*tasks, *circuits}) == len(tasks)


def test_tasks_know_their_role_and_spaces() -> None:
    found = {task.name: task for task in a2perf.tasks()}
    assert (found["ariane"].role, found["synthetic_trot_v1"].role, found["generated"].role) == ("core", "test", "")
    env = gymnasium.make(TOY_ID)
    assert found[TOY].observation_space == env.observation_space
    assert found[TOY].action_space == env.action_space


def test_tasks_convert_to_frames_and_print_one_line_each() -> None:
    tasks = a2perf.tasks("web_navigation")
    frame = tasks.to_pandas()
    assert list(frame["task"]) == tasks.names
    assert len(tasks.to_pandas()) == len(tasks)
    assert repr(tasks[:2]) == (
        "2 tasks\n"
        "  difficulty_level_1_num_websites_1  Level 1, 1 website\n"
        "  difficulty_level_1_num_websites_5  Level 1, 5 websites"
    )
    html = tasks._repr_html_()
    assert all(name in html for name in tasks.names)
    assert "<script" not in html


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ("syntetic_trot", "synthetic_trot_v1"),
        ("varied_bond", "varied_bound_v1"),
        ("varied_bond_v1", "varied_bound_v1"),
        ("QuadrupedLocomotion-SyntheticTrt-v0", "QuadrupedLocomotion-SyntheticTrot-v0"),
    ],
)
def test_a_misspelt_name_without_a_version_is_corrected_to_the_newest_one(given: str, named: str) -> None:
    with pytest.raises(ConfigError) as refused:
        a2perf.make(given)
    assert f"did you mean '{named}'?" in str(refused.value)
