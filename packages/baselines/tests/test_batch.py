"""Batched episodes: the same rewards, ends and tables as single environments with the same actions."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest

from a2perf.domains.web_navigation.sites.generator import training_designs
from a2perf.domains.web_navigation.solver import solve
from a2perf_baselines.web_navigation.batch import WebBatch
from a2perf_baselines.web_navigation.pairs import BUCKETS, FEATURES, PairReader, _hash


@pytest.mark.parametrize("level", [1, 2, 3])
def test_a_batch_shows_and_pays_what_single_environments_do(level: int) -> None:
    designs = training_designs(level, 3, 12)
    batch = WebBatch(designs, len(designs), in_order=True)
    reader, random = PairReader(), np.random.default_rng(level)
    shown = batch.reset(seed=4)
    running = {}
    for member, design in enumerate(designs):
        profile = dict(zip(design.fields, batch._profile[member][1:], strict=True))
        env = gymnasium.make("WebNavigation-v0", designs=[design], num_websites=1).unwrapped
        observation, _ = env.reset(seed=0, options={"profile": profile})
        running[member] = (env, observation, solve(env.site, env.profile), [])
    compared = solved = 0
    for step in range(25):
        actions = np.zeros(len(designs), np.int64)
        for member, (_, observation, solution, chosen) in running.items():
            table = reader.table(observation)
            rows = int(shown["rows"][member])
            assert rows == len(table.actions)
            np.testing.assert_array_equal(shown["features"][member, :rows], table.features)
            np.testing.assert_array_equal(shown["numbers"][member, :rows], table.numbers)
            np.testing.assert_allclose(shown["page"][member], table.page, rtol=1e-6)
            # half of the episodes follow the solver, the others press and fill at random
            pick = solution[step] if member % 2 else table.actions[random.integers(rows)]
            actions[member] = np.flatnonzero(table.actions == pick)[0]
            chosen.append(int(pick))
        result = batch.step(actions)
        for member, (env, _, solution, chosen) in list(running.items()):
            observation, reward, terminated, truncated, info = env.step(chosen[-1])
            assert result.rewards[member] == pytest.approx(reward, abs=1e-6)
            assert result.terminated[member] == (terminated or truncated)
            compared += 1
            solved += info["is_success"]
            if terminated or truncated:
                del running[member]
            else:
                running[member] = (env, observation, solution, chosen)
    assert not running
    assert compared > 20
    assert solved >= len(designs) // 2


def test_the_seed_determines_a_batch_and_finished_episodes_are_reported() -> None:
    designs = training_designs(2, 1, 5)
    ends = []
    for _ in range(2):
        batch = WebBatch(designs, 8)
        shown = batch.reset(seed=7)
        random, total = np.random.default_rng(0), np.zeros(8)
        for _ in range(60):
            result = batch.step((random.random(8) * shown["rows"]).astype(np.int64))
            total += result.rewards
        finished = batch.finished()
        assert len(finished.returns) > 8
        assert finished.lengths.max() <= 25
        assert set(finished.designs.tolist()) <= set(range(5))
        assert len(batch.finished().returns) == 0
        ends.append((finished.returns.tolist(), finished.solved.tolist(), total.tolist()))
    assert ends[0] == ends[1]


def test_candidates_beyond_the_table_are_left_out() -> None:
    batch = WebBatch(training_designs(3, 1, 4), 4, rows=6)
    assert batch._pool.largest > 6
    shown = batch.reset(seed=0)
    assert shown["features"].shape == (4, 6, len(FEATURES))
    assert shown["rows"].max() == 6
    batch.step(np.full(4, 5))


def test_no_two_keys_and_no_two_captions_of_the_catalogue_share_a_bucket() -> None:
    from a2perf.domains.web_navigation.page.primitives import CATALOGUE, GOLD, NO_PRIMITIVE
    from a2perf.domains.web_navigation.page.vocabulary import tokenize

    def texts(node):
        yield from (text for text in (node.text, node.placeholder) if text)
        for child in node.children:
            yield from texts(child)

    captions = {
        "".join(tokenize(text)[:10])
        for entry in CATALOGUE.values()
        if entry.name != NO_PRIMITIVE
        for text in texts(entry.build(0))
    }
    keys = {"".join(tokenize(key)) for key in GOLD}
    assert len({_hash(key, 0) for key in keys}) == len(keys) == len(GOLD)
    assert len({_hash(caption, 1) for caption in captions}) == len(captions) > 50
    assert max(BUCKETS) <= np.iinfo(np.int16).max
    assert _hash("", 1) == 0
