"""The audit of one environment: every check, its verdict and its evidence."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

from a2perf_audit.bench import COULD_NOT_RUN, FAILS, NOT_FINISHED, Bench, Finding, Subject
from a2perf_audit.checks import CHECKS


@dataclass(frozen=True)
class Audit:
    """All findings about one environment.

    Attributes:
        returns: mean returns of the policies, the best first: name, mean, half width of the 95 % interval.
        command: repeats the audit.
        identity: of the environment, its code, the expert and the options.
    """

    subject: str
    findings: list[Finding]
    returns: list[tuple[str, float, float]]
    command: str
    identity: dict[str, Any] = field(default_factory=dict)

    @property
    def failed(self) -> list[Finding]:
        """The findings that do not hold."""
        return [finding for finding in self.findings if finding.verdict == FAILS]

    @property
    def not_run(self) -> list[Finding]:
        """The checks that raised an exception or did not finish."""
        return [finding for finding in self.findings if finding.verdict in (COULD_NOT_RUN, NOT_FINISHED)]

    def as_json(self) -> dict[str, Any]:
        """Returns the audit as plain values."""
        return asdict(self)


def audit(
    subject: Subject,
    progress: Callable[[str], None] = lambda text: None,
    grown: Callable[[Audit], None] = lambda audit: None,
) -> Audit:
    """Runs every check on an environment.

    Args:
        progress: called with the names of the environment and of each check.
        grown: called with the audit as it stands after each check.

    Raises:
        UserError: it cannot be made, or the expert raised an exception.
    """
    bench = Bench(subject)
    findings: list[Finding] = []
    with contextlib.closing(bench.env):
        identity = subject.identity()
        for check in CHECKS:
            progress(f"{subject.name}: {check.__name__.replace('_', ' ')}")
            findings.append(check(bench))
            grown(Audit(subject.name, findings, [], subject.command, identity))
        returns = sorted(((mean.name, mean.value, mean.half) for mean in bench.measured), key=lambda row: -row[1])
    return Audit(subject.name, findings, returns, subject.command, identity)
