"""Prepares the mounts that bubblewrap shows to the participant; it cannot affect the host's files through them.

* If the evaluator is root, ids are translated (idmapped mounts): files of root appear as the participant's, and files
  that it writes belong to root immediately.
* Readable folders go through an overlay. Locks, leases and watches on its files do not reach the host's files.
* Device files are created for the participant.

A place is shown without one of these if its file system does not support it. Source: ``mount_setattr(2)`` and the
kernel's ``Documentation/filesystems/overlayfs.rst``.
"""

from __future__ import annotations

import errno
import os
import stat

from . import kernel

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    Put = Callable[[str], None]

STAGE = "/tmp"
"""Where bubblewrap finds the places: a new file system in a private mount namespace."""


def build(places: list[tuple[str, str, str, bool]], uid: int | None) -> None:
    """Mounts every place under its name in ``STAGE``; the calling process is in a private mount namespace.

    Args:
        places: name, kind (``"read"``, ``"write"``, ``"device"``), source, and whether it is a world-readable part of
            the system.
        uid: id to which the owner of a place is translated; ``None`` translates nothing.

    Raises:
        OSError: the kernel refused a necessary step; ``filename`` names it.
    """
    # A new namespace inherits shared mounts: without this the mounts below would also appear on the host.
    kernel.mount("none", "/", None, kernel.RECURSIVE | kernel.PRIVATE)
    stage = _Stage(uid)
    # Clone all sources first: mounting the stage on /tmp hides any source below /tmp.
    found = [(name, stage.find(kind, source, system)) for name, kind, source, system in places]
    kernel.mount("tmpfs", STAGE, "tmpfs", 0, "mode=0755")
    os.mkdir(f"{STAGE}/empty")
    for layer in stage.layers.values():
        layer.put_up()
    for name, put in found:
        put(f"{STAGE}/{name}")


def give(top: str, uid: int, gid: int) -> None:
    """Changes the owner of a folder and everything in it. Links are not followed."""
    os.chown(top, uid, gid, follow_symlinks=False)
    for _, folders, files, folder in os.fwalk(top):
        for name in (*folders, *files):
            os.chown(name, uid, gid, dir_fd=folder, follow_symlinks=False)


class _Layer:
    """A folder of the host behind an overlay, if the kernel allows one; ``path`` is set by ``put_up``."""

    def __init__(self, clone: int, number: int) -> None:
        self.clone = clone
        self.number = number
        self.path = ""

    def put_up(self) -> None:
        below, above = f"{STAGE}/below-{self.number}", f"{STAGE}/above-{self.number}"
        os.mkdir(below)
        os.mkdir(above)
        kernel.attach_mount(self.clone, below)
        os.close(self.clone)
        try:
            # The kernel demands two lower folders if there is no upper one; the second one is empty.
            kernel.mount("overlay", above, "overlay", 0, f"lowerdir={below}:{STAGE}/empty")
            self.path = above
        except OSError:
            self.path = below  # no overlay here: locks then reach the host's files


class _Stage:
    def __init__(self, uid: int | None) -> None:
        self.uid = uid
        self.layers: dict[tuple[str, tuple[int, int] | None], _Layer] = {}
        self.maps: dict[tuple[int, int], int] = {}
        with open("/proc/self/mountinfo", "rb") as file:
            points = [_unescaped(os.fsdecode(line.split()[4])) for line in file]
        self.points = [point for point in points if point != "/"]

    def find(self, kind: str, source: str, system: bool) -> Put:
        """Returns a function that mounts a place; the host's files that it needs are opened here."""
        source = os.path.realpath(source)
        status = os.stat(source)
        if kind == "device":
            return lambda target: self._make_device(target, source, status)
        folder = stat.S_ISDIR(status.st_mode)
        owner = (status.st_uid, status.st_gid) if self.uid is not None and not system else None
        if kind == "write":
            clone, translated = self._clone(source, owner)
            if self.uid is not None and not translated:
                give(source, self.uid, self.uid)  # the guard gives it back to the evaluator when the tree has ended
            return lambda target: _attach(clone, target, folder)
        base = source if folder else os.path.dirname(source)
        for top in ("/etc", "/usr"):  # one overlay for all of their files is much faster than one per file
            if system and source.startswith(top + "/"):
                base = top
        if base == "/" or self._crosses(base, source):  # an overlay does not show mounts inside its lower folder
            clone, translated = self._clone(source, owner)
            self._check_readable(source, status, owner, translated)
            return lambda target: _attach(clone, target, folder)
        if (base, owner) not in self.layers:
            clone, translated = self._clone(base, owner)
            self._check_readable(source, status, owner, translated)
            self.layers[base, owner] = _Layer(clone, len(self.layers))
        layer, inner = self.layers[base, owner], source[len(base) :]
        return lambda target: _bind(layer.path + inner, target, folder)

    def _crosses(self, base: str, source: str) -> bool:
        below = [point for point in self.points if point.startswith(base + "/")]
        return any((point + "/").startswith(source + "/") or source.startswith(point + "/") for point in below)

    def _clone(self, path: str, owner: tuple[int, int] | None) -> tuple[int, bool]:
        """Returns a descriptor of a detached copy of a mount, and whether its ids are translated."""
        clone = kernel.clone_mount(path)
        if owner is None or self.uid is None:
            return clone, False
        if owner not in self.maps:
            self.maps[owner] = kernel.user_map(owner, self.uid)
        for recursive in (True, False):  # a mount further down may not support it; then translate only the top one
            try:
                kernel.translate_ids(clone, self.maps[owner], recursive=recursive)
                return clone, True
            except OSError:
                continue
        return clone, False

    def _check_readable(
        self, source: str, status: os.stat_result, owner: tuple[int, int] | None, translated: bool
    ) -> None:
        needed = 0o005 if stat.S_ISDIR(status.st_mode) else 0o004
        if owner is not None and not translated and status.st_mode & needed != needed:
            where = (
                f"{source}: only its owner may read it, and its file system cannot translate ids (run chmod -R a+rX)"
            )
            raise OSError(errno.EACCES, os.strerror(errno.EACCES), where)

    def _make_device(self, target: str, source: str, status: os.stat_result) -> None:
        assert self.uid is not None
        os.mknod(target, stat.S_IFMT(status.st_mode) | 0o600, status.st_rdev)
        os.chown(target, self.uid, self.uid)


def _unescaped(point: str) -> str:
    # The backslash last: decoded first, it could form another escape with the digits that follow it.
    for code, character in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        point = point.replace(code, character)
    return point


def _attach(clone: int, target: str, folder: bool) -> None:
    _make_point(target, folder)
    kernel.attach_mount(clone, target)
    os.close(clone)


def _bind(source: str, target: str, folder: bool) -> None:
    _make_point(target, folder)
    kernel.mount(source, target, None, kernel.BIND | kernel.RECURSIVE)


def _make_point(target: str, folder: bool) -> None:
    if folder:
        os.mkdir(target)
    else:
        os.close(os.open(target, os.O_WRONLY | os.O_CREAT, 0o600))
