"""Features of cells and batched episodes: equal to plain computations and to the environment's own costs."""

import gymnasium
import numpy as np
import pytest

import a2perf  # noqa: F401
from a2perf_placement.features.batch import INFEASIBLE_COST, PlacementBatch, PlacementTask
from a2perf_placement.features.design import PlacementDesign
from a2perf_placement.features.features import FEATURES, PlacementState

SPEC = {"num_macros": 12, "seed": 3}


@pytest.fixture(scope="module")
def env():
    made = gymnasium.make("CircuitTraining-Generated-v0", disable_env_checker=True, **SPEC)
    yield made
    made.close()


@pytest.fixture(scope="module")
def task(env):
    return PlacementTask(env)


def placed_at_random(state, count, seed=0):
    generator = np.random.default_rng(seed)
    for _ in range(count):
        state.place(int(generator.choice(np.flatnonzero(state.mask))))
    return state


def half_perimeter_of_nets_at(netlist, owner, macro, x, y):
    """The weighted half-perimeters of a macro's nets, pin by pin."""
    total = 0.0
    for net in range(netlist.num_nets):
        pins = netlist.net_pins[netlist.net_start[net] : netlist.net_start[net + 1]]
        if (owner[pins] == macro).any() and not (owner[pins] == macro).all():
            at_x, at_y = x[owner[pins]] + netlist.x_offset[pins], y[owner[pins]] + netlist.y_offset[pins]
            total += netlist.weight[pins[0]] * (np.ptp(at_x) + np.ptp(at_y))
    return total


def test_wire_features_equal_the_growth_of_the_half_perimeter(env, task):
    state = placed_at_random(PlacementState(task.design), 3)
    design, netlist = task.design, env.unwrapped.plc.netlist
    table, cells = state.table(), np.flatnonzero(state.mask)
    macro = int(design.order[3])
    lengths = []
    for cell in cells[::4]:
        x, y = state.x.copy(), state.y.copy()
        x[macro], y[macro] = design.centre(int(cell))
        lengths.append(half_perimeter_of_nets_at(netlist, design.owner, macro, x, y))
    unit = 10.0 * len(design.order) / design.wire_scale
    wire = table[cells[::4], FEATURES.index("wire")]
    assert np.ptp(wire) > 0.01
    # Both leave out a part that is equal for all cells.
    np.testing.assert_allclose(wire - wire[0], unit * (np.array(lengths) - lengths[0]), rtol=1e-4, atol=1e-6)


def test_covered_soft_area_and_rim_equal_sums_over_a_fine_raster(env, task):
    state = placed_at_random(PlacementState(task.design), 3)
    design = task.design
    table, cells = state.table(), np.flatnonzero(state.mask)
    soft = np.diff(np.diff(state.estimate.soft_sums, axis=0), axis=1)
    filled = np.minimum(state.density, 1.0).reshape(design.rows, design.columns)
    fine = 40  # points per cell and axis
    side = np.sqrt(design.size.prod(axis=1).mean())
    for cell in cells[::9]:
        x, y = design.centre(int(cell))
        half = design.size[3] / 2

        def mean_in(values, margin, outside, x=x, y=y, half=half):
            reach_x, reach_y = half[0] + margin, half[1] + margin
            at_x = x + reach_x * (2 * (np.arange(fine * 8) + 0.5) / (fine * 8) - 1)
            at_y = y + reach_y * (2 * (np.arange(fine * 8) + 0.5) / (fine * 8) - 1)
            column = np.floor(at_x / design.cell_size[0]).astype(int)
            row = np.floor(at_y / design.cell_size[1]).astype(int)
            inside = ((row >= 0) & (row < design.rows))[:, None] & ((column >= 0) & (column < design.columns))[None, :]
            values = values[row.clip(0, design.rows - 1)[:, None], column.clip(0, design.columns - 1)[None, :]]
            return float(np.where(inside, values, outside).mean()), 4 * reach_x * reach_y

        box, area = mean_in(soft, 0.0, 0.0)
        assert table[cell, FEATURES.index("soft area covered")] == pytest.approx(box, abs=0.02)
        within, _ = mean_in(filled, 0.0, 1.0)
        outer, outer_area = mean_in(filled, side, 1.0)
        expected = (outer * outer_area - within * area + within * area) / (outer_area - area)
        assert table[cell, FEATURES.index("wide rim filled")] == pytest.approx(expected, abs=0.02)


def test_feasible_cells_are_those_of_the_environment_at_every_step(env):
    state = PlacementState(PlacementDesign(env))
    generator = np.random.default_rng(1)
    _, info = env.reset(seed=0)
    ended = False
    while not ended:
        actions = np.flatnonzero(info["action_mask"])
        cells = [env.unwrapped.translate_to_original_canvas(int(action)) for action in actions]
        assert np.flatnonzero(state.mask).tolist() == cells
        cell = int(generator.choice(cells))
        state.place(cell)
        _, _, ended, _, info = env.step(env.unwrapped.translate_to_padded_canvas(cell))
    assert state.done


def test_batched_episodes_cost_what_the_environment_says_and_repeat_with_the_seed(env, task):
    def played(seed):
        batch = PlacementBatch([task], 3)
        observations = batch.reset(seed)
        generator = np.random.default_rng(seed)
        rewards = []
        while batch.episodes < 3:
            actions = np.array([generator.choice(np.flatnonzero(mask)) for mask in observations["mask"]])
            step = batch.step(actions)
            observations = step.observations
            rewards.append(step.rewards.copy())
        return batch.finished, np.array(rewards)

    finished, _ = played(7)
    for episode in finished[:2]:
        env.reset(seed=0)
        reward = 0.0
        for cell in episode.cells:
            _, reward, _, _, info = env.step(env.unwrapped.translate_to_padded_canvas(cell))
        assert episode.cost == -reward
        assert episode.parts == (info["wirelength"], info["congestion"], info["density"])
    again, _ = played(7)
    assert [episode.cells for episode in again] == [episode.cells for episode in finished]
    assert [episode.cost for episode in again] == [episode.cost for episode in finished]


def test_an_episode_that_leaves_macros_over_costs_more_than_any_placement(task):
    batch = PlacementBatch([task], 1)
    observations = batch.reset(0)
    state = batch.state(0)
    while batch.episodes == 0:
        state.density[:] = 1.0  # the next macro finds no room
        observations = batch.step(np.array([np.flatnonzero(observations["mask"][0])[0]])).observations
    assert batch.finished[0].cost == INFEASIBLE_COST
    assert len(batch.finished[0].cells) < len(task.design.order)


def test_standard_cells_start_at_the_same_place_whether_or_not_the_start_is_cached(monkeypatch, tmp_path):
    monkeypatch.setenv("A2PERF_CACHE_DIR", str(tmp_path))
    starts = []
    for _ in range(2):
        with gymnasium.make("CircuitTraining-ToyMacro-v0", disable_env_checker=True) as toy:
            design = PlacementDesign(toy)
            starts.append(np.stack([design.start_x, design.start_y]))
    assert len(design.soft) == 12
    np.testing.assert_array_equal(starts[0][:, design.soft], starts[1][:, design.soft])
    assert np.ptp(starts[0][0, design.soft]) > 1.0
