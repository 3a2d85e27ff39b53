"""Declarations of a domain for ``a2perf doctor``: supported machines and required programs."""

from __future__ import annotations

from dataclasses import dataclass

TESTED, NEWER = ((3, 11),), ((3, 12), (3, 13))
EVERY = (*TESTED, *NEWER)


@dataclass(frozen=True)
class Support:
    """One row of the support matrix.

    Attributes:
        system, machine: as ``platform.system()`` and ``platform.machine()`` give them; ``"any"`` for all.
        python: ``(major, minor)`` versions.
        part: a domain's name, or ``"evaluator"`` for running submissions and reporting on them.
        status: ``"tested"`` (the suite runs there), ``"expected"`` (all packages have wheels) or ``"not"``.
    """

    system: str
    machine: str
    python: tuple[tuple[int, int], ...]
    part: str
    status: str
    note: str


@dataclass(frozen=True)
class Program:
    """A program that a domain uses and pip does not install.

    Attributes:
        names: of the executable, in the order in which they are looked for.
    """

    names: tuple[str, ...]
    package: str
    purpose: str


def with_wheels(part: str, note: str = "all packages have wheels") -> tuple[Support, ...]:
    """Returns the rows of a part if all its packages have wheels for Linux, macOS and Windows.

    Args:
        note: what differs from the host on which the whole suite runs.
    """
    simulated = f"{note}; tested by simulation"
    return (
        Support("Linux", "x86_64", TESTED, part, "tested", "the suite runs here"),
        Support("Linux", "x86_64", NEWER, part, "tested", note),
        Support("Linux", "aarch64", EVERY, part, "expected", note),
        Support("Darwin", "any", EVERY, part, "expected", simulated),
        Support("Windows", "any", EVERY, part, "expected", simulated),
    )
