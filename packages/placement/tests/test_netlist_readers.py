"""The readers of LEF, DEF and Bookshelf: values by hand, both formats against each other, errors with their lines."""

import codecs
import contextlib
import gzip

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from a2perf.domains.circuit_training.netlists.netlist import NetlistError
from a2perf_placement.netlists import statements
from a2perf_placement.netlists.bookshelf import read_bookshelf
from a2perf_placement.netlists.def_reader import read_def
from a2perf_placement.netlists.die_area import area_outside
from a2perf_placement.netlists.flat_generator import FlatSpec, write_flat_design
from a2perf_placement.netlists.lef import read_lef

LEF = """VERSION 5.8 ;
# a technology
LAYER m1
  TYPE ROUTING ;
  SPACING 0.1 ;
END m1
VIARULE v GENERATE
  LAYER m1 ;
END v
PROPERTYDEFINITIONS
  MACRO kind STRING ;
END PROPERTYDEFINITIONS
MACRO INV
  CLASS CORE ;
  SIZE 2 BY 1 ;
  PIN A DIRECTION INPUT ; PORT LAYER m1 ; RECT 0.2 0.2 0.4 0.4 ; END END A
  PIN Z DIRECTION OUTPUT ; PORT LAYER m1 ; RECT 1.6 0.2 1.8 0.4 ; END END Z
END INV
MACRO FILL CLASS CORE SPACER ; SIZE 1 BY 1 ; END FILL
MACRO RAM
  CLASS BLOCK ;
  ORIGIN 1 0 ;
  SIZE 10 BY 20 ;
  PIN D[0]
    DIRECTION INPUT ;
    PORT
      LAYER m1 ;
      RECT -1 4 0 6 ;
      RECT -1 8 0 10 ;
    END
  END D[0]
  PIN Q DIRECTION OUTPUT ; PORT LAYER m1 ; POLYGON 8 0 9 0 9 2 8 2 ; END END Q
  OBS LAYER m1 ; RECT 0 0 9 20 ; END
END RAM
END LIBRARY
"""
DEF = """VERSION 5.8 ;
DIVIDERCHAR "/" ;
BUSBITCHARS "[]" ;
DESIGN top ;
UNITS DISTANCE MICRONS 1000 ;
PROPERTYDEFINITIONS
  COMPONENT why STRING ;
END PROPERTYDEFINITIONS
DIEAREA ( 10000 0 ) ( 10000 100000 ) ( 60000 100000 ) ( 60000 60000 ) ( 110000 60000 ) ( 110000 0 ) ;
ROW r0 core 10000 0 N DO 10 BY 1 STEP 200 0 ;
COMPONENTS 4 ;
- a/b\\[1\\] INV + SOURCE NETLIST + PLACED ( 20000 30000 ) FS ;
- u2 INV + PROPERTY why "a ; b" + UNPLACED ;
- ram RAM + FIXED ( 30000 40000 ) W ;
- f0 FILL + PLACED ( 0 0 ) N ;
END COMPONENTS
PINS 2 ;
- in + NET n1 + DIRECTION INPUT + USE SIGNAL + LAYER m1 ( 0 0 ) ( 10 10 ) + PLACED ( 10000 50000 ) E ;
- vdd + NET vdd + USE POWER ;
END PINS
BLOCKAGES 2 ;
- LAYER m1 RECT ( 0 0 ) ( 9 9 ) ;
- PLACEMENT + PARTIAL 40 RECT ( 10000 0 ) ( 20000 10000 ) ;
END BLOCKAGES
SPECIALNETS 1 ;
- vdd ( * VDD ) + USE POWER + ROUTED m1 100 ( 0 0 ) ( 5 * ) ;
END SPECIALNETS
NETS 4 ;
- n1 ( a/b\\[1\\] A ) ( PIN in ) ( ram D[0] ) + WEIGHT 3 ;
- n2 ( u2 A ) ( a/b\\[1\\] Z + SYNTHESIZED ) + ROUTED m1 ( 0 0 ) ( 1 * ) ;
- n3 ( ram Q ) ( u2 A ) ( u2 A ) ;
- pwr ( u2 A ) ( ram Q ) + USE GROUND ;
END NETS
END DESIGN
"""


def read(tmp_path, def_text=DEF, lef_text=LEF):
    (tmp_path / "cells.lef").write_text(lef_text)
    (tmp_path / "design.def").write_text(def_text)
    return read_def(tmp_path / "design.def", read_lef([tmp_path / "cells.lef"]))


def nets_of(netlist):
    ends = np.split(netlist.net_pins, netlist.net_start[1:-1])
    return [[netlist.names[pin] for pin in net] for net in ends]


def test_def_gives_positions_pins_nets_and_blockages(tmp_path):
    flat = read(tmp_path)
    netlist = flat.netlist
    assert list(netlist.names) == ["in", "ram", "ram/D[0]", "ram/Q", "a/b[1]", "u2"]
    assert flat.canvas == (100.0, 100.0)
    assert flat.origin == (10.0, 0.0)
    # W exchanges width and height: the box is 20 x 10 um, its corner at (20, 40) of the canvas.
    assert (netlist.x[1], netlist.y[1]) == (30.0, 45.0)
    assert (netlist.width[1], netlist.height[1]) == (10.0, 20.0)
    assert flat.fixed.tolist() == [1, 1, 0, 0, 0, 0]
    assert {node: macro.master for node, macro in flat.macros.items()} == {1: "RAM"}
    # The box around both shapes of D[0] is (-1, 4)..(0, 10); the origin moves it by 1, the centre is at (5, 10).
    assert (netlist.x_offset[2], netlist.y_offset[2]) == (-4.5, -3.0)
    assert (netlist.x_offset[3], netlist.y_offset[3]) == (4.5, -9.0)
    assert netlist.has_location.tolist() == [1, 1, 0, 0, 1, 0]
    assert nets_of(netlist) == [["in", "a/b[1]", "ram/D[0]"], ["a/b[1]", "u2"], ["ram/Q", "u2"]]
    assert netlist.weight[0] == 3.0
    assert (0.0, 0.0, 10.0, 10.0, 0.6) in [tuple(round(value, 9) for value in row) for row in flat.blockages.tolist()]
    assert (50.0, 60.0, 100.0, 100.0, 1.0) in [tuple(row) for row in flat.blockages.tolist()]
    assert any("filler" in note for note in flat.notes)


def test_pieces_of_any_size_and_gzip_give_the_same_design(tmp_path, monkeypatch):
    whole = read(tmp_path)
    (tmp_path / "zipped.def.gz").write_bytes(gzip.compress(DEF.encode()))
    for size in (1, 7, 64, 1000):
        monkeypatch.setattr(statements, "PIECE_BYTES", size)
        again = read_def(tmp_path / "zipped.def.gz", read_lef([tmp_path / "cells.lef"]))
        assert nets_of(again.netlist) == nets_of(whole.netlist)
        assert (again.netlist.x == whole.netlist.x).all()


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("- u2 INV", "- u2 INVX", "line 13: 'INVX' is not a cell of .*did you mean 'INV'"),
        ("- u2 INV", "- ram INV", "line 14: component 'ram' occurs twice"),
        ("( 30000 40000 ) W", "( 30000 4o000 ) W", "line 14: y '4o000' is not a number"),
        ("( 30000 40000 ) W", "( 30000 1e400 ) W", "line 14: y '1e400' is out of range"),
        ("( 30000 40000 ) W", "( 30000 40000 ) R90", "line 14: 'R90' is not an orientation"),
        ("( ram Q ) ( u2 A ) ( u2 A )", "( ram Q ) ( u3 A )", "line 31: net 'n3': there is no component 'u3'"),
        ("( ram Q ) ( u2 A ) ( u2 A )", "( ram Y ) ( u2 A )", "line 31: net 'n3': cell 'RAM' has no pin 'Y'"),
        ("( ram Q ) ( u2 A ) ( u2 A )", "( ram Q ( u2 A )", "line 31: net 'n3': its pins are not of the form"),
        ("( PIN in )", "( PIN out )", "line 29: net 'n1': there is no pin 'out'"),
        ("END NETS", "END NET", "line 33: END NET where END NETS was expected"),
        ("END NETS\nEND DESIGN\n", "", "line 32: the file ends inside NETS"),
        ("- ram RAM", "- ram INV", "line 29: net 'n1': cell 'INV' has no pin"),
    ],
)
def test_errors_name_file_line_and_what_is_wrong(tmp_path, old, new, message):
    assert old in DEF
    with pytest.raises(NetlistError, match=rf"design\.def, {message}"):
        read(tmp_path, DEF.replace(old, new))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("SIZE 10 BY 20", "SIZE 10 20", "SIZE is not of the form"),
        ("  SIZE 10 BY 20 ;\n", "", "'RAM' has no SIZE"),
        ("END RAM\nEND LIBRARY\n", "", "the file ends in MACRO RAM"),
        ("END D[0]", "END D[1]", r"line 30: END D\[1\] inside PIN D\[0\]"),
        ("RECT -1 8 0 10", "RECT -1 8 0", "RECT has 3 of 4 numbers"),
    ],
)
def test_errors_of_lef_files(tmp_path, old, new, message):
    assert old in LEF
    with pytest.raises(NetlistError, match=message):
        read(tmp_path, lef_text=LEF.replace(old, new))


def test_end_library_may_be_missing(tmp_path):
    assert read(tmp_path, lef_text=LEF.replace("END LIBRARY\n", "")).netlist.num_nodes == 6


def test_the_rest_of_a_polygon_is_covered_exactly():
    outside = area_outside([(0, 0), (0, 10), (4, 10), (4, 6), (8, 6), (8, 10), (12, 10), (12, 0)])
    assert outside == [(4.0, 6.0, 8.0, 10.0)]


@pytest.fixture(scope="module")
def generated(tmp_path_factory):
    folder = tmp_path_factory.mktemp("flat")
    spec = FlatSpec(cells=150, macros=2, ports=8)
    write_flat_design(spec, folder)
    write_flat_design(spec, folder, "bookshelf")
    return folder


def test_lef_def_and_bookshelf_of_one_design_agree(generated):
    first = read_def(generated / "design.def", read_lef([generated / "cells.lef", generated / "macros.lef"]))
    second = read_bookshelf(generated / "design.aux")
    assert first.netlist.num_nets == second.netlist.num_nets == 4 + 150 + 2 * 16
    assert np.allclose(first.canvas, second.canvas)
    for flat in (first, second):
        flat.netlist.names.find("ram/m1")
    places = [
        {
            flat.netlist.names[node]: (flat.netlist.x[node], flat.netlist.y[node])
            for node in range(flat.netlist.num_nodes)
        }
        for flat in (first, second)
    ]
    for name in ("ram/m0", "c7", "in[1]", "out[3]"):
        assert places[0][name] == pytest.approx(places[1][name], abs=2e-3)
    owners = [
        [
            [flat.netlist.names[flat.netlist.owner[pin] if flat.netlist.owner[pin] >= 0 else pin] for pin in net]
            for net in np.split(flat.netlist.net_pins, flat.netlist.net_start[1:-1])
        ]
        for flat in (first, second)
    ]
    assert owners[0] == owners[1]


# --- damaged files ----------------------------------------------------------------------------------------------------

PIECES = [b";", b"END", b"END NETS", b"(", b")", b"+", b"-", b'"', b"#", b"\n", b"\x00", b"\xff", b"9" * 40, b"nan"]
PIECES += [b"MACRO", b"PIN", b"BEGINEXT", b"NETS 1 ;", b"RECT", b":", b"NetDegree : 3", b"1e999", b"CoreRow", b"FIXED"]
EDITS = st.lists(
    st.tuples(
        st.floats(0, 1),
        st.integers(0, 60),
        st.sampled_from(["cut", "insert", "double", "end"]),
        st.sampled_from(PIECES),
    ),
    min_size=1,
    max_size=5,
)


def damaged(text, edits):
    for share, length, kind, piece in edits:
        at = int(share * len(text))
        if kind == "cut":
            text = text[:at] + text[at + length :]
        elif kind == "insert":
            text = text[:at] + piece + text[at:]
        elif kind == "double":
            text = text[:at] + text[at : at + length] * 3 + text[at + length :]
        else:
            text = text[: max(at, 1)]
    return text


def check_sound(flat):
    netlist = flat.netlist
    assert netlist.net_pins.min(initial=0) >= 0
    assert netlist.net_pins.max(initial=0) < netlist.num_nodes
    assert np.isfinite(netlist.x).all()
    assert np.isfinite(flat.blockages).all()


def fuzzed(examples):
    return settings(max_examples=examples, deadline=None, suppress_health_check=list(HealthCheck), database=None)


def check_damaged_lef_and_def(tmp_path, edits, which):
    texts = {"lef": LEF.encode(), "def": DEF.encode()}
    texts[which] = damaged(texts[which], edits)
    for ending, text in texts.items():
        (tmp_path / f"x.{ending}").write_bytes(text)
    with contextlib.suppress(NetlistError):
        check_sound(read_def(tmp_path / "x.def", read_lef([tmp_path / "x.lef"])))


def check_damaged_bookshelf(generated, tmp_path, edits, which):
    for path in generated.glob("design.*"):
        text = path.read_bytes()
        (tmp_path / path.name).write_bytes(damaged(text, edits) if path.suffix == f".{which}" else text)
    with contextlib.suppress(NetlistError):
        check_sound(read_bookshelf(tmp_path / "design.aux"))


BOOKSHELF = st.sampled_from(["aux", "nodes", "nets", "pl", "scl"])


@fuzzed(60)
@given(edits=EDITS, which=st.sampled_from(["lef", "def"]))
def test_damaged_lef_and_def_give_an_error_or_a_design(tmp_path, edits, which):
    check_damaged_lef_and_def(tmp_path, edits, which)


@fuzzed(30)
@given(edits=EDITS, which=BOOKSHELF)
def test_damaged_bookshelf_gives_an_error_or_a_design(generated, tmp_path, edits, which):
    check_damaged_bookshelf(generated, tmp_path, edits, which)


@pytest.mark.slow
@fuzzed(3000)
@given(edits=EDITS, which=st.sampled_from(["lef", "def"]))
def test_many_damaged_lef_and_def_files(tmp_path, edits, which):
    check_damaged_lef_and_def(tmp_path, edits, which)


@pytest.mark.slow
@fuzzed(1000)
@given(edits=EDITS, which=BOOKSHELF)
def test_many_damaged_bookshelf_files(generated, tmp_path, edits, which):
    check_damaged_bookshelf(generated, tmp_path, edits, which)


def test_a_byte_order_mark_changes_nothing(tmp_path):
    file = tmp_path / "cells.lef"
    file.write_text(LEF)
    cells = read_lef([file]).cells
    file.write_bytes(codecs.BOM_UTF8 + LEF.encode())
    assert repr(read_lef([file]).cells) == repr(cells)
    file.write_bytes(gzip.compress(codecs.BOM_UTF8 + LEF.encode()))
    assert repr(read_lef([file]).cells) == repr(cells)
