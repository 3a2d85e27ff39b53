"""The system-call filter of the level 'bubblewrap', as a classic BPF program.

Namespaces hide the host's files and processes. The filter closes ways around them that every user of the host has:
tracing and reading the memory of other processes, new namespaces with their kernel interfaces, mounts, keys, kernel
programs and counters. A refused call fails with EPERM. ``clone3`` fails with ENOSYS: a filter cannot read its flags,
which are behind a pointer, and the C library then falls back to ``clone``, which passes them in a register. Numbers and
structures: ``linux/filter.h``, ``linux/seccomp.h``, ``asm/unistd_64.h``, ``asm-generic/unistd.h`` of the kernel.
"""

from __future__ import annotations

import errno
import os
import platform
import struct

from a2perf.system import LINUX, usable_processors

_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_ALLOW, _ERRNO, _KILL_PROCESS = 0x7FFF0000, 0x00050000, 0x80000000
_NUMBER_AT, _ARCHITECTURE_AT, _ARGUMENTS_AT = 0, 4, 16
_X32_BIT = 0x40000000

_CLONE_NEW = 0x00020000 | 0x02000000 | 0x04000000 | 0x08000000 | 0x10000000 | 0x20000000 | 0x40000000 | 0x00000080
"""CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET and NEWTIME."""

_CLONE_FLAGS_OF_CLONE = _CLONE_NEW & ~0xFF  # the lowest byte of clone's flags is the signal of its end

_FAMILIES = (1, 2, 10)
"""AF_UNIX, AF_INET and AF_INET6."""
_NETLINK, _ROUTE = 16, 0

_SET_USER_ID, _SET_GROUP_ID = 0o4000, 0o2000

REFUSED: dict[str, tuple[int, int]] = {
    # name: (x86_64, aarch64); -1 if the processor does not have the call
    # other processes
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "process_madvise": (440, 440),
    "pidfd_getfd": (438, 438),
    "kcmp": (312, 272),
    # mounts and namespaces
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    "setns": (308, 268),
    "open_tree": (428, 428),
    "move_mount": (429, 429),
    "fsopen": (430, 430),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fspick": (433, 433),
    "mount_setattr": (442, 442),
    "open_tree_attr": (467, 467),
    "name_to_handle_at": (303, 264),
    "open_by_handle_at": (304, 265),
    # keys, kernel programs, counters and rings
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "fanotify_init": (300, 262),
    "lookup_dcookie": (212, 18),
    "modify_ldt": (154, -1),
    "move_pages": (279, 239),
    "migrate_pages": (256, 238),
    # the host itself
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "delete_module": (176, 106),
    "kexec_load": (246, 104),
    "kexec_file_load": (320, 294),
    "reboot": (169, 142),
    "swapon": (167, 224),
    "swapoff": (168, 225),
    "syslog": (103, 116),
    "acct": (163, 89),
    "quotactl": (179, 60),
    "quotactl_fd": (443, 443),
    "nfsservctl": (180, 42),
    "vhangup": (153, 58),
    "settimeofday": (164, 170),
    "clock_settime": (227, 112),
    "adjtimex": (159, 171),
    "clock_adjtime": (305, 266),
    "sethostname": (170, 161),
    "setdomainname": (171, 162),
    "iopl": (172, -1),
    "ioperm": (173, -1),
}

ABSENT: dict[str, tuple[int, int]] = {
    # flags behind a pointer, which a filter cannot read; the C library falls back to clone and openat
    "clone3": (435, 435),
    "openat2": (437, 437),
    "fchmodat2": (452, 452),
    # memory that does not appear in any process and that only a control group can bound
    "memfd_secret": (447, 447),
    "shmget": (29, 194),
    "msgget": (68, 186),
    "semget": (64, 190),
}
"""Calls that fail with ENOSYS, as on a kernel without them."""

_ARCHITECTURES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}
_WITH_FLAGS = {"clone": (56, 220), "unshare": (272, 97)}
_SOCKETS = {"socket": (41, 198), "socketpair": (53, 199)}
_CHANGES_OF_MODE: dict[str, tuple[int, int, int]] = {
    # name: (x86_64, aarch64, which argument the mode is)
    "chmod": (90, -1, 1),
    "fchmod": (91, 52, 1),
    "fchmodat": (268, 53, 2),
}
_CREATIONS: dict[str, tuple[int, int, int, int | None]] = {
    # name: (x86_64, aarch64, which argument the mode is, and which one the flags)
    "creat": (85, -1, 1, None),
    "mknod": (133, -1, 1, None),
    "mknodat": (259, 33, 2, None),
    "open": (2, -1, 2, 1),
    "openat": (257, 56, 3, 2),
}
_CREATES = 0o100 | 0o20000000
"""O_CREAT and O_TMPFILE: without them the mode argument is not set, and its register holds an arbitrary value."""
_IOCTL, _FCNTL = (16, 29), (72, 25)
_IOCTLS = (0x5412, 0x541C, 0x541D)
"""TIOCSTI, TIOCLINUX and TIOCCONS, which type into or take over a terminal."""
_FCNTLS = (1024, 1026, 1031)
"""F_SETLEASE and F_NOTIFY affect other users of a file; F_SETPIPE_SZ takes memory that the host counts per user."""
_PERSONALITY = (135, 92)
_PERSONALITIES = (0x0, 0x8, 0x20000, 0x20008, 0xFFFFFFFF)
"""PER_LINUX and PER_LINUX32, each also with UNAME26, and the query 0xFFFFFFFF."""
_SCHED_SETAFFINITY = (203, 122)
_PRCTL, _MADVISE = (157, 167), (28, 233)
_MEMORY_MERGE, _MERGEABLE = 67, 12
"""PR_SET_MEMORY_MERGE and MADV_MERGEABLE: whether the kernel has merged a page shows what other processes hold."""


_Line = tuple[int, str, str, int]


def supported() -> bool:
    """Returns whether there is a filter for this host's system and processor."""
    return LINUX and platform.machine() in _ARCHITECTURES


def processors_are_restricted() -> bool:
    """Returns whether this process may run on only some of the processors."""
    return usable_processors() < (os.cpu_count() or 1)


def program(machine: str | None = None, *, pinned: bool = False) -> bytes:
    """Returns the filter of a confined participant as an array of ``struct sock_filter``.

    Args:
        machine: a value of ``platform.machine()``; by default this host's.
        pinned: whether the participant must stay on its processors. Then ``sched_setaffinity`` does nothing and
            reports success, because numeric libraries that place their threads abort if it fails.

    Raises:
        KeyError: there is no filter for that machine.
    """
    column, architecture = _ARCHITECTURES[machine or platform.machine()]
    blocks: dict[str, list[_Line]] = {}
    calls: list[_Line] = []

    def rule(number: int, name: str, *lines: _Line) -> None:
        """Makes a system call jump to a block, which is created on first use."""
        if number >= 0:
            calls.append((_EQUAL, name, "", number))
            if lines:
                blocks.setdefault(name, list(lines))

    for names, verdict in ((REFUSED, "refuse"), (ABSENT, "absent")):
        for numbers in names.values():
            rule(numbers[column], verdict)
    for name, forbidden in (("clone", _CLONE_FLAGS_OF_CLONE), ("unshare", _CLONE_NEW)):
        rule(_WITH_FLAGS[name][column], name, _argument(0), (_ANY_BIT, "refuse", "allow", forbidden))
    # The C library opens a route socket in getaddrinfo and getifaddrs: this protocol has to stay allowed.
    for numbers in _SOCKETS.values():
        rule(
            numbers[column],
            "socket",
            _argument(0),
            *_one_of(_FAMILIES, "allow"),
            (_EQUAL, "", "family", _NETLINK),
            _argument(2),
            (_EQUAL, "allow", "family", _ROUTE),
        )
    for *numbers_, which in _CHANGES_OF_MODE.values():
        # A set-group-ID bit alone is not an error: folders of shared projects have it, and copying one has to succeed.
        # The call reports success without an effect, like the kernel's own handling of files of other groups.
        rule(
            numbers_[column],
            f"change {which}",
            _argument(which),
            (_ANY_BIT, "refuse", "", _SET_USER_ID),
            (_ANY_BIT, "pretend", "allow", _SET_GROUP_ID),
        )
    for *numbers_, which, flags in _CREATIONS.values():
        creates = [] if flags is None else [_argument(flags), (_ANY_BIT, "", "allow", _CREATES)]
        rule(
            numbers_[column],
            f"create {which} {flags}",
            *creates,
            _argument(which),
            (_ANY_BIT, "refuse", "allow", _SET_USER_ID | _SET_GROUP_ID),
        )
    rule(_IOCTL[column], "ioctl", _argument(1), *_one_of(_IOCTLS, "refuse"), (_RETURN, "", "", _ALLOW))
    rule(_FCNTL[column], "fcntl", _argument(1), *_one_of(_FCNTLS, "refuse"), (_RETURN, "", "", _ALLOW))
    rule(
        _PERSONALITY[column],
        "personality",
        _argument(0),
        *_one_of(_PERSONALITIES, "allow"),
        (_RETURN, "", "", _ERRNO | errno.EPERM),
    )
    rule(_PRCTL[column], "prctl", _argument(0), (_EQUAL, "refuse", "allow", _MEMORY_MERGE))
    rule(_MADVISE[column], "madvise", _argument(2), (_EQUAL, "refuse", "allow", _MERGEABLE))
    if pinned:
        rule(_SCHED_SETAFFINITY[column], "pretend")
    return _assembled(architecture, calls, blocks, x32=column == 0)


def affinity_program(machine: str | None = None) -> bytes:
    """Returns a filter that only makes ``sched_setaffinity`` ineffective; see ``program``."""
    column, architecture = _ARCHITECTURES[machine or platform.machine()]
    calls = [(_EQUAL, "pretend", "", _SCHED_SETAFFINITY[column])]
    return _assembled(architecture, calls, {}, x32=column == 0)


def _argument(which: int) -> _Line:
    """Loads the lower 32 bits of an argument, which are all that the kernel reads of a mode, a command or flags."""
    # Both processors are little-endian: the lower half of a 64-bit argument comes first.
    return (_LOAD, "", "", _ARGUMENTS_AT + 8 * which)


def _one_of(values: tuple[int, ...], then: str) -> list[_Line]:
    return [(_EQUAL, then, "", value) for value in values]


def _assembled(architecture: int, calls: list[_Line], blocks: dict[str, list[_Line]], *, x32: bool) -> bytes:
    """Returns the machine code of lines (code, label if true, label if false, value).

    The program checks the architecture first: in another mode (i386, x32) the same number is another system call.
    """
    listing: list[_Line] = [
        (_LOAD, "", "", _ARCHITECTURE_AT),
        (_EQUAL, "", "kill", architecture),
        (_LOAD, "", "", _NUMBER_AT),
        (_AT_LEAST, "kill" if x32 else "", "", _X32_BIT),
        *calls,
        (_RETURN, "", "", _ALLOW),
    ]
    # "pretend" has the error number 0: the kernel then skips the call and returns success.
    verdicts = {
        "allow": _ALLOW,
        "refuse": _ERRNO | errno.EPERM,
        "absent": _ERRNO | errno.ENOSYS,
        "pretend": _ERRNO,
        "family": _ERRNO | errno.EAFNOSUPPORT,
        "kill": _KILL_PROCESS,
    }
    labels: dict[str, int] = {}
    for name, lines in {**blocks, **{name: [(_RETURN, "", "", value)] for name, value in verdicts.items()}}.items():
        labels[name] = len(listing)
        listing.extend(lines)

    def jump(label: str, position: int) -> int:
        # A jump goes only forwards and at most 255 lines, so all targets follow the calls; struct.pack fails beyond.
        return labels[label] - position - 1 if label else 0

    return b"".join(
        struct.pack("=HBBI", code, jump(true, position), jump(false, position), value)
        for position, (code, true, false, value) in enumerate(listing)
    )
