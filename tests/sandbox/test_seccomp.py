"""The system-call filter: right numbers, right verdicts, on both processors that it knows."""

import ctypes
import ctypes.util
import errno
import struct

import pytest

from a2perf.sandbox import seccomp

ALLOW, KILL = 0x7FFF0000, 0x80000000
ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
NEW_USER, NEW_NET, NEW_TIME, SIGCHLD, THREAD = 0x10000000, 0x40000000, 0x80, 17, 0x3D0F00


def verdict(machine: str, number: int, argument: int = 0, architecture: int | None = None) -> int:
    """Runs the program on one system call, as the kernel would."""
    lines = list(struct.iter_unpack("=HBBI", seccomp.program(machine)))
    data = struct.pack("=iIQ6Q", number, architecture or ARCHITECTURES[machine], 0, argument, 0, 0, 0, 0, 0)
    position = value = 0
    while True:
        code, true, false, operand = lines[position]
        position += 1
        if code == 0x06:
            return operand
        if code == 0x20:
            (value,) = struct.unpack_from("=I", data, operand)
            continue
        holds = {0x15: value == operand, 0x35: value >= operand, 0x45: bool(value & operand)}[code]
        position += true if holds else false


def error(number: int) -> int:
    return 0x00050000 | number


@pytest.mark.parametrize("machine", ARCHITECTURES)
def test_every_refused_call_has_the_number_that_the_library_knows(machine: str) -> None:
    name = ctypes.util.find_library("seccomp")
    if name is None:
        pytest.skip("no libseccomp to compare with")
    library = ctypes.CDLL(name)
    for call, numbers in {**seccomp.REFUSED, **seccomp._SPECIAL}.items():
        known = library.seccomp_syscall_resolve_name_arch(ARCHITECTURES[machine], call.encode())
        ours = numbers[list(ARCHITECTURES).index(machine)]
        assert ours == known or (ours == -1 and known < 0), call


@pytest.mark.parametrize("machine", ARCHITECTURES)
def test_refused_calls_fail_and_others_pass(machine: str) -> None:
    column = list(ARCHITECTURES).index(machine)
    for numbers in seccomp.REFUSED.values():
        if numbers[column] >= 0:
            assert verdict(machine, numbers[column]) == error(errno.EPERM)
    read = {"x86_64": 0, "aarch64": 63}[machine]
    assert verdict(machine, read) == ALLOW


@pytest.mark.parametrize("machine", ARCHITECTURES)
def test_threads_and_processes_may_be_made_but_no_namespaces(machine: str) -> None:
    clone, clone3, unshare = (seccomp._SPECIAL[name][list(ARCHITECTURES).index(machine)] for name in seccomp._SPECIAL)
    assert verdict(machine, clone, SIGCHLD) == ALLOW
    assert verdict(machine, clone, THREAD) == ALLOW
    assert verdict(machine, clone, NEW_USER | SIGCHLD) == error(errno.EPERM)
    assert verdict(machine, unshare, NEW_NET) == error(errno.EPERM)
    assert verdict(machine, unshare, NEW_TIME) == error(errno.EPERM)
    assert verdict(machine, unshare, 0x400) == ALLOW  # CLONE_FILES
    assert verdict(machine, clone3) == error(errno.ENOSYS)


def test_calls_of_another_architecture_kill() -> None:
    assert verdict("x86_64", 0, architecture=0x40000003) == KILL  # 32-bit calls have other numbers
    assert verdict("x86_64", 0x40000000 + 101) == KILL  # and so do those of x32


def test_unknown_machine_has_no_filter() -> None:
    with pytest.raises(KeyError):
        seccomp.program("riscv64")
