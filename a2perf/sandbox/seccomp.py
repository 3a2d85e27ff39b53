"""The system-call filter of the level 'bubblewrap', as a classic BPF program.

A namespace hides the host's files and processes; the filter closes ways around it that a user of the host has by
default: tracing and reading other processes' memory, new namespaces with their kernel interfaces, mounts, keys, kernel
programs and counters. A refused call fails with EPERM (``clone3`` with ENOSYS, so that the C library falls back to
``clone``, whose flags a filter can see). Numbers and structures: ``linux/filter.h``, ``linux/seccomp.h``,
``asm/unistd_64.h``, ``asm-generic/unistd.h`` of the kernel.
"""

from __future__ import annotations

import errno
import platform
import struct

_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_ALLOW, _ERRNO, _KILL_PROCESS = 0x7FFF0000, 0x00050000, 0x80000000
_NUMBER_AT, _ARCHITECTURE_AT, _FIRST_ARGUMENT_AT = 0, 4, 16
_X32_BIT = 0x40000000

_CLONE_NEW = 0x00020000 | 0x02000000 | 0x04000000 | 0x08000000 | 0x10000000 | 0x20000000 | 0x40000000 | 0x00000080
"""CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET and NEWTIME."""

_CLONE_FLAGS_OF_CLONE = _CLONE_NEW & ~0xFF  # the lowest byte of clone's flags is the signal of its end

REFUSED: dict[str, tuple[int, int]] = {
    # other processes: name: (x86_64, aarch64); -1 where there is none
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
    "settimeofday": (164, 170),
    "clock_settime": (227, 112),
    "adjtimex": (159, 171),
    "clock_adjtime": (305, 266),
    "sethostname": (170, 161),
    "setdomainname": (171, 162),
    "iopl": (172, -1),
    "ioperm": (173, -1),
}

_ARCHITECTURES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}
_SPECIAL = {"clone": (56, 220), "clone3": (435, 435), "unshare": (272, 97)}


def supported() -> bool:
    """Whether there is a filter for this host's processor."""
    return platform.machine() in _ARCHITECTURES


def program(machine: str | None = None) -> bytes:
    """Returns the filter as an array of ``struct sock_filter``.

    Args:
        machine: as ``platform.machine()`` says; this host's unless given.

    Raises:
        KeyError: there is no filter for that machine.
    """
    column, architecture = _ARCHITECTURES[machine or platform.machine()]
    refused = sorted(numbers[column] for numbers in REFUSED.values() if numbers[column] >= 0)
    clone, clone3, unshare = (_SPECIAL[name][column] for name in ("clone", "clone3", "unshare"))
    # Instructions with symbolic jumps, resolved below: (code, when true, when false, value).
    listing: list[tuple[int, str, str, int]] = [
        (_LOAD, "", "", _ARCHITECTURE_AT),
        (_EQUAL, "", "kill", architecture),
        (_LOAD, "", "", _NUMBER_AT),
        (_AT_LEAST, "kill" if column == 0 else "", "", _X32_BIT),
        (_EQUAL, "clone", "", clone),
        (_EQUAL, "absent", "", clone3),
        (_EQUAL, "unshare", "", unshare),
        *((_EQUAL, "refuse", "", number) for number in refused),
        (_RETURN, "", "", _ALLOW),
    ]
    labels: dict[str, int] = {}

    def block(name: str, *lines: tuple[int, str, str, int]) -> None:
        labels[name] = len(listing)
        listing.extend(lines)

    block("clone", (_LOAD, "", "", _FIRST_ARGUMENT_AT), (_ANY_BIT, "refuse", "allow", _CLONE_FLAGS_OF_CLONE))
    block("unshare", (_LOAD, "", "", _FIRST_ARGUMENT_AT), (_ANY_BIT, "refuse", "allow", _CLONE_NEW))
    block("allow", (_RETURN, "", "", _ALLOW))
    block("refuse", (_RETURN, "", "", _ERRNO | errno.EPERM))
    block("absent", (_RETURN, "", "", _ERRNO | errno.ENOSYS))
    block("kill", (_RETURN, "", "", _KILL_PROCESS))

    def jump(label: str, position: int) -> int:
        return labels[label] - position - 1 if label else 0

    return b"".join(
        struct.pack("=HBBI", code, jump(true, position), jump(false, position), value)
        for position, (code, true, false, value) in enumerate(listing)
    )
