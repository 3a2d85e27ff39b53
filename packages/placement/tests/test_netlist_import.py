"""From a netlist to a task: grid, grouping, the clustered netlist, placements for other tools, the commands."""

import json

import numpy as np
import pytest
from click.testing import CliRunner

from a2perf.cli import cli
from a2perf.domains.circuit_training.engine.placement_cost import PlacementCost
from a2perf.domains.circuit_training.environment import CircuitEnv
from a2perf.domains.circuit_training.errors import ArgumentError
from a2perf.domains.circuit_training.generated.design_plan import DesignSpec
from a2perf.domains.circuit_training.generated.generator import generate
from a2perf.domains.circuit_training.mask import macro_mask
from a2perf.domains.circuit_training.netlists.netlist import KIND_STDCELL, NetlistError
from a2perf.domains.circuit_training.netlists.netlist_reader import read_netlist
from a2perf.errors import ConfigError, MissingDependency
from a2perf_placement.netlists import grid_choice, partitioning
from a2perf_placement.netlists.def_reader import read_def
from a2perf_placement.netlists.flat_generator import FlatSpec, write_flat_design
from a2perf_placement.netlists.grid_choice import choose_grid
from a2perf_placement.netlists.grouping import GroupingSettings, Hypergraph, group_cells
from a2perf_placement.netlists.importing import NetlistSource, import_netlist, read_flat_design
from a2perf_placement.netlists.lef import read_lef
from a2perf_placement.netlists.placement_export import save_task_placement_pnr
from packages.placement.tests.expanded_netlist import expand_soft_macros

needs_partitioner = pytest.mark.group("mtkahypar")


# --- grid -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("macros", "side", "grid"), [(133, 1433.406, (24, 21)), (136, 1446.359, (25, 21))])
def test_the_grids_of_the_published_arianes_are_met(macros, side, grid):
    choice = choose_grid((side, side), np.tile([57.57, 133.0], (macros, 1)))
    assert (choice.columns, choice.rows) == grid
    assert choice.packed


def test_packing_takes_the_first_cell_that_the_mask_allows():
    rng = np.random.default_rng(5)
    for side, columns, rows in ((100.0, 22, 25), (90.0, 31, 17), (120.0, 13, 40)):
        sizes = rng.uniform(4.0, 24.0, (14, 2))
        order = np.lexsort((sizes[:, 1], sizes[:, 0], -sizes.prod(axis=1)))
        sizes = np.ascontiguousarray(sizes[order])
        density, centres = np.zeros(columns * rows), np.full((14, 2), -1.0)
        owner = np.full(columns * rows, -1, np.int32)
        packed = grid_choice._pack(side, side, columns, rows, sizes, density, owner, centres)
        expected_density, placed = np.zeros(columns * rows), np.zeros(14, np.uint8)
        at, mask = np.zeros((14, 2)), np.zeros(columns * rows, np.int32)
        width, height = np.ascontiguousarray(sizes.T)
        for i in range(14):
            macro_mask(
                width[i],
                height[i],
                True,
                0.0,
                0.0,
                side,
                side,
                columns,
                rows,
                expected_density,
                np.arange(14),
                at[:, 0].copy(),
                at[:, 1].copy(),
                width,
                height,
                placed,
                np.zeros((0, 5)),
                mask,
            )
            if not mask.any():
                assert not packed
                break
            cell = int(np.argmax(mask))
            at[i], placed[i] = ((cell % columns + 0.5) * side / columns, (cell // columns + 0.5) * side / rows), 1
            low, high = at[i] - sizes[i] / 2, at[i] + sizes[i] / 2
            cell_size = np.array([side / columns, side / rows])
            for cell in range(columns * rows):
                corner = np.array([cell % columns * side / columns, cell // columns * side / rows])
                both = np.minimum(high, corner + cell_size) - np.maximum(low, corner)
                if (both > 2e-3).all():
                    expected_density[cell] += both.prod() / (side / columns * side / rows)
        if packed:
            assert np.allclose(centres, at)


# --- import -----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def flat_files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("flat")
    write_flat_design(FlatSpec(cells=600, macros=4, ports=16, seed=3), folder)
    return folder


def source_of(folder):
    return NetlistSource(lef=(folder / "cells.lef", folder / "macros.lef"), def_file=folder / "design.def")


@pytest.fixture(scope="module")
def task(flat_files):
    pytest.importorskip("mtkahypar", reason="needs the extra netlists")
    return import_netlist(source_of(flat_files), flat_files / "task", grid=(24, 22))


@needs_partitioner
def test_every_cell_and_every_net_between_groups_is_in_the_clustered_netlist(task):
    flat, group = task.flat.netlist, task.grouping.group
    cells = flat.kind == KIND_STDCELL
    assert (group[cells] >= 0).all()
    assert (group[~cells] < 0).all()
    plc = PlacementCost(str(task.folder / "netlist.pb.txt"))
    assert len(plc.soft_macro_indices) == task.grouping.count == len(np.unique(group[cells]))
    area = plc.netlist.width * plc.netlist.height
    assert area[plc.soft_macro_indices].sum() == pytest.approx(2 * (flat.width * flat.height)[cells].sum(), rel=1e-5)
    # What a flat net connects after grouping, counted without the code under test.
    targets = np.where(cells, -1 - group, np.arange(flat.num_nodes))
    crossing = sum(
        len(set(targets[flat.net_pins[start:end]].tolist())) > 1
        for start, end in zip(flat.net_start[:-1], flat.net_start[1:], strict=True)
    )
    drivers = plc.netlist.net_pins[plc.netlist.net_start[:-1]]
    assert plc.netlist.weight[drivers].sum() == crossing == task.record.counts["net_weight"]


@needs_partitioner
def test_the_same_files_give_the_same_task(task, flat_files):
    again = import_netlist(source_of(flat_files), flat_files / "again", grid=(24, 22))
    for name in ("netlist.pb.txt", "initial.plc"):
        assert (again.folder / name).read_bytes() == (task.folder / name).read_bytes()


@needs_partitioner
def test_an_imported_folder_is_an_environment(task):
    env = CircuitEnv(netlist_file=str(task.folder))
    observation, _ = env.reset(seed=0)
    steps, terminated = 0, False
    while not terminated:
        observation, reward, terminated, _, _ = env.step(int(np.flatnonzero(observation["mask"])[0]))
        steps += 1
    assert steps == 4
    assert -3.0 < reward < -0.1
    with pytest.raises(ArgumentError, match=r"has no netlist\.pb\.txt"):
        CircuitEnv(netlist_file=str(task.folder.parent))


@needs_partitioner
def test_a_placement_goes_back_as_def_and_tcl(task, flat_files, tmp_path):
    macros = save_task_placement_pnr(task.folder, tmp_path / "placed.def")
    library = read_lef([flat_files / "cells.lef", flat_files / "macros.lef"])
    again, before = read_def(tmp_path / "placed.def", library), task.flat
    for macro in macros:
        old, new = before.netlist.names.find(macro.component), again.netlist.names.find(macro.component)
        assert (again.netlist.x[new], again.netlist.y[new]) == pytest.approx(
            (before.netlist.x[old], before.netlist.y[old]), abs=1e-3
        )
        assert again.fixed[new] == 1
    save_task_placement_pnr(task.folder, tmp_path / "placed.tcl", tool="innovus", snap=(0.2, 1.4), fix=False)
    lines = (tmp_path / "placed.tcl").read_text().splitlines()
    assert len(lines) == 5
    assert lines[1].startswith("placeInstance {ram/m0} ")
    x, y = map(float, lines[1].split()[2:4])
    assert (x / 0.2, y / 1.4) == pytest.approx((round(x / 0.2), round(y / 1.4)), abs=1e-6)
    with pytest.raises(ConfigError, match=r"ends with neither \.def nor \.tcl"):
        save_task_placement_pnr(task.folder, tmp_path / "placed.txt")


def test_orientations_of_def_and_tcl_move_pins_alike():
    from a2perf.domains.circuit_training.engine.placement import ROTATION
    from a2perf.domains.circuit_training.netlists.netlist import ORIENTATIONS
    from a2perf_placement.netlists.placement_export import _TURNS

    quarter = np.array([[0, -1], [1, 0]])  # a quarter turn to the left
    turns = {"R0": np.eye(2), "R90": quarter, "R180": -np.eye(2), "R270": -quarter}
    # MX mirrors up and down, MY left and right; R90 after that is a quarter turn to the left.
    turns |= {"MX": np.diag([1, -1]), "MY": np.diag([-1, 1])}
    turns |= {"MXR90": quarter @ turns["MX"], "MYR90": quarter @ turns["MY"]}
    for index, name in enumerate(ORIENTATIONS[:8]):
        assert np.array_equal(ROTATION[index].reshape(2, 2), turns[_TURNS[name]]), name


def test_a_missing_partitioner_is_named_with_its_fix(monkeypatch, flat_files, tmp_path):
    monkeypatch.setattr(partitioning, "PARTITIONER", "a_package_that_is_not_there")
    with pytest.raises(MissingDependency, match="pip install -e packages/placement"):
        import_netlist(source_of(flat_files), tmp_path, grid=(24, 22))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "nothing to import"),
        (["--def", "a.def"], "--lef is missing"),
        (["--def", "a.def", "--bookshelf", "a.aux"], "several kinds"),
        (["--lef", "no.lef", "--def", "no.def"], "no.lef: no such file"),
        (["--lef", "no.lef", "--def", "no.def", "--grid", "7"], "--grid '7' is not a grid"),
        (["--lef", "no.lef", "--def", "no.def", "--max-sinks", "0"], "max_sinks is 0"),
    ],
)
def test_bad_arguments_end_with_2_and_say_why(arguments, message, tmp_path):
    result = CliRunner().invoke(cli, ["data", "netlist", "import", *arguments, "-o", str(tmp_path / "x")])
    assert result.exit_code == 2 or isinstance(result.exception, (ConfigError, NetlistError))
    assert message in result.output + str(result.exception)
    assert not (tmp_path / "x").exists()


@needs_partitioner
def test_the_commands_import_and_export(tmp_path):
    def run(*arguments):
        result = CliRunner().invoke(cli, ["data", "netlist", *map(str, arguments)], catch_exceptions=False)
        assert result.exit_code == 0, result.output
        return result.output

    sample = tmp_path / "sample"
    run("sample", sample, "--format", "bookshelf", "--cells", 300, "--macros", 2, "--ports", 8)
    out = run("import", "--bookshelf", sample / "design.aux", "-o", tmp_path / "t", "--grid", "25x20", "--json")
    assert json.loads(out)["hard_macros"] == 2
    assert "2 macros" in run("save-pnr", tmp_path / "t", tmp_path / "p.tcl")


# --- grouping ---------------------------------------------------------------------------------------------------------


@needs_partitioner
def test_a_known_clustering_is_met_or_beaten(tmp_path):
    clustered = generate(DesignSpec(num_macros=10, num_clusters=60, num_nets=700, num_ports=24))
    clustered.write(tmp_path)
    netlist = read_netlist(tmp_path / "netlist.pb.txt")
    at = np.stack([netlist.x, netlist.y], axis=1)
    flat, planted = expand_soft_macros(netlist, at, clustered.canvas, cells=4000, seed=1)
    assert flat.netlist.num_nodes == (planted < 0).sum() + 4000
    # The known clustering has no fixed groups, and it is compared before positions break groups up.
    flat.netlist.has_location[:] = 0
    settings = GroupingSettings(groups=50, fixed_levels=0)
    grouping = group_cells(flat.netlist, clustered.canvas, clustered.grid, settings)
    graph = Hypergraph.of(flat.netlist, 500)

    def cut(group):
        labels = np.where(group >= 0, flat.netlist.num_nodes + group, np.arange(flat.netlist.num_nodes))
        return graph.cut(labels[graph.vertex_node])

    assert cut(grouping.group) <= 1.05 * cut(planted)


def test_a_flat_netlist_in_protobuf_text_is_read(tmp_path):
    result = CliRunner().invoke(
        cli,
        ["data", "netlist", "generate", str(tmp_path), "--num-macros", "10", "--flat", "--num-clusters", "50"],
        catch_exceptions=False,
    )
    assert result.exit_code == 0
    source = NetlistSource(netlist_file=tmp_path / "netlist.pb.txt", init_placement=tmp_path / "initial.plc")
    flat = read_flat_design(source)
    assert (flat.netlist.kind == KIND_STDCELL).sum() == 50
    assert flat.netlist.has_location.min(where=flat.netlist.owner < 0, initial=1) == 1
