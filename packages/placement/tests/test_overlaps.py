"""The overlap verdict is exact: touching edges are no overlap, and one unit in the last place is one."""

from decimal import Decimal
from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest

from a2perf.domains.circuit_training.engine.placement import PlacementError
from a2perf.domains.circuit_training.engine.placement_cost import PlacementCost
from a2perf_placement.overlaps import legality, overlapping_pairs
from tests.domains.circuit_training.conftest import node_text

THIRD = Fraction(1, 3)


def by_definition(x, y, width, height):
    """Overlapping pairs in rational arithmetic, straight from the definition."""
    x, y, width, height = ([Fraction(number) for number in numbers] for numbers in (x, y, width, height))
    return [
        (i, j)
        for i, j in combinations(range(len(x)), 2)
        if 2 * abs(x[i] - x[j]) < width[i] + width[j] and 2 * abs(y[i] - y[j]) < height[i] + height[j]
    ]


@pytest.mark.parametrize(
    ("x", "width", "overlap"),
    [
        ((0, THIRD), (THIRD, THIRD), False),  # thirds touch, which no floating-point number could show
        ((0, THIRD), (THIRD, THIRD + Fraction(1, 10**30)), True),
        ((Decimal("0.1"), Decimal("0.4")), (Decimal("0.2"), Decimal("0.4")), False),
        ((0.1, 0.4), (0.2, 0.4), False),  # the floats are exact multiples of the float 0.1
        ((0.0, 0.5), (0.5, 0.5), False),
        ((0.0, np.nextafter(0.5, 0.0)), (0.5, 0.5), True),
        ((1e6, 1e6 + 57.57), (57.57, 57.57), by_definition((1e6, 1e6 + 57.57), (0, 0), (57.57, 57.57), (1, 1)) != []),
        ((5.0, 5.0), (1.0, 9.0), True),  # one inside the other
    ],
)
def test_edges(x, width, overlap):
    sizes = (1, 1)
    assert overlapping_pairs(x, (0, 0), width, sizes) == ([(0, 1)] if overlap else [])
    assert overlapping_pairs((0, 0), x, sizes, width) == ([(0, 1)] if overlap else [])


def test_rows_of_touching_boxes_agree_with_rational_arithmetic():
    generator = np.random.default_rng(0)
    width = np.float32(generator.uniform(1.0, 60.0, 60)).astype(np.float64)
    right = np.cumsum(width)
    x = right - width / 2
    x += generator.choice([0.0, 1.0, -1.0], 60) * np.spacing(x)
    y, height = np.zeros(60), np.ones(60)
    found = overlapping_pairs(x, y, width, height)
    assert found == by_definition(x.tolist(), y.tolist(), width.tolist(), height.tolist())
    assert 0 < len(found) < 59
    assert overlapping_pairs(x, y, width, height, tolerance=1e-9) == []


def test_bad_numbers_are_refused():
    with pytest.raises(PlacementError, match="2, 1, 1, 1 numbers"):
        overlapping_pairs((0, 1), (0,), (1,), (1,))
    for wrong in ((float("nan"), 1.0), (0.0, -1.0)):
        with pytest.raises(PlacementError, match="not finite, or a size"):
            overlapping_pairs(wrong[:1], (0,), wrong[1:], (1,))


def test_the_verdict_names_macros(tmp_path):
    path = tmp_path / "netlist.pb.txt"
    sizes = {"type": "MACRO", "width": 10.0, "height": 10.0}
    places = {"A": (5.0, 5.0), "B": (15.0, 5.0), "C": (16.0, 14.75), "D": (96.0, 50.0)}
    path.write_text(
        "".join(node_text(name, x=x, y=y, **sizes) for name, (x, y) in places.items())
        + node_text("E", **sizes)
        + node_text("Grp_1", x=5.0, y=5.0, **sizes)
    )
    plc = PlacementCost(str(path))
    plc.set_canvas_size(100.0, 100.0)
    verdict = legality(plc)
    ((first, second, width, height),) = [(o.first, o.second, o.width, o.height) for o in verdict.overlaps]
    assert (first, second, width, height) == ("B", "C", 9, Fraction(1, 4))
    assert (verdict.outside, verdict.unplaced, verdict.legal) == (("D",), ("E",), False)
    assert legality(plc, tolerance=0.25).overlaps == ()
