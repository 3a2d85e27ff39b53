"""Makes a virtual environment and installs into it with uv.

Packages are strangers' data. Everything that opens them runs in the better one of the levels 'bubblewrap' and
'process' that this host offers: it sees the base interpreter, copies of what the submission gives and the organizer's
index settings, writes one folder, and is bounded in disk, memory, processes and time. Only wheels are installed unless
the organizer allows builds, so none of a package's code runs. Nothing is ever run with the new interpreter: that would
start what was installed.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from a2perf.errors import ConfigError, InfrastructureError, MissingDependency, SubmissionError
from a2perf.sandbox import Ending, Limits, SandboxSpec, get_sandbox, strongest_level
from a2perf.submission.evaluator.python_env import completion
from a2perf.submission.evaluator.python_env.blame import clean, explain, over_limit, tail
from a2perf.submission.evaluator.python_env.index_proxy import RELAY, IndexProxy
from a2perf.submission.evaluator.python_env.index_settings import IndexSettings, organizer_settings
from a2perf.submission.evaluator.python_env.interpreter import Interpreter
from a2perf.submission.evaluator.python_env.requirements import PRE_RELEASES, RequirementLine
from a2perf.submission.evaluator.python_env.staging import write_requirements

TIMEOUT_S = 1800.0
MEMORY_BYTES = 8 * 1024**3
PROCESSES = 256
OUTPUT_BYTES = 1024 * 1024
DEFAULT_SIZE_BYTES = 8 * 1024**3
"""The largest environment, unless the organizer sets ``Submission.python_env_size_bytes``."""

LEAST_FREE_BYTES = 64 * 1024**2
_PATH = "/usr/local/bin:/usr/bin:/bin"


@dataclass(frozen=True)
class Sources:
    """Where packages come from, and how much of them is accepted; all of it is the organizer's.

    Attributes:
        find_links: folders of wheels, beside the index.
        offline: whether the network is out of bounds.
        allow_builds: whether source archives and folders may be built, which runs their code in the sandbox.
        size_bytes: the largest environment.
        settings: index, links, certificates and proxies.
    """

    find_links: tuple[Path, ...] = ()
    offline: bool = False
    allow_builds: bool = False
    size_bytes: int = DEFAULT_SIZE_BYTES
    settings: IndexSettings = field(default_factory=organizer_settings)

    @property
    def network(self) -> bool:
        """Whether an installer needs the network."""
        return not self.offline and not self.settings.uv.get("no-index", False)


class Installer:
    """Makes one new environment.

    Args:
        home: an existing empty folder for everything that is made; the environment is ``home/work/environment``.
        interpreter: what it is made of.
        sources: where packages come from.
        log: everything that the commands print is appended here.
    """

    def __init__(self, home: Path, interpreter: Interpreter, sources: Sources, log: Path) -> None:
        self._home = home.resolve()
        self._interpreter = interpreter
        self._sources = sources
        self._log = log
        self._uv = find_uv()
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

    def require(self, overrides: Sequence[RequirementLine], base_requirements: Sequence[str]) -> None:
        """Checks, before anything is made, that overrides can be had and leave a2perf's own needs alone.

        Raises:
            SubmissionError: one of them is not a requirement, or is of a package that a2perf itself needs.
        """
        own = {canonicalize_name(Requirement(text).name) for text in base_requirements}
        for line in overrides:
            if not line.name or line.constraint:
                raise SubmissionError(
                    f"{line.place}: {line.text!r} overrides nothing", hint="write one `name==version` per line"
                )
            if line.name in own:
                raise SubmissionError(
                    f"{line.place}: {line.text} would override what a2perf itself needs",
                    hint="ask for it in requirements.txt, where it is resolved together with a2perf's bounds",
                )

    def stage(self, lines: Sequence[RequirementLine], overrides: Sequence[RequirementLine] = ()) -> None:
        """Checks and copies what the submission gives, before anything is started.

        Args:
            lines: the submission's requirements.
            overrides: what replaces the demands of all packages for these; `require` has checked them.

        Raises:
            ConfigError: a line has to be built, and the organizer does not allow it.
            SubmissionError: a wheel is broken, or unpacks to more than the organizer allows.
        """
        for folder in (self._given, *(self._work / name for name in ("home", "tmp", "cache", "sources"))):
            folder.mkdir(parents=True)
        self._lines = [*lines, *overrides]
        if not self._sources.allow_builds and (forbidden := [line for line in self._lines if line.builds]):
            line = forbidden[0]
            raise ConfigError(
                f"{line.place}: {line.text} has to be built, which would run its code during the installation",
                hint="ask for a wheel instead, or allow it with `Submission.python_env_builds = True`",
            )
        for name, chosen in {
            "requirements": [line for line in lines if not line.constraint],
            "constraints": [line for line in lines if line.constraint],
            "overrides": overrides,
        }.items():
            path, sources = self._given / f"{name}.txt", self._work / "sources"
            write_requirements(chosen, path, sources, max_bytes=self._sources.size_bytes)

    def make(self) -> None:
        """Makes the skeleton: interpreter and configuration; no package of a stranger.

        Raises:
            MissingDependency: the interpreter cannot make one.
        """
        completion.prepare(self.environment)
        base = self._interpreter.executable
        tool = self._given / "uv"  # a copy, so that the folder it lies in stays out of the sandbox
        shutil.copy2(self._uv, tool)
        self._uv = str(tool)
        command = [self._uv, "venv", "--no-config", "--no-project", "--python", str(base), str(self._skeleton)]
        if output := self._run(command, level="process", limited=False):
            raise MissingDependency(
                f"{base} cannot make a virtual environment:\n{tail(output)}",
                hint="give another interpreter with --participant-python",
            )

    def install(self, base_requirements: Sequence[str], own: Path) -> None:
        """Installs what the submission and a2perf's part of its process need, resolved together.

        Args:
            base_requirements: a2perf's.
            own: a2perf's own wheel.

        Raises:
            ConfigError: a package cannot be had, or the requirements contradict each other; names package and line.
            SubmissionError: a package is broken, or takes more than the organizer allows.
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
        """Makes byte code, checks what was installed, and adds the interpreter; returns the size in bytes.

        Args:
            final: the folder that the environment will have; byte code and scripts say it.

        Raises:
            SubmissionError: it is not an environment that may be used.
        """
        shutil.rmtree(self._work / "cache", ignore_errors=True)
        self.compile(final)
        size = completion.accept(self.environment, max_bytes=self._sources.size_bytes)
        completion.complete(self.environment, self._skeleton, final)
        return size

    def compile(self, final: Path) -> None:
        """Makes byte code; a file that cannot be compiled stays without."""
        strip = ["-s", str(self.environment), "-p", str(final), "-x", r"/tests?/"]
        base = str(self._interpreter.executable)
        self._run([base, "-I", "-m", "compileall", "-q", *strip, str(self.environment / "lib")], level=self.level)

    def _run_with_index(self, command: list[str]) -> str:
        """Runs the installer with the network it needs; the code of a build reaches the indexes alone."""
        network, settings = self._sources.network, self._sources.settings
        if not (network and self._sources.allow_builds) or self.level == "process":  # 'process' has no network to close
            return self._run(command, level=self.level, network=network)
        python = str(self._interpreter.executable)
        with IndexProxy(settings.addresses(), settings.upstream) as proxy:
            relayed = [python, "-I", "-S", "-c", RELAY, str(proxy.channel), *command]
            output = self._run(relayed, level=self.level, fds=(proxy.channel,))
            if output and proxy.refused:
                output += f"\nnot an index of the organizer: {', '.join(sorted(set(proxy.refused)))}"
        return output

    def _command(self) -> list[str]:
        python, sources = str(self._skeleton / "bin" / "python"), self._sources
        config = self._given / "uv.toml"
        sources.settings.write_uv(config)
        command = [self._uv, "--config-file", str(config), "pip", "install", "--python", python, "--no-sources"]
        command += ["--prefix", str(self.environment), "--link-mode", "hardlink"]  # the cache is deleted afterwards
        command += [] if sources.allow_builds else ["--no-build"]
        command += ["--offline"] if sources.offline else []
        command += ["--prerelease", "allow"] if any(line.text == PRE_RELEASES for line in self._lines) else []
        command += [word for path in sources.find_links for word in ("--find-links", str(path))]
        if sources.offline and sources.find_links:
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
        """Runs one command; returns its output if it failed, else nothing.

        Raises:
            InfrastructureError: it could not be started, or the index was too slow.
            SubmissionError: it broke a bound of the organizer.
        """
        started = time.monotonic()
        out, err = self._home / "stdout", self._home / "stderr"
        spec = SandboxSpec(
            argv=command,
            cwd=self._work / "home",
            # Behind the relay there is one proxy, and code of packages that could read the organizer's.
            env={
                name: text for name, text in self._environment.items() if not (fds and name.lower().endswith("_proxy"))
            },
            readable=(self._given, *self._readable),
            writable=(self._work,) if limited else (self._home,),
            network=network,
            limits=self._limits if limited else Limits(),
            fds=fds,
            stdout=out,
            stderr=err,
        )
        confined = get_sandbox(level).start(spec)
        try:
            ending = confined.wait(TIMEOUT_S + 60)
        finally:
            confined.kill_tree()
        output = clean("".join(_text(path) for path in (out, err)), self._sources.settings.secrets)
        took = f"({time.monotonic() - started:.1f} s in the sandbox {level!r})"
        with self._log.open("a", encoding="utf-8") as log:
            log.write(f"$ {' '.join(command)}\n{output}{took}\n\n")
        for path in (out, err):
            path.unlink(missing_ok=True)
        if ending is None or ending.limit == "wall_s":
            kind = InfrastructureError if network else SubmissionError
            raise kind(f"{Path(command[0]).name} did not end within {TIMEOUT_S:.0f} s", hint=f"see {self._log}")
        if ending.exit_code == 0 and ending.limit is None:
            return ""
        self._check_bounds(ending, output)
        return output or f"{command[0]} ended with status {ending.exit_code}, signal {ending.signal}"

    def _check_bounds(self, ending: Ending, output: str) -> None:
        limit = ending.limit
        if ending.signal == signal.SIGXFSZ or "File too large" in output:
            limit = "file_size_bytes"
        if ending.oom_kills:
            limit = "memory_bytes"
        if limit in ("artifact_bytes", "file_size_bytes"):
            raise over_limit("disk", f"{self._sources.size_bytes} bytes", self._log)
        if limit is not None:
            raise over_limit(limit, str(getattr(self._limits, limit, ending.limit_value)), self._log)
        if shutil.disk_usage(self._home).free < LEAST_FREE_BYTES:
            raise InfrastructureError("no space left to build the environment", hint="a2perf python-env prune")

    @property
    def _limits(self) -> Limits:
        # Each file counts twice while it is in the installer's cache and in the environment.
        size = self._sources.size_bytes
        return Limits(
            wall_s=TIMEOUT_S, memory_bytes=MEMORY_BYTES, processes=PROCESSES, file_size_bytes=size,
            artifact_bytes=2 * size, artifact_entries=2 * completion.MAX_ENTRIES, output_bytes=OUTPUT_BYTES,
        )  # fmt: skip

    @property
    def _readable(self) -> tuple[Path, ...]:
        places = (*self._interpreter.readable, *self._sources.find_links, *self._sources.settings.local_paths)
        return (self._skeleton, *(path for path in places if path.exists())) if self._skeleton.exists() else ()

    @property
    def _environment(self) -> dict[str, str]:
        """Everything that the installer knows: an allow-list, since it expands variables in what strangers wrote."""
        return {
            **self._sources.settings.variables,
            "HOME": str(self._work / "home"), "TMPDIR": str(self._work / "tmp"), "PATH": _PATH, "LANG": "C.UTF-8",
            "UV_CACHE_DIR": str(self._work / "cache"), "UV_PYTHON_DOWNLOADS": "never", "UV_NO_PROGRESS": "1",
            "NO_COLOR": "1",
        }  # fmt: skip


def find_uv() -> str:
    """Returns the uv that lies beside this interpreter, or the one on PATH.

    Raises:
        MissingDependency: there is none.
    """
    beside = Path(sys.executable).parent / "uv"
    found = str(beside) if os.access(beside, os.X_OK) else shutil.which("uv")
    if found is None:
        raise MissingDependency(
            "an environment for a submission is made with uv, which is not installed", hint="pip install uv"
        )
    return found


def _text(path: Path) -> str:
    with contextlib.suppress(FileNotFoundError):
        return path.read_bytes()[: 2 * OUTPUT_BYTES].decode("utf-8", errors="replace")
    return ""
