"""A server starts where it should, expires sessions, and ends with everything that it started."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from pathlib import Path

import psutil
import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from a2perf.cli import main
from a2perf_serve.errors import ServingError
from a2perf_serve.sessions import Sessions
from a2perf_serve.settings import ServerSettings, served_tasks
from packages.serve.tests.conftest import CIRCUIT, WEB, RemoteEnvironment, started
from tests.waiting import until


@pytest.mark.parametrize("number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.slow)])
def test_a_signal_ends_sessions_connections_and_processes(number: signal.Signals) -> None:
    with started("openenv", "--task", WEB, "--task", CIRCUIT) as server:
        env = RemoteEnvironment(server.address, WEB)
        env.reset(seed=0)
        idle = connect(server.websocket + "/ws").__enter__()
        workers = server.children()
        assert workers
        assert server.stop(number) == 0
        assert not any(worker.is_running() and worker.status() != psutil.STATUS_ZOMBIE for worker in workers)
        with pytest.raises(ConnectionClosed):
            idle.recv(300)
        with pytest.raises(ConnectionClosed):
            env.step(0)
        env.close()


@pytest.mark.slow
def test_a_killed_server_leaves_no_process() -> None:
    with started("openenv", "--task", WEB) as server:
        env = RemoteEnvironment(server.address, WEB)
        workers = server.children()
        server.stop(signal.SIGKILL)
        env.close()
        assert psutil.wait_procs(workers, timeout=300)[1] == []


def test_idle_and_old_sessions_expire() -> None:
    with started("openenv", "--task", WEB, "--idle-seconds", "1") as server:
        with connect(server.websocket + "/ws") as connection, pytest.raises(ConnectionClosed) as closed:
            connection.recv(300)  # idle
        assert closed.value.rcvd is not None
        assert closed.value.rcvd.reason == "idle"
        until(lambda: not server.sessions())
    with started("openenv", "--task", WEB, "--session-seconds", "1") as server:
        env = RemoteEnvironment(server.address, WEB)
        env.reset(seed=0)
        until(lambda: not server.sessions())
        with pytest.raises(ServingError, match="older than 1 s") as expired:
            env.step(0)
        assert (expired.value.kind, expired.value.status) == ("session_expired", 410)
        env.close()


def test_sessions_that_were_never_used_lock_nobody_out() -> None:
    async def reserve() -> tuple[bool, bool]:
        sessions = Sessions(ServerSettings("openenv", served_tasks(tasks=[WEB]), max_sessions=2))
        try:
            playing, idle = sessions.reserve(), sessions.reserve()
            await sessions.open(playing, None, {})
            for _ in range(3):
                last = sessions.reserve()
            return sessions.is_open(playing) and sessions.is_open(last), sessions.is_open(idle)
        finally:
            await sessions.stop()

    assert asyncio.run(reserve()) == (True, False)


def test_no_session_is_opened_above_the_limit_of_memory() -> None:
    async def open_session() -> ServingError:
        sessions = Sessions(ServerSettings("openenv", served_tasks(tasks=[WEB]), max_memory_bytes=1))
        try:
            with pytest.raises(ServingError, match=r"the environments use \d+\.\d GB of memory") as refused:
                await sessions.open(sessions.reserve(), None, {})
        finally:
            await sessions.stop()
        return refused.value

    error = asyncio.run(open_session())
    assert (error.kind, error.status) == ("too_many_sessions", 503)


def _refused(capfd: pytest.CaptureFixture[str], *arguments: str) -> str:
    with pytest.raises(SystemExit) as ended:
        main(["serve", *arguments])
    assert ended.value.code == 2
    errors = capfd.readouterr().err
    assert "Traceback" not in errors
    assert "Hint:" in errors
    return errors


def test_wrong_options_are_refused(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    short, missing = tmp_path / "token", tmp_path / "missing"
    short.write_text("short")
    good = ("--protocol", "openenv", "--task", WEB)
    assert "for everybody, without a token" in _refused(capfd, *good, "--host", "0.0.0.0")
    assert "no token of 16" in _refused(capfd, *good, "--token-file", str(short))
    assert "cannot be read" in _refused(capfd, *good, "--token-file", str(missing))
    assert "no token of 16" in _refused(capfd, *good, "--token-env", "NO_SUCH_VARIABLE")
    assert "both given" in _refused(capfd, *good, "--token-env", "X", "--token-file", str(short))
    assert "did you mean" in _refused(capfd, "--protocol", "openenv", "--task", "difficulty_level_1_num_websites_2")
    assert "not a known domain" in _refused(capfd, "--protocol", "openenv", "--domain", "web")
    assert "not a known environment" in _refused(capfd, "--protocol", "openenv", "--env-id", "Web-v0")
    assert "not JSON" in _refused(capfd, *good, "--env-kwargs", "{")
    assert "give a JSON object" in _refused(capfd, *good, "--env-kwargs", "[]")
    assert "--stdio does not fit" in _refused(capfd, *good, "--stdio")
    assert "is not an address" in _refused(capfd, *good, "--host", "no.such.host.invalid", "--token-env", "HOME_TOKEN")
    assert "openenv" in _refused(capfd, "--protocol", "http")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        assert "cannot listen" in _refused(capfd, *good, "--port", str(taken.getsockname()[1]))


@pytest.fixture(autouse=True)
def _token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME_TOKEN", "correct-horse-battery-staple")


@pytest.mark.slow
def test_clients_that_drop_leave_nothing_behind(repository: Path) -> None:
    from runpy import run_path

    os.environ["PYTHONPATH"] = str(repository)
    assert run_path(str(repository / "packages" / "serve" / "perf" / "serving.py"))["soak"](minutes=1 / 6)
