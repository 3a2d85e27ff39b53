"""Linux system calls that Python's standard library does not offer; each raises ``OSError`` on failure."""

from __future__ import annotations

import ctypes
import os
import struct

NEWNS, NEWUSER = 0x00020000, 0x10000000
BIND, RECURSIVE, PRIVATE = 4096, 16384, 1 << 18
_OPEN_TREE, _MOVE_MOUNT, _MOUNT_SETATTR = 428, 429, 442  # the same numbers on every processor
_AT_FDCWD, _AT_EMPTY_PATH, _AT_RECURSIVE = -100, 0x1000, 0x8000
_TREE_CLONE, _MOVE_FROM_EMPTY_PATH, _ATTR_IDMAP = 1, 4, 0x00100000
_library = ctypes.CDLL(None, use_errno=True)


def _checked(result: int, what: str) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), what)
    return result


def _call(number: int, what: str, *values: int | bytes) -> int:
    # syscall() is variadic: ctypes passes a plain int as 32 bits, and the upper half of the register is undefined.
    return _checked(_library.syscall(number, *(ctypes.c_long(v) if isinstance(v, int) else v for v in values)), what)


def prctl(option: int, value: int) -> None:
    """See ``prctl(2)``."""
    _checked(_library.prctl(option, ctypes.c_ulong(value), 0, 0, 0), f"prctl({option})")


def set_filter(program: bytes) -> None:
    """Applies a system-call filter, an array of ``struct sock_filter``, to this process and all that it starts."""
    code = ctypes.create_string_buffer(program, len(program))
    # "@" aligns the pointer like the C compiler does in struct sock_fprog. 22 and 2 below are PR_SET_SECCOMP and
    # SECCOMP_MODE_FILTER of linux/prctl.h and linux/seccomp.h.
    head = struct.pack("@HP", len(program) // 8, ctypes.addressof(code))
    _checked(_library.prctl(22, 2, head, 0, 0), "prctl(PR_SET_SECCOMP)")


def unshare(flags: int) -> None:
    """See ``unshare(2)``."""
    _checked(_library.unshare(flags), "unshare")


def mount(source: str, target: str, kind: str | None, flags: int = 0, options: str = "") -> None:
    """See ``mount(2)``."""
    names = [None if name is None else os.fsencode(name) for name in (source, target, kind)]
    _checked(_library.mount(*names, ctypes.c_ulong(flags), options.encode()), f"mount {kind or source} on {target}")


def clone_mount(path: str) -> int:
    """Returns a descriptor of a detached copy of the mount at a path, including mounts below it (Linux 5.2)."""
    flags = _TREE_CLONE | _AT_RECURSIVE | os.O_CLOEXEC
    return _call(_OPEN_TREE, f"open_tree {path}", _AT_FDCWD, os.fsencode(path), flags)


def attach_mount(tree: int, target: str) -> None:
    """Attaches a detached mount; its descriptor stays open."""
    _call(_MOVE_MOUNT, f"move_mount to {target}", tree, b"", _AT_FDCWD, os.fsencode(target), _MOVE_FROM_EMPTY_PATH)


def translate_ids(tree: int, users: int, *, recursive: bool) -> None:
    """Makes a detached mount show its ids as a user namespace maps them (Linux 5.12)."""
    attributes = struct.pack("=QQQQ", _ATTR_IDMAP, 0, 0, users)
    flags = _AT_EMPTY_PATH | (_AT_RECURSIVE if recursive else 0)
    _call(_MOUNT_SETATTR, "mount_setattr", tree, b"", flags, attributes, len(attributes))


def user_map(inner: tuple[int, int], outer: int) -> int:
    """Returns a descriptor of a user namespace that maps user and group ``inner`` to ``outer`` of this one.

    A namespace exists only while a process is in it, so a child creates it and waits. Its maps have to be written from
    outside, by this process, which has the privilege to map ids other than its own.
    """
    ready, ready_end = os.pipe()
    stay, stay_end = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            # Otherwise the child's own copy of the writing end would keep its read below from ending.
            os.close(stay_end)
            unshare(NEWUSER)
            os.write(ready_end, b"1")
            os.read(stay, 1)
        finally:
            os._exit(0)
    os.close(ready_end)
    os.close(stay)
    try:
        if not os.read(ready, 1):
            raise OSError(1, "Operation not permitted", "unshare of users")
        for name, number in (("gid_map", inner[1]), ("uid_map", inner[0])):
            with open(f"/proc/{pid}/{name}", "w") as file:
                file.write(f"{number} {outer} 1")
        return os.open(f"/proc/{pid}/ns/user", os.O_RDONLY | os.O_CLOEXEC)
    finally:
        os.close(ready)
        os.close(stay_end)
        os.waitpid(pid, 0)
