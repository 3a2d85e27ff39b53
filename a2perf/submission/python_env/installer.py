"""Makes a virtual environment and installs into it: with uv where it is found, else with venv and pip.

Only wheels are installed unless the caller allows builds, so nothing of a stranger's package runs here; it will run in
the participant process, confined. Byte code is made by the base interpreter, since starting the new one would already
run start-up files of what was installed. Every command runs under the guard of the sandbox: it ends with this process.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from a2perf.errors import ConfigError, InfrastructureError, MissingDependency, SubmissionError, UserError
from a2perf.sandbox import SandboxSpec, get_sandbox
from a2perf.submission.python_env.requirements import Line

TIMEOUT_S = 1800.0
_SHOWN_LINES = 12
_NETWORK = re.compile(
    r"error sending request|dns error|failed to lookup|connection (refused|reset|error)|timed? ?out|"
    r"NewConnectionError|ConnectTimeoutError|ReadTimeoutError|Temporary failure in name resolution|tls handshake|"
    r"HTTP status server error",
    re.IGNORECASE,
)
_DISK = re.compile(r"No space left on device|Disk quota exceeded", re.IGNORECASE)


@dataclass(frozen=True)
class Sources:
    """Where packages come from.

    Attributes:
        find_links: folders of wheels, beside the index.
        offline: whether the index is out of bounds; uv's own cache still counts where no folder is given.
        allow_builds: whether source archives, folders and repositories may be built, which runs their code.
    """

    find_links: tuple[Path, ...] = ()
    offline: bool = False
    allow_builds: bool = False


class Installer:
    """Fills one new environment.

    Args:
        folder: the environment to make; it does not exist yet.
        base: the interpreter it is made of.
        sources: where packages come from.
        log: everything that the commands print is appended here.
    """

    def __init__(self, folder: Path, base: Path, sources: Sources, log: Path) -> None:
        self._folder = folder
        self._base = base
        self._sources = sources
        self._log = log
        self._uv = find_uv()

    @property
    def name(self) -> str:
        """``"uv"`` or ``"pip"``."""
        return "uv" if self._uv else "pip"

    @property
    def python(self) -> Path:
        """The new interpreter."""
        return self._folder / "bin" / "python"

    def require(self, overrides: Sequence[Line], base_requirements: Sequence[str]) -> None:
        """Checks, before anything is made, that overrides can be had and leave a2perf's own needs alone.

        Raises:
            MissingDependency: there are overrides and no uv.
            SubmissionError: one of them is no requirement, or is of a package that a2perf itself needs.
        """
        if overrides and not self._uv:
            raise MissingDependency(
                f"{overrides[0].source} needs uv: pip cannot override what packages demand",
                mend="install uv (`pip install uv`) beside a2perf, or remove the file",
            )
        own = {canonicalize_name(Requirement(text).name) for text in base_requirements}
        for line in overrides:
            if not line.name or line.constraint:
                raise SubmissionError(
                    f"{line.place}: {line.text!r} overrides nothing", mend="write one `name==version` a line"
                )
            if line.name in own:
                raise SubmissionError(
                    f"{line.place}: {line.text} would override what a2perf itself needs",
                    mend="ask for it in requirements.txt, where it is resolved together with a2perf's bounds",
                )

    def make(self) -> None:
        """Makes the empty environment.

        Raises:
            MissingDependency: the interpreter cannot make one.
        """
        if self._uv:
            command = [self._uv, "venv", "--no-project", "--python", str(self._base), str(self._folder)]
        else:
            command = [str(self._base), "-I", "-m", "venv", str(self._folder)]
        if output := self._run(command):
            raise MissingDependency(
                f"{self._base} cannot make a virtual environment:\n{_tail(output)}",
                mend="install uv (`pip install uv`), or the venv module of that interpreter (Debian: python3-venv)",
            )

    def install_own(self, wheel: Path) -> None:
        """Installs a2perf's own wheel, without dependencies; comes first, while the environment is still clean."""
        if output := self._run([*self._command(links=False), "--no-deps", str(wheel)]):
            raise InfrastructureError(f"a2perf could not be installed into {self._folder}:\n{_tail(output)}")

    def install(
        self, lines: Sequence[Line], base_requirements: Sequence[str], folder: Path, overrides: Sequence[Line] = ()
    ) -> None:
        """Installs what the submission and a2perf's part of its process need, resolved together.

        Args:
            lines: the submission's requirements.
            base_requirements: a2perf's.
            folder: where the files that are handed to the installer are written.
            overrides: what replaces the demands of all packages for these; `require` has checked them.

        Raises:
            ConfigError: a package cannot be had, or the requirements contradict each other; names package and line.
            InfrastructureError: the index could not be reached, or the disk is full.
        """
        given = [*lines, *overrides]
        if not self._sources.allow_builds and (forbidden := [line for line in given if line.builds]):
            line = forbidden[0]
            raise ConfigError(
                f"{line.place}: {line.text} has to be built, which would run its code outside of any sandbox",
                mend="ask for a wheel instead, or allow it with `Submission.python_env_builds = True`",
            )
        wanted, constraints = folder / "requirements.txt", folder / "constraints.txt"
        wanted.write_text("".join(f"{line.text}\n" for line in lines if not line.constraint), encoding="utf-8")
        constraints.write_text("".join(f"{line.text}\n" for line in lines if line.constraint), encoding="utf-8")
        own = folder / "a2perf-base.txt"
        own.write_text("".join(f"{text}\n" for text in base_requirements), encoding="utf-8")
        command = [*self._command(links=True), "-r", str(wanted), "-r", str(own), "-c", str(constraints)]
        if overrides:
            replacing = folder / "overrides.txt"
            replacing.write_text("".join(f"{line.text}\n" for line in overrides), encoding="utf-8")
            command += ["--override", str(replacing)]
        if output := self._run(command):
            raise explain(output, given, base_requirements, self._log)

    def compile(self, final: Path) -> None:
        """Makes the byte code that uv leaves out, saying the paths that the environment will have."""
        if self._uv:
            strip = ["-s", str(self._folder), "-p", str(final), "-x", r"/tests?/"]
            self._run([str(self._base), "-I", "-m", "compileall", "-q", *strip, str(self._folder / "lib")])

    def _command(self, *, links: bool) -> list[str]:
        if self._uv:
            # Copies, not links: what a participant does to its environment must not reach uv's cache.
            command = [self._uv, "pip", "install", "--python", str(self.python), "--link-mode", "copy"]
            command += [] if self._sources.allow_builds else ["--no-build"]
            command += ["--offline"] if self._sources.offline else []
        else:
            command = [str(self.python), "-I", "-m", "pip", "install", "--disable-pip-version-check", "--no-input"]
            command += [] if self._sources.allow_builds else ["--only-binary", ":all:"]
        if links:
            command += [word for path in self._sources.find_links for word in ("--find-links", str(path))]
        if self._sources.offline and (self._sources.find_links or not self._uv):
            command.append("--no-index")
        return command

    def _run(self, command: Sequence[str]) -> str:
        """Runs one command; returns its output when it failed, else nothing.

        Raises:
            InfrastructureError: it could not be started, or did not end in time.
        """
        started = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="a2perf-install-") as scratch:
            out, err = Path(scratch) / "stdout", Path(scratch) / "stderr"
            confined = get_sandbox("process").start(
                SandboxSpec(argv=command, cwd=Path(scratch), env=_environment(), stdout=out, stderr=err)
            )
            try:
                ending = confined.wait(TIMEOUT_S)
            finally:
                confined.kill_tree()
            output = "".join(_text(path) for path in (out, err))
        with self._log.open("a", encoding="utf-8") as log:
            log.write(f"$ {' '.join(command)}\n{output}({time.monotonic() - started:.1f} s)\n\n")
        if ending is None:
            raise InfrastructureError(f"{command[0]} did not end within {TIMEOUT_S:.0f} s", mend=f"see {self._log}")
        return "" if ending.exit_code == 0 else output or f"{command[0]} ended with status {ending.exit_code}"


def find_uv() -> str | None:
    """Returns the uv that lies beside this interpreter, or the one on PATH."""
    beside = Path(sys.executable).parent / "uv"
    return str(beside) if os.access(beside, os.X_OK) else shutil.which("uv")


def explain(output: str, lines: Sequence[Line], base_requirements: Sequence[str], log: Path) -> UserError:
    """Turns an installer's complaint into an error that names the package and the line that asked for it."""
    if _DISK.search(output):
        return InfrastructureError("no space left to build the environment", mend="a2perf python-env prune")
    blamed = [line for line in lines if line.name and _names(line.name, output)]
    said = _tail(output)
    if _NETWORK.search(output):
        return InfrastructureError(
            f"the package index could not be reached:\n{said}",
            mend=f"see {log}; give wheels with --python-env-find-links",
        )
    if not blamed:
        return ConfigError(f"the requirements cannot be installed:\n{said}", mend=f"see {log}")
    listed = "\n".join(f"  {line.place}: {line.text}" for line in blamed)
    own = [text for text in base_requirements if _names(re.split(r"[^\w.-]", text)[0], output)]
    beside = f" (a2perf itself needs {', '.join(own)})" if own else ""
    return ConfigError(
        f"these requirements cannot be installed together{beside}:\n{listed}\n{said}"
        if len(blamed) > 1 or own
        else f"{blamed[0].place}: {blamed[0].text} cannot be installed:\n{said}",
        mend=f"ask for versions that exist as wheels for this Python; the whole log is {log}",
    )


def _names(package: str, output: str) -> bool:
    pattern = re.escape(package).replace(r"\-", "[-_.]+")
    return re.search(rf"(?<![\w.-]){pattern}(?![\w-])", output, re.IGNORECASE) is not None


def _environment() -> dict[str, str]:
    """This process's variables, so that the user's index settings hold, without those that name another environment."""
    dropped = {
        "VIRTUAL_ENV",
        "PYTHONPATH",
        "PYTHONHOME",
        "PIP_TARGET",
        "PIP_PREFIX",
        "PIP_USER",
        "PIP_REQUIRE_VIRTUALENV",
    }
    kept = {name: value for name, value in os.environ.items() if name not in dropped}
    return {**kept, "UV_PYTHON_DOWNLOADS": "never", "UV_NO_PROGRESS": "1", "NO_COLOR": "1", "PIP_NO_COLOR": "1"}


def _text(path: Path) -> str:
    with contextlib.suppress(FileNotFoundError):
        return path.read_text(encoding="utf-8", errors="replace")
    return ""


def _tail(output: str) -> str:
    kept = [line.rstrip() for line in output.splitlines() if line.strip()]
    return "\n".join(kept[-_SHOWN_LINES:])
