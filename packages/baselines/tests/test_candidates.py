"""Tables of candidates: what is valid, what is there for the solver, and what the features say."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest

from a2perf.domains.web_navigation.sites.generator import training_designs
from a2perf.domains.web_navigation.solver import solve
from a2perf.errors import ConfigError
from a2perf_baselines.candidates import CandidateChoice, CandidateEnv, candidates_of, padded
from a2perf_baselines.circuit_training import candidates as circuit
from a2perf_baselines.web_navigation import candidates as web

TOY = "CircuitTraining-ToyMacro-v0"
WEB = "WebNavigation-Difficulty-01-v0"
COMPOSED = "WebNavigation-Composed-03-v0"


def along_random_actions(env, count):
    """Yields observations and the environment's own masks."""
    rng = np.random.default_rng(0)
    observation, info = env.reset(seed=0)
    for _ in range(count):
        yield observation, info["action_mask"]
        observation, _, ended, cut_off, info = env.step(int(rng.choice(np.flatnonzero(info["action_mask"]))))
        if ended or cut_off:
            observation, info = env.reset()


@pytest.mark.parametrize(
    ("env_id", "kwargs", "limits"),
    [(TOY, {}, {}), (WEB, {"num_websites": 3}, {"elements": None, "fields": None, "per_key": None})],
)
def test_valid_candidates_are_exactly_the_valid_actions(env_id, kwargs, limits):
    with gymnasium.make(env_id, **kwargs) as env:
        reader = candidates_of(env, **limits)
        for observation, mask in along_random_actions(env, 25):
            rows, actions = reader.table(observation)
            assert rows.shape == (len(actions), reader.features)
            assert len(rows) <= reader.size
            assert np.isfinite(rows).all()
            np.testing.assert_array_equal(np.sort(actions[rows[:, 0] > 0]), np.flatnonzero(mask))


@pytest.mark.parametrize("level", [1, 2, 3])
def test_the_solver_s_actions_are_among_the_candidates_of_every_page(level):
    with CandidateEnv(gymnasium.make("WebNavigation-v0", num_websites=1, difficulty=1), shaped=False) as env:
        for number, design in enumerate(training_designs(level, 5, 8)):
            env.reset(seed=number, options={"design": design.as_record()})
            total, info = 0.0, {}
            for action in solve(env.unwrapped.site, env.unwrapped.profile):
                assert len(env.actions) <= env.candidates.size
                _, reward, ended, _, info = env.step(env.row_of(action))
                total += reward
            assert ended
            assert info["reason"] == "solved"
            assert info["episode_return"] == pytest.approx(total)


def test_every_profile_key_finds_its_own_control_by_resemblance():
    with gymnasium.make(WEB, num_websites=1) as env:
        observation, _ = env.reset(seed=0)
        rows, actions = candidates_of(env).table(observation)
        found = actions[rows[:, -web.PAIR + 4] > 0]
        core = env.unwrapped
        fields = [core.site.nodes[core.elements[action % 250].node].field for action in found]
        assert fields == list(core.site.fields)


def test_a_row_says_what_is_filled_already():
    with CandidateEnv(gymnasium.make(WEB, num_websites=1), shaped=False) as env:
        before, _ = env.reset(seed=0)
        first = solve(env.unwrapped.site, env.unwrapped.profile)[0]
        row = env.row_of(first)
        visited = 1 + sum(buckets for _, buckets in web.HASHED)
        after, *_ = env.step(row)
        assert before[row, visited] == 0.0
        assert after[row, visited] == 1.0
        assert after[row, -web.PAIR + 5] == 1.0  # the element shows the value of the row


def test_no_two_profile_keys_share_their_columns():
    from a2perf.domains.web_navigation.page.primitives import GOLD
    from a2perf.domains.web_navigation.page.vocabulary import UnlockedVocabulary, tokenize

    table = UnlockedVocabulary().save()
    texts = web._Texts({number: word for word, number in table.items()})
    tokens = np.zeros((len(GOLD), 10), np.int32)
    for row, key in enumerate(GOLD):
        words = tokenize(key)
        tokens[row, : len(words)] = [table[word] for word in words]
    columns = texts.hashed(texts.numbers(tokens), web.KEY_COLUMNS)
    assert (columns.sum(axis=1) == 2).all()
    assert len({column.tobytes() for column in columns}) == len(GOLD)


@pytest.mark.parametrize(("one", "other", "share"), [("city", "city", 1.0), ("zipcode", "postal", 0.0), ("", "a", 0.0)])
def test_resemblance_is_the_share_of_common_letter_triples(one, other, share):
    assert web.resemblance(one, other) == share
    assert web.resemblance("firstname", "firstnames") == pytest.approx(7 / 8)


def test_cells_know_their_place_and_how_far_connected_things_are():
    with gymnasium.make("CircuitTraining-Generated-v0", num_macros=20, seed=3) as env:
        observation, _ = env.reset(seed=0)
        core, reader = env.unwrapped, candidates_of(env)
        rows, actions = reader.table(observation)
        cells = [core.translate_to_original_canvas(int(action)) for action in actions]
        assert cells == list(range(core.grid_rows * core.grid_cols))
        np.testing.assert_allclose(
            rows[core.grid_cols + 2, 1:3], [2.5 / core.grid_cols, 1.5 / core.grid_rows], rtol=1e-6
        )
        # an independent sum over the wires of the first macro
        static = core.get_static_obs()
        node = int(observation["current_node"][0])
        width, height = core.plc.get_canvas_width_height()
        distance = np.zeros(len(cells))
        total = 0.0
        for one, other, weight in zip(
            static["sparse_adj_i"], static["sparse_adj_j"], static["sparse_adj_weight"], strict=True
        ):
            if weight > 0 and node in (one, other):
                end = other if one == node else one
                x = rows[:, 1] * width / (width + height) - observation["locations_x"][end]
                y = rows[:, 2] * height / (width + height) - observation["locations_y"][end]
                distance += weight * (np.abs(x) + np.abs(y))
                total += weight
        start = 1 + 2 + 4 * circuit.WAVES + 3 + 5 * circuit.RECENT
        np.testing.assert_allclose(rows[:, start + 6], distance / total, atol=1e-5)
        valid = rows[:, 0] > 0
        assert rows[valid, start + 7].min() == 0.0


def test_the_wrapper_shapes_rewards_and_keeps_the_environment_s_own_return():
    with CandidateEnv(gymnasium.make(TOY)) as env:
        assert env.observation_space.shape == (circuit.SIZE, circuit.CircuitCandidates.features)
        table, _ = env.reset(seed=0)
        first = int(np.flatnonzero(table[:, 0])[0])
        table, reward, *_ = env.step(first)
        assert reward == 0.0
        _, reward, ended, _, info = env.step(int(np.flatnonzero(table[:, 0])[0]))
        assert ended
        assert reward == pytest.approx((info["episode_return"] + 1.0) * 20.0)


def test_choices_map_rows_back_to_actions():
    with gymnasium.make(TOY) as env:
        observation, info = env.reset(seed=0)
        choice = CandidateChoice(size=300)
        with pytest.raises(ConfigError, match="read_from"):
            choice.table(observation)
        choice.read_from(env)
        table = choice.table(observation)
        assert (table.shape[0], table.dtype) == (300, np.float16)
        row = int(np.flatnonzero(table[:, 0])[3])
        assert choice.action(row) == np.flatnonzero(info["action_mask"])[3]


def test_what_is_no_candidate_is_refused():
    with CandidateEnv(gymnasium.make(WEB, num_websites=1)) as env:
        env.reset(seed=0)
        with pytest.raises(ConfigError, match="holds no candidate"):
            env.step(env.candidates.size - 1)
        with pytest.raises(ConfigError, match="no candidate stands for the action 12499"):
            env.row_of(12_499)


def test_a_continuous_action_space_is_refused():
    pytest.importorskip("pybullet", reason="needs the extra quadruped-locomotion")
    with gymnasium.make("QuadrupedLocomotion-SyntheticTrot-v0") as env:
        with pytest.raises(ConfigError, match="quadruped_locomotion has no finite choice"):
            candidates_of(env)
        with pytest.raises(ConfigError, match="made without an id"):
            candidates_of(type(env.unwrapped)(**env.spec.kwargs))


def test_padding_drops_what_does_not_fit():
    rows = np.ones((3, 2), np.float32)
    assert padded(rows, 5).tolist() == [[1, 1]] * 3 + [[0, 0]] * 2
    assert padded(rows, 2).shape == (2, 2)


def test_training_designs_differ_and_depend_on_the_seed():
    first, again, other = (training_designs(2, seed, 12) for seed in (1, 1, 2))
    assert first == again
    assert len(set(first)) == 12
    assert set(first) != set(other)
    assert all(3 <= len(design.fields) + design.pages <= 6 for design in first)


def test_all_actions_of_a_solution_are_candidates_if_all_profile_rows_are_read():
    with CandidateEnv(gymnasium.make(COMPOSED, disable_env_checker=True), shaped=False, fields=None) as env:
        for seed in range(20):
            env.reset(seed=seed)
            if len(env.unwrapped.profile) > 16:
                break
        assert len(env.unwrapped.profile) > 16
        info = {}
        for action in env.unwrapped.solution():
            *_, info = env.step(env.row_of(action))
        assert info["reason"] == "solved"
