"""Predicates of attestations: what is stated about a run, as JSON.

``EVALUATION`` is defined here; its fields are listed on the page "Attestations" of the documentation. A field is only
ever added to a version. ``TEST_RESULT`` is https://github.com/in-toto/attestation/blob/main/spec/predicates/test-result.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from a2perf._version import PROJECT_URL
from a2perf.errors import UserError, did_you_mean
from a2perf.exporters.publishable import has_public_seeds
from a2perf.metrics import registry
from a2perf.metrics.runs_in_mode import scored_runs
from a2perf.metrics.values import MetricValue, Profile
from a2perf.records import Manifest, RunState
from a2perf.report.provenance import conditions, noise
from a2perf.runs.run import Run
from a2perf.runs.tracking_record import recorded

EVALUATION = f"{PROJECT_URL}/attestation/evaluation/v1"
TEST_RESULT = "https://in-toto.io/attestation/test-result/v0.1"
_PROFILE: Profile = "corrected"
_HOST = ("cpu_model", "cpu_count", "cpu_usable", "memory_bytes", "gpus", "os", "architecture", "virtualization")
"""Recorded properties of the host that are stated; names and addresses of machines are not."""
_VERDICTS = {"PASS": "passedTests", "INCONCLUSIVE": "warnedTests", "REGRESSION": "failedTests"}


def evaluation(run: Run, manifest: Manifest) -> dict[str, Any]:
    """Returns the predicate ``EVALUATION`` of a run; unknown numbers are None, and so are secret seeds.

    Args:
        run: the run as read from its bundle.
        manifest: its manifest.
    """
    energy = run.tracking.energy
    submission = manifest.submission
    attempts = manifest.attempts
    public = has_public_seeds(manifest)
    return {
        "evaluator": {"id": PROJECT_URL, "version": manifest.a2perf_version, "sha256": manifest.a2perf_sha256},
        "run": {
            "mode": manifest.mode,
            "domain": manifest.domain,
            "task": manifest.task,
            "state": manifest.state.value,
            "exitReason": manifest.exit_reason,
            "startedOn": attempts[0].started_at if attempts else None,
            "finishedOn": attempts[-1].finished_at if attempts else None,
            "configurationSha256": manifest.config_sha256,
        },
        "environment": {
            "id": manifest.env_id,
            "arguments": manifest.env_kwargs if public else None,
            "fingerprint": manifest.env_fingerprint,
        },
        "submission": {
            "name": submission.name,
            "sha256": submission.sha256,
            "hashScheme": submission.scheme,
            "gitCommit": submission.git_commit,
            "gitDirty": submission.git_dirty,
        },
        "seeds": {
            "scheme": "public" if public else "secret",
            "root": manifest.root_seed if public else None,
            "episodes": len(manifest.seeds.get("episodes") or []),
        },
        "rules": registry.RULES,
        "profile": _PROFILE,
        "scores": [_score(value) for value in scores_of(run).values() if value.value is not None],
        "energy": {
            "grossKwh": recorded(energy.gross_kwh),
            "netKwh": recorded(energy.net_kwh),
            "provenance": energy.quality or "none",
            "method": energy.method,
            "emissionsKgCo2eq": recorded(run.tracking.emissions.kg_co2eq),
            "emissionsMethod": run.tracking.emissions.method,
        },
        "host": {name: manifest.host[name] for name in _HOST if manifest.host.get(name) not in (None, "", [], {})},
        "sandbox": None
        if manifest.sandbox is None
        else {
            "level": manifest.sandbox.level,
            "guarantees": manifest.sandbox.guarantees,
            "missing": manifest.sandbox.missing,
        },
        "conditions": conditions(run),
    }


def scores_of(run: Run) -> dict[str, MetricValue]:
    """Returns the scores of one run in its mode, by name of the metric."""
    return registry.score(scored_runs([run], run.mode), _PROFILE)


def run_test_result(run: Run, manifest: Manifest) -> dict[str, Any]:
    """Returns the predicate ``TEST_RESULT`` of a run: FAILED if it failed, WARNED on a host with other load."""
    failed = manifest.state is RunState.FAILED
    noisy = bool(noise(run))
    passed = ["files unchanged", "distinct episode seeds"]
    return _test_result(
        passed=passed + ([] if failed else ["run finished"]) + ([] if noisy else ["quiet host"]),
        warned=["quiet host"] if noisy else [],
        failed=["run finished"] if failed else [],
        configuration=[
            {"name": "config.gin", "digest": {"sha256": manifest.config_sha256}},
            {"name": manifest.env_id or manifest.domain}
            | ({"digest": {"sha256": manifest.env_fingerprint}} if manifest.env_fingerprint else {}),
        ],
    )


def verdict_test_result(verdicts: Mapping[str, str]) -> dict[str, Any]:
    """Returns the predicate ``TEST_RESULT`` of a comparison, from its verdict on each environment.

    Raises:
        UserError: no verdict was given, or one is not ``"PASS"``, ``"INCONCLUSIVE"`` or ``"REGRESSION"``.
    """
    if not verdicts:
        raise UserError("the comparison has no verdict", hint="compare runs of at least one common environment")
    lists: dict[str, list[str]] = {name: [] for name in _VERDICTS.values()}
    for name, verdict in verdicts.items():
        if verdict not in _VERDICTS:
            near = did_you_mean(str(verdict), _VERDICTS)
            raise UserError(f"unknown verdict {verdict!r}{near}", hint=f"use one of {', '.join(_VERDICTS)}")
        lists[_VERDICTS[verdict]].append(name)
    return _test_result(
        passed=lists["passedTests"],
        warned=lists["warnedTests"],
        failed=lists["failedTests"],
        configuration=[{"name": "a2perf rlops compare", "uri": PROJECT_URL}],
    )


def _test_result(
    *, passed: list[str], warned: list[str], failed: list[str], configuration: list[dict[str, Any]]
) -> dict[str, Any]:
    return {
        "result": "FAILED" if failed else "WARNED" if warned else "PASSED",
        "configuration": configuration,
        "passedTests": passed,
        "warnedTests": warned,
        "failedTests": failed,
    }


def _score(value: MetricValue) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.to_builtins(value)
    kept = ("name", "value", "unit", "direction", "spread", "interval", "n", "provenance", "method")
    return {
        **{name: found[name] for name in kept if found[name] not in (None, "", "none")},
        "value": found["value"],
    }
