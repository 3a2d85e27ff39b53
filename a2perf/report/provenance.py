"""Where the numbers of a run come from: code, host, seeds, confinement, and what went wrong."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from a2perf.errors import command_line
from a2perf.metrics.scores import SeedGroup
from a2perf.plain_text import plain_text
from a2perf.records import Manifest
from a2perf.report.numbers_text import sample_text
from a2perf.report.tables import Quantity, Table, Text, quantity_text, text_table
from a2perf.report.task_results import Label, TaskResults, title_of
from a2perf.runs.bundles.layout import EARLIER_CONFIG
from a2perf.runs.run import Run, noise, tracking_reports

_HASH_DIGITS = 16


def record_table(run: Run) -> Table:
    """Returns what a reader needs to judge the run or to repeat it, as names and values."""
    rows = [] if run.manifest is None else _record(run, run.manifest)
    cells = [(name, Text(text=plain_text(value), code=code)) for name, value, code in rows if value]
    return text_table("Record of the run", ("What", "Value"), cells, texts=2)


def sources_table(settings: Sequence[TaskResults], labels: Mapping[str, Label], links: Mapping[str, str]) -> Table:
    """Returns where the numbers of each group come from: seeds, code, environment, host, confinement."""
    heads = ("Runs", "Seeds", "Code", "Environment", "Host", "Confined by", "a2perf")
    rows = [_source_row(setting, group, labels, links) for setting in settings for group in setting.groups]
    return text_table("Where the numbers come from", heads, rows, texts=len(heads), kind="cards")


def _source_row(
    setting: TaskResults, group: SeedGroup, labels: Mapping[str, Label], links: Mapping[str, str]
) -> tuple[Text, ...]:
    manifests = [run.manifest for run in group.runs if run.manifest is not None]
    identities = [run.identity for run in group.runs]

    def joined(parts: Iterable[str]) -> str:
        return plain_text("; ".join(dict.fromkeys(part for part in parts if part)))

    commits = joined(
        f"commit {m.submission.git_commit[:_HASH_DIGITS]}{' with changes' if m.submission.git_dirty else ''}"
        for m in manifests
        if m.submission.git_commit
    )
    fingerprints = joined(f"fingerprint {i.fingerprint[:_HASH_DIGITS]}" for i in identities if i.fingerprint)
    pythons = joined(f"Python {m.python.get('version', '')}" for m in manifests if m.python.get("version"))
    sandboxes = joined("" if m.sandbox is None else m.sandbox.level for m in manifests)  # each run lists the guarantees
    code = joined(i.version[:_HASH_DIGITS] for i in identities)
    environments = joined(m.env_id or m.domain for m in manifests)
    hosts = joined(_machine(m.host) for m in manifests)
    versions, layouts = joined(m.a2perf_version for m in manifests), joined(run.folder.layout for run in group.runs)
    return (
        Text(
            text=title_of(labels, group.algorithm),
            detail=f"{group.mode}, {sample_text(group.policies, group.episodes)}; {setting.title}",
            href=links[group.runs[0].key],
        ),
        Text(text=", ".join("unknown" if seed is None else str(seed) for seed in group.seeds)),
        Text(text=code or "–", detail=commits or None, code=True),
        Text(text=environments or "–", detail=fingerprints or None),
        Text(text=hosts or "–", detail=pythons or None),
        Text(text=sandboxes or "–"),
        Text(text=versions or "–", detail=layouts or "–"),
    )


def _machine(host: Mapping[str, Any]) -> str:
    parts = [str(host["cpu_model"])] if host.get("cpu_model") else []
    cores = next((host[name] for name in ("cores", "cpu_count") if host.get(name)), None)
    parts += [f"{cores} cores"] if cores else []
    memory = host.get("memory_bytes")
    parts += [_text(memory, "memory_bytes")] if isinstance(memory, int) else []
    return ", ".join(parts)


def failure(run: Run) -> tuple[list[tuple[str, str]], str]:
    """Returns why a run failed as (name, text), and the traceback or the last lines of the log."""
    manifest = run.manifest
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
    if run.details.log_tail.strip() and run.details.log_tail.strip() not in parts[0]:
        parts.append(f"last lines of {record.log}:\n{run.details.log_tail.rstrip()}")
    return lines, "\n\n".join(part for part in parts if part)


def conditions(run: Run) -> list[str]:
    """Returns everything that affects how far the numbers can be trusted: damage, noise, failed trackers, warnings."""
    found = dict.fromkeys(plain_text(text) for text in (*run.conditions, *run.details.conditions))
    manifest = run.manifest
    if run.state == "unfinished":
        found["The run has not ended: it is still running elsewhere or was killed. Rerun its command to resume."] = None
    if run.state == "interrupted":
        found["The run was interrupted. Rerun its command to resume."] = None
    noisy = noise(run)
    if noisy:
        found[f"Times and energies unreliable, noisy host: {'; '.join(noisy)}."] = None
    for task, broken in run.details.task_failures.items():
        text = f"Task {task} failed in {broken.where} ({broken.kind.value}): {broken.message}"
        found[plain_text(text)] = None
    for report in tracking_reports(run).values():
        found.update(dict.fromkeys(plain_text(text) for text in report.notes))
    if manifest is not None:
        for tracker in manifest.tracker_failures:
            name, error = tracker.get("tracker", "without a name"), tracker.get("error", "no message")
            found[plain_text(f"Tracker {name} was switched off: {error}")] = None
        warnings = (text for text in manifest.warnings if not text.startswith("noisy host"))
        found.update(dict.fromkeys(plain_text(text) for text in warnings))
    return list(found)


def _record(run: Run, manifest: Manifest) -> list[tuple[str, str, bool]]:
    submission = manifest.submission
    commit = submission.git_commit or ""
    if commit and submission.git_dirty:
        commit += " with changes"
    attempts = [
        f"{attempt.started_at} to {attempt.finished_at or 'no end'} ({attempt.outcome or 'no outcome'})"
        for attempt in manifest.attempts
    ]
    reason = f" ({manifest.exit_reason})" if manifest.exit_reason else ""
    return [
        ("Command", command(run, manifest), True),
        ("a2perf", manifest.a2perf_version, False),
        ("Environment", manifest.env_id or "", True),
        ("Environment arguments", _json(manifest.env_kwargs), True),
        ("Environment fingerprint", (manifest.env_fingerprint or "")[:_HASH_DIGITS], True),
        ("Environment package", _package(manifest), True),
        ("Submission", submission.name, False),
        ("Submission sha256", submission.sha256[:_HASH_DIGITS], True),
        ("Submission commit", commit, True),
        ("Configuration sha256", manifest.config_sha256[:_HASH_DIGITS], True),
        ("Root seed", str(manifest.root_seed), True),
        ("Seeds", _json(manifest.seeds), True),
        ("Sandbox", _sandbox(manifest), False),
        ("Python", " ".join(manifest.python.get(name, "") for name in ("implementation", "version")).strip(), False),
        *(
            (f"Host, {name.replace('_bytes', '').replace('_', ' ')}", _text(value, name), False)
            for name, value in manifest.host.items()
            if value not in (None, "", [], {}) and name not in ("cpu_family", "python")
        ),
        ("Noisy host", "yes" if noise(run) else "no", False),
        ("Attempts", "; ".join(attempts), False),
        ("Phases", ", ".join(f"{name} {seconds:.2f} s" for name, seconds in manifest.timings_s.items()), False),
        ("Exit", "" if manifest.exit_code is None else f"{manifest.exit_code}{reason}", False),
    ]


def command(run: Run, manifest: Manifest) -> str:
    """Returns the recorded command line, or one that runs the configuration of an old bundle without it again."""
    if manifest.command:
        return command_line(*manifest.command)
    words = ["a2perf-launch", "--submission", manifest.submission.path]
    words += ["--gin_config", f"{run.key}/{EARLIER_CONFIG}", "--root_dir", "runs/again"]
    if manifest.participant_args:
        given = ",".join(f"{name}={value}" for name, value in manifest.participant_args.items())
        words += ["--participant_args", given]
    return command_line(*words)


def _package(manifest: Manifest) -> str:
    package = manifest.environment
    return "" if package is None else f"{package.name} {package.version} (sha256 {package.sha256[:_HASH_DIGITS]})"


def _sandbox(manifest: Manifest) -> str:
    if manifest.sandbox is None:
        return ""
    text = manifest.sandbox.level
    if manifest.sandbox.guarantees:
        text += f" ({', '.join(manifest.sandbox.guarantees)})"
    if manifest.sandbox.missing:
        text += f"; not in force: {', '.join(manifest.sandbox.missing)}"
    return text


def _text(value: object, name: str) -> str:
    if name.endswith("_bytes") and isinstance(value, int):
        return quantity_text(Quantity(value=float(value), unit="bytes"))
    if isinstance(value, str | int | float):
        return str(value)
    if isinstance(value, list) and all(isinstance(item, str | int | float) for item in value):
        return ", ".join(str(item) for item in value)
    return json.dumps(value, sort_keys=True, default=str)


def _json(value: dict[str, Any]) -> str:
    return json.dumps(value, sort_keys=True, default=str) if value else ""
