"""Runs in containers of a Docker engine: one container per run, created for it and removed after it.

The container holds the whole run, evaluator and participant. Inside it, the evaluator confines the participant at level
``process``, because a container may not create namespaces. The submission is mounted read-only; the run's root
directory is the only writable folder of the host. Both keep their host paths, because records contain them. The
container's first process ends with this launcher (``container_init``). If a launcher is killed, the next one removes
its stopped containers.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from a2perf import assets
from a2perf.constants import EVALUATOR
from a2perf.errors import InfrastructureError, UserError
from a2perf.launch import images
from a2perf.launch.container_files import USER, check_readable, container_user, give_folders, lent_seed_secret
from a2perf.launch.foreground import run_to_end
from a2perf.launch.interface import Cause, ExitStatus, appended
from a2perf.launch.local import GpuPool, gpu_count
from a2perf.launch.run_spec import RunCommand
from a2perf.metrics.trackers.host import CONTAINER_VARIABLE
from a2perf.runs.bundles.process_identity import ProcessIdentity
from a2perf.sandbox.limits import PARALLEL_RUNS_VARIABLE
from a2perf.submission.evaluator import seed_secret

if TYPE_CHECKING:
    from docker.models.containers import Container

OWNER_LABEL = "a2perf.owner"
COMMAND_LABEL = "a2perf.command"
GUARANTEES = (
    "evaluator and participant together are in a container: of the host's files they write the run's folder alone",
    "an ordinary user without capabilities or new privileges, system calls filtered by the engine's list",
    "memory, processes and processor time of the whole run are bounded by the engine's control groups",
)
"""What holds for the whole run; the participant's own confinement inside is in the manifest's ``sandbox``."""

_CACHE = "/tmp/a2perf-cache"
_SEED_SECRET = "/a2perf-seed-secret"
_POLL_S = 0.2
_STOP_GRACE_S = 20.0
_ENGINE_PATIENCE_S = 30.0
_KILLED, _TERMINATED = 137, 143


class ContainerLauncher:
    """Runs commands in containers.

    Args:
        image: image of every run; without it the image of the run's domain is built from this checkout, or reused.
        python: the interpreter in the image that starts the evaluator.
        network: the engine's network for the runs, ``"none"`` by default.
        mounts: further files and folders of the host that the runs see, read-only; as a text, separated by ``:``.
        pass_env: names of further environment variables that the runs get; as a text, separated by ``:``.
        pids: bound on the processes and threads of one run.
        scratch: size of a run's ``/tmp`` in the engine's notation (``2g``); it counts as memory.
        cpus: processors of a run, unless its resources give a number; all by default.

    Raises:
        MissingDependency: the docker SDK is not installed.
        UserError: no engine answers.
    """

    name = "docker"
    shares_host = True

    def __init__(
        self,
        *,
        image: str | None = None,
        python: str = "python",
        network: str = "none",
        mounts: str | tuple[str | Path, ...] = (),
        pass_env: str = "",
        pids: int | str = 4096,
        scratch: str = "2g",
        cpus: float | str | None = None,
    ) -> None:
        self._image, self._python, self._network = image, python, network
        given = mounts.split(":") if isinstance(mounts, str) else mounts
        self._mounts = tuple(Path(path).expanduser().absolute() for path in given if path)
        self._pass_env = [name for name in pass_env.split(":") if name]
        self._pids, self._scratch = int(pids), scratch
        self._cpus = None if cpus is None else float(cpus)
        self._jobs: list[ContainerJob] = []
        self._gpus = GpuPool()
        self.docker, self._client = images.connect()
        self._owner = str(ProcessIdentity.current())
        for container in self._client.containers.list(all=True, filters={"label": OWNER_LABEL}):
            with contextlib.suppress(self.docker.errors.APIError):  # another launcher may be removing it
                if ProcessIdentity.parse(container.labels[OWNER_LABEL]).alive() is False:
                    container.remove(force=True, v=True)

    def start(self, command: RunCommand) -> ContainerJob:
        """Starts a command.

        Raises:
            UserError: its domain is unknown, a file it reads is missing, or its image cannot be built.
            InfrastructureError: the engine refused it.
        """
        if self._image is None and command.domain is None:
            raise UserError(f"the image of {command.name} is unknown", hint="--launcher docker:image=NAME")
        image = self._image or images.ensure(self._client, str(command.domain))
        digest = command.digest()
        self._remove_same(digest, command)
        for folder in command.writable:
            folder.mkdir(parents=True, exist_ok=True)
        # Where this process sees none, the engine chooses.
        gpus = self._gpus.take(command) if command.resources.gpus and gpu_count() else []
        container: Container | None = None
        try:
            give_folders(command.writable, USER, USER)
            with lent_seed_secret(command) as secret:
                settings = self._settings(command, image, digest, gpus)
                settings["mounts"].append(
                    self.docker.types.Mount(_SEED_SECRET, str(secret), type="bind", read_only=True)
                )
                container = self._client.containers.create(image, **settings)
                job = ContainerJob(self, container, command, gpus)
                job.begin()
                self._jobs.append(job)
                return job
        except BaseException as error:
            give_folders(command.writable, os.geteuid(), os.getegid())
            self._gpus.give_back(gpus)
            if container is not None:
                with contextlib.suppress(self.docker.errors.DockerException, OSError):
                    container.remove(force=True)
            if not isinstance(error, (self.docker.errors.DockerException, OSError)):
                raise
            explanation = getattr(error, "explanation", None) or str(error)
            raise InfrastructureError(
                f"the engine did not start {command.name}: {explanation}",
                hint="`docker info` and `docker image ls` show the state of the engine",
            ) from error

    def adopt(self, identity: str) -> None:
        """Removes the container of a launcher that died; its processes ended with the launcher."""
        with contextlib.suppress(self.docker.errors.NotFound):
            self._client.containers.get(identity).remove(force=True)

    def wait(self, timeout_s: float) -> None:
        """Sleeps; ``poll`` of the jobs asks the engine."""
        time.sleep(min(timeout_s, _POLL_S))

    def run(self, command: RunCommand) -> int:
        """Executes one command to its end and streams its output."""
        try:
            return run_to_end(self, command)
        finally:
            self.close()

    def close(self) -> None:
        """Kills and removes all running containers."""
        for job in list(self._jobs):
            job.kill()
        self._client.close()

    def ended(self, job: ContainerJob) -> None:
        """Releases the resources of a job."""
        self._jobs.remove(job)
        self._gpus.give_back(job.gpus)

    def _remove_same(self, digest: str, command: RunCommand) -> None:
        for container in self._client.containers.list(all=True, filters={"label": f"{COMMAND_LABEL}={digest}"}):
            if container.status == "running":
                raise InfrastructureError(f"{command.name} already runs in the container {container.name}")
            container.remove(force=True, v=True)

    def _settings(self, command: RunCommand, image: str, digest: str, gpus: list[str]) -> dict[str, Any]:
        types, wanted = self.docker.types, command.resources
        flags = command.evaluator_flags()
        argv = command.argv if flags is None else (self._python, "-P", "-m", EVALUATOR, *flags)
        cpus = self._cpus if wanted.cpus is None else wanted.cpus
        devices = None
        if wanted.gpus:
            chosen = {"device_ids": gpus} if gpus else {"count": wanted.gpus}
            devices = [types.DeviceRequest(capabilities=[["gpu"]], **chosen)]
        return {
            "command": [self._python, "-P", "-m", "a2perf.launch.container_init", *argv],
            "labels": {OWNER_LABEL: self._owner, COMMAND_LABEL: digest, "a2perf.run": command.name},
            "user": container_user(),
            "environment": self._environment(command, image),
            "mounts": self._bindings(command),
            "working_dir": str(command.cwd),
            "network_mode": self._network,
            "sysctls": self._sysctls(),
            "read_only": True,
            "tmpfs": {"/tmp": f"rw,exec,nosuid,nodev,mode=1777,size={self._scratch}"},
            "shm_size": "512m",
            "cap_drop": ["ALL"],
            "security_opt": ["no-new-privileges"],
            "pids_limit": self._pids,
            "nano_cpus": None if cpus is None else int(cpus * 1e9),
            "mem_limit": wanted.memory_bytes,
            # Without this the engine would allow as much swap in addition.
            "memswap_limit": wanted.memory_bytes,
            "device_requests": devices,
            # Otherwise the engine gives an empty input, which container_init takes for the launcher's end.
            "stdin_open": True,
            "healthcheck": {"test": ["NONE"]},  # a health probe would use processor time and distort the measurements
            "log_config": types.LogConfig(type="json-file", config={"max-size": "64m", "max-file": "2"}),
        }

    def _environment(self, command: RunCommand, image: str) -> dict[str, str]:
        passed = {name: value for name, value in os.environ.items() if name.startswith(("A2PERF_", "OMP_"))}
        passed |= {name: os.environ[name] for name in self._pass_env if name in os.environ}
        enclosure = {
            "engine": "docker",
            "image": image,
            "image_id": str(self._client.images.get(image).id),
            "network": self._network,
            "guarantees": list(GUARANTEES),
        }
        given = dict(command.env)
        if command.resources.memory_bytes is not None:  # the engine bounds this run, which shares it with no other
            given.pop(PARALLEL_RUNS_VARIABLE, None)
        return {
            **passed,
            # The image is read-only, so caches and settings have to go to /tmp.
            "HOME": "/tmp",
            "A2PERF_CACHE_DIR": _CACHE,
            "NUMBA_CACHE_DIR": "/tmp/numba",
            "MPLCONFIGDIR": "/tmp/matplotlib",
            CONTAINER_VARIABLE: json.dumps(enclosure),
            **given,
            seed_secret.VARIABLE: _SEED_SECRET,
        }

    def _bindings(self, command: RunCommand) -> list[Any]:
        read = {path: str(path) for path in (*command.readable, *self._mounts)}
        if (found := assets.data_dir()) is not None and found.exists():
            read[found.absolute()] = str(found.absolute())
        if (assets.cache_dir() / "assets").is_dir():
            read[(assets.cache_dir() / "assets").absolute()] = f"{_CACHE}/assets"
        if missing := [path for path in read if not path.exists()]:
            raise UserError(f"{command.name} reads {missing[0]}, which does not exist", hint="check the path")
        check_readable(command)
        mount = self.docker.types.Mount
        return [
            *(mount(target, str(path), type="bind", read_only=True) for path, target in read.items()),
            *(mount(str(path), str(path), type="bind") for path in command.writable),
        ]

    def _sysctls(self) -> dict[str, str]:
        """Enables IPv6 on the loopback: a browser driver picks its port there, and network ``none`` has no IPv6."""
        if self._network != "none" or not Path("/proc/sys/net/ipv6").exists():
            return {}
        return {f"net.ipv6.conf.{which}.disable_ipv6": "0" for which in ("all", "lo")}


class ContainerJob:
    """A container of this launcher."""

    def __init__(self, launcher: ContainerLauncher, container: Container, command: RunCommand, gpus: list[str]) -> None:
        self.gpus = gpus
        self._launcher, self._container, self._command = launcher, container, command
        self._started = time.monotonic()
        self._stop_at: float | None = None
        self._silent_since: float | None = None
        self._cancelled = self._timed_out = False
        self._ended: ExitStatus | None = None
        self._input: Any = None
        self._logger = threading.Thread(target=self._copy_log, daemon=True)

    def begin(self) -> None:
        """Connects the container's input to this process, starts it, and copies its output from then on."""
        self._input = self._container.attach_socket(params={"stdin": 1, "stream": 1})
        self._container.start()
        self._logger.start()

    @property
    def identity(self) -> str:
        """The container's id."""
        return str(self._container.id)

    def poll(self) -> ExitStatus | None:
        """Returns how the run ended; the container is gone then and the log complete."""
        if self._ended is not None:
            return self._ended
        now = time.monotonic()
        wall_s = self._command.resources.wall_s
        if wall_s is not None and not self._timed_out and now - self._started >= wall_s:
            self._timed_out = True
            self._stop()
        try:
            if self._stop_at is not None and now >= self._stop_at:
                self._container.kill()
                self._stop_at = now + _STOP_GRACE_S
            self._container.reload()
        except self._launcher.docker.errors.NotFound:
            reason = "its container was removed"
            return self._close(ExitStatus(None, lost=not self._cancelled, cause=Cause.OUTSIDE, reason=reason))
        except (self._launcher.docker.errors.DockerException, OSError) as error:
            self._silent_since = self._silent_since or now
            if now - self._silent_since < _ENGINE_PATIENCE_S:
                return None
            reason = f"the engine does not answer: {error}"
            return self._close(ExitStatus(None, lost=True, cause=Cause.OUTSIDE, reason=reason))
        self._silent_since = None
        state = self._container.attrs["State"]
        if state["Status"] not in ("exited", "dead"):
            return None
        return self._close(self._verdict(int(state["ExitCode"]), bool(state["OOMKilled"]), str(state["Error"])))

    def cancel(self) -> None:
        """Sends SIGTERM; ``poll`` kills the container after the grace period."""
        if self._ended is None and self._stop_at is None:
            self._cancelled = True
            self._stop()

    def kill(self) -> None:
        """Kills and removes the container."""
        if self._ended is None:
            self._close(ExitStatus(None, reason="its launcher was closed"))

    def _stop(self) -> None:
        self._stop_at = time.monotonic() + _STOP_GRACE_S
        with contextlib.suppress(self._launcher.docker.errors.DockerException, OSError):
            self._container.kill("SIGTERM")

    def _verdict(self, code: int, out_of_memory: bool, error: str) -> ExitStatus:
        wanted = self._command.resources
        status = None if code in (_KILLED, _TERMINATED) else code
        if self._timed_out:
            reason = f"it ran longer than the {wanted.wall_s:g} s that it was given"
            return ExitStatus(status, timed_out=True, reason=reason)
        if out_of_memory and status is None:
            limit = (wanted.memory_bytes or 0) / 2**20
            return ExitStatus(None, reason=f"its evaluator was killed because the run used more than {limit:.0f} MiB")
        if status is None or error:
            reason = error or "its container was killed from outside"
            # Evaluator and participant share the container, so the participant may have sent this SIGKILL itself: it
            # counts as KILLED, which is retried only if the sandbox rules that out.
            return ExitStatus(status, lost=not self._cancelled, cause=Cause.KILLED, reason=reason)
        return ExitStatus(status)

    def _close(self, ended: ExitStatus) -> ExitStatus:
        self._ended = ended
        with contextlib.suppress(self._launcher.docker.errors.DockerException, OSError):
            self._container.kill()
        # Before the removal, which deletes the engine's log of the container.
        self._logger.join(10.0)
        with contextlib.suppress(self._launcher.docker.errors.DockerException, OSError):
            self._container.remove(force=True, v=True)
        with contextlib.suppress(OSError):
            self._input.close()
        give_folders(self._command.writable, os.geteuid(), os.getegid())
        self._launcher.ended(self)
        return ended

    def _copy_log(self) -> None:
        with (
            contextlib.suppress(self._launcher.docker.errors.DockerException, OSError),
            appended(self._command.log) as log,
        ):
            for chunk in self._container.logs(stream=True, follow=True):
                if log is not None:
                    log.write(chunk)
                else:
                    sys.stdout.write(chunk.decode("utf-8", "replace"))
                    sys.stdout.flush()
