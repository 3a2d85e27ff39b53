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


def verdict(
    machine: str, number: int, *arguments: int, architecture: int | None = None, program: bytes | None = None
) -> int:
    """Runs the program on one system call, as the kernel would."""
    lines = list(struct.iter_unpack("=HBBI", seccomp.program(machine) if program is None else program))
    given = (*arguments, *[0] * (6 - len(arguments)))
    data = struct.pack("=iIQ6Q", number, architecture or ARCHITECTURES[machine], 0, *given)
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


@pytest.fixture(params=ARCHITECTURES)
def machine(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def column(machine: str) -> int:
    """The place of the machine's number in the tables of calls."""
    return list(ARCHITECTURES).index(machine)


def error(number: int) -> int:
    return 0x00050000 | number


def test_every_refused_call_has_the_number_that_the_library_knows(machine: str, column: int) -> None:
    name = ctypes.util.find_library("seccomp")
    if name is None:
        pytest.skip("no libseccomp to compare with")
    library = ctypes.CDLL(name)
    tables = (
        seccomp.REFUSED,
        seccomp.ABSENT,
        seccomp._WITH_FLAGS,
        seccomp._SOCKETS,
        seccomp._CHANGES_OF_MODE,
        seccomp._CREATIONS,
        {
            "ioctl": seccomp._IOCTL,
            "fcntl": seccomp._FCNTL,
            "personality": seccomp._PERSONALITY,
            "sched_setaffinity": seccomp._SCHED_SETAFFINITY,
            "prctl": seccomp._PRCTL,
            "madvise": seccomp._MADVISE,
        },
    )
    too_new = ("open_tree_attr", "fchmodat2")  # for the library of some systems
    for call, numbers in ((call, numbers) for table in tables for call, numbers in table.items()):
        known = library.seccomp_syscall_resolve_name_arch(ARCHITECTURES[machine], call.encode())
        ours = numbers[column]
        assert ours == known or (ours == -1 and known < 0) or (call in too_new and known < 0), call


def test_refused_calls_fail_and_others_pass(machine: str, column: int) -> None:
    for numbers in seccomp.REFUSED.values():
        if numbers[column] >= 0:
            assert verdict(machine, numbers[column]) == error(errno.EPERM)
    for numbers in seccomp.ABSENT.values():
        assert verdict(machine, numbers[column]) == error(errno.ENOSYS)
    read = {"x86_64": 0, "aarch64": 63}[machine]
    assert verdict(machine, read) == ALLOW


def test_threads_and_processes_may_be_made_but_no_namespaces(machine: str, column: int) -> None:
    clone, unshare = (seccomp._WITH_FLAGS[name][column] for name in ("clone", "unshare"))
    assert verdict(machine, clone, SIGCHLD) == ALLOW
    assert verdict(machine, clone, THREAD) == ALLOW
    assert verdict(machine, clone, NEW_USER | SIGCHLD) == error(errno.EPERM)
    assert verdict(machine, unshare, NEW_NET) == error(errno.EPERM)
    assert verdict(machine, unshare, NEW_TIME) == error(errno.EPERM)
    assert verdict(machine, unshare, 0x400) == ALLOW  # CLONE_FILES
    assert verdict(machine, seccomp.ABSENT["clone3"][column]) == error(errno.ENOSYS)


def test_sockets_are_of_unix_the_internet_and_routes(machine: str, column: int) -> None:
    for numbers in seccomp._SOCKETS.values():
        number = numbers[column]
        allowed = {family for family in range(64) if verdict(machine, number, family, 1, 0) == ALLOW}
        assert allowed == {1, 2, 10, 16}
        assert verdict(machine, number, 40) == error(errno.EAFNOSUPPORT)  # AF_VSOCK
        assert verdict(machine, number, 16, 3, 15) == error(errno.EAFNOSUPPORT)  # netlink beyond routes
        assert verdict(machine, number, (1 << 32) | 40) == error(errno.EAFNOSUPPORT)  # the kernel reads 32 bits


def test_no_call_gives_a_file_a_set_id_bit(machine: str, column: int) -> None:
    for *numbers, which in seccomp._CHANGES_OF_MODE.values():
        if numbers[column] >= 0:
            before = [0] * which
            assert verdict(machine, numbers[column], *before, 0o1777) == ALLOW
            assert verdict(machine, numbers[column], *before, 0o4755) == error(errno.EPERM)
            assert verdict(machine, numbers[column], *before, 0o6755) == error(errno.EPERM)
            assert verdict(machine, numbers[column], *before, 0o2755) == error(0)  # dropped, as the kernel does
    for *numbers, which, flags in seccomp._CREATIONS.values():
        if numbers[column] < 0:
            continue
        for creates in (0o100, 0o20200000):  # O_CREAT, O_TMPFILE
            arguments = [0] * which + [0o2644]
            if flags is not None:
                assert verdict(machine, numbers[column], *arguments) == ALLOW  # without them the mode means nothing
                arguments[flags] = creates
            assert verdict(machine, numbers[column], *arguments) == error(errno.EPERM)
            assert verdict(machine, numbers[column], *arguments[:which], 0o644) == ALLOW


def test_no_page_is_offered_to_be_merged_with_those_of_others(machine: str, column: int) -> None:
    prctl, madvise = (numbers[column] for numbers in (seccomp._PRCTL, seccomp._MADVISE))
    assert verdict(machine, prctl, 67, 1) == error(errno.EPERM)  # PR_SET_MEMORY_MERGE
    assert verdict(machine, madvise, 0, 4096, 12) == error(errno.EPERM)  # MADV_MERGEABLE
    assert [verdict(machine, prctl, 15), verdict(machine, madvise, 0, 4096, 4)] == [ALLOW, ALLOW]


def test_terminals_leases_and_personalities(machine: str, column: int) -> None:
    ioctl, fcntl, personality = (numbers[column] for numbers in (seccomp._IOCTL, seccomp._FCNTL, seccomp._PERSONALITY))
    assert verdict(machine, ioctl, 0, 0x5401) == ALLOW  # TCGETS
    for request in (0x5412, 0x541C, 0xABCD00005412):
        assert verdict(machine, ioctl, 0, request) == error(errno.EPERM)
    assert verdict(machine, fcntl, 0, 6) == ALLOW  # F_SETLK
    assert verdict(machine, fcntl, 0, 1024) == error(errno.EPERM)  # F_SETLEASE
    assert verdict(machine, personality, 0xFFFFFFFF) == ALLOW
    assert verdict(machine, personality, 0x40000) == error(errno.EPERM)  # ADDR_NO_RANDOMIZE


def test_processors_stay_as_given_where_they_were_given(machine: str, column: int) -> None:
    number = seccomp._SCHED_SETAFFINITY[column]
    assert verdict(machine, number) == ALLOW
    for program in (seccomp.program(machine, pinned=True), seccomp.affinity_program(machine)):
        assert verdict(machine, number, program=program) == error(0)
        assert verdict(machine, 0, program=program) == ALLOW


def test_calls_of_another_architecture_kill() -> None:
    assert verdict("x86_64", 0, architecture=0x40000003) == KILL  # 32-bit calls have other numbers
    assert verdict("x86_64", 0x40000000 + 101) == KILL  # and so do those of x32


def test_unknown_machine_has_no_filter() -> None:
    with pytest.raises(KeyError):
        seccomp.program("riscv64")
