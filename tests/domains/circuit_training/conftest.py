"""Small random designs, written as netlist files, for the tests of the placement engine."""

import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("numba", reason="needs the extra circuit-training")


def node_text(name: str, inputs: tuple[str, ...] = (), **attributes: str | float) -> str:
    """Returns one node in protobuf text form."""
    lines = [f'node {{\n  name: "{name}"', *(f'  input: "{sink}"' for sink in inputs)]
    for key, value in attributes.items():
        given = f'placeholder: "{value}"' if isinstance(value, str) else f"f: {value!r}"
        lines.append(f'  attr {{\n    key: "{key}"\n    value {{\n      {given}\n    }}\n  }}')
    return "\n".join([*lines, "}\n"])


MACRO = node_text("M", type="MACRO", width=30.0, height=40.0)
PIN = node_text("M/p", ("P", "P", "M", "q"), type="macro_pin", macro_name="M", x_offset=0.3, y_offset=-2.0, weight=2.0)
OTHER = node_text("q", ("P",), type="stdcell", width=1.0, height=2.0, x=5.0, y=6.0)
PORT = node_text("P", ("M/p",), type="Port", side="left", x=0.0, y=7.5)
SOFT = node_text("Grp_1", type="MACRO", width=3.0, height=4.0, orientation="FN")
METADATA = node_text("__metadata__", ("nobody",), soft_macro_area_bloating_ratio=2.0)
DESIGN = "# a comment { with : braces\n" + METADATA + MACRO + PIN + OTHER + PORT + SOFT


def random_netlist(seed: int) -> str:
    """Returns the text of a design on a canvas of about 100 x 100 um with all kinds of nodes."""
    rng = np.random.default_rng(seed)
    pins = [f"M{m}/p{p}" for m in range(5) for p in range(3)] + [f"Grp_{g}/o{p}" for g in range(6) for p in range(2)]
    cells, ports = [f"c{i}" for i in range(4)], [f"P{i}" for i in range(5)]
    endpoints = [*pins, *cells, *ports]

    def sinks(name: str) -> tuple[str, ...]:
        count = int(rng.integers(0, 7)) if rng.random() < 0.9 else 16
        return tuple(str(end) for end in rng.choice(endpoints, count) if end != name)

    text = ["# a random design\n"]
    for name in ports:
        side = str(rng.choice(["LEFT", "RIGHT", "TOP", "BOTTOM"]))
        place = {"x": round(float(rng.uniform(0, 99)), 3), "y": round(float(rng.uniform(0, 99)), 3)}
        text.append(node_text(name, sinks(name), type="PORT", side=side, **place))
    for macro in [f"M{m}" for m in range(5)] + [f"Grp_{g}" for g in range(6)]:
        width, height = (round(float(value), 3) for value in rng.uniform(4, 22, 2))
        text.append(node_text(macro, type="MACRO", width=width, height=height))
        for pin in (pin for pin in pins if pin.startswith(macro + "/")):
            x, y = (round(float(value), 3) for value in rng.uniform(-4, 4, 2))
            weight = {"weight": float(rng.choice([1.0, 2.0, 3.5]))} if rng.random() < 0.5 else {}
            text.append(
                node_text(pin, sinks(pin), type="MACRO_PIN", macro_name=macro, x_offset=x, y_offset=y, **weight)
            )
    for name in cells:
        text.append(node_text(name, sinks(name), type="STDCELL", width=2.0, height=1.5))
    return "".join(text)


@pytest.fixture(scope="session")
def golden_netlists(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder below which the netlists of the golden cases are."""
    from tests.golden import netlists, recorded

    folder = tmp_path_factory.mktemp("golden")
    netlists.write_designs(folder)
    shutil.copytree(recorded.DATA / "fuzz", folder / "circuit_training" / "fuzz")
    return folder


@pytest.fixture
def ariane() -> dict[str, Path]:
    """The published files of Ariane by name; for tests of the group ``ariane``."""
    from a2perf import assets
    from tests.golden.ariane import ARIANE_FILES

    return {name: path for name, asset in ARIANE_FILES.items() if (path := assets.locate(asset)) is not None}


@pytest.fixture
def write_netlist(tmp_path: Path) -> Callable[[str], Path]:
    """Writes a netlist file."""

    def write(text: str, name: str = "netlist.pb.txt") -> Path:
        path = tmp_path / name
        path.write_text(text)
        return path

    return write


def play(env, seed: int = 0) -> tuple[list[int], list, list, list[float], list[dict]]:
    """Plays an episode with random feasible actions; returns actions, masks, observations, rewards, infos."""
    generator = np.random.default_rng(seed)
    observation, info = env.reset()
    actions, masks, observations, rewards, infos = [], [info["action_mask"]], [observation], [], []
    done = False
    while not done:
        actions.append(int(generator.choice(np.flatnonzero(masks[-1]))))
        observation, reward, terminated, truncated, info = env.step(actions[-1])
        masks.append(info["action_mask"])
        observations.append(observation)
        rewards.append(reward)
        infos.append(info)
        done = terminated or truncated
    return actions, masks, observations, rewards, infos


@pytest.fixture
def small(write_netlist):
    """An engine with `DESIGN` on a canvas of 100 x 80 um."""
    from a2perf.domains.circuit_training import PlacementCost

    plc = PlacementCost(write_netlist(DESIGN))
    plc.set_canvas_size(100, 80)
    return plc


@pytest.fixture
def engine(write_netlist):
    """Returns an engine with a random design that is placed at random, canvas 100 x 90 um."""
    from a2perf.domains.circuit_training.engine.placement_cost import PlacementCost
    from a2perf.domains.circuit_training.netlists.netlist import ORIENTATIONS
    from a2perf.domains.circuit_training.netlists.netlist_reader import read_netlist

    def make(seed: int, beyond: float = 0.0, spacing: tuple[float, float] = (0.0, 0.0)) -> PlacementCost:
        rng = np.random.default_rng(seed)
        plc = PlacementCost(read_netlist(write_netlist(random_netlist(seed))), *spacing)
        plc.set_canvas_boundary_check(False)
        plc.set_canvas_size(100.0, 90.0)
        plc.set_placement_grid(int(rng.integers(3, 12)), int(rng.integers(3, 12)))
        plc.set_congestion_grid(int(rng.integers(2, 15)), int(rng.integers(2, 15)))
        plc.set_congestion_smooth_range(int(rng.integers(0, 4)))
        for node in [*plc.get_macro_indices(), *plc.state.standard_cells.tolist()]:
            plc.update_node_coords(node, *rng.uniform(-beyond, 100 + beyond, 2) * (1.0, 0.9))
        for macro in plc.get_macro_indices():
            plc.update_macro_orientation(macro, ORIENTATIONS[rng.integers(8)])
        return plc

    return make
