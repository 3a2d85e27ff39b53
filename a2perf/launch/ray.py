"""Runs on a Ray cluster, one detached actor per run.

The actor reserves the resources and starts the command as a separate process on its node: benchmark runs must not share
a Python process, and Ray reuses its workers. It enforces the wall time and reports how the command ended. Its name
comes from the command and it outlives the launcher, so a later launcher finds it. All nodes share a file system. Ray
schedules by the requested memory but does not enforce it.
"""

from __future__ import annotations

import os
import threading
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from a2perf.errors import InfrastructureError, MissingDependency, install_hint
from a2perf.launch.foreground import ClusterLauncher
from a2perf.launch.interface import Cause, ExitStatus
from a2perf.launch.node_run import NodeEnd, end_gracefully, for_node, not_started, start, wait_for_end
from a2perf.launch.run_spec import RunCommand

NAMESPACE = "a2perf"
_PATIENCE_S = 120.0
_NAME_TIMEOUT_S = 10.0  # how long the name of an actor that was just ended may stay taken


class RayLauncher(ClusterLauncher):
    """Runs commands on the nodes of a Ray cluster.

    Args:
        address: the cluster, ``"host:port"`` or ``"auto"``; without it Ray uses ``RAY_ADDRESS``, then a cluster on this
            host; if there is none, it starts one that consists of this host.
        poll_s: shortest time between two polls of the jobs, in seconds.

    Raises:
        MissingDependency: ray is not installed.
        InfrastructureError: the cluster does not answer.
    """

    name = "ray"

    def __init__(self, *, address: str | None = None, poll_s: float | str = 0.5) -> None:
        super().__init__(float(poll_s))
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        os.environ.setdefault("RAY_ENABLE_UV_RUN_RUNTIME_ENV", "0")  # keep the Python environment of the nodes
        try:
            import ray
        except ImportError as error:
            raise MissingDependency("the ray launcher needs ray", hint=install_hint("ray")) from error
        self.ray: Any = ray
        self._connected_here = not ray.is_initialized()
        if self._connected_here:
            try:
                ray.init(address=address, namespace=NAMESPACE, log_to_driver=False, logging_level="error")
            except (ConnectionError, RuntimeError, ValueError) as error:
                raise InfrastructureError(
                    f"no Ray cluster answers at {address or 'the default addresses'}: {error}",
                    hint="start one with `ray start --head`, or give --launcher ray:address=HOST:PORT",
                ) from error

    def start(self, command: RunCommand) -> RayJob:
        """Starts a command, or takes over its job if the cluster still has one.

        Raises:
            InfrastructureError: no node can hold it.
        """
        log = command.log or self._folder_of(command) / "runs.log"
        name = f"a2perf-{command.digest()}"
        # A retry has the same name, and Ray may still know the ended actor of the attempt before it.
        actor = None if name in self._collected else self._find(name)
        if actor is None:
            actor = self._create(command, name, log)
        self._collected.discard(name)
        return self._watch(RayJob(self, name, actor))

    def adopt(self, identity: str) -> RayJob | None:
        """Takes over a job of an earlier launcher, even if it has ended."""
        actor = self._find(identity)
        return None if actor is None else self._watch(RayJob(self, identity, actor))

    def close(self) -> None:
        """Ends all running jobs and disconnects from the cluster."""
        for job in self._jobs:
            if job.poll() is None:
                job.kill()
        if self._connected_here:
            self.ray.shutdown()

    def _create(self, command: RunCommand, name: str, log: Path) -> Any:
        wanted = command.resources
        resources = {"CPU": 1.0 if wanted.cpus is None else wanted.cpus, "GPU": float(wanted.gpus)}
        resources["memory"] = float(wanted.memory_bytes or 0)
        alive = [node["Resources"] for node in self.ray.nodes() if node["Alive"]]
        if not any(all(node.get(kind, 0.0) >= amount for kind, amount in resources.items()) for node in alive):
            raise InfrastructureError(
                f"no node of the Ray cluster has what {command.name} asks for: "
                f"{', '.join(f'{kind} {amount:g}' for kind, amount in resources.items() if amount)}",
                hint="request fewer resources or add a node; `ray status` shows the available ones",
            )
        actor = self.ray.remote(NodeActor).options(
            name=name,
            namespace=NAMESPACE,
            lifetime="detached",
            max_restarts=0,
            num_cpus=resources["CPU"],
            num_gpus=resources["GPU"] or None,
            memory=wanted.memory_bytes,
        )
        deadline = time.monotonic() + _NAME_TIMEOUT_S
        while True:
            try:
                return actor.remote(for_node(command, log), name)
            except ValueError as error:
                if time.monotonic() > deadline:
                    raise InfrastructureError(f"Ray did not take {command.name}: {error}") from error
                time.sleep(0.05)

    def _find(self, name: str) -> Any | None:
        try:
            return self.ray.get_actor(name, namespace=NAMESPACE)
        except ValueError:
            return None


class RayJob:
    """An actor of this launcher or of one before it."""

    def __init__(self, launcher: RayLauncher, name: str, actor: Any) -> None:
        self._launcher = launcher
        self._name = name
        self._actor = actor
        self._question: Any = None
        self._silent_since: float | None = None
        self._placed = False
        self._cancelled = False
        self._ended: ExitStatus | None = None

    @property
    def identity(self) -> str:
        """The actor's name."""
        return self._name

    @property
    def ended(self) -> bool:
        """Whether ``poll`` has returned an end."""
        return self._ended is not None

    def poll(self) -> ExitStatus | None:
        """Returns how the job ended; if its actor died, the job is lost."""
        if self._ended is not None:
            return self._ended
        ray = self._launcher.ray
        try:
            if self._question is None:
                self._question = self._actor.end.remote()
            if not ray.wait([self._question], timeout=0)[0]:
                return None  # the actor waits for a node, or the node answers slowly
            answer = ray.get(self._question)
        except ray.exceptions.ActorUnavailableError:
            # The node is slow or gone; the cluster's health checks decide which.
            self._question = None
            self._silent_since = self._silent_since or time.monotonic()
            if time.monotonic() - self._silent_since < _PATIENCE_S:
                return None
            ray.kill(self._actor)
            return self._lost(f"its node has not answered for {_PATIENCE_S:g} s", Cause.OUTSIDE)
        except ray.exceptions.RayError as error:
            reason = f"its actor is gone ({type(error).__name__}): {str(error).strip().splitlines()[0]}"
            # Ray's monitor ends actors when a node runs out of memory, which a participant can bring about.
            return self._lost(reason, Cause.OWN if "memory" in str(error).lower() else Cause.KILLED)
        self._placed, self._question, self._silent_since = True, None, None
        if answer is not None:
            self._ended = NodeEnd(**answer).verdict(cancelled=self._cancelled, engine=f"Ray actor {self._name}")
            self._launcher.collected(self._name)
            ray.kill(self._actor)
        return self._ended

    def _lost(self, reason: str, cause: Cause) -> ExitStatus:
        self._ended = ExitStatus(None, lost=not self._cancelled, cause=cause, reason=reason)
        self._launcher.collected(self._name)
        return self._ended

    def cancel(self) -> None:
        """Sends SIGTERM, then SIGKILL after the grace period; withdraws a job that still waits for a node."""
        if self._ended is None:
            self._cancelled = True
            if self._placed:
                self._actor.cancel.remote()
            else:
                self.kill()

    def kill(self) -> None:
        """Ends the actor, and with it the command."""
        self._cancelled = True
        self._launcher.ray.kill(self._actor)


class NodeActor:
    """Runs one command on a node. The command ends with the actor's process."""

    def __init__(self, command: RunCommand, job: str) -> None:
        self._end: NodeEnd | None = None
        self._job, self._wall_s = job, command.resources.wall_s
        try:
            # In the actor's main thread, because the parent-death signal follows the thread that starts the command.
            self._process = start(command)
        except OSError as error:
            self._end = not_started(job, error)
        else:
            threading.Thread(target=self._watch, daemon=True).start()

    def end(self) -> dict[str, Any] | None:
        """Returns the fields of the ``NodeEnd``, ``None`` while the command runs."""
        return None if self._end is None else asdict(self._end)

    def cancel(self) -> None:
        """Sends SIGTERM to the command and returns at once."""
        if self._end is None:
            # In a thread: an actor executes one call at a time, and `end` must be answered during the grace period.
            threading.Thread(target=end_gracefully, args=(self._process,), daemon=True).start()

    def _watch(self) -> None:
        self._end = wait_for_end(self._process, self._job, self._wall_s)
