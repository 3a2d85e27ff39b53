"""What serving environments costs, against stepping them in the same process.

    python packages/serve/perf/serving.py                       # speed, memory of sessions
    python packages/serve/perf/serving.py soak --minutes 60     # clients that drop, and what they leave behind

Speed is steps per second of wall time, and per second of processor time of the server with its workers: the latter
does not depend on what else the machine does. The client's own time is not counted.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import functools
import itertools
import json
import random
import signal
import statistics
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Sequence

import psutil
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

import a2perf

WEB_TASK = "difficulty_level_1_num_websites_1"
TASKS = (WEB_TASK, "synthetic_pace", "toy_macro_stdcell")
_MEMORY_TASKS = (*TASKS, "text_level_3", "mujoco_dog_pace", "generated", "ariane_twin", "place_ariane_twin")
_MOST_BYTES = 1 << 24
PATH = "/ws"
_WAYS = ("close", "abort", "during a step", "before open", "garbage", "half a frame", "half open", "idle")
_KEPT = ("rss_mb", "fds", "threads", "processes")


class Served:
    """A server in a separate process."""

    def __init__(self, *arguments: str) -> None:
        command = [sys.executable, "-m", "a2perf", "serve", "--protocol", "openenv", *arguments]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        self.address = self.process.stdout.readline().split()[-1]

    @property
    def socket_address(self) -> str:
        return self.address.replace("http", "ws", 1)

    def tree(self) -> list[psutil.Process]:
        root = psutil.Process(self.process.pid)
        return [root, *root.children(recursive=True)]

    def seconds(self) -> float:
        """Processor time of the server and its workers."""
        times = [process.cpu_times() for process in self.tree()]
        return sum(one.user + one.system for one in times)

    def resources(self) -> dict[str, float]:
        tree = self.tree()
        with urllib.request.urlopen(f"{self.address}/metadata") as reply:
            sessions = json.loads(reply.read())["sessions"]
        return {
            "rss_mb": sum(process.memory_info().rss for process in tree) / 1e6,
            "fds": sum(process.num_fds() for process in tree),
            "threads": sum(process.num_threads() for process in tree),
            "processes": len(tree),
            "sessions": float(sessions),
        }

    def idle_resources(self, patience: float = 30.0) -> dict[str, float]:
        """Waits until no session is open; those that outlive the patience show in the result."""
        deadline = time.monotonic() + patience
        while (found := self.resources())["sessions"] and time.monotonic() < deadline:
            time.sleep(0.2)
        time.sleep(5.0)  # the worker processes close the environments, and pings end half-open connections
        return self.resources() if not found["sessions"] else found

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(20)


@contextlib.contextmanager
def served(*arguments: str) -> Iterator[Served]:
    server = Served(*arguments)
    try:
        yield server
    finally:
        if server.process.poll() is None:
            server.stop()


# --- speed


class OpenEnvLoad:
    """A session of the protocol openenv: JSON."""

    async def open(self, socket: ClientConnection, task: str) -> None:
        await self.ask(socket, {"type": "reset", "data": {"task": task, "seed": 0}})

    async def reset(self, socket: ClientConnection) -> None:
        await self.ask(socket, {"type": "reset", "data": {"seed": 0}})

    async def step(self, socket: ClientConnection, action: object) -> bool:
        reply = await self.ask(socket, {"type": "step", "data": {"action": action}})
        return reply.endswith('"done":true}}')

    async def ask(self, socket: ClientConnection, message: dict[str, object]) -> str:
        await socket.send(json.dumps(message))
        reply = str(await socket.recv())
        assert reply.startswith('{"type":"observation"'), reply[:300]
        return reply


async def _drive(url: str, task: str, actions: list[object], steps: int) -> None:
    async with connect(url + PATH, max_size=_MOST_BYTES, compression=None) as socket:
        load = OpenEnvLoad()
        await load.open(socket, task)
        episode = itertools.cycle(actions)
        for _ in range(steps):
            if await load.step(socket, next(episode)):
                await load.reset(socket)
                episode = itertools.cycle(actions)


async def _drive_all(url: str, task: str, clients: int, steps: int) -> None:
    actions = _actions(task)
    await asyncio.gather(*(_drive(url, task, actions, steps // clients) for _ in range(clients)))


@functools.cache
def _actions(task: str) -> list[object]:
    """Returns actions of an episode with seed 0; they repeat if it is longer."""
    if task == "synthetic_pace":
        return [[0.0] * 12]
    if task == WEB_TASK:
        return [0]
    env, actions, is_over = a2perf.make(task), [], False
    observation, _ = env.reset(seed=0)
    while not is_over:
        actions.append(int(observation["mask"].argmax()))
        observation, _, terminated, truncated, _ = env.step(actions[-1])
        is_over = terminated or truncated
    env.close()
    return actions


def local_steps_per_second(task: str, steps: int) -> float:
    """Returns the speed of the environment without a server, per second of processor time."""
    import numpy as np

    env = a2perf.make(task)
    actions = [np.asarray(one, np.float32) if isinstance(one, list) else one for one in _actions(task)]

    def run(count: int) -> float:
        env.reset(seed=0)
        episode = itertools.cycle(actions)
        started = time.process_time()
        for _ in range(count):
            if any(env.step(next(episode))[2:4]):
                env.reset(seed=0)
                episode = itertools.cycle(actions)
        return time.process_time() - started

    run(20)
    return steps / run(steps)


def speed(steps: int, tasks: Sequence[str]) -> None:
    print(f"{'task':<36}{'clients':>8}{'steps/s':>10}{'steps/s core':>14}{'local':>9}{'ratio':>7}")
    for task in tasks:
        count = steps if task == WEB_TASK else steps // 10
        local = local_steps_per_second(task, count)
        with served("--task", task, "--workers", "1") as server:
            for clients in (1, 16):
                asyncio.run(_drive_all(server.socket_address, task, clients, 64))
                before, started = server.seconds(), time.perf_counter()
                asyncio.run(_drive_all(server.socket_address, task, clients, count))
                wall, cpu = time.perf_counter() - started, server.seconds() - before
                row = f"{task:<36}{clients:>8}{count / wall:>10.0f}{count / cpu:>14.0f}"
                print(f"{row}{local:>9.0f}{local * cpu / count:>7.2f}", flush=True)


# --- memory


async def _held(server: Served, task: str, sessions: int) -> list[float]:
    """Returns the resident memory with one session and with all of them, MB."""
    rows = []
    async with contextlib.AsyncExitStack() as stack:
        for count in range(sessions):
            url = server.socket_address + PATH
            socket = await stack.enter_async_context(connect(url, max_size=_MOST_BYTES, compression=None))
            load = OpenEnvLoad()
            await load.open(socket, task)
            if count in (0, sessions - 1):
                rows.append(server.resources()["rss_mb"])
    return rows


def memory(tasks: Sequence[str], sessions: int) -> None:
    """Prints what the sessions of one worker process take; of web navigation as many as asked for, of others 8."""
    print(f"{'task':<36}{'sessions':>9}{'all, MB':>9}{'first, MB':>11}{'further, MB':>13}{'closed, MB':>12}")
    for task in tasks:
        count = sessions if task == WEB_TASK else 8
        with served("--task", task, "--workers", "1", "--max-sessions", str(count)) as server:
            empty = server.resources()["rss_mb"]
            first, last = asyncio.run(_held(server, task, count))
            closed = server.idle_resources()["rss_mb"]
        further = (last - first) / (count - 1)
        print(f"{task:<36}{count:>9}{last:>9.0f}{first - empty:>11.0f}{further:>13.1f}{closed:>12.0f}", flush=True)


# --- clients that drop


async def _start_workers(server: Served) -> None:
    for task in TASKS:
        await _drive(server.socket_address, task, _actions(task), 2)


async def _misbehave(url: str, draw: random.Random) -> None:
    """Opens a session, steps, and leaves in one of several ways, most of them rude."""
    with contextlib.suppress(ConnectionClosed, OSError, TimeoutError):
        socket = await connect(url + PATH, max_size=_MOST_BYTES, compression=None, ping_interval=None)
        load = OpenEnvLoad()
        way = draw.choice(_WAYS)
        if way != "before open":
            task = draw.choice(TASKS)
            await load.open(socket, task)
            for action in _actions(task)[: draw.randrange(5)]:
                if await load.step(socket, action):
                    break
        if way == "during a step":
            await socket.send('{"type": "reset"}')
        elif way == "garbage":
            await socket.send(draw.randbytes(200))
        elif way == "half a frame":
            socket.transport.write(b"\x82\xfe\x10\x00\x00\x00\x00\x00half")
        elif way == "half open":
            socket.transport.pause_reading()  # answers no ping
            await asyncio.sleep(draw.uniform(0.1, 6.0))
        elif way == "idle":
            await socket.wait_closed()
        if way == "close":
            await socket.close()
        else:
            socket.transport.abort()


async def _misbehave_for(server: Served, seconds: float, clients: int, every: float) -> list[dict[str, float]]:
    rows: list[dict[str, float]] = []
    draw = random.Random(0)
    deadline = time.monotonic() + seconds
    count = 0
    may_start = asyncio.Event()
    may_start.set()

    async def client() -> None:
        nonlocal count
        while time.monotonic() < deadline:
            await may_start.wait()
            await _misbehave(server.socket_address, draw)
            count += 1

    async def watch() -> None:
        while time.monotonic() < deadline:
            await asyncio.sleep(every)
            may_start.clear()  # the memory of an open session would hide a leak
            found = await asyncio.to_thread(server.idle_resources)
            may_start.set()
            rows.append({"minute": (time.monotonic() - deadline + seconds) / 60, "clients": count, **found})
            print("  ".join(f"{name} {value:.1f}" for name, value in rows[-1].items()), flush=True)

    await asyncio.gather(watch(), *(client() for _ in range(clients)))
    return rows


def _print_growth(rows: Sequence[dict[str, float]]) -> None:
    """Prints the slope of a straight line through the second half of the rows, per hour."""
    half = rows[len(rows) // 2 :]
    if len(half) < 3:
        return
    hours = [row["minute"] / 60 for row in half]
    slopes = {name: statistics.linear_regression(hours, [row[name] for row in half]).slope for name in _KEPT}
    print("growth per hour in the second half: ", "  ".join(f"{name} {slope:+.2f}" for name, slope in slopes.items()))


def soak(minutes: float, clients: int = 8) -> bool:
    """Returns whether nothing was left behind: sessions, descriptors, threads; memory may grow by a tenth."""
    arguments = [argument for task in TASKS for argument in ("--task", task)]
    with served(*arguments, "--workers", "1", "--idle-seconds", "5", "--ping-seconds", "2") as server:
        asyncio.run(_start_workers(server))
        asyncio.run(_misbehave_for(server, 5.0, clients, 5.0))  # fills caches
        before = server.idle_resources()
        every = min(60.0, max(2.0, 6.0 * minutes))
        rows = asyncio.run(_misbehave_for(server, 60.0 * minutes, clients, every))
        after = server.idle_resources()
        status = server.stop()
    print("before", {name: round(value, 1) for name, value in before.items()})
    print("after ", {name: round(value, 1) for name, value in after.items()}, "exit status", status)
    _print_growth(rows)
    same = all(after[name] <= before[name] for name in ("fds", "threads", "processes"))
    return same and after["sessions"] == 0 and after["rss_mb"] < 1.1 * before["rss_mb"] and status == 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="?", choices=("speed", "memory", "soak"), help="default: speed and memory")
    parser.add_argument("--tasks", nargs="+", metavar="TASK", help="of speed and memory")
    parser.add_argument("--steps", type=int, default=4000, help="web steps per measurement")
    parser.add_argument("--sessions", type=int, default=256)
    parser.add_argument("--minutes", type=float, default=60.0)
    given = parser.parse_args()
    if given.what in (None, "speed"):
        speed(given.steps, given.tasks or TASKS)
    if given.what in (None, "memory"):
        memory(given.tasks or _MEMORY_TASKS, given.sessions)
    return 0 if given.what != "soak" or soak(given.minutes) else 1


if __name__ == "__main__":
    sys.exit(main())
