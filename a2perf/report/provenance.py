"""Where a run's numbers come from: what ran, on what, with which seeds, and what went wrong on the way."""

from __future__ import annotations

import json
import shlex
from typing import Any

from a2perf.records import Manifest
from a2perf.report.experiment import Bundle, plain_text
from a2perf.report.measures import section
from a2perf.report.tables import Column, Quantity, Table, Text, quantity_text

_HASH_DIGITS = 16


def record_table(anchor: str, bundle: Bundle) -> Table:
    """Returns what is needed to judge the run or to run it again, as names and values."""
    rows = [] if bundle.manifest is None else _record(bundle, bundle.manifest)
    columns = (Column(key="what", title="What"), Column(key="value", title="Value"))
    cells = tuple((Text(text=name), Text(text=plain_text(value), code=code)) for name, value, code in rows if value)
    return Table(name=f"{anchor}-record", caption="Record of the run", columns=columns, rows=cells)


def failure(bundle: Bundle) -> tuple[list[tuple[str, str]], str]:
    """Returns why a run failed as (name, words), and the traceback or the log's last lines."""
    manifest = bundle.manifest
    if manifest is None or manifest.failure is None:
        return [], ""
    record = manifest.failure
    lines = [("In", record.where), ("Kind", record.kind.value), ("Message", plain_text(record.message))]
    if record.exit_code is not None:
        lines.append(("Exit status of the process", str(record.exit_code)))
    if record.signal is not None:
        lines.append(("Signal", record.signal))
    if record.log is not None:
        lines.append(("Log", record.log))
    parts = [plain_text(record.traceback or "").rstrip()]
    if bundle.log_tail.strip() and bundle.log_tail.strip() not in parts[0]:
        parts.append(f"last lines of {record.log}:\n{bundle.log_tail.rstrip()}")
    return lines, "\n\n".join(part for part in parts if part)


def notes(bundle: Bundle) -> list[str]:
    """Returns everything that a reader of the numbers should know: damage, noise, failed trackers, warnings."""
    found = [plain_text(problem) for problem in bundle.problems]
    manifest = bundle.manifest
    if bundle.state == "unfinished":
        found.append("The run has not ended: it goes on elsewhere, or was killed; the same command resumes it.")
    if bundle.state == "interrupted":
        found.append("The run was interrupted; the same command resumes it.")
    if manifest is None:
        return found
    noisy = noise(bundle)
    if noisy:
        found.append(f"Noisy host, so times should be doubted: {'; '.join(noisy)}.")
    for task, broken in bundle.task_failures.items():
        found.append(f"Task {task} failed in {broken.where} ({broken.kind.value}): {plain_text(broken.message)}")
    for tracker in manifest.tracker_failures:
        name, error = tracker.get("tracker", "without a name"), tracker.get("error", "no message")
        found.append(f"Tracker {name} was switched off: {plain_text(error)}")
    for report in bundle.tracking.values():
        found.extend(plain_text(str(words)) for words in report.get("notes") or ())
    found.extend(plain_text(words) for words in manifest.warnings if not words.startswith("noisy host"))
    return found


def noise(bundle: Bundle) -> list[str]:
    """Returns why the host was too busy to trust times; empty for a quiet one."""
    reasons: dict[str, None] = {}
    for task, report in bundle.tracking.items():
        host = section(report, "host")
        if host.get("noisy"):
            stated = host.get("reasons") or ["no reason recorded"]
            reasons.update(dict.fromkeys(plain_text(f"{task}: {reason}" if task else str(reason)) for reason in stated))
    if not reasons and bundle.manifest is not None:
        prefix = "noisy host"
        told = [words for words in bundle.manifest.warnings if words.startswith(prefix)]
        reasons.update(dict.fromkeys(plain_text(words.removeprefix(prefix).lstrip(": ")) for words in told))
    return list(reasons)


def _record(bundle: Bundle, manifest: Manifest) -> list[tuple[str, str, bool]]:
    submission = manifest.submission
    commit = submission.git_commit or ""
    if commit and submission.git_dirty:
        commit += " with changes"
    return [
        ("Command", command(bundle, manifest), True),
        ("a2perf", manifest.a2perf_version, False),
        ("Environment", manifest.env_id or "", True),
        ("Environment arguments", _json(manifest.env_kwargs), True),
        ("Environment fingerprint", (manifest.env_fingerprint or "")[:_HASH_DIGITS], True),
        ("Submission", submission.name, False),
        ("Submission sha256", submission.sha256[:_HASH_DIGITS], True),
        ("Submission commit", commit, True),
        ("Configuration sha256", manifest.config_sha256[:_HASH_DIGITS], True),
        ("Root seed", str(manifest.root_seed), True),
        ("Seeds", _json(manifest.seeds), True),
        ("Sandbox", _sandbox(manifest), False),
        ("Python", " ".join(manifest.python.get(name, "") for name in ("implementation", "version")).strip(), False),
        *(_host(manifest.host)),
        ("Noisy host", "yes" if noise(bundle) else "no", False),
        ("Attempts", _attempts(manifest), False),
        ("Phases", ", ".join(f"{name} {seconds:.2f} s" for name, seconds in manifest.timings_s.items()), False),
        ("Exit", _exit(manifest), False),
    ]


def command(bundle: Bundle, manifest: Manifest) -> str:
    """Returns the recorded command line, or for a record without one a command that runs the configuration anew."""
    if manifest.command:
        return shlex.join(manifest.command)
    words = ["a2perf-launch", "--submission", manifest.submission.path]
    words += ["--gin_config", f"{bundle.label}/{bundle.mode}/config.gin", "--root_dir", "runs/again"]
    if manifest.participant_args:
        words += [
            "--participant_args",
            ",".join(f"{name}={value}" for name, value in manifest.participant_args.items()),
        ]
    return shlex.join(words)


def _sandbox(manifest: Manifest) -> str:
    if manifest.sandbox is None:
        return ""
    words = manifest.sandbox.level
    if manifest.sandbox.guarantees:
        words += f" ({', '.join(manifest.sandbox.guarantees)})"
    if manifest.sandbox.missing:
        words += f"; not in force: {', '.join(manifest.sandbox.missing)}"
    return words


def _host(host: dict[str, Any]) -> list[tuple[str, str, bool]]:
    return [
        (f"Host, {name.replace('_bytes', '').replace('_', ' ')}", _words(value, name), False)
        for name, value in host.items()
        if value not in (None, "", [], {}) and name not in ("cpu_family", "python")
    ]


def _words(value: object, name: str) -> str:
    if name.endswith("_bytes") and isinstance(value, int):
        return quantity_text(Quantity(value=float(value), unit="bytes"))
    if isinstance(value, str | int | float):
        return str(value)
    if isinstance(value, list) and all(isinstance(item, str | int | float) for item in value):
        return ", ".join(str(item) for item in value)
    return json.dumps(value, sort_keys=True, default=str)


def _json(value: dict[str, Any]) -> str:
    return json.dumps(value, sort_keys=True, default=str) if value else ""


def _attempts(manifest: Manifest) -> str:
    return "; ".join(
        f"{attempt.started_at} to {attempt.finished_at or 'no end'} ({attempt.outcome or 'no outcome'})"
        for attempt in manifest.attempts
    )


def _exit(manifest: Manifest) -> str:
    if manifest.exit_code is None:
        return ""
    return f"{manifest.exit_code} ({manifest.exit_reason})" if manifest.exit_reason else str(manifest.exit_code)
