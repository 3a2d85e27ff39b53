"""Every attack: what it tries, from which level on it is stopped, and what is recorded then."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from a2perf.records import FailureKind
from a2perf.sandbox import LADDER

MIB = 2**20
LIMITS = {"file_size_bytes": 8 * MIB, "scratch_bytes": 16 * MIB, "processes": 64}


@dataclass(frozen=True)
class Probe:
    """An attempt that ends in an exception; many of them run in one participant process.

    Attributes:
        name: of the function in ``entry/inference.py``.
        what: in words.
        stopped_from: the weakest level that claims to stop it.
        arguments: of the function; ``{canary}`` and the like are filled in by the test.
        harmless: it may come through inside, as long as nothing outside changed.
    """

    name: str
    what: str
    stopped_from: str = "bubblewrap"
    arguments: dict[str, Any] = field(default_factory=dict)
    harmless: bool = False


@dataclass(frozen=True)
class Assault:
    """An attack that ends the run.

    Attributes:
        name: of the function in ``entry/inference.py``, without its prefix.
        what: in words.
        outcome: the kind of failure that is recorded; ``None`` when the run goes on and finishes.
        says: what the recorded message has to contain.
        stopped_from: the weakest level that claims to stop it.
        limits: bounds on the process tree.
        timeout_s: of the call.
        arguments: of the function.
        calls: how often the policy is asked; a forged clock shows at the second call.
    """

    name: str
    what: str
    outcome: FailureKind | None
    says: str = ""
    stopped_from: str = "none"
    limits: dict[str, Any] = field(default_factory=dict)
    timeout_s: float = 20.0
    arguments: dict[str, Any] = field(default_factory=dict)
    calls: int = 1


PROBES = (
    Probe("read_file", "read a canary file outside", arguments={"path": "{canary}"}),
    Probe("read_through_link", "read it through a link in the artifacts folder", arguments={"path": "{canary}"}),
    Probe("read_password_hashes", "read the host's password hashes"),
    Probe("read_file", "read the run's own bundle (seeds, results)", arguments={"path": "{bundle}/manifest.json"}),
    Probe("read_file", "read a bundle inside the submission", arguments={"path": "{inner}/manifest.json"}),
    Probe("write_file", "write outside", arguments={"path": "{canary}"}),
    Probe("write_file", "overwrite a metrics file", arguments={"path": "{bundle}/metrics.json"}, harmless=True),
    Probe("write_through_link", "write through a link in the artifacts folder", arguments={"path": "{outside}"}),
    Probe(
        "write_above",
        "climb out of the artifacts folder with ..",
        arguments={"levels": 1, "name": "planted"},
        harmless=True,
    ),
    Probe("write_own_code", "change the submission's code"),
    Probe("write_platform", "change a2perf's code"),
    Probe("write_interpreter", "change the interpreter's packages"),
    Probe("write_large_file", "write a file larger than its limit", "process"),
    Probe("fill_scratch", "fill the host's /tmp"),
    Probe("open_disk", "open a disk or make a device file"),
    Probe("connect_tcp", "connect to a service of the host", arguments={"port": "{port}"}),
    Probe("connect_abroad", "connect to another machine"),
    Probe("connect_abstract", "connect to an abstract Unix socket", arguments={"name": "{abstract}"}),
    Probe("connect_path", "connect to a Unix socket by its path", arguments={"path": "{socket}"}),
    Probe("signal_evaluator", "send the evaluator a signal", arguments={"pid": "{pid}"}),
    Probe("find_process", "find a process of the host", arguments={"marker": "{secret}"}),
    Probe("signal_everything", "send every process a signal", arguments={}, harmless=True),
    Probe("read_evaluator_memory", "read the evaluator's memory through /proc", arguments={"pid": "{pid}"}),
    Probe("copy_evaluator_memory", "read it with process_vm_readv", arguments={"pid": "{pid}"}),
    Probe("trace_evaluator", "trace the evaluator", arguments={"pid": "{pid}"}),
    Probe("trace_guard", "trace the guard"),
    Probe("read_evaluator_environment", "read the evaluator's environment", arguments={"pid": "{pid}"}),
    Probe("inherited_environment", "find secrets in its environment variables", "none", {"marker": "{secret}"}),
    Probe("inherited_descriptors", "find files that the evaluator has open", "none"),
    Probe("set_clock", "set the host's clock"),
    Probe("become_root", "become root"),
    Probe("make_namespace", "make a user namespace"),
    Probe("mount_something", "mount a file system"),
    Probe("load_kernel_program", "load a program into the kernel"),
    Probe("use_keyring", "use the kernel's keyring"),
    Probe("core_pattern", "change a setting of the kernel"),
    Probe("raise_limits", "lift its own limits"),
)

ASSAULTS = (
    Assault("fork_bomb", "fork bomb", FailureKind.FORBIDDEN, "processes", "process", {"processes": 40}),
    Assault(
        "four_gigabytes",
        "allocate 4 GB under a limit of 1 GB",
        FailureKind.MEMORY,
        "",
        "process",
        {"memory_bytes": 2**30},
    ),
    Assault(
        "shared_memory",
        "hold 400 MB of shared memory under a limit of 200 MB",
        FailureKind.MEMORY,
        "memory",
        "process",
        {"memory_bytes": 200 * MIB},
        arguments={"megabytes": 400},
    ),
    Assault(
        "endless_loop",
        "endless loop deaf to SIGTERM",
        FailureKind.TIMEOUT,
        "did not return within the limit of 1 s",
        timeout_s=1,
    ),
    Assault("output", "100 MB of output", None, limits={"output_bytes": MIB}),
    Assault(
        "fill_the_disk",
        "fill the disk",
        FailureKind.OUTPUT_LIMIT,
        "artifacts folder",
        "process",
        {"artifact_bytes": 4 * MIB},
        arguments={"megabytes": 16},
    ),
    Assault("daemons", "leave a daemon behind", None, arguments={"folder": "{artifacts}"}),
    Assault("late_answer", "close the wire and live on", FailureKind.BAD_OUTPUT, "closed its connection"),
    Assault("kill_everything", "kill every process it can", None, stopped_from="bubblewrap"),
    Assault("wrong_shape", "an action of the wrong shape", FailureKind.BAD_OUTPUT, "shape"),
    Assault("not_a_number", "an action of NaN", FailureKind.BAD_OUTPUT, "NaN"),
    Assault("huge_length", "a frame that claims 8 GB", FailureKind.BAD_OUTPUT, "claims"),
    Assault("pickle", "a pickled payload", FailureKind.BAD_OUTPUT, "valid message", arguments={"path": "{planted}"}),
    Assault("extension_type", "an unknown type in a frame", FailureKind.BAD_OUTPUT, "extension type"),
    Assault("shared_offset", "an array outside its frame", FailureKind.BAD_OUTPUT, "exceeds its frame"),
    Assault("reward_message", "a message that sets the return", FailureKind.BAD_OUTPUT, "not a valid message"),
    Assault("answer_in_advance", "answers before it is asked", FailureKind.BAD_OUTPUT, "before the request", calls=2),
    Assault("times_too_short", "times shorter than they were", None, calls=2),
    Assault("times_too_long", "times longer than the evaluator waited", FailureKind.BAD_OUTPUT, "waited only", calls=2),
)


def levels_that_stop(stopped_from: str) -> tuple[str, ...]:
    """Returns that level and the stronger ones."""
    return LADDER[LADDER.index(stopped_from) :]
