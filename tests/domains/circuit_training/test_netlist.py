"""The reader of netlists: what it takes, what it refuses, and the cache behind it."""

import dataclasses
import gzip

import numpy as np
import pytest

from a2perf.assets import cache_dir
from a2perf.domains.circuit_training.netlists import netlist_cache, netlist_reader
from a2perf.domains.circuit_training.netlists.netlist import NetlistError
from a2perf.domains.circuit_training.netlists.netlist_cache import load_netlist
from a2perf.domains.circuit_training.netlists.netlist_reader import read_netlist
from a2perf.errors import UserError
from tests.commands import run_python
from tests.domains.circuit_training.conftest import DESIGN, MACRO, node_text, random_netlist


def same(one, other):
    """Asserts that two netlists are equal column by column."""
    for field in dataclasses.fields(one):
        if field.name == "names":
            assert list(one.names) == list(other.names)
        elif field.name != "source":
            np.testing.assert_array_equal(getattr(one, field.name), getattr(other, field.name), err_msg=field.name)


def test_nodes_and_nets_of_a_small_design(write_netlist):
    netlist = read_netlist(write_netlist(DESIGN))
    assert list(netlist.names) == ["M", "M/p", "q", "P", "Grp_1"]
    assert netlist.kind.tolist() == [0, 1, 2, 3, 0]
    assert netlist.soft.tolist() == [0, 0, 0, 0, 1]
    assert netlist.owner.tolist() == [-1, 0, -1, -1, -1]
    assert netlist.has_location.tolist() == [0, 0, 1, 1, 0]
    assert netlist.side.tolist() == [0, 0, 0, 1, 0]
    assert netlist.orientation.tolist() == [0, 0, 0, 0, 2]
    assert netlist.weight.tolist() == [1, 2, 1, 1, 1]
    assert netlist.width.tolist() == [30, 0, 1, 0, 3]
    # the repeated sink counts once and the macro not at all
    nets = [netlist.net_pins[a:b].tolist() for a, b in zip(netlist.net_start, netlist.net_start[1:], strict=False)]
    assert nets == [[1, 3, 2], [2, 3], [3, 1]]
    assert netlist.x_offset[1] == np.float64(np.float32(0.3)) != 0.3  # in single precision
    assert netlist.names.find("Grp_1") == 4
    with pytest.raises(NetlistError, match="did you mean 'Grp_1'"):
        netlist.names.find("Grp_2")


def test_field_names_in_capitals_give_the_same_netlist(write_netlist):
    """Columns are sized by a count of field names, which has to ignore case like the scanner."""
    text = "".join(node_text(f"P{place}", ("P0",), type="PORT") for place in range(40))
    loud = text.replace("node {", "NODE {").replace("input:", "INPUT:").replace("value {", "VALUE {")
    assert loud != text
    same(read_netlist(write_netlist(loud)), read_netlist(write_netlist(text)))


@pytest.mark.parametrize(
    "text", ["0.1", "-12.0625", "1e-3", "123456789.123456789", "7", "+4.5", ".25", "3.f", "0.0000000000000000000000001"]
)
def test_numbers_are_read_as_python_reads_them(write_netlist, text):
    netlist = read_netlist(write_netlist(DESIGN.replace("f: 7.5", f"f: {text}")))
    assert netlist.y[3] == np.float64(np.float32(float(text.rstrip("f"))))


def test_forms_that_protobuf_allows(write_netlist):
    compact = (
        'versions { producer: 22 }\nnode: < name: \'a\' op: "x" attr { key: "type" value { placeholder: "STDCELL" } }'
    )
    compact += 'attr: { key: "width", value: { f: 1 } } attr { value { f: 2 } key: "height" } '
    compact += 'attr { key: "shape" value { list { i: 1 i: 2 } } } device: "" > # end'
    netlist = read_netlist(write_netlist(compact))
    assert (list(netlist.names), netlist.width.tolist(), netlist.height.tolist()) == (["a"], [1.0], [2.0])


def test_gzip_comma_lists_and_pieces_give_the_same_netlist(write_netlist, tmp_path, monkeypatch):
    text = random_netlist(3)
    whole = read_netlist(write_netlist(text))
    (tmp_path / "zipped.pb.txt.gz").write_bytes(gzip.compress(text.encode()))
    same(whole, read_netlist(tmp_path / "zipped.pb.txt.gz"))
    same(whole, read_netlist(tmp_path / "zipped.pb.txt"))
    cut = text.index("node {", len(text) // 2)
    first, second = write_netlist(text[:cut], "one.txt"), write_netlist(text[cut:], "two.txt")
    same(whole, read_netlist(f"{first}, {second}"))
    for size in (700, 1024, 4097):
        monkeypatch.setattr(netlist_reader, "_PIECE_BYTES", size)
        same(whole, read_netlist(write_netlist(text)))


BAD = {
    "truncated": (DESIGN[: DESIGN.index("STDCELL".lower())], "ends in the middle of a node", "q"),
    "unknown sink": (DESIGN.replace('"q"\n  a', '"nowhere"\n  a'), "drives 'nowhere', which is not a node", "M/p"),
    "no macro": (DESIGN.replace('key: "macro_name"', 'key: "other"'), "macro pin without macro_name", "M/p"),
    "unknown macro": (DESIGN.replace('placeholder: "M"', 'placeholder: "N"'), "macro that does not exist", "M/p"),
    "pin of a port": (DESIGN.replace('placeholder: "M"', 'placeholder: "P"'), "a node that is not a macro", "M/p"),
    "no offset": (DESIGN.replace('"y_offset"', '"z_offset"'), "macro pin without y_offset", "M/p"),
    "duplicate": (DESIGN.replace('name: "q"', 'name: "M"'), "a name that an earlier node has already", "M"),
    "negative size": (DESIGN.replace("f: 40.0", "f: -40"), "a height that is not positive", "M"),
    "zero size": (DESIGN.replace("f: 30.0", "f: 0"), "a width that is not positive", "M"),
    "no size": (DESIGN.replace('"height"', '"h"', 1), "has no height", "M"),
    "NaN": (DESIGN.replace("f: 30.0", "f: nan"), "a number that is not finite", "M"),
    "infinite": (DESIGN.replace("f: 7.5", "f: 1e60"), "a number that is not finite", "P"),
    "no number": (DESIGN.replace("f: 7.5", "f: 7..5"), "'7..5' is not a number", "P"),
    "text for a number": (DESIGN.replace("f: 7.5", 'placeholder: "7"'), "a number was expected", "P"),
    "no type": (DESIGN.replace('key: "type"', 'key: "kind"'), "has no type", "M"),
    "unknown type": (DESIGN.replace("stdcell", "resistor"), "unknown type of node", "q"),
    "unknown side": (DESIGN.replace('"left"', '"middle"'), "unknown side", "P"),
    "unknown orientation": (DESIGN.replace('"FN"', '"NW"'), "unknown orientation", "Grp_1"),
    "no name": (MACRO.replace('name: "M"', ""), "a node without a name", ""),
    "no netlist": ("index,x,y\n1,2,3\n", "not the text form", ""),
    "deep": ("a {" * 200, "nested too deep", ""),
}


@pytest.mark.parametrize(("text", "what", "node"), BAD.values(), ids=BAD)
def test_a_broken_netlist_is_refused_with_file_line_and_node(write_netlist, text, what, node):
    path = write_netlist(text)
    with pytest.raises(NetlistError, match="line") as caught:
        read_netlist(path)
    message = caught.value.message
    assert what in message
    assert str(path) in message
    assert repr(node) in message or not node
    line = int(message.split("line ")[1].split(":")[0])
    near = "\n".join(text.splitlines()[max(line - 3, 0) : line + 2])
    assert f'"{node}"' in near or what.split()[0] in ("unknown", "a", "not", "nested") or "nowhere" in near
    assert caught.value.hint


def test_a_missing_file_and_damaged_gzip_are_user_errors(tmp_path):
    with pytest.raises(UserError, match="no such netlist"):
        read_netlist(tmp_path / "none.pb.txt")
    with pytest.raises(UserError, match="no netlist file was named"):
        read_netlist("")
    damaged = tmp_path / "half.gz"
    damaged.write_bytes(gzip.compress(DESIGN.encode())[:-30])
    with pytest.raises(UserError, match="cannot be read"):
        read_netlist(damaged)


def test_the_cache_holds_columns_of_the_text_as_it_is_now(write_netlist, monkeypatch, tmp_path):
    path = write_netlist(random_netlist(5))
    first = load_netlist(path)
    with monkeypatch.context() as patch:
        patch.setattr(netlist_cache, "read_netlist", lambda path: pytest.fail("the text was read again"))
        same(first, load_netlist(path))
    for entry in (cache_dir() / "circuit_training").glob("*.npz"):
        entry.write_bytes(entry.read_bytes()[:100])
    same(first, load_netlist(path))  # instead of the damaged entries
    path.write_text(random_netlist(6))
    assert load_netlist(path).width[5] != first.width[5]
    (tmp_path / "file").write_text("not a folder")
    monkeypatch.setenv("A2PERF_CACHE_DIR", str(tmp_path / "file"))
    assert load_netlist(path).num_nodes == first.num_nodes  # where the cache cannot be written


def test_importing_the_engine_compiles_nothing():
    code = (
        "import a2perf.domains.circuit_training.engine.placement_cost, sys\n"
        "from numba.core.dispatcher import Dispatcher\n"
        "modules = [m for n, m in sys.modules.items() if n.startswith('a2perf.domains.circuit_training')]\n"
        "kernels = [v for m in modules for v in vars(m).values() if isinstance(v, Dispatcher)]\n"
        "assert len(kernels) > 10\n"
        "sys.exit(any(kernel.signatures for kernel in kernels))"
    )
    assert run_python(code).returncode == 0
