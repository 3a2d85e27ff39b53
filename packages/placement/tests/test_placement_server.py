"""The placement server: what a client gets to read, on real sockets from a real process."""

import concurrent.futures
import inspect
import json
import math
import os
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from a2perf.domains.circuit_training.engine.placement_cost import PlacementCost
from a2perf.domains.circuit_training.netlists.netlist import ORIENTATIONS
from a2perf.errors import ConfigError
from a2perf_placement.server import command, methods, replies
from a2perf_placement.server.command import install, main
from packages.placement.tests.protocol_client import PROGRAM, ProtocolClient
from tests.domains.circuit_training.conftest import random_netlist
from tests.golden import recorded


@pytest.fixture(scope="module")
def design(tmp_path_factory) -> Path:
    """A random design of 5 hard macros, 6 soft ones, 4 standard cells and 5 ports."""
    path = tmp_path_factory.mktemp("design") / "netlist.pb.txt"
    path.write_text(random_netlist(3))
    return path


@pytest.fixture(scope="module")
def shared_client(design):
    """One server for the tests that leave it as it was."""
    client = ProtocolClient(design, (0.1, 0.1))
    yield client
    assert client.close() == 0


# --- the form of replies --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("result", "text"),
    [
        (None, "null"),
        (True, "true"),
        (7, "7"),
        (200.0, "200"),
        (0.1 + 0.2, "0.3"),  # 16 significant digits, as the closed program printed
        (1 / 3, "0.3333333333333333"),
        (1e22, "1e+22"),
        ('N"', '"N\\""'),
        ((1.5, 2.0), '{"__tuple__": true, "items": [1.5,2]}'),
        ([(2.0, (0, 3))], '[{"__tuple__": true, "items": [2,[0,3]]}]'),
        (np.array([1.0, 0.0, 3.0]), "[1,0,3]"),
        (np.array([0.5, 1.0]), "[0.5,1]"),
        (np.array([0, 1], np.int32), "[0,1]"),
        ((np.array([0.0]), [4]), '{"__tuple__": true, "items": [[0],[4]]}'),
    ],
)
def test_replies_have_the_form_of_the_closed_program(result, text):
    assert replies.value(result) == text.encode()
    json.loads(text)


@pytest.mark.parametrize("result", [math.nan, math.inf, np.array([1.0, math.nan]), (1.0, -math.inf)])
def test_a_result_that_json_cannot_hold_is_not_written(result):
    with pytest.raises(replies.UnwritableResult):
        replies.value(result)


def test_every_public_method_of_the_engine_is_served():
    engine = {name for name, _ in inspect.getmembers(PlacementCost, callable) if not name.startswith("_")}
    served = {method.name for method in methods.METHODS.values()}
    assert engine - served == {"node_boxes", "cell_centre"}  # not of the earlier client
    assert served <= engine
    for method in methods.METHODS.values():
        parameters = list(inspect.signature(getattr(PlacementCost, method.name)).parameters.values())[1:]
        positional = [one for one in parameters if one.kind is one.POSITIONAL_OR_KEYWORD]
        assert len(method.kinds) == len(positional), method.name


def test_the_page_names_every_flag_and_every_method_with_its_arguments(repository):
    page = (repository / "packages" / "placement" / "README.md").read_text()
    for action in command._parser()._actions:
        assert f"`{action.option_strings[-1]}`" in page
    for method in set(methods.METHODS.values()):
        kinds = [*method.kinds[: method.required], *(f"[{kind}]" for kind in method.kinds[method.required :])]
        assert f"`{method.request_name}({', '.join(kinds)})`" in page, method.name


# --- calls ----------------------------------------------------------------------------------------------------------


def _calls(macro: str, port: str, folder: Path) -> list[tuple]:
    """Returns a call of each method, in an order in which all succeed."""
    saved = str(folder / "saved.plc")
    schedule = [[3, 2], [1.0, 1.0], [1.0, 0.01], [0.0, 10.0]]
    return [
        ("set_canvas_boundary_check", False),
        ("set_canvas_size", 100, 90),
        ("set_placement_grid", 7, 6),
        ("set_congestion_grid", 5, 6),
        ("set_congestion_grid_num_columns_rows", 6, 5),
        ("set_routes_per_micron", 70.33, 74.51),
        ("set_macro_routing_allocation", 51.79, 51.79),
        ("set_congestion_smooth_range", 1),
        ("set_overlap_threshold", 0.004),
        ("set_project_name", "circuit_training"),
        ("set_block_name", "böck"),
        ("set_use_incremental_cost", True),
        ("make_soft_macros_square",),
        ("update_port_sides",),
        ("snap_ports_to_edges",),
        ("allow_hard_macros_over_stdcells", True),
        ("unplace_all_nodes",),
        ("create_blockage", 0, 0, 5.5, 5, 0.5),
        ("place_node", macro, 17),
        ("optimize_stdcells", False, True, True, False, False, 1.0, *schedule),
        ("update_node_coords", port, 0.0, 33),
        ("restore_nothing",),
        ("update_macro_orientation", macro, "FS"),
        ("fix_node_coord", macro),
        ("unfix_node_coord", macro),
        ("add_fake_net", 2.5, [0, macro]),
        ("save_placement", saved, "a comment"),
        ("unplace_node", macro),
        ("restore_placement", saved),
        *[(one.name, *([macro, 1][: len(one.kinds)])) for one in set(methods.METHODS.values()) if one.reply is None],
        ("disconnect_nets", [port]),
        ("get_wirelength",),
        ("disconnect_nets",),
        ("clear_blockages",),
        ("get_blockages",),
    ]


def test_every_method_answers_what_the_engine_returns(shared_client, design, tmp_path):
    plc = PlacementCost(design, 0.1, 0.1)
    macro, port = plc.get_node_name(plc.get_macro_indices()[0]), plc.get_node_name(0)
    every_port = [node for node in range(plc.num_nodes()) if plc.get_node_type(node) == "PORT"]
    called = set()
    for name, *arguments in _calls(macro, port, tmp_path):
        if name == "restore_nothing":  # the adjacency needs all ports
            for node in every_port:
                plc.update_node_coords(node, 1.0, 2.0)
                assert shared_client.raw("UpdateNodeCoords", node, 1.0, 2.0) == {"ok": True}
            continue
        result = getattr(plc, name)(*arguments)
        method = methods.METHODS[name]
        expected = replies.value(result) if method.reply is None else method.reply
        if name == "save_placement":
            by_engine = Path(arguments[0]).read_text().splitlines()
        assert shared_client.raw(method.request_name, *arguments) == json.loads(expected), name
        if name == "save_placement":
            by_server = Path(arguments[0]).read_text().splitlines()
            assert [line for line in by_server if "Date" not in line] == [
                line for line in by_engine if "Date" not in line
            ]
        called.add(name)
    assert called == {method.name for method in methods.METHODS.values()}


def test_a_method_is_also_known_by_its_python_name(shared_client):
    assert shared_client.raw("num_nodes") == shared_client.raw("NumNodes") == shared_client.num_nodes()


def test_a_refusal_is_a_status_with_a_hint(shared_client):
    with pytest.raises(ValueError, match=r"there is no cell 1000000\. Hint: cells are numbered from 0"):
        shared_client.place_node(shared_client.get_macro_indices()[0], 1_000_000)
    with pytest.raises(ValueError, match="no such placement file"):
        shared_client.restore_placement("/nonexistent")
    with pytest.raises(ValueError, match="did you mean 'GetCost'"):
        shared_client.get_costs()


_NODES = b'{"name": "GetNodeType", "args": [%b]}'
MALFORMED = {
    "truncated object": b'{"name": "NumNodes", "args": [',
    "truncated text": b'{"name": "NumNodes", "args": ["',
    "truncated literal": b'{"name": "NumNodes", "args": [tru',
    "truncated character": '{"name": "é'.encode()[:-1],
    "only a brace": b"}",
    "no object": b"[1, 2]",
    "a number": b"17",
    "a line": b"GetCost\n",
    "no arguments": b'{"name": "NumNodes"}',
    "arguments by name": b'{"name": "NumNodes", "args": {"a": 1}}',
    "name of another type": b'{"name": ["NumNodes"], "args": []}',
    "unknown name": b'{"name": "Quit", "args": []}',
    "private name": b'{"name": "__class__", "args": []}',
    "attribute": b'{"name": "netlist", "args": []}',
    "huge name": b'{"name": "' + b"N" * 300_000 + b'", "args": []}',
    "too many arguments": b'{"name": "NumNodes", "args": [1]}',
    "too few arguments": b'{"name": "PlaceNode", "args": [1]}',
    "invalid UTF-8": b'{"name": "\xff\xfe", "args": []}',
    "NUL": b"\0" * 100,
    "not a number": _NODES % b"NaN",
    "infinite": _NODES % b"1e999",
    "many digits": _NODES % (b"9" * 20_000),
    "huge integer": _NODES % (b"9" * 4_000),
    "negative": _NODES % b"-1",
    "fraction": _NODES % b"1.5",
    "boolean": _NODES % b"true",
    "null": _NODES % b"null",
    "list": _NODES % b"[[1]]",
    "half a surrogate pair": _NODES % b'"\\ud800"',
    "long name": _NODES % (b'"' + b"x" * 2_000_000 + b'"'),
    "deep nesting": _NODES % (b"[" * 100_000 + b"]" * 100_000),
    "deep nesting without an end": b"[" * 3_000_000,
    "larger than the limit": b'{"name": "' + b"N" * (17 << 20) + b'", "args": []}',
}


def test_malformed_requests_get_an_error_status_and_the_server_lives_on(shared_client):
    nodes = shared_client.num_nodes()
    for what, request in MALFORMED.items():
        reply = shared_client.exchange(request)
        assert reply["ok"] is False, what
        assert 0 < len(reply["message"]) < 1500, what
        assert "internal" not in reply["message"], what
        assert shared_client.num_nodes() == nodes, what


def test_a_request_may_arrive_in_pieces_and_two_may_arrive_at_once(shared_client):
    request = json.dumps({"name": "GetNodeName", "args": [0], "é": 1}, ensure_ascii=False).encode()
    for byte in request[:-1]:
        shared_client.connection.sendall(bytes([byte]))
    name = shared_client.exchange(request[-1:])
    assert isinstance(name, str)
    shared_client.connection.sendall(b" \n" + request * 2 + b"  ")
    received = b""
    while len(received) < 2 * len(json.dumps(name)):
        received += shared_client.connection.recv(100)
    assert received == 2 * json.dumps(name).encode()


def test_several_clients_have_a_process_and_a_state_each(design):
    with concurrent.futures.ThreadPoolExecutor() as pool:
        clients = list(pool.map(lambda _: ProtocolClient(design), range(3)))
    for number, client in enumerate(clients, start=1):
        client.set_placement_grid(number, 2 * number)
    assert [client.get_grid_num_columns_rows() for client in clients] == [(1, 2), (2, 4), (3, 6)]
    assert len({client.process.pid for client in clients}) == 3
    assert [client.close() for client in clients] == [0, 0, 0]


def test_a_large_reply_arrives_whole(tmp_path):
    """1.2 MB, more than a socket buffers."""
    macros = 700
    text = [
        f'node {{ name: "M{i}" attr {{ key: "type" value {{ placeholder: "MACRO" }} }} '
        f'attr {{ key: "width" value {{ f: 1 }} }} attr {{ key: "height" value {{ f: 1 }} }} }}\n'
        for i in range(macros)
    ]
    (tmp_path / "many.pb.txt").write_text("".join(text))
    client = ProtocolClient(tmp_path / "many.pb.txt")
    assert client.get_macro_adjacency() == [0] * macros**2
    client.close()


# --- starting -------------------------------------------------------------------------------------------------------


def test_without_a_netlist_every_request_says_so(tmp_path):
    client = ProtocolClient(tmp_path / "missing.pb.txt")
    for _ in range(2):
        with pytest.raises(ValueError, match=r"missing.pb.txt: no such netlist file\. Hint: check the path"):
            client.get_cost()
    client.connection.shutdown(socket.SHUT_RDWR)
    assert "no such netlist file" in client.process.stderr.read().decode()
    assert client.close() == 2


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ([], "--pipe_address and --netlist_file are required"),
        (["--pipe_address=/nonexistent/s", "--netlist_file=n"], "cannot connect to --pipe_address=/nonexistent/s"),
        (["--pipe_address=" + "s" * 200, "--netlist_file=n"], "cannot connect"),
    ],
)
def test_a_wrong_start_ends_with_code_2_and_a_hint(flags, message, capsys):
    assert main(flags) == 2
    error = capsys.readouterr().err
    assert message in error
    assert "Hint: " in error


@pytest.mark.parametrize("flags", [["--nosuch=1"], ["--macro_macro_x_spacing=wide"], ["--macro_macro_y_spacing=-1"]])
def test_a_wrong_flag_ends_with_code_2(flags, capsys):
    with pytest.raises(SystemExit) as ended:
        main(flags)
    assert ended.value.code == 2
    assert flags[0].partition("=")[0] in capsys.readouterr().err


def test_the_installed_program_serves(design, tmp_path, monkeypatch):
    program = install(tmp_path)
    assert program == tmp_path / "plc_wrapper_main"
    assert install(program) == program  # a second time
    # of a client with another Python
    monkeypatch.setenv("PYTHONHOME", "/nonexistent")
    client = ProtocolClient(design, program=[str(program)])
    assert client.num_nodes() > 0
    assert client.close() == 0


def test_a_long_path_of_python_is_started_by_a_shell(tmp_path, monkeypatch):
    folder = tmp_path / "with a space" / ("d" * 120)
    folder.mkdir(parents=True)
    (folder / "python").symlink_to(sys.executable)
    monkeypatch.setattr(sys, "executable", str(folder / "python"))
    program = install(tmp_path / "program")
    assert program.read_text().startswith("#!/bin/sh\n")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    done = subprocess.run([program, "--version"], capture_output=True, text=True, env=environment)
    assert done.stdout.startswith("a2perf-plc "), done.stderr


def test_another_program_is_not_overwritten(tmp_path):
    (tmp_path / "plc_wrapper_main").write_bytes(b"\x7fELF the closed program")
    with pytest.raises(ConfigError, match="is another program"):
        install(tmp_path)
    assert (tmp_path / "plc_wrapper_main").read_bytes() == b"\x7fELF the closed program"


# --- recorded values ------------------------------------------------------------------------------------------------


def _set_up(client: ProtocolClient, case: dict) -> None:
    settings = case["cfg"]
    client.set_canvas_boundary_check(False)
    client.clear_blockages()
    for blockage in settings.get("blockages", ()):
        client.create_blockage(*blockage)
    client.set_canvas_size(*settings["canvas"])
    client.set_placement_grid(*settings["grid"])
    client.set_congestion_grid(*settings["cgrid"])
    client.set_routes_per_micron(*settings["rpm"])
    client.set_macro_routing_allocation(*settings["alloc"])
    client.set_congestion_smooth_range(settings["smooth"])


def _replay_costs(netlists: Path, folder: Path, chosen: str) -> int:
    """Replays the recorded costs of the netlists with a word in their path; returns how many there are."""
    cases, arrays = recorded.cases("circuit_costs")["cases"], recorded.arrays("circuit_costs")
    groups: dict[tuple, list[dict]] = {}
    for case in cases:
        settings = case["cfg"]
        if chosen in case["netlist"]:
            key = (case["netlist"], settings.get("xs", 0.0), settings.get("ys", 0.0), bool(settings.get("square")))
            groups.setdefault(key, []).append(case)
    for (netlist, x_spacing, y_spacing, square), group in groups.items():
        client = ProtocolClient(netlists / netlist, (x_spacing, y_spacing))
        if square:
            client.make_soft_macros_square()
        macros = client.get_macro_indices()
        hard = [macro for macro in macros if not client.is_node_soft_macro(macro)]
        for case in group:
            _set_up(client, case)
            client.unplace_all_nodes()
            orientation = dict(zip(hard, case["orientations_hard"], strict=True))
            rows = [
                f"{node} {x:.17g} {y:.17g} {orientation.get(node, 'N' if node in macros else '-')} 0\n"
                for node, (x, y) in enumerate(arrays[f"{case['id']}/node_xy"])
                if client.get_node_type(node) != "MACRO_PIN" and (x, y) != (-1, -1)
            ]
            (folder / "case.plc").write_text("".join(rows))
            client.restore_placement(str(folder / "case.plc"))
            for macro in hard:  # those that are not placed are in no line
                client.update_macro_orientation(macro, orientation[macro])
            for name, value in {
                "wirelength": client.get_wirelength(),
                "cost": client.get_cost(),
                "area": client.get_area(),
                "congestion": client.get_congestion_cost(),
                "density": client.get_density_cost(),
            }.items():
                assert value == pytest.approx(case[name], rel=1e-12), (case["id"], name)
            for name, values in {
                "density_map": client.get_grid_cells_density(),
                "h_cong": client.get_horizontal_routing_congestion(),
                "v_cong": client.get_vertical_routing_congestion(),
            }.items():
                np.testing.assert_allclose(values, arrays[f"{case['id']}/{name}"], rtol=1e-12, atol=1e-12)
        assert client.close() == 0
    return sum(map(len, groups.values()))


def test_recorded_costs_through_the_server(golden_netlists, tmp_path):
    assert _replay_costs(golden_netlists, tmp_path, "toy_macro_stdcell") == 6
    assert _replay_costs(golden_netlists, tmp_path, "sample_clustered") == 6


@pytest.mark.slow
def test_all_recorded_costs_through_the_server(golden_netlists, tmp_path):
    assert _replay_costs(golden_netlists, tmp_path, "circuit_training") == 42


def test_recorded_episodes_through_the_server(golden_netlists):
    """The first recorded episode of the toy design and of another, as circuit training's environment plays them."""
    cases, arrays = recorded.cases("circuit_env"), recorded.arrays("circuit_env")
    for name in ("toy_macro_stdcell", "sample_clustered"):
        case = cases["netlists"][name]
        client = ProtocolClient(golden_netlists / case["netlist"], (0.1, 0.1))
        client.make_soft_macros_square()
        settings = {
            "canvas": case["canvas"],
            "grid": case["grid_cols_rows"],
            "cgrid": case["congestion_grid"],
            "rpm": [70.33, 74.51],
            "alloc": [51.79, 51.79],
            "smooth": 5,
        }
        _set_up(client, {"cfg": settings})
        client.restore_placement(str(golden_netlists / case["init_placement"]))
        node = 0
        while kind := client.get_node_type(node):  # until past the last node, as clients do
            if kind == "PORT":
                client.fix_node_coord(node)
            node += 1
        client.unplace_all_nodes()
        columns, rows = case["grid_cols_rows"]
        up, left = (128 - rows) // 2, (128 - columns) // 2
        masks = np.unpackbits(arrays[f"{name}/ep0/masks_packed"], axis=1).reshape(-1, 128, 128)
        episode = case["episodes"][0]
        for step, action in enumerate(episode["actions"]):
            macro = case["sorted_node_indices_hard"][step]
            mask = np.array(client.get_node_mask(macro)).reshape(rows, columns)
            np.testing.assert_array_equal(mask, masks[step, up : up + rows, left : left + columns])
            cell = (action // 128 - up) * columns + action % 128 - left
            assert client.can_place_node(macro, cell) is True
            client.place_node(macro, cell)
        far = max(case["canvas"]) / 100
        client.optimize_stdcells(
            False, True, False, False, False, 1.0, [100] * 3, [far] * 3, [100.0, 1e-3, 1e-5], [0.0, 1e6, 1e7]
        )
        info = episode["info"]
        costs = client.get_cost(), client.get_congestion_cost(), client.get_density_cost()
        assert costs == pytest.approx((info["wirelength"], info["congestion"], info["density"]), rel=1e-12)
        assert {client.get_macro_orientation(macro) for macro in client.get_macro_indices()} <= set(ORIENTATIONS)
        assert client.close() == 0


def test_the_module_and_the_program_are_the_same_command():
    done = subprocess.run([*PROGRAM, "--version"], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("a2perf-plc ")
