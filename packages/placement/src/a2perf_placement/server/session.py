"""Serves one client: connects to it, loads the netlist, answers until the client is gone."""

from __future__ import annotations

import contextlib
import os
import select
import socket
import stat
import struct
import sys
import threading
import time
from pathlib import Path

from a2perf.errors import ConfigError, UserError
from a2perf_placement.server.requests import MalformedRequest, RequestStream

GRACE_S = 2.0  # in which a call that was running when the client ended may finish, to leave no half-written file
_SEND_BUFFER_BYTES = 4 << 20


def serve(pipe_address: str, netlist_file: str, x_spacing: float, y_spacing: float) -> int:
    """Answers one client until it closes the connection or ends.

    If the engine cannot be made, each request gets an error status with the reason: a client waits for replies and does
    not look at exit codes.

    Args:
        pipe_address: path of the socket on which the client listens.
        netlist_file: path, or several separated by commas.
        x_spacing, y_spacing: wanted distances between hard macros, um.

    Returns:
        The exit code: 0, or 2 if the engine could not be made.

    Raises:
        ConfigError: nobody listens on the socket.
    """
    with _connect(pipe_address) as connection:
        threading.Thread(target=_end_with_client, args=(connection,), daemon=True).start()
        from a2perf.domains.circuit_training.engine.placement_cost import PlacementCost
        from a2perf_placement.server import methods, replies

        stream = RequestStream(connection)
        fault: UserError | None = None
        try:
            plc = PlacementCost(netlist_file, x_spacing, y_spacing)
        except UserError as error:
            fault = error
        except OSError as error:
            fault = ConfigError(f"the netlist cannot be read: {error}", hint="check --netlist_file")
        if fault is not None:
            print_error(fault)
        with contextlib.suppress(EOFError, ConnectionError):
            while True:
                try:
                    request = stream.next()
                except MalformedRequest as error:
                    reply = replies.failure(str(error))
                else:
                    reply = methods.answer(plc, request) if fault is None else methods.refusal(fault)
                connection.sendall(reply)
    return 0 if fault is None else int(fault.exit_code)


def print_error(error: UserError) -> None:
    """Prints a wrong input to standard error."""
    print(f"a2perf-plc: {error}", file=sys.stderr, flush=True)


def _connect(address: str) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.connect(address)
    except (OSError, ValueError) as error:
        connection.close()
        raise ConfigError(
            f"cannot connect to --pipe_address={address}: {error}",
            hint="the client must listen on that Unix socket before it starts a2perf-plc",
        ) from error
    # The client accepts one connection and never deletes the socket's file, so it would stay behind.
    with contextlib.suppress(OSError):
        if stat.S_ISSOCK(os.lstat(address).st_mode):
            Path(address).unlink()
    # A large reply arrives in fewer pieces, and clients parse what they have after each piece.
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BUFFER_BYTES)
    return connection


def _end_with_client(connection: socket.socket) -> None:
    """Ends this process when the client is gone, also during a long call.

    The main thread sees the end of the connection between calls. Two cases remain: a call takes long, or the client
    died and a child of it still holds the connection. The signal of a dying parent (``PR_SET_PDEATHSIG``) would not
    do: it is sent at the end of the thread that started this process, while its client may live on.
    """
    gone = select.poll()
    gone.register(connection, 0)  # hang-up only: data is for the main thread
    client = _client_process(connection)
    if client is not None:
        gone.register(client, select.POLLIN)
    gone.poll()
    time.sleep(GRACE_S)
    os._exit(0)


def _client_process(connection: socket.socket) -> int | None:
    """Returns a descriptor that becomes readable when the listening process ends; None if it cannot be watched."""
    size = struct.calcsize("3i")
    process, _user, _group = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size))
    try:
        return os.pidfd_open(process) if process > 0 else None
    except OSError:  # an old kernel, or a client in another container
        return None
