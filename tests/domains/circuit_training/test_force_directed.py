"""The force-directed placer against a plain one that follows the same order of operations."""

import numpy as np
import pytest

from a2perf.domains.circuit_training.placement import PlacementError

PHASES = {
    "num_steps": [15, 10, 10],
    "max_move_distance": [1.0, 2.0, 2.0],
    "attract_factor": [100.0, 1e-3, 5.0],
    "repel_factor": [0.0, 1e6, 1e3],
}


def sign(value):
    return 1.0 if value > 0 else -1.0


def plain_forces(plc, movable, io_factor, attract, repel):
    """Returns the force on each node of one step, with plain loops over nodes and pairs."""
    netlist, state = plc.netlist, plc.state
    width, height = plc.get_canvas_width_height()
    columns, rows = plc.get_grid_num_columns_rows()
    hard, soft = set(state.hard.tolist()), set(state.soft.tolist())

    def half(node):
        if node in soft:
            return (np.sqrt(state.width[node] * state.height[node]) / 2,) * 2
        return (state.width[node] / 2, state.height[node] / 2) if node in hard else (0.0, 0.0)

    force = np.zeros((netlist.num_nodes, 2))
    for first, after in zip(netlist.net_start, netlist.net_start[1:], strict=False):
        driver = int(netlist.net_pins[first])
        for sink in netlist.net_pins[first + 1 : after].tolist() if attract else ():
            ends = [(pin, int(netlist.owner[pin]) if netlist.owner[pin] >= 0 else pin) for pin in (driver, sink)]
            (_, u), (_, v) = ends
            if u == v:
                continue
            stiffness = netlist.weight[driver] * attract
            if netlist.kind[driver] == 3 or netlist.kind[sink] == 3:
                stiffness = stiffness * io_factor
            for axis, at in enumerate((state.x, state.y)):
                a, b = (at[node] if node in movable else at[pin] for pin, node in ends)
                slack = sum(half(node)[axis] for _, node in ends if node in movable) * min(1.0, 10 / attract)
                pull = stiffness * max(0.0, abs(b - a) - slack) * sign(b - a)
                force[u, axis] += pull
                force[v, axis] -= pull

    def cell(node):
        column = min(max(int(state.x[node] / (width / columns)), 0), columns - 1)
        row = min(max(int(state.y[node] / (height / rows)), 0), rows - 1)
        return row, column, node

    for i in [node for node in state.macros.tolist() if node in movable] if repel else ():
        for j in sorted(state.macros.tolist(), key=cell):
            if j == i or (j in movable and j < i):
                continue
            dx, dy = state.x[i] - state.x[j], state.y[i] - state.y[j]
            reach_x, reach_y = (half(i)[axis] + half(j)[axis] - 1e-4 for axis in (0, 1))
            if abs(dx) > reach_x or abs(dy) > reach_y:
                continue
            if dx == 0 and dy == 0:
                push = np.array([-repel, -repel]) if i < j else np.array([repel, repel])
            else:
                distance = np.sqrt(dx * dx + dy * dy)
                push = np.array([repel * dx / distance, repel * dy / distance])
                push = -push if distance < 1e-6 else push
            force[i] += push
            if j in movable:
                force[j] -= push
    return force, half


def plain_run(plc, movable, io_factor=1.0, *, num_steps, max_move_distance, attract_factor, repel_factor):
    """Runs the schedule from where the nodes are."""
    canvas = plc.get_canvas_width_height()
    for steps, move, attract, repel in zip(num_steps, max_move_distance, attract_factor, repel_factor, strict=True):
        for _ in range(steps):
            force, half = plain_forces(plc, movable, io_factor, attract, repel)
            for axis, at in enumerate((plc.state.x, plc.state.y)):
                largest = max(abs(force[node, axis]) for node in movable)
                for node in movable:
                    pull = force[node, axis]
                    if abs(pull) > 1:
                        moved = at[node] + sign(pull) * (max(abs(pull) / largest, 0.1) * move)
                        if moved - half(node)[axis] >= 0 and moved + half(node)[axis] <= canvas[axis]:
                            at[node] = moved
            plc.state.place_all_pins()


@pytest.mark.parametrize("move_macros", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_positions_equal_the_plain_placers_bit_for_bit(engine, seed, move_macros):
    compiled, plain = engine(seed), engine(seed)
    compiled.optimize_stdcells(True, True, move_macros, False, False, 0.5, **PHASES)
    movable = {*plain.state.soft.tolist(), *plain.state.standard_cells.tolist()}
    movable |= set(plain.state.hard.tolist()) if move_macros else set()
    plain_run(plain, movable, 0.5, **PHASES)
    np.testing.assert_array_equal(compiled.state.x, plain.state.x)
    np.testing.assert_array_equal(compiled.state.y, plain.state.y)
    assert not np.array_equal(compiled.state.x, engine(seed).state.x)


def run(plc, steps=1, *, attract=1.0, repel=0.0, move_macros=False, **kwargs):
    plc.optimize_stdcells(False, True, move_macros, False, False, 1.0, [steps], [3.0], [attract], [repel], **kwargs)


def test_fixed_macros_are_refused_or_left_alone(engine):
    plc = engine(2)
    plc.fix_node_coord("M1")
    with pytest.raises(PlacementError, match="cannot place fixed node 'M1'"):
        run(plc, move_macros=True)
    before = plc.get_node_location("M1")
    run(plc, steps=20, attract=100.0, move_macros=True, skip_fixed=True)
    assert plc.get_node_location("M1") == before
    assert plc.get_node_location("M2") != (50.0, 45.0)


def test_schedules_that_do_not_fit_together_are_refused(engine):
    plc = engine(0)
    with pytest.raises(PlacementError, match="have 1, 2, 1, 1 entries"):
        plc.optimize_stdcells(True, True, False, False, False, 1.0, [1], [1.0, 2.0], [1.0], [0.0])
    with pytest.raises(PlacementError, match="negative or infinite"):
        run(plc, repel=float("nan"))
    with pytest.raises(PlacementError, match="not known"):
        plc.optimize_stdcells(True, True, False, True, False, 1.0, [1], [1.0], [1.0], [0.0])
