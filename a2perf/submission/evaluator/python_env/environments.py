"""The cache of environments: keyed by content, built aside and renamed into place, shared by many processes at once.

An environment counts only when its folder carries a stamp, and the stamp is written before the folder gets its name;
so what an interrupted build leaves is never taken for one. A process that uses an environment holds a shared lock on
it, one that builds or deletes it an exclusive one; the locks end with the processes.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import importlib.metadata
import json
import os
import re
import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
from packaging.utils import canonicalize_name

import a2perf
from a2perf import assets
from a2perf.errors import ConfigError, UserError
from a2perf.records import PythonEnvRecord, Record
from a2perf.storage import read_record, write_record
from a2perf.submission.evaluator.python_env import completion
from a2perf.submission.evaluator.python_env.completion import LOG, STAMP
from a2perf.submission.evaluator.python_env.installer import Installer, Sources
from a2perf.submission.evaluator.python_env.interpreter import Interpreter
from a2perf.submission.evaluator.python_env.own_wheel import base_requirements, content_hash, write_wheel
from a2perf.submission.evaluator.python_env.requirements import Requirements

__all__ = ["LOG", "STAMP", "Listed", "PythonEnv", "Recipe", "Stamp"]

_BUILDING = ".building-"
_KEY_LENGTH = 20
_KEY_SCHEMA = 2
_DIST_INFO = re.compile(r"([\w.]+)-([\w.!+]+)\.dist-info")


class Stamp(Record, kw_only=True):
    """``a2perf-environment.json``: marks a complete environment and says what it is made of.

    Attributes:
        key: its name.
        made_of: everything that the key is a hash of.
        packages: what is installed, by name.
        installer: ``"uv"``; environments of earlier versions may say ``"pip"``.
        built_at: time of the build, ISO 8601 in UTC.
        build_s: how long it took.
        size_bytes: the sizes of its files together.
        sandbox: level at which its packages were opened; empty for environments of earlier versions.
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
    """What an environment is made of.

    Attributes:
        requirements: what the submission asks for.
        extras: the extras of a2perf that the domain needs.
        interpreter: the Python it is made of.
        sources: where packages come from.
        packages: further requirements, of the package that a domain comes from.
        overrides: what replaces the demands of other packages, whoever makes them; none for a2perf's own needs.
    """

    requirements: Requirements
    extras: tuple[str, ...]
    interpreter: Interpreter
    sources: Sources
    packages: tuple[str, ...] = ()
    overrides: Requirements = field(default_factory=Requirements)

    @property
    def base_requirements(self) -> list[str]:
        """What a2perf's part of the participant process needs."""
        return [*base_requirements({*self.extras, *self.requirements.own_extras}), *self.packages]

    def made_of(self) -> dict[str, object]:
        """Returns everything that decides about the environment's content."""
        overrides = {"overrides": self.overrides.normalised()} if self.overrides.lines else {}
        return {
            "schema": _KEY_SCHEMA,
            "requirements": self.requirements.normalised(),
            **overrides,
            "base": self.base_requirements,
            "python": [self.interpreter.version, self.interpreter.tag, self.interpreter.platform],
            "prefix": str(self.interpreter.prefix),
            "a2perf": [a2perf.__version__, content_hash()],
            "wheels": [_listing(folder) for folder in self.sources.find_links],
            "builds": self.sources.allow_builds,
            "index": self.sources.settings.identity(),
        }

    @property
    def key(self) -> str:
        """Hash of ``made_of``, 20 hexadecimal digits."""
        return hashlib.sha256(json.dumps(self.made_of(), sort_keys=True).encode()).hexdigest()[:_KEY_LENGTH]


@dataclass(frozen=True)
class PythonEnv:
    """An environment that is complete and that nobody deletes while it is held.

    Attributes:
        path: its folder.
        readable: what a process must be able to read to run its interpreter.
        record: what a manifest says about it.
    """

    path: Path
    readable: tuple[Path, ...]
    record: PythonEnvRecord

    @property
    def python(self) -> Path:
        """Its interpreter."""
        return self.path / "bin" / "python"


@dataclass(frozen=True)
class Listed:
    """An environment in the cache, as ``a2perf python-env list`` shows it.

    Attributes:
        path: its folder.
        stamp: what it is; ``None`` for what an interrupted build left.
        last_use: seconds since the epoch.
        size_bytes: what it takes on disk.
        in_use: whether a process uses or builds it right now.
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
def environment(recipe: Recipe, log: Path) -> Iterator[PythonEnv]:
    """Provides the environment of a recipe, from the cache or newly built, and keeps it from deletion.

    Args:
        recipe: what it is made of.
        log: gets the log of its build, of this one or of the earlier one.

    Raises:
        ConfigError: a package cannot be had; names package and line.
        SubmissionError: a package is broken, or takes more than the organizer allows.
        InfrastructureError: the index, the disk or the interpreter failed.
    """
    home, key = folder_of_environments(), recipe.key
    path = home / key
    log.parent.mkdir(parents=True, exist_ok=True)
    with _lock(home, key) as lock:
        fcntl.flock(lock, fcntl.LOCK_SH)
        stamp = _usable(path, recipe)
        reused = stamp is not None
        if stamp is None:
            fcntl.flock(lock, fcntl.LOCK_EX)  # waits for another process that builds the same
            stamp = _usable(path, recipe)
            reused = stamp is not None
            if stamp is None:
                stamp = _build(recipe, path, log)
            # From an exclusive to a shared lock there is a moment without either, in which it may be deleted.
            fcntl.flock(lock, fcntl.LOCK_SH)
        if not path.is_dir():
            raise UserError(f"{path} was deleted while it was being made", hint="give the same command again")
        if reused:
            _tell_reuse(path, stamp, log)
            os.utime(path / STAMP)
        record = PythonEnvRecord(
            kind="isolated",
            key=key,
            python_version=recipe.interpreter.version,
            packages=stamp.packages,
            installer=stamp.installer,
            build_s=stamp.build_s,
            reused=reused,
            sandbox=stamp.sandbox,
        )
        yield PythonEnv(path, (path, *recipe.interpreter.readable), record)


def list_environments() -> list[Listed]:
    """Returns every environment of the cache, the one used last first, and what interrupted builds left."""
    found = []
    for path in folder_of_environments().glob("*"):
        if not path.is_dir() or path.name == "locks":
            continue
        stamp = None if path.name.startswith(_BUILDING) else _stamp_of(path)
        last_use = (path / STAMP).stat().st_mtime if stamp else path.stat().st_mtime
        size = stamp.size_bytes if stamp else _size_of(path)
        with _lock(path.parent, _key_of(path)) as lock:
            in_use = not _try_exclusive(lock)
        found.append(Listed(path, stamp, last_use, size, in_use))
    return sorted(found, key=lambda one: one.last_use, reverse=True)


def delete_environment(path: Path) -> bool:
    """Deletes one environment, or what an interrupted build left of it.

    Returns:
        Whether it was deleted; not while a process uses or builds it, or when another one was quicker.
    """
    with _lock(path.parent, _key_of(path)) as lock:
        if not _try_exclusive(lock) or not path.exists():
            return False
        # Renamed first, so that a deletion that is cut off leaves nothing that looks complete.
        gone = path.with_name(f"{_BUILDING}{_key_of(path)}-deleted-{os.getpid()}")
        path.rename(gone)
        shutil.rmtree(gone, ignore_errors=True)
    return True


def _build(recipe: Recipe, path: Path, log: Path) -> Stamp:
    """Builds aside and renames; the caller holds the exclusive lock."""
    started = time.monotonic()
    _remove_remains(path)
    if path.is_symlink():
        path.unlink()
    elif path.exists():  # incomplete, or not what was built
        shutil.rmtree(path)
    made_of = recipe.made_of()
    log.write_text(f"{time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime())} building {path}\n", encoding="utf-8")
    aside = Path(tempfile.mkdtemp(prefix=f"{_BUILDING}{path.name}-", dir=path.parent))
    try:
        installer = Installer(aside, recipe.interpreter, recipe.sources, log)
        installer.require(recipe.overrides.lines, recipe.base_requirements)
        installer.stage(recipe.requirements.lines, recipe.overrides.lines)
        installer.make()
        installer.install(recipe.base_requirements, write_wheel(aside))
        size = installer.finish(path)
        target = installer.environment
        packages = _packages(installer.site)
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
    _remove_remains(path)  # once more: what a killed build had started may have written for longer than it lived
    for remains in path.parent.glob(f"{_BUILDING}*"):  # of other keys, which nobody may ever build again
        delete_environment(remains)
    return stamp


def _remove_remains(path: Path) -> None:
    """Deletes what earlier builds of the same key left when they were killed."""
    for remains in path.parent.glob(f"{_BUILDING}{path.name}-*"):
        shutil.rmtree(remains, ignore_errors=True)


def _bring_compiled_kernels(site: Path, packages: dict[str, str]) -> None:
    """Copies the compiled kernels of the domains, where the new environment compiles them in the same way.

    In the sandbox an environment is read-only, so each process would compile them again.
    """
    for name in ("numba", "numpy", "llvmlite"):
        try:
            own = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            return
        if packages.get(name) != own:
            return
    source = Path(a2perf.__file__).parent
    for compiled in source.glob("domains/*/__pycache__/*.nb[ci]"):
        target = site / "a2perf" / compiled.relative_to(source)
        with contextlib.suppress(OSError):  # a package that brings files of a2perf's does without the kernels
            target.parent.mkdir(exist_ok=True)
            shutil.copyfile(compiled, target)


def _packages(site: Path) -> dict[str, str]:
    """Returns names and versions from the names of folders alone: the files in them are strangers'."""
    found = (_DIST_INFO.fullmatch(folder.name) for folder in site.iterdir())
    return dict(sorted((canonicalize_name(match[1]), match[2]) for match in found if match))


def _tell_reuse(path: Path, stamp: Stamp, log: Path) -> None:
    earlier = path / LOG
    text = earlier.read_text(encoding="utf-8", errors="replace") if earlier.is_file() else ""
    log.write_text(f"{path} was built before, at {stamp.built_at}, and is used again\n{text}", encoding="utf-8")


def _usable(path: Path, recipe: Recipe) -> Stamp | None:
    """Returns the stamp of a complete environment whose interpreter nobody has replaced."""
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
        raise ConfigError(f"{folder} is not a folder of wheels", hint="give a folder that holds .whl files")
    return [[path.name, path.stat().st_size] for path in sorted(folder.iterdir()) if path.suffix == ".whl"]


def _size_of(folder: Path) -> int:
    return sum(path.lstat().st_size for path in folder.rglob("*") if not path.is_dir())


def _key_of(path: Path) -> str:
    return path.name.removeprefix(_BUILDING)[:_KEY_LENGTH]


@contextmanager
def _lock(home: Path, key: str) -> Iterator[int]:
    """Opens the lock file of a key. It is never deleted: a lock on a deleted file would exclude nobody."""
    folder = home / "locks"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(folder / key, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise ConfigError(
            f"{folder} cannot be written: {error.strerror}", hint="set A2PERF_CACHE_DIR to a folder that you may write"
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
