"""What a confined program sees of the host's files: a list of places, built from a ``SandboxSpec``.

Everything that is not listed does not exist inside. The list is the same for namespaces and for containers; each level
turns it into its own arguments.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from a2perf.sandbox.interface import SandboxSpec

SYSTEM = (
    "/usr", "/etc/alternatives", "/etc/ca-certificates", "/etc/chromium", "/etc/chromium.d", "/etc/fonts",
    "/etc/glvnd", "/etc/gai.conf", "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/localtime",
    "/etc/mime.types", "/etc/nsswitch.conf", "/etc/OpenCL", "/etc/pki/ca-trust/extracted",
    "/etc/pki/tls/certs", "/etc/protocols", "/etc/services", "/etc/ssl/certs", "/etc/ssl/openssl.cnf",
    "/etc/timezone", "/etc/vulkan", "/sys/devices/system/cpu",
)  # fmt: skip
"""Programs, libraries and settings without secrets; what a host lacks is left out."""

NETWORK = ("/etc/resolv.conf", "/etc/hosts")
DEVICES = ("/sys/bus/pci", "/sys/devices", "/sys/module/nvidia", "/sys/class/drm")
"""What drivers of devices look up beside the device files."""

SHORTCUTS = ("/bin", "/sbin", "/lib", "/lib32", "/lib64")
USER_ID = 1000
PASSWD = f"participant:x:{USER_ID}:{USER_ID}::/tmp:/bin/sh\nnobody:x:65534:65534::/:/usr/sbin/nologin\n"
GROUP = f"participant:x:{USER_ID}:\nnogroup:x:65534:\n"
HOSTS = "127.0.0.1 localhost\n::1 localhost\n"


@dataclass(frozen=True)
class VisiblePath:
    """One thing that the program sees.

    Attributes:
        path: where it sees it.
        kind: ``"read"``, ``"write"`` or ``"device"``: ``source`` of the host; ``"folder"``: an empty one in the
            scratch space; ``"link"``: a symbolic link to ``source``; ``"tmpfs"``: an empty file system of its own,
            ``size`` bytes; ``"nothing"``: an empty file; ``"text"``: a file with the content ``source``.
        source: a path or a text.
        size: in bytes.
    """

    path: str
    kind: str
    source: str = ""
    size: int = 0


def places(spec: SandboxSpec) -> list[VisiblePath]:
    """Returns what the program of ``spec`` sees beside ``/proc`` and ``/dev``; a folder before what lies in it.

    Raises:
        FileNotFoundError: a path that the caller names does not exist.
    """
    scratch = spec.limits.scratch_bytes
    found: list[VisiblePath] = [
        VisiblePath("/tmp", "tmpfs", size=scratch),
        VisiblePath("/dev/shm", "tmpfs", size=scratch),
        VisiblePath("/etc/passwd", "text", PASSWD),
        VisiblePath("/etc/group", "text", GROUP),
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


def installation(program: Path) -> list[Path]:
    """Returns the folders that an interpreter needs: its virtual environment and the Python below it.

    The search path that ``.pth`` files add belongs to it only for the evaluator's own interpreter: in any other
    environment a package of a stranger may have brought such a file, and its lines would choose what is visible.

    Args:
        program: its absolute path; every link on the way to the file is followed.
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
    for folder in tuple(folders):
        if folder in (Path(sys.prefix), Path(sys.base_prefix)):
            folders.extend(path_lines(folder))
    return [path for path in dict.fromkeys(folders) if path.exists() and not _is_below(str(path), "/usr")]


def _prefix(program: Path) -> list[Path]:
    prefix = program.parent.parent
    if program.parent.name != "bin":
        return [program]
    if prefix == Path("/") or _is_below(str(Path.home()), str(prefix)):  # never a whole home for a bin/ in it
        names = ("bin", "lib", "lib64", "include", "pyvenv.cfg")
        return [prefix / name for name in names if prefix != Path("/")]
    return [prefix]


def path_lines(folder: Path) -> Iterator[Path]:
    """Yields the folders that ``.pth`` files of an environment add to its search path; only for one that is trusted."""
    for file in folder.glob("lib/python3*/site-packages/*.pth"):
        for line in file.read_text(errors="replace").splitlines():
            if line.startswith("/") and os.path.isdir(line):
                yield Path(line)


def _hidden(spec: SandboxSpec, found: Sequence[VisiblePath]) -> Iterator[VisiblePath]:
    """Yields an empty place wherever something hidden would be seen, by whatever path either of them was given.

    Files are compared without their links. A path that lies openly inside a hidden one was meant to be seen; one that
    leads there through a link was not. A hard link cannot be told from the file itself.
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
    if not spec.network:
        yield VisiblePath("/etc/hosts", "text", HOSTS)
    for name in SHORTCUTS:
        if os.path.islink(name):
            yield VisiblePath(name, "link", os.readlink(name))
        elif os.path.isdir(name):
            yield VisiblePath(name, "read", name)


def _private_copy(folder: Path, scratch: int) -> Iterator[VisiblePath]:
    """Yields folders and links of a temporary folder anew, so that what is written there is in the scratch space."""
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

    Numba uses a folder only when it may write there; in one that is read-only it would compile for a minute instead.
    The copy is of links to the host's files, which a new version replaces and never writes through.
    """
    package = str(Path(__file__).resolve().parents[1])
    if not any(_is_below(package, place.path) for place in found if place.kind == "read"):
        return
    for index, cache in enumerate(sorted(Path(package).glob("domains/*/__pycache__"))):
        names = [name for name in os.listdir(cache) if name.endswith((".nbi", ".nbc", ".pyc"))]
        if not any(name.endswith(".nbi") for name in names):
            continue
        original = f"/run/a2perf/compiled/{index}"
        yield VisiblePath(original, "read", str(cache))
        yield VisiblePath(str(cache), "tmpfs", size=64 * 1024 * 1024)
        for name in names:
            yield VisiblePath(f"{cache}/{name}", "link", f"{original}/{name}")


def _ordered(found: Iterable[VisiblePath]) -> list[VisiblePath]:
    """Sorts by depth; of several places at the same path the last one counts, but writing wins over reading."""
    chosen: dict[str, VisiblePath] = {}
    for place in found:
        before = chosen.get(place.path)
        if not (before is not None and before.kind == "write" and place.kind == "read"):
            chosen[place.path] = place
    result: list[VisiblePath] = []
    for place in sorted(chosen.values(), key=lambda place: place.path.count("/")):
        above = _nearest(place.path, result) if place.kind == "read" else None
        if above is None or above.kind != "read" or place.source != above.source + place.path[len(above.path) :]:
            result.append(place)  # else it is visible already
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
