"""Overhead and throughput of the relay to a language model.

One client talks in turns to a scripted model server directly and through the relay, over one kept connection each; both
medians come from the same run. Then many clients send calls at the same time, directly and through the relay. The
server, the relay and the clients are separate processes. ``--json`` prints machine-readable numbers. Target: at most
2 ms more at the median.
"""

from __future__ import annotations

import argparse
import http.client
import json
import multiprocessing
import socket
import statistics
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from a2perf_agents.relay.access import ModelAccess
from a2perf_agents.relay.handle import end_relay, start_relay

sys.path.insert(0, str(Path(__file__).parents[3]))

from packages.agents.examples.scripted_model import Script, ScriptRule
from packages.agents.examples.scripted_model.server import ScriptedModel, listening_socket, server_of

PROMPT = "the state of a page and the instruction " * 50
ANSWER = "click 12"


def serve(listener: socket.socket, delay_s: float) -> None:
    model = ScriptedModel(Script(rules=[ScriptRule(answer=ANSWER, delay_s=delay_s)]))
    server_of(model).run(sockets=[listener])


class Client:
    """One kept connection."""

    def __init__(self, port: int, key: str = "none") -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port)
        self._connection.connect()
        self._connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._headers = {"Content-Type": "application/json", "Authorization": f"Bearer {key}"}

    def call(self, number: int, *, stream: bool = False) -> float:
        """Sends one call and returns its duration in seconds."""
        messages = [{"role": "user", "content": f"{number} {PROMPT}"}]
        body = json.dumps({"model": "scripted", "messages": messages, "max_tokens": 64, "stream": stream})
        began = time.perf_counter()
        self._connection.request("POST", "/v1/chat/completions", body, self._headers)
        answer = self._connection.getresponse()
        content = answer.read()
        elapsed = time.perf_counter() - began
        if answer.status != 200 or b"click" not in content:
            raise RuntimeError(content[:500])
        return elapsed


def in_turns(direct: Client, relayed: Client, count: int, *, stream: bool) -> dict[str, float]:
    times: dict[str, list[float]] = {"direct": [], "relayed": []}
    for number in range(count):
        times["direct"].append(direct.call(number, stream=stream))
        times["relayed"].append(relayed.call(number, stream=stream))
    medians = {name: statistics.median(values) * 1e3 for name, values in times.items()}
    return {
        "direct_ms": medians["direct"],
        "relayed_ms": medians["relayed"],
        "overhead_ms": medians["relayed"] - medians["direct"],
        "ratio": medians["relayed"] / medians["direct"],
    }


def together(port: int, key: str, clients: int, each: int) -> float:
    """Returns calls per second of clients that send at the same time."""
    ready = [Client(port, key) for _ in range(clients)]
    threads = [
        threading.Thread(target=lambda client=client, n=n: [client.call(n * 10_000 + k) for k in range(each)])
        for n, client in enumerate(ready)
    ]
    began = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return clients * each / (time.perf_counter() - began)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=500, help="calls of the single client")
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--each", type=int, default=10, help="calls of each of the clients")
    parser.add_argument("--folder", type=Path, help="folder of the journal; its disk decides about the flushes")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    listener = listening_socket()
    port = listener.getsockname()[1]
    server = multiprocessing.get_context("fork").Process(target=serve, args=(listener, 0.0), daemon=True)
    server.start()
    with tempfile.TemporaryDirectory(dir=options.folder) as name, listening_socket() as ours:
        folder = Path(name)
        access = ModelAccess(endpoint=f"http://127.0.0.1:{port}/v1", models=("scripted",))
        relay, process = start_relay(access, folder, log=folder / "relay.log")
        relay.listen(ours)
        key, relay_port = relay.variables["OPENAI_API_KEY"], ours.getsockname()[1]
        direct, relayed = Client(port), Client(relay_port, key)
        in_turns(direct, relayed, 30, stream=False)
        found: dict[str, object] = {
            "plain": in_turns(direct, relayed, options.calls, stream=False),
            "stream": in_turns(direct, relayed, options.calls, stream=True),
            "clients": options.clients,
            "direct_calls_per_s": together(port, "none", options.clients, options.each),
            "relayed_calls_per_s": together(relay_port, key, options.clients, options.each),
        }
        end_relay(relay, process)
    server.kill()
    if options.json:
        json.dump(found, sys.stdout, indent=2)
        print()
        return
    print(f"{'median of ' + str(options.calls) + ' calls':24} {'direct':>9} {'relay':>9} {'overhead':>9} {'ratio':>6}")
    for kind in ("plain", "stream"):
        values: Any = found[kind]
        times = " ".join(f"{values[name]:6.2f} ms" for name in ("direct_ms", "relayed_ms", "overhead_ms"))
        print(f"{kind:24} {times} {values['ratio']:6.2f}")
    rates = " ".join(f"{found[name]:5.0f} c/s" for name in ("direct_calls_per_s", "relayed_calls_per_s"))
    print(f"{str(options.clients) + ' clients at once':24} {rates}")


if __name__ == "__main__":
    main()
