"""A client of the placement server, written after the description of the protocol; it behaves as circuit training's.

It listens on a Unix socket, starts the program, and calls methods under their Python names. A reply is read in pieces
of up to 1 MiB and parsed whenever a piece is shorter than that.
"""

import json
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tests.waiting import Child

PROGRAM = (sys.executable, "-m", "a2perf_placement.server")
PIECE_BYTES = 1 << 20


class ProtocolClient:
    """One server and the connection to it.

    Args:
        netlist_file: what the server loads.
        spacing: wanted horizontal and vertical distance of hard macros, um.
        program: the command that starts the server.
    """

    def __init__(
        self,
        netlist_file: str | Path,
        spacing: tuple[float, float] = (0.0, 0.0),
        program: Sequence[str] = PROGRAM,
        timeout_s: float = 300,
    ) -> None:
        self.netlist_file = netlist_file
        self.address = str(Path(tempfile.gettempdir()) / f"plc_{os.getpid()}_{os.urandom(6).hex()}")
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
            listener.bind(self.address)
            listener.listen(1)
            listener.settimeout(timeout_s)
            self.process = Child(
                [
                    *program,
                    "--uid=",
                    "--gid=",
                    f"--pipe_address={self.address}",
                    f"--netlist_file={netlist_file}",
                    f"--macro_macro_x_spacing={spacing[0]}",
                    f"--macro_macro_y_spacing={spacing[1]}",
                ],
                stderr=subprocess.PIPE,
            )
            self.connection, _ = listener.accept()
        self.connection.settimeout(timeout_s)

    def exchange(self, request: bytes) -> Any:
        """Sends bytes and returns the JSON of the reply."""
        self.connection.sendall(request)
        return self.reply()

    def reply(self) -> Any:
        """Returns the JSON of the next reply."""
        received = b""
        while True:
            piece = self.connection.recv(PIECE_BYTES)
            if not piece:
                raise EOFError(received)
            received += piece
            if len(piece) < PIECE_BYTES:
                try:
                    return json.loads(received)
                except json.JSONDecodeError:
                    continue

    def raw(self, name: str, *arguments: Any) -> Any:
        """Returns the JSON of the reply to a call."""
        return self.exchange(json.dumps({"name": name, "args": arguments}).encode())

    def __getattr__(self, name: str) -> Callable[..., Any]:
        words = "".join(word.capitalize() for word in name.split("_"))

        def call(*arguments: Any) -> Any:
            found = self.raw(words, *arguments)
            if isinstance(found, dict):
                if not found.get("ok", True):
                    raise ValueError(found["message"])
                return tuple(found["items"]) if "__tuple__" in found else found
            return found

        return call

    def close(self) -> int:
        """Closes the connection and returns the exit code of the server."""
        self.connection.close()
        code = self.process.wait(300)
        assert self.process.stderr is not None
        self.process.stderr.close()
        return code
