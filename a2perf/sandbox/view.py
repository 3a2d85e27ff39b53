"""The host's files that a confined program sees: a list of places, built from a ``SandboxSpec``.

Anything that is not listed does not exist inside. Namespaces and containers share the list; each level translates it
into its own arguments.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from a2perf.sandbox.interface import SandboxSpec

SYSTEM = (
    "/usr",
    "/etc/alternatives",
    "/etc/ca-certificates",
    "/etc/chromium",
    "/etc/chromium.d",
    "/etc/fonts",
    "/etc/glvnd",
    "/etc/gai.conf",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/localtime",
    "/etc/host.conf",
    "/etc/locale.alias",
    "/etc/mime.types",
    "/etc/nsswitch.conf",
    "/etc/OpenCL",
    "/etc/os-release",
    "/etc/pki/ca-trust/extracted",
    "/etc/pki/tls/certs",
    "/etc/protocols",
    "/etc/services",
    "/etc/ssl/certs",
    "/etc/ssl/openssl.cnf",
    "/etc/timezone",
    "/etc/vulkan",
    "/sys/devices/system/cpu",
)
"""Programs, libraries and settings without secrets; paths that a host does not have are skipped."""

NETWORK = ("/etc/resolv.conf",)
DEVICES = ("/sys/bus/pci", "/sys/devices", "/sys/module/nvidia", "/sys/class/drm")
"""Folders that device drivers read in addition to the device files."""

SHORTCUTS = ("/bin", "/sbin", "/lib", "/lib32", "/lib64")
PACKAGE = Path(__file__).resolve().parents[1]
USER_ID = 1000
PASSWD = f"participant:x:{USER_ID}:{USER_ID}::/tmp:/bin/sh\nnobody:x:65534:65534::/:/usr/sbin/nologin\n"
GROUP = f"participant:x:{USER_ID}:\nnogroup:x:65534:\n"
GUARANTEES = (
    "of the host's files it sees only the system, its interpreter and the submission (read-only) and its artifacts"
    " folder",
    "private /tmp and /dev/shm of limited size, deleted at its end",
)
NO_NETWORK = "no network except a private loopback"
HOST_NAME = "a2perf"
HOSTS = f"127.0.0.1 localhost {HOST_NAME}\n::1 localhost\n"


@dataclass(frozen=True)
class VisiblePath:
    """One path that the program sees.

    Attributes:
        kind: ``"read"``, ``"write"`` or ``"device"``: ``source`` of the host; ``"folder"``: an empty folder in the
            scratch space; ``"link"``: a symbolic link to ``source``; ``"tmpfs"``: an empty file system of ``size``
            bytes; ``"nothing"``: an empty file; ``"text"``: a file with the content ``source``.
    """

    path: str
    kind: str
    source: str = ""
    size: int = 0


def places(spec: SandboxSpec) -> list[VisiblePath]:
    """Returns what the program of ``spec`` sees besides ``/proc`` and ``/dev``, folders before their content.

    Raises:
        FileNotFoundError: a path that the caller names does not exist.
    """
    scratch = spec.limits.scratch_bytes
    found: list[VisiblePath] = [
        VisiblePath("/tmp", "tmpfs", size=scratch),
        VisiblePath("/dev/shm", "tmpfs", size=scratch),
        VisiblePath("/etc/passwd", "text", PASSWD),
        VisiblePath("/etc/group", "text", GROUP),
        VisiblePath("/etc/hostname", "text", f"{HOST_NAME}\n"),
        VisiblePath("/etc/hosts", "text", _hosts() if spec.network else HOSTS),
        *_system(spec),
    ]
    for path in installation(Path(spec.argv[0])):
        found.append(VisiblePath(str(path), "read", str(path)))
    for path in spec.readable:
        found.append(VisiblePath(str(path), "read", str(path.resolve(strict=True))))
    for path in spec.devices:
        found.append(VisiblePath(str(path), "device", str(path)))
    for path in spec.writable:
        if path not in spec.temporary:
            found.append(VisiblePath(str(path), "write", str(path.resolve(strict=True))))
    for path in spec.temporary:
        found.extend(_private_copy(path, scratch))
    found.extend([*_hidden(spec, found)])
    found.extend(_compiled_code(found))
    return _ordered(found)


def _hosts() -> str:
    """Returns the host's table of names with the name that the program's machine has."""
    try:
        with open("/etc/hosts") as file:
            return f"127.0.0.1 {HOST_NAME}\n{file.read()}"
    except (OSError, UnicodeDecodeError):
        return HOSTS


def installation(program: Path) -> list[Path]:
    """Returns the folders that an interpreter needs: its virtual environment and the base installation.

    Folders named in ``.pth`` files are included only for the evaluator's own interpreter. In any other environment such
    a file may come from a participant's package, and its lines would choose what becomes visible.

    Args:
        program: absolute path of the interpreter; the prefix of every link on the way to the file is included.
    """
    folders: list[Path] = []
    seen: set[Path] = set()
    while program not in seen:
        seen.add(program)
        folders.extend(_prefix(program))
        if not program.is_symlink():
            break
        program = Path(os.path.normpath(program.parent / os.readlink(program)))
    folders.extend(_prefix(program.resolve()))
    if program.resolve().is_relative_to(sys.prefix):  # a copy in a virtual environment has no link to its base
        folders.extend(_prefix(Path(sys.base_prefix, "bin", "python")))
    for folder in tuple(folders):
        if folder in (Path(sys.prefix), Path(sys.base_prefix)):
            folders.extend(path_lines(folder))
    return [path for path in dict.fromkeys(folders) if path.exists() and not _is_below(str(path), "/usr")]


def _prefix(program: Path) -> list[Path]:
    prefix = program.parent.parent
    if program.parent.name != "bin":
        return [program]
    if prefix == Path("/") or _is_below(str(Path.home()), str(prefix)):  # ~/bin/python must not expose the whole home
        names = ("bin", "lib", "lib64", "include", "pyvenv.cfg")
        return [prefix / name for name in names if prefix != Path("/")]
    return [prefix]


def path_lines(folder: Path) -> Iterator[Path]:
    """Yields the folders that ``.pth`` files of a trusted environment add to its search path.

    Of a checkout of a2perf only the package: runs, keys and other submissions may lie beside it.
    """
    for file in folder.glob("lib/python3*/site-packages/*.pth"):
        for line in file.read_text(errors="replace").splitlines():
            if line.startswith("/") and os.path.isdir(line):
                is_checkout = all(os.path.isfile(f"{line}/{name}") for name in ("pyproject.toml", "a2perf/__init__.py"))
                yield Path(line, "a2perf") if is_checkout else Path(line)
    if any(folder.glob("lib/python3*/site-packages/__editable___a2perf_*_finder.py")):
        yield PACKAGE  # `pip install -e` may name the checkout in an import hook instead of a .pth file


def _hidden(spec: SandboxSpec, found: Sequence[VisiblePath]) -> Iterator[VisiblePath]:
    """Yields an empty place over every hidden file or folder that would otherwise be visible.

    Paths are compared after resolving links. A readable path that is given inside a hidden folder is meant to be seen;
    one that leads there only through a link is not. A hard link cannot be distinguished from the file.
    """
    visible = [(place, os.path.realpath(place.source)) for place in found if place.kind in ("read", "write")]
    meant = (str(spec.cwd), *map(str, spec.hidden))
    for path in spec.hidden:
        real = os.path.realpath(path)
        if not os.path.exists(real):
            continue
        for place, source in visible:
            if _is_below(real, source):
                seen = os.path.join(place.path, os.path.relpath(real, source)) if real != source else place.path
                yield VisiblePath(seen, "tmpfs" if os.path.isdir(real) else "nothing", size=4096)
            elif place.kind == "read" and _is_below(source, real) and not _is_below_any(place.path, meant):
                yield VisiblePath(place.path, "tmpfs" if os.path.isdir(source) else "nothing", size=4096)


def _system(spec: SandboxSpec) -> Iterator[VisiblePath]:
    names = [*SYSTEM, *(NETWORK if spec.network else ()), *(DEVICES if spec.devices else ())]
    for name in names:
        if os.path.exists(name):
            yield VisiblePath(name, "read", name)
    for name in SHORTCUTS:
        if os.path.islink(name):
            yield VisiblePath(name, "link", os.readlink(name))
        elif os.path.isdir(name):
            yield VisiblePath(name, "read", name)


def _private_copy(folder: Path, scratch: int) -> Iterator[VisiblePath]:
    """Yields a copy of a temporary folder's folders and links in the scratch space, which bounds what is written."""
    top = str(folder)
    yield VisiblePath(top, "folder") if _is_below(top, "/tmp") else VisiblePath(top, "tmpfs", size=scratch)
    for root, folders, files in os.walk(folder):
        for name in (*folders, *files):
            path = os.path.join(root, name)
            if os.path.islink(path):
                yield VisiblePath(path, "link", os.readlink(path))
            elif name in folders:
                yield VisiblePath(path, "folder")
            else:
                yield VisiblePath(path, "read", path)


def _compiled_code(found: Sequence[VisiblePath]) -> Iterator[VisiblePath]:
    """Yields writable copies of the folders in which Numba keeps compiled code of a2perf.

    Numba uses a cache folder only if it may write there; with a read-only one it would compile for a minute. The copy
    holds links to the host's files. Numba replaces such a link with a new file and never writes through it.
    """
    shown = [place.path for place in found if place.kind == "read"]
    caches = [cache for cache in _kernel_caches() if any(_is_below(str(cache), path) for path in shown)]
    for index, cache in enumerate(caches):
        # Numba keeps its files elsewhere if the installation cannot be written.
        kept = next((place for place in _numba_folders(cache) if _holds_kernels(place)), None)
        if kept is None:
            continue
        original = f"/run/a2perf/compiled/{index}"
        yield VisiblePath(str(cache), "tmpfs", size=64 * 1024 * 1024)
        for place, endings in ((kept, (".nbi", ".nbc")), (cache, (".pyc",))):
            source = f"{original}/{endings[0][1:]}"
            yield VisiblePath(source, "read", str(place))
            for name in os.listdir(place):
                if name.endswith(endings):
                    yield VisiblePath(f"{cache}/{name}", "link", f"{source}/{name}")


def _holds_kernels(folder: Path) -> bool:
    try:
        return any(name.endswith(".nbi") for name in os.listdir(folder))
    except OSError:  # there is none, or it is another user's
        return False


def _numba_folders(cache: Path) -> Iterator[Path]:
    """Yields the folders in which Numba may keep compiled code of the folder above ``cache``, in its order."""
    folder = cache.parent
    name = f"{folder.name}_{hashlib.sha1(str(folder).encode(), usedforsecurity=False).hexdigest()}"
    if chosen := os.environ.get("NUMBA_CACHE_DIR"):
        yield Path(chosen, name)
    yield cache
    yield Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache", "numba", name).expanduser()


def _kernel_caches() -> list[Path]:
    """Returns the folders of compiled code of the core's domains and of distributions."""
    distributions = {
        folder for place in (PACKAGE.parent, *path_lines(Path(sys.prefix))) for folder in place.glob("a2perf_*/")
    }
    return [
        *sorted(PACKAGE.glob("domains/*/**/__pycache__")),
        *(cache for folder in sorted(distributions) for cache in sorted(folder.rglob("__pycache__"))),
    ]


def _ordered(found: Iterable[VisiblePath]) -> list[VisiblePath]:
    """Sorts by depth. Of several places with the same path the last one wins, but "write" wins over "read"."""
    chosen: dict[str, VisiblePath] = {}
    for place in found:
        before = chosen.get(place.path)
        if not (before is not None and before.kind == "write" and place.kind == "read"):
            chosen[place.path] = place
    result: list[VisiblePath] = []
    for place in sorted(chosen.values(), key=lambda place: place.path.count("/")):
        above = _nearest(place.path, result) if place.kind == "read" else None
        if above is None or above.kind != "read" or place.source != above.source + place.path[len(above.path) :]:
            result.append(place)  # else a folder above already shows it
    return result


def _nearest(path: str, chosen: Sequence[VisiblePath]) -> VisiblePath | None:
    for place in reversed(chosen):
        if place.kind in ("read", "write", "tmpfs") and _is_below(path, place.path):
            return place
    return None


def _is_below_any(path: str, folders: Iterable[str]) -> bool:
    return any(_is_below(path, folder) for folder in folders)


def _is_below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")
