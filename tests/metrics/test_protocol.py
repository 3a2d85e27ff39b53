"""The protocol is frozen: its file, its environments, its seeds, and reference scores that can be measured again."""

from __future__ import annotations

import hashlib
import json
import sys
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

import a2perf
from a2perf.domains.registry import all_environments, get_domain, stored_fingerprint
from a2perf.errors import UserError
from a2perf.metrics import protocol as protocols
from a2perf.runs.packed.packed_archive import unpack
from a2perf.submission.evaluator.playing.seeds import spawn_seeds
from tests.commands import run_a2perf, run_command

HOUSE = Path(__file__).resolve().parents[2]
SHA256 = {
    "v1": "ef6e1317838c69b0d3d18646252e5de863ee6f16164816b21ed3bd7a22689b9c",
    "v1-small": "7f5e751fae86b2c85b869476db7b310a7fcb7b9b7ea7c08e1d8cd6bb96aeb92e",
    "v2": "53baca421bab80e8b3ac8eb0bf3a435b4f6d0395aafea88ef46bf0a3fe7bd631",
    "v2-small": "319ef44d8736eba7d731a4116c56cc52158893618de6560ca69ee4ad3b0a67ab",
}
CORE_IDS = {
    "QuadrupedLocomotion-DogPace-v0",
    "QuadrupedLocomotion-DogTrot-v0",
    "QuadrupedLocomotion-DogSpin-v0",
    "WebNavigation-Difficulty-01-v0",
    "WebNavigation-Difficulty-02-v0",
    "WebNavigation-Difficulty-03-v0",
    "CircuitTraining-ToyMacro-v0",
    "CircuitTraining-Ariane-v0",
}
CURRENT = ("v2", "v2-small")
TASKS = [(name, task) for name in protocols.names() for task in protocols.load(name).tasks.values()]
each_task = pytest.mark.parametrize("task", [task for _, task in TASKS], ids=[f"{name}-{t.name}" for name, t in TASKS])


def test_a_published_protocol_never_changes() -> None:
    assert protocols.names() == sorted(SHA256)
    for name, digest in SHA256.items():
        assert protocols.sha256(name) == digest, (
            f"protocol {name} is frozen: restore it, and make another version for a change"
        )


def test_small_protocol_keeps_budgets_and_references_of_the_whole_one() -> None:
    for version in ("v1", "v2"):
        whole, small = protocols.load(version), protocols.load(f"{version}-small")
        assert small.tasks.keys() < whole.tasks.keys()
        for name, task in small.tasks.items():
            of_whole = whole.tasks[name]
            assert (task.references, task.trivial, task.budget) == (
                of_whole.references,
                of_whole.trivial,
                of_whole.budget,
            )
            assert task.env_kwargs == of_whole.env_kwargs
            assert task.training_seeds == [1, 2, 3]


@each_task
def test_task_is_the_registered_one_and_behaves_as_it_did(task: protocols.ProtocolTask) -> None:
    registered = get_domain(task.domain).task(task.name)
    assert registered.env_id == task.env_id
    assert registered.kwargs.items() <= task.env_kwargs.items()
    assert all_environments()[task.env_id][0].name == task.domain
    assert stored_fingerprint(task.env_id) == task.fingerprint


@each_task
def test_rule_still_gives_the_same_distinct_episode_seeds(task: protocols.ProtocolTask) -> None:
    per_seed = [spawn_seeds(root, "episodes", task.evaluation.episodes) for root in task.training_seeds]
    text = "".join(f"{seed}\n" for seeds in per_seed for seed in seeds)
    assert hashlib.sha256(text.encode()).hexdigest() == task.evaluation.seeds_sha256
    assert len({seed for seeds in per_seed for seed in seeds}) == len(per_seed) * task.evaluation.episodes
    assert len(set(task.training_seeds)) >= 3


@each_task
def test_references_are_apart_and_hold_their_own_intervals(task: protocols.ProtocolTask) -> None:
    random, expert = task.reference("random"), task.reference("expert")
    assert random.high < expert.low
    for reference in (random, expert):
        assert reference.low <= reference.mean <= reference.high
        assert reference.n >= 3 or reference.exact
        # no seed of the protocol was used to measure what it is compared with
        assert not set(reference.seeds) & set(task.training_seeds)
        assert (HOUSE / reference.command.split()[1]).is_file()


@pytest.mark.parametrize(
    "task",
    [task for name, task in TASKS if name in CURRENT],
    ids=[f"{name}-{t.name}" for name, t in TASKS if name in CURRENT],
)
def test_floor_is_the_best_trivial_policy_and_below_the_expert(task: protocols.ProtocolTask) -> None:
    floor, expert = task.reference("floor"), task.reference("expert")
    assert {"random", floor.policy} <= task.trivial.keys()
    assert len(task.trivial) >= 10
    assert all(trivial.mean <= floor.mean for trivial in task.trivial.values())
    assert floor.mean == task.trivial[floor.policy].mean
    assert floor.high < expert.low
    assert task.normalise(floor.mean) == 0.0
    # a scale whose floor is near the expert measures nothing
    random = task.reference("random").mean
    own = task.env_id not in CORE_IDS
    assert (floor.mean - random) / (expert.mean - random) < (0.2 if own else 0.9)


@pytest.mark.parametrize("policy", ["zero action", "random"])
@pytest.mark.parametrize(
    "name",
    [
        pytest.param("synthetic_trot_v1", marks=pytest.mark.slow),
        "difficulty_level_1_num_websites_1",
        "toy_macro_stdcell",
    ],
)
def test_a_trivial_policy_scores_nothing(name: str, policy: str) -> None:
    task = protocols.load().task(name)
    returns = []
    with closing(a2perf.make(name, **task.env_kwargs)) as env:
        env.action_space.seed(3)
        for seed in range(4):
            observation, _ = env.reset(seed=seed)
            total, ended = 0.0, False
            while not ended:
                mask = (
                    observation["mask"].astype(np.int8)
                    if isinstance(observation, dict) and "mask" in observation
                    else None
                )
                if policy == "random":
                    action = env.action_space.sample() if mask is None else env.action_space.sample(mask)
                else:
                    action = np.zeros_like(env.action_space.sample()) if mask is None else np.argmax(mask)
                observation, reward, terminated, truncated, _ = env.step(action)
                total, ended = total + float(reward), terminated or truncated
            returns.append(total)
    scores = task.normalise(returns)
    assert scores.mean() - 2.0 * scores.std(ddof=1) / np.sqrt(scores.size) <= 0.0
    assert scores.mean() < 0.1


def test_normalised_score_is_linear_between_the_references() -> None:
    task = protocols.load("v1").task("toy_macro_stdcell")
    random, expert = task.reference("random").mean, task.reference("expert").mean
    scores = task.normalise([[random, expert], [(random + expert) / 2, 2 * expert - random]])
    np.testing.assert_allclose(scores, [[0.0, 1.0], [0.5, 2.0]], atol=1e-12)
    assert task.threshold_return() == pytest.approx((random + expert) / 2)
    assert task.threshold_return(0.9) == pytest.approx(0.1 * random + 0.9 * expert)


def test_task_without_reference_is_refused_with_words() -> None:
    task = protocols.load("v1").task("toy_macro_stdcell")
    bare = protocols.ProtocolTask(
        **{name: getattr(task, name) for name in task.__struct_fields__ if name != "references"},
        references={"random": task.reference("random")},
    )
    assert not bare.has_references()
    with pytest.raises(UserError, match="toy_macro_stdcell has no stored score of the expert"):
        bare.normalise([0.0])


def test_results_of_another_behaviour_are_no_results_of_the_task() -> None:
    protocol = protocols.load("v1")
    task = protocol.task("dog_pace")
    assert protocol.task_of("dog_pace", task.fingerprint) is task
    assert protocol.task_of("dog_pace", "another") is None
    assert protocol.task_of("mujoco_dog_pace", task.fingerprint) is None


def test_a_view_of_a_task_has_its_rules_and_is_ranked_on_it() -> None:
    small = protocols.load("v1-small")
    shown, view = small.task("difficulty_level_2_num_websites_10"), small.task("text_level_2")
    changed = {
        name: getattr(view, name) for name in shown.__struct_fields__ if getattr(view, name) != getattr(shown, name)
    }
    assert changed == {"name": "text_level_2", "env_kwargs": {"num_websites": 10, "observation": "text"}}
    assert small.ranked_task("text_level_2") == shown.name == small.ranked_task(shown.name)
    assert small.views_of(shown.name) == ["text_level_2"]
    assert "text_level_2" not in small.tasks
    with pytest.raises(UserError, match="has no task 'text_composed_1'"):
        small.task("text_composed_1")  # what it shows is in no protocol


def test_unknown_names_are_answered_with_the_nearest() -> None:
    with pytest.raises(UserError, match="did you mean 'v1'"):
        protocols.load("v11")
    with pytest.raises(UserError, match="did you mean 'dog_pace'"):
        protocols.load("v1").task("dog_pase")


def test_a_result_recorded_under_v1_keeps_its_scale_and_names_the_floor(tmp_path: Path) -> None:
    (folder,) = unpack(HOUSE / "results" / "recorded" / "small" / "sb3_ppo.zip", tmp_path)
    run = folder / "dog_pace" / "seed_1"
    assert "0 random, 1 expert; protocol v1-small" in " ".join(_a2perf("score", str(run)).split())
    (folder / "protocol.json").unlink()
    floor = protocols.load("v2").task("dog_pace").floor
    shown = " ".join(_a2perf("score", str(run)).split())
    assert f"0 {floor.removesuffix(' policy')}, 1 expert; protocol v2" in shown


@pytest.mark.slow
def test_cheap_references_come_out_again() -> None:
    command = [sys.executable, "results/references.py", "toy_macro_stdcell", "difficulty_level_1_num_websites_1"]
    done = run_command(command, HOUSE, check=True)
    lines = [line for line in done.stdout.splitlines() if line.endswith("  as stored")]
    assert len(lines) > 20


def test_command_shows_a_protocol_and_its_tasks() -> None:
    shown = _a2perf("protocol", "v1")
    assert all(task.name in shown for task in protocols.load("v1").tasks.values())
    document = json.loads(_a2perf("protocol", "v1", "ariane", "--json"))
    assert list(document["tasks"]) == ["ariane"]
    assert document["sha256"] == protocols.sha256("v1")
    assert document["tasks"]["ariane"]["references"]["expert"]["n"] == 5
    detailed = _a2perf("protocol", "v1", "dog_spin")
    assert "python results/references.py dog_spin --kind expert" in detailed


def _a2perf(*arguments: str) -> str:
    done = run_a2perf(*arguments, check=True)
    return done.stdout
