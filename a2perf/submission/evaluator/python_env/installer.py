"""Creates a virtual environment and installs packages into it with uv.

Packages are untrusted data. The installer gets copies of the submission's wheels, exactly the checked files: those in
the submission's folder could change. Everything that opens them runs at the level 'bubblewrap', or 'process' if this
host does not offer it. It sees the base interpreter, the copies and the organizer's index settings, writes one folder,
and is limited in disk, memory, processes and time. Only wheels are installed, so no code of a package runs. The new
interpreter is never started here: its start-up would run installed code.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from a2perf import stranger_files
from a2perf.errors import ConfigError, InfrastructureError, MissingDependency, SubmissionError, UserError
from a2perf.sandbox import Ending, Limits, SandboxSpec, get_sandbox, strongest_level
from a2perf.submission.evaluator.python_env import completion
from a2perf.submission.evaluator.python_env.index_settings import IndexSettings, organizer_settings
from a2perf.submission.evaluator.python_env.interpreter import Interpreter
from a2perf.submission.evaluator.python_env.requirements import (
    MAX_LOCAL_BYTES,
    PRE_RELEASES,
    RequirementLine,
    shown,
    wheel_sha256,
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
_SHOWN_LINES, _SHOWN_CHARACTERS, _READ_CHARACTERS = 3, 400, 64 * 1024
_NETWORK = re.compile(
    r"error sending request|dns error|failed to lookup|connection (refused|reset|error)|timed? ?out|"
    r"NewConnectionError|ConnectTimeoutError|ReadTimeoutError|Temporary failure in name resolution|tls handshake|"
    r"HTTP status server error",
    re.IGNORECASE,
)
_BROKEN = re.compile(
    r"Failed to (?:read|parse|extract|unzip|install|prepare|unpack)|(?:wheel|metadata|zip|archive)\b.* (?:is )?invalid|"
    r"invalid (?:wheel|metadata|zip)|Metadata (?:field|file|version)|METADATA|RECORD|not a zip|corrupt|reserved name|"
    r"InvalidWheel|BadZipFile|URL dependenc|invalid package format|structure of .* was invalid",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Sources:
    """The organizer's settings: where packages come from, and how large an environment may be."""

    offline: bool = False
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
        for folder in (self._given, *(self._work / name for name in ("home", "tmp", "cache"))):
            folder.mkdir(parents=True)
        self._lines = [*lines, *overrides]
        for name, chosen in {
            "requirements": [line for line in lines if not line.constraint],
            "constraints": [line for line in lines if line.constraint],
            "overrides": overrides,
        }.items():
            texts = [self._staged(line, self._given / f"{name}-{number}") for number, line in enumerate(chosen)]
            text = "".join(f"{text}\n" for text in texts if text != PRE_RELEASES)
            (self._given / f"{name}.txt").write_text(text, encoding="utf-8")

    def _staged(self, line: RequirementLine, folder: Path) -> str:
        """Returns a line for the installer; a wheel in it is copied into the folder and checked."""
        if line.wheel:
            folder.mkdir()
            copy = folder / Path(line.wheel).name
            try:
                content, _ = wheel_sha256(line.folder, line.wheel, max_bytes=MAX_LOCAL_BYTES, copy=copy)
                reason = "" if content == line.content else f"{shown(line.wheel)} changed while it was read"
            except stranger_files.StrangerFileError as error:
                reason = error.message
            if reason:
                raise SubmissionError(f"{line.place}: {reason}", hint="do not change files during a run")
            check_wheel(copy, line.place, max_bytes=self._sources.size_bytes)
        return line.for_installer(folder)

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
                f"{base} cannot create a virtual environment:\n{_tail(output)}",
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
        if output := self._run(command, level=self.level, network=self._sources.network):
            raise self._explain(output)

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

    def _explain(self, output: str) -> UserError:
        """Returns an error of the submission, of the configuration or of the host from the output of uv."""
        output = output[-_READ_CHARACTERS:]
        last = _tail(output)
        if _NETWORK.search(output):
            return InfrastructureError(
                f"the package index could not be reached:\n{last}",
                hint=f"provide wheels with UV_FIND_LINKS=DIR; see {self._log}",
            )
        named = [f"{line.place}: {line.text}" for line in self._lines if line.name and _names(line.name, output)]
        places = ", ".join(named[:3]) or "the requirements"
        if _BROKEN.search(output):
            return SubmissionError(
                f"{places}: a package is broken:\n{last}", hint=f"require another version; see {self._log}"
            )
        return ConfigError(
            f"{places} cannot be installed:\n{last}",
            hint="require versions that exist as wheels for this Python, or build the missing one: "
            f"pip wheel --no-deps NAME -w DIR, then set UV_FIND_LINKS=DIR; see {self._log}",
        )

    def _command(self) -> list[str]:
        python, sources = str(self._skeleton / "bin" / "python"), self._sources
        config = self._given / "uv.toml"
        sources.settings.write_uv(config)
        command = [self._uv, "--config-file", str(config), "pip", "install", "--python", python, "--no-sources"]
        command += ["--prefix", str(self.environment), "--link-mode", "hardlink"]  # saves a copy; the cache is deleted
        command.append("--no-build")
        command += ["--offline"] if sources.offline else []
        command += ["--prerelease", "allow"] if any(line.text == PRE_RELEASES for line in self._lines) else []
        if sources.offline and not sources.settings.has_index:
            command.append("--no-index")
        return command

    def _run(self, command: Sequence[str], *, level: str, network: bool = False, limited: bool = True) -> str:
        """Runs one command; returns its output if it failed, else an empty string.

        Raises:
            InfrastructureError: it could not be started, or the index was too slow.
            SubmissionError: it exceeded a limit of the organizer.
        """
        started = time.monotonic()
        out, err = self._home / "stdout", self._home / "stderr"
        spec = SandboxSpec(
            argv=command,
            cwd=self._work / "home",
            env=self._environment,
            network=network,
            stdout=out,
            stderr=err,
            readable=(self._given, *self._readable),
            writable=(self._work,) if limited else (self._home,),
            limits=self._limits if limited else Limits(),
        )
        confined = get_sandbox(level).start(spec)
        try:
            ending = confined.wait(TIMEOUT_S + 60)
        finally:
            confined.kill_tree()
        read = [path.read_bytes()[: 2 * OUTPUT_BYTES] for path in (out, err) if path.exists()]
        output = without_secrets(b"".join(read).decode("utf-8", errors="replace"), self._sources.settings.secrets)
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
            wall_s=TIMEOUT_S,
            memory_bytes=MEMORY_BYTES,
            processes=PROCESSES,
            file_size_bytes=size,
            artifact_bytes=2 * size,
            artifact_entries=2 * completion.MAX_ENTRIES,
            output_bytes=OUTPUT_BYTES,
        )

    @property
    def _readable(self) -> tuple[Path, ...]:
        places = (*self._interpreter.readable, *self._sources.settings.local_paths)
        return (self._skeleton, *(path for path in places if path.exists())) if self._skeleton.exists() else ()

    @property
    def _environment(self) -> dict[str, str]:
        """The installer's variables: an allow-list, because it expands variables in untrusted metadata."""
        return {
            **self._sources.settings.variables,
            "HOME": str(self._work / "home"),
            "TMPDIR": str(self._work / "tmp"),
            "PATH": _PATH,
            "LANG": "C.UTF-8",
            "UV_CACHE_DIR": str(self._work / "cache"),
            "UV_PYTHON_DOWNLOADS": "never",
            "UV_NO_PROGRESS": "1",
            "NO_COLOR": "1",
        }


def without_secrets(output: str, secrets: Sequence[str]) -> str:
    """Returns output without control characters and without the credentials of an index."""
    for secret in secrets:
        output = output.replace(secret, "***")
    return "".join(
        char if char in "\n\t" or char.isprintable() else char.encode("unicode_escape").decode("ascii")
        for char in output.replace("\r\n", "\n")
    )


def _tail(output: str) -> str:
    kept = [line.rstrip()[:_SHOWN_CHARACTERS] for line in output.splitlines() if line.strip()]
    return "\n".join(kept[-_SHOWN_LINES:])


def _names(package: str, output: str) -> bool:
    pattern = re.escape(package).replace(r"\-", "[-_.]+")
    return re.search(rf"(?<![\w.-]){pattern}(?![\w-])", output, re.IGNORECASE) is not None
