"""Placement files: reading, refusing, writing, and the sizes that leading comments give."""

import numpy as np
import pytest

from a2perf.domains.circuit_training.engine.cost_model import create_placement_cost
from a2perf.domains.circuit_training.netlists.plc_file import PlacementFileError, read_header, read_placement
from tests.domains.circuit_training.conftest import DESIGN


def written(tmp_path, text):
    path = tmp_path / "placement.plc"
    path.write_text(text)
    return path


def test_a_placement_places_turns_and_fixes_what_it_lists(small, tmp_path):
    small.unplace_node("q")
    small.restore_placement(written(tmp_path, "# comment\n\n0 40.5 30 FS 1\n3 0.25 9 - 0\n4 7 8 W 0\n"))
    assert small.get_node_location("M") == (40.5, 30.0)
    assert small.get_macro_orientation("M") == "FS"
    assert small.is_node_fixed("M")
    assert small.get_node_location("P") == (0.25, 9.0)  # not put onto its edge
    assert not small.is_node_fixed("P")
    assert small.get_macro_orientation("Grp_1") == "W"
    assert not small.is_node_placed("q")
    # the pin follows its macro: FS turns (0.3, -2) to (0.3, 2)
    assert small.get_node_location("M/p") == pytest.approx((40.8, 32.0), abs=1e-6)


def test_writing_and_reading_again_changes_nothing(engine, tmp_path):
    plc = engine(1)
    plc.fix_node_coord("P0")
    first, second = tmp_path / "first.plc", tmp_path / "second.plc"
    plc.save_placement(first)
    plc.unplace_all_nodes()
    plc.restore_placement(first)
    before = plc.state.x.copy(), plc.state.y.copy()
    plc.save_placement(second)
    assert read_placement(first) == read_placement(second)
    plc.restore_placement(second)
    np.testing.assert_array_equal(before, (plc.state.x, plc.state.y))
    plc.unplace_node("M2")
    plc.save_placement(second)
    assert {row.node for row in read_placement(first)} - {row.node for row in read_placement(second)} == {
        plc.get_node_index("M2")
    }


def test_the_header_names_sizes_costs_and_counts(engine, tmp_path):
    plc = engine(2)
    plc.create_blockage(0, 0, 10, 20, 0.5)
    plc.set_block_name("core")
    path = tmp_path / "saved.plc"
    plc.save_placement(path, "Train step : 7\nby hand")
    lines = path.read_text().splitlines()
    columns, rows = plc.get_grid_num_columns_rows()
    for line in (
        "# Placement file for Circuit Training",
        f"# This file : {path}",
        f"# Columns : {columns}  Rows : {rows}",
        "# Width : 100.000  Height : 90.000",
        f"# Wirelength : {plc.get_wirelength():.3f}",
        f"# Wirelength cost : {plc.get_cost():.4f}",
        f"# Congestion cost : {plc.get_congestion_cost():.4f}",
        f"# Density cost : {plc.get_density_cost():.4f}",
        "# Routes per micron, hor : 57.031  ver : 56.818",
        "# Routes used by macros, hor : 39.583  ver : 30.303",
        "# Overlap threshold : 0.004",
        "# Blockage : 0 0 10 20 0.5",
        "# HARD_MACROs     :         5",
        "# SOFT_MACRO_PINs :        12",
        "# STDCELLs        :         4",
        "# Train step : 7",
        "# by hand",
        "# node_index x y orientation fixed",
    ):
        assert line in lines
    header = read_header(plc.get_source_filename(), path)
    assert (header.width, header.height, header.columns, header.rows) == (100.0, 90.0, columns, rows)
    assert header.block == "core"
    assert header.blockages == ((0.0, 0.0, 10.0, 20.0, 0.5),)
    x, y = plc.get_node_location(0)
    assert next(line for line in lines if not line.startswith("#")) == f"0 {x:g} {y:g} - 0"


def test_the_last_size_wins_and_the_first_blockages(write_netlist, tmp_path):
    head = "# Columns : 3  Rows : 4\n# FP bbox: {0.0 0.0} {50.0 60.5}\n# Block : one\n# Blockage : 0 0 1 1 1\n"
    netlist = write_netlist(head + DESIGN + "# Width : 1.0  Height : 1.0\n")
    assert read_header(netlist).width == 50.0
    assert read_header(netlist).rows == 4
    init = written(
        tmp_path, "# Width : 70.0  Height : 80.0\n# Block : two\n# Blockage : 5 5 6 6 1\n0 1 1 N 0\n# Block : x\n"
    )
    header = read_header(netlist, init)
    assert (header.width, header.height, header.columns, header.block) == (70.0, 80.0, 3, "two")
    assert header.blockages == ((0.0, 0.0, 1.0, 1.0, 1.0),)


@pytest.mark.parametrize(
    ("removed", "named"), [("# Width", "# Width : ...  Height : ..."), ("# Columns", "# Columns : ...  Rows : ...")]
)
def test_placement_without_a_line_of_its_header_is_refused_with_that_line(write_netlist, tmp_path, removed, named):
    lines = ["# Width : 100.000  Height : 90.000", "# Columns : 10  Rows : 9", "2 5 6 - 0"]
    netlist, placement = write_netlist(DESIGN), written(tmp_path, "\n".join(lines) + "\n")
    assert create_placement_cost(netlist, placement).get_canvas_width_height() == (100.0, 90.0)
    written(tmp_path, "\n".join(line for line in lines if not line.startswith(removed)) + "\n")
    with pytest.raises(PlacementFileError, match=r"placement\.plc: the header has no") as error:
        create_placement_cost(netlist, placement)
    assert named in error.value.message


BAD = {
    "four tokens": ("0 1 2 N", "4 tokens instead of 5"),
    "six tokens": ("0 1 2 N 0 0", "6 tokens instead of 5"),
    "no index": ("M 1 2 N 0", "'M' is not an index"),
    "negative index": ("-1 1 2 N 0", "'-1' is not an index"),
    "index beyond": ("5 1 2 N 0", "there is no node 5; the netlist has 5"),
    "huge index": ("99999999999999999999 1 2 N 0", "is not an index"),
    "pin": ("1 1 2 N 0", "is a macro pin"),
    "no position": ("0 one 2 N 0", "is not a position"),
    "NaN": ("0 nan 2 N 0", "is not finite"),
    "orientation": ("0 40 40 NE 0", "'NE' is not an orientation"),
    "fixed": ("0 40 40 N 2", "instead of 0 or 1"),
    "outside": ("0 90 40 N 0", "macro 'M' at (90, 40) sticks out of the canvas (100 x 80 um)"),
}


@pytest.mark.parametrize(("line", "what"), BAD.values(), ids=BAD)
def test_a_broken_placement_is_refused_and_nothing_changes(small, tmp_path, line, what):
    before = small.state.x.copy(), small.state.placed.copy()
    path = written(tmp_path, f"# head\n4 10 10 N 0\n{line}\n")
    with pytest.raises(PlacementFileError) as caught:
        small.restore_placement(path)
    assert f"{path}, line 3: " in caught.value.message
    assert what in caught.value.message
    np.testing.assert_array_equal(before, (small.state.x, small.state.placed))


def test_a_macro_may_stick_out_without_the_boundary_check_and_a_file_must_exist(small, tmp_path):
    small.set_canvas_boundary_check(False)
    small.restore_placement(written(tmp_path, "0 90 40 N 0\n"))
    assert small.get_node_location("M") == (90.0, 40.0)
    with pytest.raises(PlacementFileError, match="no such placement file"):
        small.restore_placement(tmp_path / "none.plc")
