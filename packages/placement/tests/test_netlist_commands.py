"""The commands ``a2perf data netlist ...``."""

import json

import numpy as np
import pytest
from click.testing import CliRunner
from PIL import Image

from a2perf.domains.circuit_training.generated.design_plan import DesignSpec
from a2perf.domains.circuit_training.generated.generator import generate
from a2perf.domains.circuit_training.netlists.netlist_cache import load_netlist
from a2perf.errors import ConfigError
from a2perf_placement.netlists.commands import netlist
from a2perf_placement.netlists.statistics import netlist_statistics


def run(*arguments):
    result = CliRunner().invoke(netlist, [str(argument) for argument in arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


@pytest.fixture(scope="module")
def toy_files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("toy")
    run("generate", folder, "--design", "toy_macro_stdcell")
    return folder / "netlist.pb.txt", folder / "initial.plc"


# --- Commands


def test_generate_writes_the_same_files_for_the_same_options(tmp_path):
    options = ("--num-macros", 12, "--seed", 3, "--utilization", 0.5)
    for folder in ("a", "b"):
        run("generate", tmp_path / folder, *options)
    for name in ("netlist.pb.txt", "initial.plc"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()
    assert (load_netlist(str(tmp_path / "a" / "netlist.pb.txt")).soft == 1).sum() == 72


def test_stats_prints_counts_areas_and_fan_outs(toy_files):
    text = run("stats", toy_files[0])
    assert "hard macros                   2" in text
    assert "standard cells               12" in text
    numbers = json.loads(run("stats", toy_files[0], "--json"))
    assert numbers["counts"]["nets"] == 20
    assert numbers["macro_area"] == 2400.0
    assert numbers["soft_area"] == 24.0
    assert numbers["fan_out"] == {"1": 18, "6": 2}
    assert numbers["rent_exponent"] is None  # too few nodes


def test_convert_keeps_what_the_netlist_says(toy_files, tmp_path):
    source = load_netlist(str(toy_files[0]))
    for name in ("copy.pb.txt", "copy.pb.txt.gz"):
        run("convert", toy_files[0], tmp_path / name)
        copy = load_netlist(str(tmp_path / name))
        assert list(copy.names) == list(source.names)
        for column in (
            "kind",
            "width",
            "height",
            "x",
            "y",
            "x_offset",
            "weight",
            "net_start",
            "net_pins",
            "has_location",
        ):
            assert np.array_equal(getattr(copy, column), getattr(source, column)), column
    run("convert", toy_files[0], tmp_path / "copy.json")
    nodes = json.loads((tmp_path / "copy.json").read_text())
    assert nodes[0] | {"drives": []} == nodes[0]
    assert nodes[4]["drives"] == ["CT0", "CT1", "CT2", "CB0", "CB1", "CB2"]
    with pytest.raises(ConfigError, match="no known ending"):
        run("convert", toy_files[0], tmp_path / "copy.xml")


def test_show_writes_a_picture_and_says_what_the_placement_costs(tmp_path):
    run("generate", tmp_path, "--num-macros", 10)
    target = tmp_path / "picture.png"
    text = run("show", tmp_path / "netlist.pb.txt", tmp_path / "initial.plc", "-o", target, "--overlay", "density")
    assert np.asarray(Image.open(target).convert("RGB")).std() > 5.0
    assert "wirelength" in text


def test_the_statistics_see_the_rent_exponent_of_a_flat_design(tmp_path):
    found = []
    for exponent in (0.45, 0.75):
        design = generate(DesignSpec(num_macros=10, seed=1, flat=True, num_nets=6000, rent_exponent=exponent))
        netlist, _ = design.write(tmp_path / str(exponent))
        found.append(netlist_statistics(load_netlist(str(netlist))).rent_exponent)
    assert found[0] + 0.1 < found[1]
    assert found[1] == pytest.approx(0.75, abs=0.12)
