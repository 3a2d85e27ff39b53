"""Creates a virtual environment and installs packages into it with uv.

Packages are untrusted data. The installer gets copies of the submission's packages, exactly the checked files: those in
the submission's folder could change. Everything that opens them runs at the level 'bubblewrap', or 'process' if this
host does not offer it. It sees the base interpreter, the copies and the organizer's index settings, writes one folder,
and is limited in disk, memory, processes and time. Only wheels are installed unless the organizer allows builds, so no
code of a package runs. The new interpreter is never started here: its start-up would run installed code.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from a2perf import stranger_files
from a2perf.errors import ConfigError, InfrastructureError, MissingDependency, SubmissionError
from a2perf.sandbox import Ending, Limits, SandboxSpec, get_sandbox, strongest_level
from a2perf.submission.evaluator.python_env import completion
from a2perf.submission.evaluator.python_env.blame import clean, explain, tail
from a2perf.submission.evaluator.python_env.index_proxy import RELAY, IndexProxy
from a2perf.submission.evaluator.python_env.index_settings import IndexSettings, organizer_settings
from a2perf.submission.evaluator.python_env.interpreter import Interpreter
from a2perf.submission.evaluator.python_env.requirements import (
    MAX_LOCAL_BYTES,
    PRE_RELEASES,
    RequirementLine,
    content_of,
    hashes_of,
    shown,
)
from a2perf.submission.evaluator.python_env.wheel_check import check_wheel

TIMEOUT_S = 1800.0
MEMORY_BYTES = 8 * 1024**3
PROCESSES = 256
OUTPUT_BYTES = 1024 * 1024
DEFAULT_SIZE_BYTES = 8 * 1024**3
"""Size of the largest environment, unless ``Submission.artifact_limit_bytes`` is larger."""

LEAST_FREE_BYTES = 64 * 1024**2
_PATH = "/usr/local/bin:/usr/bin:/bin"


@dataclass(frozen=True)
class Sources:
    """The organizer's settings: where packages come from, and how large an environment may be.

    Attributes:
        allow_builds: whether source archives and folders may be built, which runs their code in the sandbox.
    """

    offline: bool = False
    allow_builds: bool = False
    size_bytes: int = DEFAULT_SIZE_BYTES
    settings: IndexSettings = field(default_factory=organizer_settings)

    @property
    def network(self) -> bool:
        """Whether an installer needs the network."""
        return not self.offline and not self.settings.uv.get("no-index", False)


class Installer:
    """Builds one environment.

    Args:
        home: an existing empty folder for all files; the environment is ``home/work/environment``.
        log: file to which the output of all commands is appended.
    """

    def __init__(self, home: Path, interpreter: Interpreter, sources: Sources, log: Path) -> None:
        self._home = home.resolve()
        self._interpreter = interpreter
        self._sources = sources
        self._log = log
        beside = Path(sys.executable).parent / "uv"
        found = str(beside) if os.access(beside, os.X_OK) else shutil.which("uv")
        if found is None:
            raise MissingDependency("uv, which builds isolated environments, is not installed", hint="pip install uv")
        self._uv = found
        self._given, self._work = self._home / "given", self._home / "work"
        self._skeleton = self._home / "skeleton"
        self.environment = self._work / "environment"
        self.level = strongest_level()
        self._lines: list[RequirementLine] = []

    @property
    def site(self) -> Path:
        """The folder of its packages."""
        major, minor = self._interpreter.version.split(".")[:2]
        return self.environment / "lib" / f"python{major}.{minor}" / "site-packages"

    def stage(
        self, lines: Sequence[RequirementLine], overrides: Sequence[RequirementLine], base_requirements: Sequence[str]
    ) -> None:
        """Checks and copies the submission's files before any command is started.

        Raises:
            ConfigError: a line has to be built, but the organizer does not allow builds.
            SubmissionError: a wheel is broken, or is too large when unpacked; an override is not a requirement, or
                overrides a package that a2perf itself needs.
        """
        own = {canonicalize_name(Requirement(text).name) for text in base_requirements}
        for line in overrides:
            if not line.name or line.constraint:
                raise SubmissionError(
                    f"{line.place}: {line.text!r} is not an override", hint="write one `name==version` per line"
                )
            if line.name in own:
                raise SubmissionError(
                    f"{line.place}: {line.text} would override a requirement of a2perf",
                    hint="move it to requirements.txt, which is resolved together with the requirements of a2perf",
                )
        for folder in (self._given, *(self._work / name for name in ("home", "tmp", "cache", "sources"))):
            folder.mkdir(parents=True)
        self._lines = [*lines, *overrides]
        if not self._sources.allow_builds and (forbidden := [line for line in self._lines if line.builds]):
            line = forbidden[0]
            raise ConfigError(
                f"{line.place}: {line.text} has to be built, which would run its code during the installation",
                hint="require a wheel instead, or allow builds with `Submission.python_env = 'built'`",
            )
        for name, chosen in {
            "requirements": [line for line in lines if not line.constraint],
            "constraints": [line for line in lines if line.constraint],
            "overrides": overrides,
        }.items():
            path, sources = self._given / f"{name}.txt", self._work / "sources"
            _write_requirements(chosen, path, sources, max_bytes=self._sources.size_bytes)

    def make(self) -> None:
        """Creates the skeleton: interpreter and configuration, without any untrusted package.

        Raises:
            MissingDependency: the interpreter cannot create a virtual environment.
        """
        completion.prepare(self.environment)
        base = self._interpreter.executable
        tool = self._given / "uv"  # a copy: the sandbox must not see the other programs in uv's folder
        shutil.copy2(self._uv, tool)
        self._uv = str(tool)
        command = [self._uv, "venv", "--no-config", "--no-project", "--python", str(base), str(self._skeleton)]
        if output := self._run(command, level="process", limited=False):
            raise MissingDependency(
                f"{base} cannot create a virtual environment:\n{tail(output)}",
                hint="choose another interpreter with --participant-python FILE",
            )

    def install(self, base_requirements: Sequence[str], own: Path) -> None:
        """Installs the requirements of the submission and of a2perf, resolved together.

        Raises:
            ConfigError: a package cannot be found, or the requirements conflict; the message names package and line.
            SubmissionError: a package is broken, or exceeds a limit of the organizer.
            InfrastructureError: the index could not be reached, or the disk is full.
        """
        wheel = self._given / own.name
        shutil.copyfile(own, wheel)
        needed = [*base_requirements, f"a2perf @ {wheel.as_uri()}"]
        (self._given / "a2perf-base.txt").write_text("".join(f"{text}\n" for text in needed), encoding="utf-8")
        command = self._command()
        for option, name in (("-r", "requirements"), ("-r", "a2perf-base"), ("-c", "constraints")):
            command += [option, str(self._given / f"{name}.txt")]
        overrides = self._given / "overrides.txt"
        command += ["--override", str(overrides)] if overrides.stat().st_size else []
        if output := self._run_with_index(command):
            raise explain(output, self._lines, base_requirements, self._log)

    def finish(self, final: Path) -> int:
        """Compiles byte code, checks the installed files, and adds the interpreter; returns the size in bytes.

        Raises:
            SubmissionError: the installed files are not acceptable.
        """
        shutil.rmtree(self._work / "cache", ignore_errors=True)
        self.compile(final)
        size = completion.accept(self.environment, max_bytes=self._sources.size_bytes)
        completion.complete(self.environment, self._skeleton, final)
        return size

    def compile(self, final: Path) -> None:
        """Compiles byte code without printing; files with errors are skipped."""
        strip = ["-s", str(self.environment), "-p", str(final), "-x", r"/tests?/"]
        base = str(self._interpreter.executable)
        self._run([base, "-I", "-m", "compileall", "-qq", *strip, str(self.environment / "lib")], level=self.level)

    def _run_with_index(self, command: list[str]) -> str:
        """Runs the installer with the network that it needs; with builds only through the proxy for indexes."""
        network, settings = self._sources.network, self._sources.settings
        # Without builds no code of a package runs. At 'process' the network cannot be closed, so a proxy has no effect.
        if not (network and self._sources.allow_builds) or self.level == "process":
            return self._run(command, level=self.level, network=network)
        python = str(self._interpreter.executable)
        with IndexProxy(settings.addresses(), settings.upstream) as proxy:
            relayed = [python, "-I", "-S", "-c", RELAY, str(proxy.channel), *command]
            output = self._run(relayed, level=self.level, fds=(proxy.channel,))
            if output and proxy.refused:
                output += f"\nrefused, not an index of the organizer: {', '.join(sorted(set(proxy.refused)))}"
        return output

    def _command(self) -> list[str]:
        python, sources = str(self._skeleton / "bin" / "python"), self._sources
        config = self._given / "uv.toml"
        sources.settings.write_uv(config)
        command = [self._uv, "--config-file", str(config), "pip", "install", "--python", python, "--no-sources"]
        command += ["--prefix", str(self.environment), "--link-mode", "hardlink"]  # saves a copy; the cache is deleted
        command += [] if sources.allow_builds else ["--no-build"]
        command += ["--offline"] if sources.offline else []
        command += ["--prerelease", "allow"] if any(line.text == PRE_RELEASES for line in self._lines) else []
        if sources.offline and not sources.settings.has_index:
            command.append("--no-index")
        return command

    def _run(
        self,
        command: Sequence[str],
        *,
        level: str,
        network: bool = False,
        limited: bool = True,
        fds: Sequence[int] = (),
    ) -> str:
        """Runs one command; returns its output if it failed, else an empty string.

        Raises:
            InfrastructureError: it could not be started, or the index was too slow.
            SubmissionError: it exceeded a limit of the organizer.
        """
        started = time.monotonic()
        out, err = self._home / "stdout", self._home / "stderr"
        # With the relay, build code runs in there and must not learn the organizer's proxy and its credentials.
        hidden = [name for name in self._environment if fds and name.lower().endswith("_proxy")]
        spec = SandboxSpec(
            argv=command, cwd=self._work / "home", network=network, fds=fds, stdout=out, stderr=err,
            env={name: text for name, text in self._environment.items() if name not in hidden},
            readable=(self._given, *self._readable), writable=(self._work,) if limited else (self._home,),
            limits=self._limits if limited else Limits(),
        )  # fmt: skip
        confined = get_sandbox(level).start(spec)
        try:
            ending = confined.wait(TIMEOUT_S + 60)
        finally:
            confined.kill_tree()
        read = [path.read_bytes()[: 2 * OUTPUT_BYTES] for path in (out, err) if path.exists()]
        output = clean(b"".join(read).decode("utf-8", errors="replace"), self._sources.settings.secrets)
        took = f"({time.monotonic() - started:.1f} s in the sandbox {level!r})"
        with self._log.open("a", encoding="utf-8") as log:
            log.write(f"$ {' '.join(command)}\n{output}{took}\n\n")
        for path in (out, err):
            path.unlink(missing_ok=True)
        if ending is None or ending.limit == "wall_s":
            kind = InfrastructureError if network else SubmissionError
            raise kind(f"{Path(command[0]).name} did not finish within {TIMEOUT_S:.0f} s", hint=f"see {self._log}")
        if ending.exit_code == 0 and ending.limit is None:
            return ""
        self._check_bounds(ending, output)
        return output or f"{command[0]} exited with status {ending.exit_code}, signal {ending.signal}"

    def _check_bounds(self, ending: Ending, output: str) -> None:
        limit = ending.limit
        if ending.signal == signal.SIGXFSZ or "File too large" in output:
            limit = "file_size_bytes"
        if ending.oom_kills:
            limit = "memory_bytes"
        if limit is not None:
            disk = limit in ("artifact_bytes", "file_size_bytes")
            allowed = f"{self._sources.size_bytes} bytes" if disk else getattr(self._limits, limit, ending.limit_value)
            raise SubmissionError(
                "installing the requirements exceeded a limit of the organizer: "
                f"{'disk' if disk else limit} (at most {allowed})",
                hint=f"require fewer or smaller packages, or raise Submission.artifact_limit_bytes; see {self._log}",
            )
        if shutil.disk_usage(self._home).free < LEAST_FREE_BYTES:
            raise InfrastructureError("no space left to build the environment", hint="a2perf python-env --prune 30d")

    @property
    def _limits(self) -> Limits:
        # Each file counts twice: in the installer's cache and in the environment.
        size = self._sources.size_bytes
        return Limits(
            wall_s=TIMEOUT_S, memory_bytes=MEMORY_BYTES, processes=PROCESSES, file_size_bytes=size,
            artifact_bytes=2 * size, artifact_entries=2 * completion.MAX_ENTRIES, output_bytes=OUTPUT_BYTES,
        )  # fmt: skip

    @property
    def _readable(self) -> tuple[Path, ...]:
        places = (*self._interpreter.readable, *self._sources.settings.local_paths)
        return (self._skeleton, *(path for path in places if path.exists())) if self._skeleton.exists() else ()

    @property
    def _environment(self) -> dict[str, str]:
        """The installer's variables: an allow-list, because it expands variables in untrusted metadata."""
        return {
            **self._sources.settings.variables,
            "HOME": str(self._work / "home"), "TMPDIR": str(self._work / "tmp"), "PATH": _PATH, "LANG": "C.UTF-8",
            "UV_CACHE_DIR": str(self._work / "cache"), "UV_PYTHON_DOWNLOADS": "never", "UV_NO_PROGRESS": "1",
            "NO_COLOR": "1",
        }  # fmt: skip


def _write_requirements(lines: Sequence[RequirementLine], path: Path, sources: Path, *, max_bytes: int) -> None:
    """Writes a requirements file for the installer and copies its local packages.

    Args:
        lines: requirements; options among them are skipped.
        path: the file, in a folder that is read-only for the installer.
        sources: folder for packages that are built, which is writable for the installer.

    Raises:
        SubmissionError: a wheel is broken or too large, or a file has changed since it was read.
    """
    texts = []
    for number, line in enumerate(lines):
        if line.text == PRE_RELEASES:
            continue
        if not line.local:
            texts.append(line.text)
            continue
        home = (sources if line.builds else path.parent) / f"{path.stem}-{number}"
        home.mkdir(parents=True)
        try:
            copy = _copy(line, home)
        except stranger_files.StrangerFileError as error:
            raise SubmissionError(f"{line.place}: {error.message}", hint="do not change files during a run") from error
        if line.builds:
            texts.append(f"{copy.as_uri()}{line.extras}{hashes_of(line)}")
        else:
            check_wheel(copy, line.place, max_bytes=max_bytes)
            texts.append(f"{line.name}{line.extras} @ {copy.as_uri()}{hashes_of(line)}")
    path.write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")


def _copy(line: RequirementLine, home: Path) -> Path:
    """Copies the file or folder of a line, and checks that it has not changed since the environment's key was made."""
    assert line.folder is not None
    target = home / (PurePosixPath(line.local).name or "package")
    if content_of(line.folder, line.local, max_bytes=MAX_LOCAL_BYTES, copy=target)[0] != line.content:
        raise SubmissionError(
            f"{line.place}: {shown(line.local)} changed while it was read", hint="do not change files during a run"
        )
    return target
