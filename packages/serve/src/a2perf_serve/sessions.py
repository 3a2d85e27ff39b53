"""Sessions: the environments of clients, with limits and expiry. Every protocol of the server is built on this file."""

from __future__ import annotations

import asyncio
import collections
import contextlib
import secrets
import time
from collections.abc import Awaitable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeVar

import msgspec
import psutil

from a2perf.api.environments import TaskInfo
from a2perf_serve.errors import ServingError
from a2perf_serve.settings import ServerSettings, check_allowed
from a2perf_serve.worker_processes import WorkerProcess, WorkerProcesses

_REMEMBERED: Final = 4096  # closed sessions; a late request learns why its session ended
_TICK_SECONDS: Final = 0.5
_Result = TypeVar("_Result")


class Outcome(NamedTuple):
    """What a reset or a step returned; observation, reward and info are JSON."""

    observation: msgspec.Raw
    reward: msgspec.Raw
    terminated: bool
    truncated: bool
    info: msgspec.Raw


@dataclass(eq=False)
class Session:
    """One client's environment.

    Attributes:
        id: what the client presents; nobody can guess it.
        task: what it runs; None until its first reset.
        worker: where its environment lives.
        seed: given with the last reset.
        created, used: ``time.monotonic()``, seconds.
        is_kept: whether a connection keeps its place until its first environment.
    """

    id: str
    created: float
    used: float
    task: TaskInfo | None = None
    worker: WorkerProcess | None = None
    steps: int = 0
    seed: int | None = None
    busy: bool = False
    is_kept: bool = False


class Sessions:
    """All sessions of a server."""

    def __init__(self, settings: ServerSettings) -> None:
        self.settings = settings
        self.is_closing = False
        self._sessions: dict[str, Session] = {}
        self._ended: collections.OrderedDict[str, tuple[str, str]] = collections.OrderedDict()
        self._workers = WorkerProcesses(settings.workers, settings.step_seconds)
        self._process = psutil.Process()
        self._measuring = ThreadPoolExecutor(1, "memory")

    def __len__(self) -> int:
        return len(self._sessions)

    # --- what protocols call

    def reserve(self, *, is_kept: bool = False) -> Session:
        """Returns a new session without an environment.

        Among as many as allowed, it takes the place of the one that has waited longest for its first environment and
        is not kept.

        Raises:
            ServingError: there are as many as allowed, each with an environment (``too_many_sessions``), or the server
                stops.
        """
        if self.is_closing:
            raise ServingError("shutting_down", "the server stops", "connect again later")
        if len(self._sessions) >= self.settings.max_sessions:
            unused = (one for one in self._sessions.values() if not (one.task or one.busy or one.is_kept))
            if (waiting := next(unused, None)) is not None:
                self.close(waiting, "session_expired", "a newer session took its place before its first reset")
        if len(self._sessions) >= self.settings.max_sessions:
            raise ServingError(
                "too_many_sessions", f"{len(self._sessions)} sessions are open, as many as allowed", "try again later"
            )
        now = time.monotonic()
        session = Session(secrets.token_urlsafe(24), now, now, is_kept=is_kept)
        self._sessions[session.id] = session
        return session

    def is_open(self, session: Session) -> bool:
        """Returns whether a session has not ended."""
        return session.id in self._sessions

    def find(self, session_id: str) -> Session:
        """Returns the session of an id.

        Raises:
            ServingError: the session is unknown or has ended.
        """
        if session_id in self._sessions:
            return self._sessions[session_id]
        if session_id in self._ended:
            raise ServingError(*self._ended[session_id], "open another session")
        raise ServingError("unknown_session", "the session is unknown", "open a session first")

    async def open(self, session: Session, task_name: str | None, kwargs: Mapping[str, Any]) -> None:
        """Gives a session the environment of a task, in place of the one that it has.

        Raises:
            ServingError: the task is not served, an argument is not allowed, or the environment cannot be made.
        """
        task = self.settings.task(task_name)
        check_allowed(kwargs, self.settings.client_kwargs, "arguments of the environment", "--client-kwargs")
        await self._timed("open", session, self._make(session, task, dict(kwargs)))

    async def describe(self, session: Session) -> msgspec.Raw:
        """Returns the description of the spaces: ``observation_space`` and ``action_space``."""
        return msgspec.Raw(await self._call(session, "describe"))

    async def reset(self, session: Session, seed: int | None, options: Mapping[str, Any] | None) -> Outcome:
        """Starts an episode.

        Raises:
            ServingError: the session has no environment, or the environment refuses the seed or an option.
        """
        if options:
            check_allowed(options, self.settings.client_options, "options of a reset", "--client-options")
        if seed is not None and not 0 <= seed < 1 << 63:
            raise ServingError("bad_request", f"seed is {str(seed)[:30]}", "give an integer from 0 to 2^63 - 1")
        result = await self._call(session, "reset", seed, dict(options) if options else None)
        session.steps, session.seed = 0, seed
        return _outcome(result)

    async def step(self, session: Session, action: Any) -> Outcome:
        """Acts.

        Raises:
            ServingError: the action does not fit (``invalid_action``; the episode continues), or there is no running
                episode (``episode_over``).
        """
        result = await self._call(session, "step", action)
        session.steps += 1
        return _outcome(result)

    async def observe(self, session: Session) -> Outcome:
        """Returns the outcome of the last reset or step again.

        Raises:
            ServingError: no episode was started (``episode_over``).
        """
        return _outcome(await self._call(session, "observe"))

    def close(self, session: Session, kind: str = "unknown_session", why: str = "the session was closed") -> None:
        """Ends a session; calling it again changes nothing."""
        if self._sessions.pop(session.id, None) is None:
            return
        self._ended[session.id] = (kind, why)
        while len(self._ended) > _REMEMBERED:
            self._ended.popitem(last=False)
        self._leave_worker(session)

    # --- life of the server

    async def expire(self) -> None:
        """Closes sessions that are too old or idle, and stops stuck environments; runs until it is cancelled."""
        while True:
            await asyncio.sleep(_TICK_SECONDS)
            self._workers.kill_stuck()
            now = time.monotonic()
            for session in list(self._sessions.values()):
                if session.busy:
                    continue
                if now - session.used > self.settings.idle_seconds:
                    why = f"the session was idle for {self.settings.idle_seconds:g} s"
                elif now - session.created > self.settings.session_seconds:
                    why = f"the session is older than {self.settings.session_seconds:g} s"
                else:
                    continue
                self.close(session, "session_expired", why)

    async def stop(self) -> None:
        """Ends every session and process."""
        self.is_closing = True
        self._sessions.clear()
        await self._workers.stop()
        self._measuring.shutdown()

    # --- parts

    async def _make(self, session: Session, task: TaskInfo, kwargs: dict[str, Any]) -> None:
        self._leave_worker(session)
        session.worker = worker = await self._workers.place(task.domain, session.id)
        async with worker.opening:
            if (memory := await self._resident_bytes()) > self.settings.memory_limit:
                raise ServingError(
                    "too_many_sessions",
                    f"the environments use {memory / 1e9:.1f} GB of memory, as much as allowed",
                    "try again later",
                )
            await worker.call("open", session.id, task.qualified_id, {**task.kwargs, **kwargs})
        session.task = task
        if session.id not in self._sessions:  # closed while its environment was made
            self._leave_worker(session)

    async def _resident_bytes(self) -> int:
        """Returns the resident memory of the server and of every process below it, browsers included."""
        # in a thread, because the search for processes reads all of /proc, which takes milliseconds
        return await asyncio.get_running_loop().run_in_executor(self._measuring, _resident_bytes, self._process)

    def _leave_worker(self, session: Session) -> None:
        worker, session.worker, session.task = session.worker, None, None
        if worker is not None:
            worker.sessions.discard(session.id)
            worker.post("close", session.id)

    async def _call(self, session: Session, operation: str, *arguments: Any) -> Any:
        worker = session.worker
        if worker is None or session.task is None:
            raise ServingError("bad_request", "the session has no environment", "open a task first")
        return await self._timed(operation, session, worker.call(operation, session.id, *arguments))

    async def _timed(self, operation: str, session: Session, work: Awaitable[_Result]) -> _Result:
        """Awaits the work of one request; a session has one at a time."""
        if session.busy:
            if asyncio.iscoroutine(work):
                work.close()
            raise ServingError("busy", "the session has not answered the request before", "wait for its answer")
        session.busy = True
        try:
            return await work
        except ServingError as error:
            if error.kind in ("environment_failed", "environment_crashed", "environment_timeout"):
                self.close(session, error.kind, error.message)  # its state is unknown now
            raise
        finally:
            session.busy = False
            session.used = time.monotonic()


def _resident_bytes(root: psutil.Process) -> int:
    total = 0
    for process in (root, *root.children(recursive=True)):
        with contextlib.suppress(psutil.Error):  # it has ended
            total += process.memory_info().rss
    return total


def _outcome(result: list[Any]) -> Outcome:
    observation, info, reward, terminated, truncated = result
    return Outcome(msgspec.Raw(observation), msgspec.Raw(reward), terminated, truncated, msgspec.Raw(info))
