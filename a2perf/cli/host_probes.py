"""What this host offers, probe by probe, for ``a2perf doctor``. Nothing here changes anything on the host.

Every probe returns findings: whether something is there, in what shape, what it serves for, and how to get it.
"""

from __future__ import annotations

import importlib.util
import platform
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from a2perf import assets
from a2perf.cli import engine_probes, isolation_probes
from a2perf.cli.finding import Finding, version_of
from a2perf.domains.registry import Domain, domains, load_attribute
from a2perf.errors import AssetUnavailable


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
        version = version_of(names)
        yield Finding(
            "programs",
            package,
            version is not None,
            version or "not on PATH",
            "web navigation in a real browser",
            None if version else f"apt-get install {package}",
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


_PROBES: tuple[Callable[[], Iterable[Finding]], ...] = (
    _domains,
    _browser,
    isolation_probes.levels,
    isolation_probes.namespaces,
    isolation_probes.groups,
    isolation_probes.accounts,
    engine_probes.engines,
    engine_probes.python_tools,
    _measurement,
)
