"""What this host offers, probe by probe, for ``a2perf doctor``. Nothing here changes anything on the host.

Every probe returns findings: whether something is there, in what shape, what it serves for, and how to get it.
"""

from __future__ import annotations

import importlib.util
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from a2perf import assets
from a2perf.domains.registry import Domain, domains, load_attribute
from a2perf.errors import AssetUnavailable

PROBE_TIMEOUT_S = 10.0


@dataclass(frozen=True)
class Finding:
    """One thing that a host can have.

    Attributes:
        section: heading in the listing.
        name: what was looked for.
        present: whether it is there and usable.
        detail: version, path or reason.
        purpose: what is lost without it.
        mend: how to get it; None where nothing can be done or nothing is wrong.
    """

    section: str
    name: str
    present: bool
    detail: str
    purpose: str = ""
    mend: str | None = None


@dataclass(frozen=True)
class Support:
    """One row of the support matrix.

    Attributes:
        system, machine: as ``platform.system()`` and ``platform.machine()`` say; ``"any"`` for all.
        python: ``(major, minor)`` versions.
        part: a domain's name, or ``"evaluator"`` for running submissions and the reports of it.
        status: ``"tested"`` (the suite runs there), ``"expected"`` (all packages have wheels) or ``"not"``.
        note: the reason.
    """

    system: str
    machine: str
    python: tuple[tuple[int, int], ...]
    part: str
    status: str
    note: str


_TESTED, _NEWER = ((3, 11),), ((3, 12), (3, 13))
_NO_WHEEL = (
    "pybullet 3.2.7 has a wheel for CPython 3.11 on Linux x86-64 alone; building it takes a compiler and minutes"
)

_EVERY = (*_TESTED, *_NEWER)
_WHEELS, _LINUX_ONLY = "all packages have wheels", "the participant process needs Linux"

SUPPORT: tuple[Support, ...] = (
    *(
        Support("Linux", "x86_64", _TESTED, part, "tested", "the suite runs here")
        for part in ("evaluator", "quadruped_locomotion", "web_navigation", "circuit_training")
    ),
    *(
        Support("Linux", machine, versions, part, "expected", _WHEELS)
        for machine, versions in (("x86_64", _NEWER), ("aarch64", _EVERY))
        for part in ("evaluator", "web_navigation", "circuit_training")
    ),
    Support("Linux", "x86_64", _NEWER, "quadruped_locomotion", "not", _NO_WHEEL),
    Support("Linux", "aarch64", _EVERY, "quadruped_locomotion", "not", _NO_WHEEL),
    Support("Darwin", "any", _EVERY, "evaluator", "not", f"{_LINUX_ONLY}; reports work"),
    Support("Windows", "any", _EVERY, "evaluator", "not", f"{_LINUX_ONLY}: use WSL"),
    Support("Darwin", "any", _EVERY, "quadruped_locomotion", "not", _NO_WHEEL),
    Support("Windows", "any", _EVERY, "quadruped_locomotion", "not", f"{_NO_WHEEL}: use WSL"),
)


def support_here() -> Iterator[Support]:
    """Yields the rows of the matrix that hold for this interpreter on this host."""
    for row in SUPPORT:
        if (
            row.system == platform.system()
            and row.machine in ("any", platform.machine())
            and sys.version_info[:2] in row.python
        ):
            yield row


def every_finding() -> list[Finding]:
    """Runs every probe; one that fails becomes a finding of its own."""
    findings: list[Finding] = []
    for probe in _PROBES:
        try:
            findings.extend(probe())
        except Exception as error:  # a strange host must not keep the rest from being seen
            findings.append(Finding("probes", probe.__name__, False, f"failed: {type(error).__name__}: {error}"))
    return findings


def _domains() -> Iterator[Finding]:
    for domain in domains().values():
        missing = [name for name in domain.requires if importlib.util.find_spec(name) is None]
        yield Finding(
            "domains",
            domain.title,
            not missing,
            f"not installed: {', '.join(missing)}" if missing else "installed",
            f"the environments of {domain.name}",
            f"pip install 'a2perf[{domain.extra}]'" if missing else None,
        )
        yield from _files(domain)
        if domain.probe is not None and not missing:
            for lack in load_attribute(domain.probe)():
                yield Finding("domains", domain.title, False, str(lack), f"parts of {domain.name}")


def _files(domain: Domain) -> Iterator[Finding]:
    if not domain.assets:
        return
    here, wrong = 0, ""
    for asset in domain.assets:
        try:
            here += assets.locate(asset) is not None
        except AssetUnavailable as error:
            wrong = f"; {error.message}"
    complete = here == len(domain.assets)
    yield Finding(
        "domains",
        f"{domain.title}: data files",
        complete,
        f"{here} of {len(domain.assets)} here{wrong}",
        "the tasks and pre-trained policies that need them",
        None if complete else f"a2perf data fetch {domain.name}",
    )


def _browser() -> Iterator[Finding]:
    for names, package in (
        (("chromium", "chromium-browser", "google-chrome"), "chromium"),
        (("chromedriver",), "chromium-driver"),
    ):
        version = _version(names)
        yield Finding(
            "programs",
            package,
            version is not None,
            version or "not on PATH",
            "web navigation in a real browser",
            None if version else f"apt-get install {package}",
        )


def _sandbox() -> Iterator[Finding]:
    from a2perf.sandbox import available_levels

    levels = available_levels()
    yield Finding("isolation", "sandbox levels", bool(levels), ", ".join(levels) or "none", "confining submissions")
    bubblewrap = _version(("bwrap",))
    yield Finding(
        "isolation",
        "bubblewrap",
        bubblewrap is not None,
        bubblewrap or "not on PATH",
        "submissions without network and with a read-only system",
        None if bubblewrap else "apt-get install bubblewrap",
    )
    reason = _no_user_namespaces()
    yield Finding(
        "isolation",
        "user namespaces",
        reason is None,
        reason or "open",
        "bubblewrap, and Chromium's own sandbox",
        None if reason is None else "sysctl kernel.unprivileged_userns_clone=1 (or the container's seccomp profile)",
    )
    docker = _output(["docker", "version", "--format", "{{.Server.Version}}"])
    yield Finding(
        "isolation",
        "docker engine",
        docker is not None,
        docker or "no engine answers",
        "submissions in containers",
        None if docker else "start a Docker engine, or set DOCKER_HOST",
    )
    version, writable = _cgroups()
    yield Finding(
        "isolation",
        "control groups",
        bool(writable),
        f"{version}; writable: {', '.join(writable) or 'none'}",
        "memory and process limits that a submission cannot leave, exact processor time",
        None
        if writable
        else "run as root, or have a group delegated to you (systemd-run --user --scope -p Delegate=yes)",
    )


def _measurement() -> Iterator[Finding]:
    from a2perf.metrics.trackers.nvml import Nvml
    from a2perf.metrics.trackers.rapl import POWERCAP, Rapl

    packages = Rapl.open().packages
    hidden = not packages and any(POWERCAP.glob("intel-rapl*:*"))
    yield Finding(
        "measurement",
        "RAPL counters",
        bool(packages),
        f"{len(packages)} processor packages" if packages else "not readable" if hidden else "not there",
        "measured processor energy; without them it is estimated from a power model",
        "chmod a+r /sys/class/powercap/intel-rapl:*/energy_uj (as root)" if hidden else None,
    )
    gpus = Nvml.open()
    detail = "no NVIDIA driver answers"
    if gpus is not None:
        detail = gpus.model
        gpus.close()
    yield Finding("measurement", "NVIDIA GPU (NVML)", gpus is not None, detail, "measured GPU energy and memory")


_PROBES: tuple[Callable[[], Iterable[Finding]], ...] = (_domains, _browser, _sandbox, _measurement)


def _version(names: tuple[str, ...]) -> str | None:
    for name in names:
        if shutil.which(name) is not None:
            said = _output([name, "--version"])
            return said.splitlines()[0] if said else name
    return None


def _output(command: list[str]) -> str | None:
    """Returns what a command printed, or None when it failed, is not there or took too long."""
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=PROBE_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def _no_user_namespaces() -> str | None:
    """Returns why no user namespace can be made here, or None when one was made (and is gone again)."""
    if platform.system() != "Linux":
        return "Linux only"
    if shutil.which("unshare") is None:
        return "not known: no unshare program to try it with"
    return None if _output(["unshare", "--user", "true"]) is not None else "refused by the kernel"


def _cgroups() -> tuple[str, list[str]]:
    """Returns which control groups are mounted, and the controllers whose folder this user may write."""
    top = Path("/sys/fs/cgroup")
    if (top / "cgroup.controllers").is_file():
        own = _own_group(top)
        controllers = (own / "cgroup.controllers").read_text().split() if own.is_dir() else []
        return "version 2", controllers if os.access(own, os.W_OK) else []
    first = [name for name in ("memory", "pids", "cpu", "cpuacct", "freezer") if (top / name / "tasks").is_file()]
    if not first:
        return "not mounted", []
    hybrid = " beside version 2" if (top / "unified").is_dir() else ""
    return f"version 1{hybrid}", [name for name in first if os.access(top / name, os.W_OK)]


def _own_group(top: Path) -> Path:
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        number, _, path = line.partition("::")
        if number == "0":
            return top / path.lstrip("/")
    return top
