"""The cache of environments: keyed by content, built in a temporary folder and renamed, shared by many processes.

A folder counts as an environment only if it contains a stamp. The stamp is written before the folder is renamed, so an
interrupted build never looks complete. A process that uses an environment holds a shared lock on it; one that builds or
deletes it holds an exclusive lock. The kernel releases the locks of a process that dies.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.metadata
import json
import os
import random
import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from a2perf import assets
from a2perf._version import __version__
from a2perf.errors import ConfigError, UserError
from a2perf.records import PythonEnvRecord, Record
from a2perf.storage import read_record, write_record
from a2perf.submission.evaluator.process.own_code import listed_packages
from a2perf.submission.evaluator.python_env import completion
from a2perf.submission.evaluator.python_env.completion import LOG, STAMP
from a2perf.submission.evaluator.python_env.installer import Installer, Sources
from a2perf.submission.evaluator.python_env.interpreter import Interpreter
from a2perf.submission.evaluator.python_env.own_wheel import base_requirements, content_hash, write_wheel
from a2perf.submission.evaluator.python_env.requirements import Requirements
from a2perf.system import fcntl, require_posix

_BUILDING = ".building-"
_KEY_LENGTH = 20
_KEY_SCHEMA = 3


class Stamp(Record, kw_only=True):
    """``a2perf-environment.json``: marks a complete environment and records its content.

    Attributes:
        made_of: the inputs of the key's hash.
        installer: ``"uv"``; ``"pip"`` in some environments of earlier versions.
        built_at: time of the build, ISO 8601 in UTC.
        sandbox: sandbox level of the installation; empty in environments of earlier versions.
    """

    schema: int = 1
    key: str
    made_of: dict[str, object]
    packages: dict[str, str]
    installer: str
    built_at: str
    build_s: float
    size_bytes: int
    sandbox: str = ""


@dataclass(frozen=True)
class Recipe:
    """The inputs of an environment.

    Attributes:
        packages: further requirements: the package of a domain that is not part of a2perf.
        overrides: requirements that replace those of other packages; a2perf's own cannot be overridden.
    """

    requirements: Requirements
    extras: tuple[str, ...]
    interpreter: Interpreter
    sources: Sources
    packages: tuple[str, ...] = ()
    overrides: Requirements = field(default_factory=Requirements)

    @property
    def base_requirements(self) -> list[str]:
        """Requirements of a2perf's code in the participant process."""
        return [*base_requirements({*self.extras, *self.requirements.own_extras}), *self.packages]

    def made_of(self) -> dict[str, object]:
        """Returns everything that determines the environment's content."""
        overrides = {"overrides": self.overrides.normalised()} if self.overrides.lines else {}
        return {
            "schema": _KEY_SCHEMA,
            "requirements": self.requirements.normalised(),
            **overrides,
            "base": self.base_requirements,
            "python": [self.interpreter.version, self.interpreter.tag, self.interpreter.platform],
            "prefix": str(self.interpreter.prefix),
            "a2perf": [__version__, content_hash()],
            "wheels": [_listing(folder) for folder in self.sources.settings.wheel_folders],
            "index": self.sources.settings.identity(),
        }

    @property
    def key(self) -> str:
        """Hash of ``made_of``, 20 hexadecimal digits."""
        return hashlib.sha256(json.dumps(self.made_of(), sort_keys=True).encode()).hexdigest()[:_KEY_LENGTH]


@dataclass(frozen=True)
class BuiltEnvironment:
    """A complete environment, which is locked against deletion."""

    path: Path
    readable: tuple[Path, ...]
    record: PythonEnvRecord

    @property
    def python(self) -> Path:
        """Its interpreter."""
        return self.path / "bin" / "python"


@dataclass(frozen=True)
class Listed:
    """An environment in the cache, as ``a2perf python-env`` shows it.

    Attributes:
        stamp: its stamp; ``None`` for an interrupted build.
        last_use: seconds since the epoch.
    """

    path: Path
    stamp: Stamp | None
    last_use: float
    size_bytes: int
    in_use: bool


def folder_of_environments() -> Path:
    """Returns the folder of the cache; it may not exist yet."""
    return assets.cache_dir() / "python_envs"


@contextmanager
def environment(recipe: Recipe, log: Path) -> Iterator[BuiltEnvironment]:
    """Provides the environment of a recipe, from the cache or newly built, and locks it against deletion.

    Args:
        log: file that receives the log of the build, also if the environment is reused.

    Raises:
        ConfigError: a package cannot be found; the message names package and line.
        SubmissionError: a package is broken, or exceeds a limit of the organizer.
        InfrastructureError: the index, the disk or the interpreter failed.
    """
    require_posix("isolated environments")
    home, key = folder_of_environments(), recipe.key
    path = home / key
    log.parent.mkdir(parents=True, exist_ok=True)
    with _lock(home, key) as lock:
        stamp = found = None
        while stamp is None:
            fcntl.flock(lock, fcntl.LOCK_SH)  # waits for another process that builds the same
            stamp = found = _usable(path, recipe)
            if stamp is None and _is_alone(lock):
                found = _usable(path, recipe)
                stamp = found or _build(recipe, path, log)
                # flock does not convert an exclusive lock to a shared one at once: the environment may be deleted.
                fcntl.flock(lock, fcntl.LOCK_SH)
        if not path.is_dir():
            raise UserError(f"{path} was deleted while it was being built", hint="run the same command again")
        if found:
            earlier = (path / LOG).read_text(encoding="utf-8", errors="replace") if (path / LOG).is_file() else ""
            log.write_text(f"reusing {path}, built at {stamp.built_at}\n{earlier}", encoding="utf-8")
            os.utime(path / STAMP)
        record = PythonEnvRecord(
            kind="isolated",
            key=key,
            python_version=recipe.interpreter.version,
            packages=stamp.packages,
            installer=stamp.installer,
            build_s=stamp.build_s,
            reused=found is not None,
            sandbox=stamp.sandbox,
        )
        yield BuiltEnvironment(path, (path, *recipe.interpreter.readable), record)


def list_environments() -> list[Listed]:
    """Returns every environment of the cache, most recently used first, including interrupted builds."""
    found = []
    for path in folder_of_environments().glob("*"):
        if not path.is_dir() or path.name == "locks":
            continue
        stamp = None if path.name.startswith(_BUILDING) else _stamp_of(path)
        last_use = (path / STAMP).stat().st_mtime if stamp else path.stat().st_mtime
        files = () if stamp else path.rglob("*")
        size = stamp.size_bytes if stamp else sum(file.lstat().st_size for file in files if not file.is_dir())
        with _lock(path.parent, _key_of(path)) as lock:
            in_use = not _try_exclusive(lock)
        found.append(Listed(path, stamp, last_use, size, in_use))
    return sorted(found, key=lambda one: one.last_use, reverse=True)


def prunable_environments(older_than_s: float | None = None, *, every: bool = False) -> list[Listed]:
    """Returns the environments that can be deleted: leftovers of interrupted builds, and old ones or all."""
    limit = None if older_than_s is None else time.time() - older_than_s
    return [
        one for one in list_environments() if one.stamp is None or every or (limit is not None and one.last_use < limit)
    ]


def delete_environment(path: Path) -> bool:
    """Deletes one environment or an interrupted build.

    Returns:
        Whether it was deleted. False if a process uses or builds it, or another process has deleted it.
    """
    with _lock(path.parent, _key_of(path)) as lock:
        if not _try_exclusive(lock) or not path.exists():
            return False
        # Rename first: an interrupted deletion must not leave a folder that looks complete.
        gone = path.with_name(f"{_BUILDING}{_key_of(path)}-deleted-{os.getpid()}")
        path.rename(gone)
        shutil.rmtree(gone, ignore_errors=True)
    return True


def _build(recipe: Recipe, path: Path, log: Path) -> Stamp:
    """Builds in a temporary folder and renames it; the caller holds the exclusive lock."""
    started = time.monotonic()
    _remove_remains(path)
    if path.is_symlink():
        path.unlink()
    elif path.exists():  # incomplete or modified
        shutil.rmtree(path)
    made_of = recipe.made_of()
    log.write_text(f"{time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime())} building {path}\n", encoding="utf-8")
    aside = Path(tempfile.mkdtemp(prefix=f"{_BUILDING}{path.name}-", dir=path.parent))
    try:
        installer = Installer(aside, recipe.interpreter, recipe.sources, log)
        installer.stage(recipe.requirements.lines, recipe.overrides.lines, recipe.base_requirements)
        installer.make()
        installer.install(recipe.base_requirements, write_wheel(aside))
        size = installer.finish(path)
        target = installer.environment
        packages = listed_packages([installer.site])
        _bring_compiled_kernels(installer.site, packages)
        shutil.copyfile(log, target / LOG)
        stamp = Stamp(
            key=path.name,
            made_of=made_of,
            packages=packages,
            installer="uv",
            built_at=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            build_s=round(time.monotonic() - started, 3),
            size_bytes=size,
            sandbox=installer.level,
        )
        write_record(target / STAMP, stamp)
        target.rename(path)
    finally:
        shutil.rmtree(aside, ignore_errors=True)
    _remove_remains(path)  # again: processes of a killed build may have kept writing for a moment
    for remains in path.parent.glob(f"{_BUILDING}*"):  # interrupted builds of other keys
        delete_environment(remains)
    return stamp


def _remove_remains(path: Path) -> None:
    for remains in path.parent.glob(f"{_BUILDING}{path.name}-*"):
        shutil.rmtree(remains, ignore_errors=True)


def _bring_compiled_kernels(site: Path, packages: dict[str, str]) -> None:
    """Copies the domains' kernels compiled by Numba, if Numba, NumPy and llvmlite have the same versions.

    An environment is read-only in the sandbox, so each process would have to compile them again.
    """
    for name in ("numba", "numpy", "llvmlite"):
        try:
            own = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            return
        if packages.get(name) != own:
            return
    source = Path(__file__).parents[3]
    for compiled in source.glob("domains/*/__pycache__/*.nb[ci]"):
        target = site / "a2perf" / compiled.relative_to(source)
        with contextlib.suppress(OSError):  # a package may contain files at these paths; then it runs without kernels
            target.parent.mkdir(exist_ok=True)
            shutil.copyfile(compiled, target)


def _is_alone(lock: int) -> bool:
    """Returns whether this process has the lock alone; otherwise it has none, after a short pause.

    Nobody waits for the exclusive lock, because users of a built environment keep the shared one for a whole run.
    """
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        time.sleep(random.uniform(0.01, 0.1))
        return False
    return True


def _usable(path: Path, recipe: Recipe) -> Stamp | None:
    """Returns the stamp of an environment if it is complete and its interpreter has not been replaced."""
    stamp = _stamp_of(path)
    return stamp if stamp and completion.is_intact(path, recipe.interpreter.executable) else None


def _stamp_of(path: Path) -> Stamp | None:
    try:
        stamp = read_record(path / STAMP, Stamp)
    except UserError:
        return None
    return stamp if stamp.key == path.name else None


def _listing(folder: Path) -> list[list[object]]:
    if not folder.is_dir():
        raise ConfigError(f"{folder} is not a folder of wheels", hint="give a folder that contains .whl files")
    return [[path.name, path.stat().st_size] for path in sorted(folder.iterdir()) if path.suffix == ".whl"]


def _key_of(path: Path) -> str:
    return path.name.removeprefix(_BUILDING)[:_KEY_LENGTH]


@contextmanager
def _lock(home: Path, key: str) -> Iterator[int]:
    """Opens the lock file of a key. It is never deleted, because a lock on a deleted file has no effect."""
    folder = home / "locks"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(folder / key, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise ConfigError(
            f"{folder} is not writable: {error.strerror}", hint="export A2PERF_CACHE_DIR=DIR with a writable folder"
        ) from error
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _try_exclusive(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def as_json(listed: Sequence[Listed]) -> list[dict[str, object]]:
    """Returns the list as plain data."""
    return [
        {
            "path": str(one.path),
            "key": one.stamp.key if one.stamp else None,
            "complete": one.stamp is not None,
            "size_bytes": one.size_bytes,
            "last_use": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(one.last_use)),
            "in_use": one.in_use,
            "stamp": msgspec.to_builtins(one.stamp) if one.stamp else None,
        }
        for one in listed
    ]
