"""Ends of the clients of a2perf-plc: nothing of the server may stay behind, however the client ended."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

pytest.importorskip("numba", reason="needs the extra circuit-training")

from tests.domains.circuit_training.conftest import random_netlist
from tests.waiting import Child

LONG_CALL = """
client.connection.sendall(json.dumps({"name": "OptimizeStdcells", "args": [False, True, True, False, False, 1.0,
    [10 ** 8], [1.0], [1.0], [1.0]]}).encode())
"""
HALF_A_REQUEST = 'client.connection.sendall(b\'{"name": "GetCost", \')'
UNREAD_REPLIES = """
client.connection.setblocking(False)
try:
    while True:
        client.connection.sendall(b'{"name": "GetNodeMask", "args": [5]}')
except BlockingIOError:
    pass
"""
HEIR = """
if os.fork() == 0:  # holds the connection and lives on
    os.set_inheritable(client.connection.fileno(), True)
    os.execvp("sleep", ["sleep", "30"])
"""


@pytest.mark.parametrize(
    "before_the_end",
    ["", LONG_CALL, HALF_A_REQUEST, UNREAD_REPLIES, HEIR],
    ids=["idle", "during a long call", "within a request", "replies unread", "a child holds the connection"],
)
def test_a_killed_client_leaves_no_process_socket_or_file(tmp_path, repository, before_the_end):
    netlist = tmp_path / "netlist.pb.txt"
    netlist.write_text(random_netlist(1))
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    script = f"""
import json, os, time
from packages.placement.tests.protocol_client import ProtocolClient
client = ProtocolClient({str(netlist)!r})
client.num_nodes()
{before_the_end}
print("server", client.process.pid, flush=True)
time.sleep(600)
"""
    environment = {**os.environ, "TMPDIR": str(temporary), "PYTHONPATH": str(repository)}
    with Child([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, env=environment) as client:
        line = client.stdout.readline()
        server = psutil.Process(int(re.fullmatch(r"server (\d+)\n", line).group(1)))
        heirs = [one for one in psutil.Process(client.pid).children() if one.pid != server.pid]
        assert server.is_running()
        client.send_signal(signal.SIGKILL)
    try:
        assert psutil.wait_procs([server], timeout=300)[1] == []
        assert [path.name for path in temporary.iterdir()] == []
    finally:
        for heir in heirs:
            heir.kill()


def test_an_interrupt_from_the_terminal_does_not_take_the_server_from_its_client(tmp_path):
    from packages.placement.tests.protocol_client import ProtocolClient

    netlist = tmp_path / "netlist.pb.txt"
    netlist.write_text(random_netlist(1))
    client = ProtocolClient(netlist)
    nodes = client.num_nodes()
    client.process.send_signal(signal.SIGINT)
    assert client.num_nodes() == nodes
    assert not Path(client.address).exists()
    assert client.close() == 0
