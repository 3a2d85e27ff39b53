"""A comparison as test cases: one per candidate, environment and metric."""

from __future__ import annotations

from a2perf.errors import ConfigError, did_you_mean
from a2perf.experiments.junit import Outcome, VerdictCase, VerdictSuite
from a2perf.metrics.bootstrap import Estimate
from a2perf.rlops.compare.comparison import ComparedGroups
from a2perf.rlops.compare.selection import Panel
from a2perf.rlops.compare.sentences import reasons
from a2perf.rlops.compare.tables import JudgementNumbers
from a2perf.rlops.compare.verdict import Judgement, Verdict

FAIL_ON: dict[str, tuple[Verdict, ...]] = {
    "regression": (Verdict.REGRESSION,),
    "inconclusive": (Verdict.REGRESSION, Verdict.INCONCLUSIVE),
}
"""The verdicts that fail, by value of ``--fail-on``."""
_COUNTS = ("candidate_mean", "baseline_mean", "candidate_n", "baseline_n", "lost", "further_seeds")


def suites_of(groups: ComparedGroups, fail_on: str = "regression") -> list[VerdictSuite]:
    """Returns one suite per candidate. A verdict that is not a failure and not a PASS is a skipped case.

    Raises:
        ConfigError: an unknown ``fail_on``.
    """
    if fail_on not in FAIL_ON:
        raise ConfigError(
            f"fail_on={fail_on!r} is not valid{did_you_mean(str(fail_on), FAIL_ON)}",
            hint=f"use one of {', '.join(FAIL_ON)}",
        )
    suites = []
    baseline = groups.names[groups.request.baseline or 0]
    for candidate in groups.candidates:
        name, verdict = groups.names[candidate.place], candidate.verdict.value
        cases = [_case(*row, fail_on) for row in candidate.rows()]
        if candidate.verdict not in {judgement.verdict for judgement in candidate.judgements}:
            # a loss that only all environments together show must not look like success
            outcome, text = _outcome(candidate.verdict, fail_on), "\n".join(reasons(candidate))
            properties = {"verdict": verdict, "p_together": candidate.p_together}
            message = f"all environments together: {verdict}"
            cases.append(VerdictCase("overall", outcome, verdict, message, text, properties))
        about = {
            "candidate": name, "baseline": baseline, "verdict": verdict, "confidence": groups.request.confidence
        }  # fmt: skip
        suites.append(VerdictSuite(f"{name} against {baseline}", tuple(cases), about, groups.made_at))
    return suites


def _case(panel: Panel, judgement: Judgement, improvement: Estimate | None, fail_on: str) -> VerdictCase:
    numbers, values = JudgementNumbers(panel, judgement), judgement.values()
    message = judgement.reason
    if judgement.difference is not None:
        message = f"{numbers.difference()} {numbers.interval()}, limit {numbers.limit()}: {judgement.reason}"
    ours, theirs = judgement.candidate, judgement.baseline
    text = (
        f"candidate {numbers.mean(ours.mean)} ({ours.seeds} seeds), baseline {numbers.mean(theirs.mean)} "
        f"({theirs.seeds} seeds)"
    )
    return VerdictCase(
        judgement.env,
        _outcome(judgement.verdict, fail_on),
        judgement.verdict.value,
        message,
        f"{message}\n{text}",
        {
            "verdict": values["verdict"], "metric": panel.metric, "unit": panel.unit,
            **{name: values[name] for name in ("difference", "low", "high", "tolerance", "p_regression")},
            "probability_of_improvement": None if improvement is None else improvement.value,
            **{name: values[name] for name in _COUNTS},
        },
    )  # fmt: skip


def _outcome(verdict: Verdict, fail_on: str) -> Outcome:
    if verdict in FAIL_ON[fail_on]:
        return "failed"
    return "passed" if verdict is Verdict.PASS else "skipped"
