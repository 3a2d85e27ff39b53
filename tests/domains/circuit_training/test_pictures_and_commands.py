"""Pictures of placements and the commands ``a2perf data netlist ...``."""

import json

import numpy as np
import pytest
from click.testing import CliRunner
from PIL import Image

from a2perf.domains.circuit_training.commands import netlist
from a2perf.domains.circuit_training.environment import CircuitEnv
from a2perf.domains.circuit_training.errors import ArgumentError
from a2perf.domains.circuit_training.netlist_cache import load_netlist
from a2perf.errors import ConfigError

PURPLE = np.array([191, 127, 191])


def run(*arguments):
    result = CliRunner().invoke(netlist, [str(argument) for argument in arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


@pytest.fixture(scope="module")
def toy_files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("toy")
    run("generate", folder, "--design", "toy_macro_stdcell")
    return folder / "netlist.pb.txt", folder / "initial.plc"


# --- Pictures


def toy_env(**kwargs):
    env = CircuitEnv(design="toy_macro_stdcell", render_mode="rgb_array", **kwargs)
    env.reset()
    return env


def test_a_macro_is_drawn_at_its_true_box_with_y_upwards():
    env = toy_env()
    # cell (row 7, column 3): centre (35, 75) um of a 200 x 100 um canvas
    env.step(env.translate_to_padded_canvas(7 * 20 + 3))
    picture = env.render()
    assert picture.shape == (600, 800, 3)
    purple = (np.abs(picture.astype(int) - PURPLE).max(axis=2) < 30).nonzero()
    scale = (800 - 2 * 37) / 200.0
    bottom = 300 + 50 * scale
    assert purple[1].min() == pytest.approx(37 + 20 * scale, abs=2)
    assert purple[1].max() == pytest.approx(37 + 50 * scale, abs=2)
    assert purple[0].min() == pytest.approx(bottom - 95 * scale, abs=2)
    assert purple[0].max() == pytest.approx(bottom - 55 * scale, abs=2)


def test_only_placed_macros_are_drawn_and_overlays_change_the_picture():
    pictures = {}
    for overlays in ((), ("nets",), ("congestion",), ("density",)):
        env = toy_env(overlays=overlays)
        _, info = env.reset()
        empty = env.render()
        assert not (np.abs(empty.astype(int) - PURPLE).max(axis=2) < 5).any()
        for _ in range(2):
            *_, info = env.step(int(np.flatnonzero(info["action_mask"])[-1]))
        pictures[overlays] = env.render()
    plain = pictures.pop(())
    assert all((picture != plain).any() for picture in pictures.values())


def test_without_a_render_mode_there_is_no_picture_and_a_window_needs_a_display(monkeypatch):
    env = CircuitEnv(design="toy_macro_stdcell")
    env.reset()
    assert env.render() is None
    monkeypatch.delenv("DISPLAY", raising=False)
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    with pytest.raises(ConfigError, match="display"):
        CircuitEnv(design="toy_macro_stdcell", render_mode="human")
    with pytest.raises(ArgumentError, match="overlays is 'wires'"):
        CircuitEnv(design="toy_macro_stdcell", overlays=("wires",))


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
