"""The domains of the core, without those that installed distributions add."""

from __future__ import annotations

from a2perf.constants import BenchmarkDomain
from a2perf.domains import Domain, domains


def shipped_domains() -> dict[str, Domain]:
    """Returns the domains of the core by name."""
    return {member.value: domains()[member.value] for member in BenchmarkDomain}
