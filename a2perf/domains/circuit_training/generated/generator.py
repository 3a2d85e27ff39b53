"""Generated designs: seeded netlists of macros, clusters (or standard cells) and ports, with grid and start placement.

Sizes come from ``design_plan``; connections follow Rent's rule (``connectivity``).
The same specification gives the same bytes. `ariane_twin` has the published statistics of the NanGate45 Ariane-133
and nothing else in common with it; `toy_design` is the small design of the field, written down.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from a2perf.domains.circuit_training.generated.design import Design
from a2perf.domains.circuit_training.generated.design_plan import (
    VERSION,
    DesignPlan,
    DesignSpec,
    ariane_twin_plan,
    in_rows,
    plan_of,
)
from a2perf.domains.circuit_training.netlists.connectivity import hilbert_positions, rent_nets
from a2perf.domains.circuit_training.netlists.plc_file import Placed

_LEAVES_LOOKED_AT = 4096  # for the one that lies nearest to a port
_TWIN_RENT_EXPONENT = 0.5
_DECIMALS = 4  # of lengths in um; processors differ in much later digits
_TOY_CANVAS = (200.0, 100.0)  # um
_TOY_GRID = (20, 10)
_TOY_MACRO = (30.0, 40.0)  # um
_TOY_CELL = (1.0, 2.0)  # um
# side: port and cell x (or y), the places along the side; um
_TOY_SIDES = {
    "L": (0.5, 10.0, (25.0, 50.0, 75.0)),
    "R": (199.5, 190.0, (25.0, 50.0, 75.0)),
    "T": (99.5, 90.0, (50.0, 100.0, 150.0)),
    "B": (0.5, 10.0, (50.0, 100.0, 150.0)),
}


def generate(spec: DesignSpec) -> Design:
    """Returns the design of a specification."""
    generator = np.random.default_rng([VERSION, spec.seed, spec.num_macros])
    plan = plan_of(spec, generator)
    kind = f"{spec.num_macros} macros, seed {spec.seed}, utilization {spec.utilization:g}"
    comment = (f"Generated design: {kind}, Rent exponent {spec.rent_exponent:g}",)
    return _build(spec.name, comment, plan, spec.rent_exponent, spec.flat, generator)


def ariane_twin() -> Design:
    """Returns the generated design with the published statistics of the NanGate45 Ariane-133."""
    generator = np.random.default_rng([VERSION, 133])
    comment = ("Generated design with the published statistics of the NanGate45 Ariane-133; it is not Ariane",)
    return _build("ariane_twin", comment, ariane_twin_plan(generator), _TWIN_RENT_EXPONENT, False, generator)


def toy_design() -> Design:
    """Returns the toy design of the field: 2 macros between 12 standard cells and 12 ports, three of each per side.

    Each macro drives the cells at the top and the bottom edge; the cells at the left and the right edge drive the
    macros.
    The earlier netlist's own comment counts nine cells and nine ports; published costs are of these twelve of each.
    """
    comment = ("Two macros between standard cells and ports, three of each on every side",)
    design = Design("toy_macro_stdcell", comment, _TOY_CANVAS, _TOY_GRID)
    for macro, x in (("ML", 50.0), ("MR", 150.0)):
        design.add(macro, "MACRO", width=_TOY_MACRO[0], height=_TOY_MACRO[1], x=x, y=50.0)
    for macro in ("ML", "MR"):
        design.add(f"{macro}/Pin", "MACRO_PIN", macro_name=macro, x_offset=-15.0, y_offset=0.0)
    outputs = [f"C{side}{k}" for side in "TB" for k in range(3)]
    for macro in ("ML", "MR"):
        design.add(f"{macro}/Pout", "MACRO_PIN", outputs, macro_name=macro, x_offset=15.0, y_offset=0.0)
    for side, (port_at, cell_at, places) in _TOY_SIDES.items():
        for k, along in enumerate(places):
            upright = side in "LR"
            port = (port_at, along) if upright else (along, port_at)
            cell = (cell_at, along) if upright else (along, cell_at)
            into_cell = [f"C{side}{k}"] if upright else []
            from_cell = [f"M{side}/Pin"] if upright else [f"P{side}{k}"]
            design.add(f"P{side}{k}", "PORT", into_cell, x=port[0], y=port[1])
            name = f"C{side}{k}"
            design.add(name, "STDCELL", from_cell, width=_TOY_CELL[0], height=_TOY_CELL[1], x=cell[0], y=cell[1])
    return design


def _rounded(values: NDArray[np.float64]) -> list[Any]:
    rows: list[Any] = np.round(values, _DECIMALS).tolist()
    return rows


# --- Nodes and nets


class _Builder:
    """Adds nodes in file order (ports, macros and their pins, clusters and theirs) from nets between leaves."""

    def __init__(self, plan: DesignPlan, generator: np.random.Generator, *, flat: bool) -> None:
        self.plan, self.generator, self.flat = plan, generator, flat
        macros, clusters = len(plan.macro_sizes), len(plan.cluster_sizes)
        self.leaves = macros + clusters
        at = generator.permutation(self.leaves)
        self.leaf_node = np.empty(self.leaves, np.int64)  # node (macros first) of each leaf
        self.leaf_node[at] = np.arange(self.leaves)
        self.macros = macros
        self.free_inputs = np.zeros(macros, np.int64)
        self.inputs_used = np.zeros(macros, np.int64)
        self.leaf_centres = hilbert_positions(self.leaves) * np.array(plan.canvas)

    def sink_name(self, leaf: int) -> str:
        """Returns the name of an input pin of a leaf; a macro without a free input passes the net on to a cluster."""
        node = int(self.leaf_node[leaf])
        while node < self.macros:
            used = int(self.inputs_used[node])
            if used < self.free_inputs[node]:
                self.inputs_used[node] += 1
                return f"M{node}/in[{used}]"
            leaf = (leaf + 1) % self.leaves
            node = int(self.leaf_node[leaf])
        return f"C{node - self.macros}" if self.flat else f"Grp_{node - self.macros + 1}/Pinput"

    def sink_names(self, leaves: list[int]) -> list[str]:
        """Returns the names of the input pins at the leaves of a net: distinct, and one per leaf if possible."""
        names: dict[str, None] = {}
        for leaf in leaves:
            name, tried = self.sink_name(leaf), 0
            while name in names and len(names) < self.leaves // 2 and tried < self.leaves:
                tried += 1
                name = self.sink_name((leaf + tried) % self.leaves)
            names[name] = None
        return list(names)

    def nearest_leaves(self, ports: NDArray[np.float64]) -> list[int]:
        """Leaf that lies nearest to each port."""
        step = max(1, self.leaves // _LEAVES_LOOKED_AT)
        looked_at = self.leaf_centres[::step]
        return [step * int(np.argmin(np.abs(looked_at - port).sum(axis=1))) for port in ports]


def _build(
    name: str,
    comment: tuple[str, ...],
    plan: DesignPlan,
    rent_exponent: float,
    flat: bool,
    generator: np.random.Generator,
) -> Design:
    builder = _Builder(plan, generator, flat=flat)
    macros, clusters, leaves = builder.macros, len(plan.cluster_sizes), builder.leaves
    leaf_of = np.empty(leaves, np.int64)
    leaf_of[builder.leaf_node] = np.arange(leaves)

    # a node drives at least one net if there are enough nets
    macro_drivers = np.sort(_spread(macros, len(plan.macro_nets), generator))
    outputs = np.bincount(macro_drivers, minlength=macros)
    builder.free_inputs[:] = np.maximum(4, plan.macro_pins - outputs)
    cluster_drivers = np.sort(macros + _spread(clusters, len(plan.cluster_nets), generator))
    port_leaves = np.array(builder.nearest_leaves(plan.ports), dtype=np.int64)

    drivers = np.concatenate([port_leaves[: len(plan.port_nets)], leaf_of[macro_drivers], leaf_of[cluster_drivers]])
    fan_outs = np.concatenate([plan.port_nets, plan.macro_nets, plan.cluster_nets])
    sinks = [builder.sink_names(net) for net in rent_nets(generator, leaves, drivers, fan_outs, rent_exponent)]
    # the ports that drive nothing receive, in turn, from the clusters' nets
    receiving = range(len(plan.port_nets), len(plan.ports))
    first_of_clusters = len(plan.port_nets) + len(plan.macro_nets)
    if len(plan.cluster_nets):
        # Not strict: with fewer cluster nets than such ports, the rest stays unconnected.
        for port, net in zip(receiving, generator.permutation(len(plan.cluster_nets))[: len(receiving)], strict=False):
            sinks[first_of_clusters + int(net)][0] = f"P{port}"

    design = Design(name, comment, plan.canvas, plan.grid)
    _add_ports(design, plan, sinks)
    _add_macros(design, plan, builder, leaf_of, macro_drivers, sinks[len(plan.port_nets) : first_of_clusters])
    centres = builder.leaf_centres[leaf_of[macros:]]
    starts = np.searchsorted(cluster_drivers - macros, np.arange(clusters + 1))
    sizes = zip(_rounded(plan.cluster_sizes), _rounded(centres), strict=True)
    for k, ((width, height), (x, y)) in enumerate(sizes):
        nets = sinks[first_of_clusters + starts[k] : first_of_clusters + starts[k + 1]]
        if flat:
            # a cell has one output: what it drives are the sinks of all nets that fell to it
            drives = list(dict.fromkeys(sink for net in nets for sink in net))
            index = design.add(f"C{k}", "STDCELL", drives, width=width, height=height, x=x, y=y)
            design.placement.append(Placed(index, x, y, "-", False))
        else:
            _add_cluster(design, plan, generator, f"Grp_{k + 1}", nets, (width, height), (x, y))
    return design


def _spread(owners: int, count: int, generator: np.random.Generator) -> NDArray[np.int64]:
    """Returns the owner of each of ``count`` nets: one net per owner first, the rest by log-normal shares."""
    first = generator.permutation(owners)[:count]
    shares = np.exp(generator.normal(0.0, 0.5, owners))
    rest = generator.choice(owners, size=count - len(first), p=shares / shares.sum())
    return np.concatenate([first, rest]).astype(np.int64)


def _add_ports(design: Design, plan: DesignPlan, sinks: list[list[str]]) -> None:
    for k, ((x, y), side) in enumerate(zip(_rounded(plan.ports), plan.port_sides, strict=True)):
        drives = sinks[k] if k < len(plan.port_nets) else []
        index = design.add(f"P{k}", "PORT", drives, side=side, x=x, y=y)
        design.placement.append(Placed(index, x, y, "-", True))


def _add_macros(
    design: Design,
    plan: DesignPlan,
    builder: _Builder,
    leaf_of: NDArray[np.int64],
    owners: NDArray[np.int64],
    sinks: list[list[str]],
) -> None:
    """Adds the macros in rows; equal ones are swapped to bring connected macros together.

    Inputs lie along the left edge, outputs along the right one.
    """
    rows = in_rows(plan.macro_sizes, plan.canvas)
    centres = plan.macro_sizes / 2.0 if rows is None else rows
    near = np.array(builder.nearest_leaves(centres))
    for size in np.unique(plan.macro_sizes, axis=0):
        alike = np.flatnonzero((plan.macro_sizes == size).all(axis=1))
        by_leaf = alike[np.argsort(leaf_of[alike], kind="stable")]
        centres[by_leaf] = centres[alike[np.argsort(near[alike], kind="stable")]]
    starts = np.searchsorted(owners, np.arange(builder.macros + 1))
    for k, ((width, height), (x, y)) in enumerate(zip(_rounded(plan.macro_sizes), _rounded(centres), strict=True)):
        index = design.add(f"M{k}", "MACRO", width=width, height=height, orientation="N", x=x, y=y)
        design.placement.append(Placed(index, x, y, "N", False))
        inputs, outputs = int(builder.free_inputs[k]), sinks[starts[k] : starts[k + 1]]
        for pin in range(inputs):
            offset = round(height * ((pin + 0.5) / inputs - 0.5), _DECIMALS)
            design.add(f"M{k}/in[{pin}]", "MACRO_PIN", macro_name=f"M{k}", x_offset=-width / 2.0, y_offset=offset)
        for pin, drives in enumerate(outputs):
            offset = round(height * ((pin + 0.5) / len(outputs) - 0.5), _DECIMALS)
            design.add(
                f"M{k}/out[{pin}]", "MACRO_PIN", drives, macro_name=f"M{k}", x_offset=width / 2.0, y_offset=offset
            )


def _add_cluster(
    design: Design,
    plan: DesignPlan,
    generator: np.random.Generator,
    name: str,
    nets: list[list[str]],
    size: tuple[float, float],
    centre: tuple[float, float],
) -> None:
    (width, height), (x, y) = size, centre
    x = round(float(np.clip(x, width / 2.0, plan.canvas[0] - width / 2.0)), _DECIMALS)
    y = round(float(np.clip(y, height / 2.0, plan.canvas[1] - height / 2.0)), _DECIMALS)
    index = design.add(name, "MACRO", width=width, height=height, x=x, y=y)
    design.placement.append(Placed(index, x, y, "N", False))
    design.add(f"{name}/Pinput", "MACRO_PIN", macro_name=name, x_offset=0.0, y_offset=0.0)
    counts = {"single": 0, "multi": 0}
    for drives in nets:
        sort = "single" if len(drives) == 1 else "multi"
        attributes: dict[str, float | str] = {"macro_name": name, "x_offset": 0.0, "y_offset": 0.0}
        if sort == "single" and generator.random() < plan.weighted_share:
            # several nets to one place are pooled into one with their number as weight; few are pooled often
            attributes["weight"] = float(min(47, int(2.0 * (1.0 - generator.random()) ** (-1.0 / 1.15))))
        design.add(f"{name}/Poutput_{sort}_{counts[sort]}", "MACRO_PIN", drives, **attributes)
        counts[sort] += 1
