"""What a tracker shows of a recorded run: parameters, numbers, series, tags and a summary for people.

There is one description, and the exporters of MLflow, Weights & Biases and TensorBoard write it. Names use the
characters that all of them accept. Seeds of single episodes, keys, paths, host names and command lines are left out.
"""

from __future__ import annotations

import datetime
import hashlib
import json
import re
from dataclasses import asdict, dataclass
from typing import Any, TypeAlias

import msgspec

from a2perf.metrics.values import Profile, profile_named
from a2perf.plain_text import markdown_text, plain_text
from a2perf.records import PUBLIC_SEEDS, Manifest
from a2perf.report.run_numbers import Measure, measures
from a2perf.report.tables import Column, Table, Text, to_markdown
from a2perf.runs.bundles.run_record import literal
from a2perf.runs.run import Run
from a2perf_trackers.described_series import DescribedSeries, series_of, unique_names

Scalar: TypeAlias = str | int | float | bool

FORMAT = 1
"""Version of the description; a new version exports recorded runs again."""

SCORE = "score"
"""First part of the name of every number."""

_SECRET = re.compile(r"token|secret|passw|api_?key|credential|private", re.IGNORECASE)
_HIDDEN = "not exported"
_HOST = ("cpu_model", "cpu_count", "memory_bytes", "os", "architecture", "virtualization")
_MOST_CONDITIONS, _MOST_NAME = 20, 128


@dataclass(frozen=True)
class RunDescription:
    """What a tracker shows of one run.

    Attributes:
        name: name for people, ``"numpy_ars synthetic_trot train seed 1"``.
        params: identity, settings, arguments and versions; no value is None.
        numbers: those with a value, by ``score/<metric>``; with the mode or the task before the metric if the run has
            several.
        series: learning curve, episodes and the samples of the trackers.
        tags: short texts about the record: state, layout, hash, failure.
        started_s: start of the run, seconds since the epoch; None if unknown.
        ended_s: its end; None if unknown.
        content: hash of everything that was recorded; the same for a folder and a packed file.
        digest: hash of ``content`` and the profile; identifies one export.
    """

    run: Run
    profile: Profile
    name: str
    group: str
    params: dict[str, Scalar]
    numbers: dict[str, Measure]
    series: tuple[DescribedSeries, ...]
    tags: dict[str, str]
    conditions: tuple[str, ...]
    started_s: float | None
    ended_s: float | None
    content: str
    digest: str

    def values(self) -> dict[str, float]:
        """Returns every number by name, and spreads as ``<name>_spread``."""
        found = {name: measure.quantity.value for name, measure in self.numbers.items()}
        found |= {f"{name}_spread": measure.quantity.spread for name, measure in self.numbers.items()}
        return {name: value for name, value in found.items() if value is not None}

    def units(self) -> dict[str, str]:
        """Returns the unit of each number and series that has one, by name."""
        found = {name: measure.quantity.unit for name, measure in self.numbers.items()}
        found |= {series.name: series.unit for series in self.series}
        return {name: unit for name, unit in found.items() if unit}

    def provenance(self) -> dict[str, str]:
        """Returns whether each number and series is measured, estimated, mixed or recorded, by name."""
        found = {name: measure.quantity.provenance or "recorded" for name, measure in self.numbers.items()}
        return {**found, **{series.name: series.provenance for series in self.series}}

    def summary(self) -> str:
        """Returns the run as Markdown: identity, conditions, and a table of its numbers with provenance marks."""
        columns = (
            Column(key="number", title="Number"),
            Column(key="value", title="Value", align="right"),
            Column(key="provenance", title="Provenance"),
        )
        rows = tuple(
            (Text(text=_titled(name, measure)), measure.quantity, Text(text=measure.quantity.provenance or ""))
            for name, measure in self.numbers.items()
        )
        lines = [f"**{markdown_text(self.name)}**", "", f"Recorded by a2perf; formulas: {self.profile}.", ""]
        lines += [f"- {markdown_text(text)}" for text in self.conditions]
        lines += ["", to_markdown(Table(name="numbers", caption="Numbers", columns=columns, rows=rows))] if rows else []
        return "\n".join(lines)


def describe(run: Run, profile: Profile = "corrected", *, trace: bool = True) -> RunDescription:
    """Returns what a tracker shows of a run.

    Args:
        profile: the formulas of its scores, ``"corrected"`` or ``"upstream"``.
        trace: include the samples of the trackers: power, memory and processor time.

    Raises:
        ConfigError: the profile is unknown.
    """
    profile = profile_named(profile)
    started_s, ended_s = _times(run)
    content = content_hash(run)
    identity = run.identity
    parts = (identity.algorithm or "run", identity.task, identity.mode)
    seed = "" if identity.seed is None else f"seed {identity.seed}"
    return RunDescription(
        run=run,
        profile=profile,
        name=_title(*parts, seed),
        group=_title(*parts, identity.version[:8]),
        params=_params(run, profile),
        numbers=_numbers(run, profile),
        series=series_of(run, started_s, trace=trace),
        tags=_tags(run, content, profile),
        conditions=tuple(plain_text(text) for text in run.conditions[:_MOST_CONDITIONS]),
        started_s=started_s,
        ended_s=ended_s,
        content=content,
        digest=hashlib.sha256(f"{FORMAT}\0{content}\0{profile}\0{trace}".encode()).hexdigest(),
    )


def has_public_seeds(manifest: Manifest) -> bool:
    """Returns whether everybody can derive the seeds of a run from its root seed.

    Under the same secret all submissions get the same episodes: one published seed would reveal the evaluation of the
    others.
    """
    return manifest.seeds.get("scheme", PUBLIC_SEEDS) == PUBLIC_SEEDS and manifest.seeds.get("evaluation") != "file"


def content_hash(run: Run) -> str:
    """Returns a SHA-256 over what a run recorded: identity, manifest, curve, episodes and costs.

    It does not depend on the place of the run or on whether it is packed. It changes when an unfinished run continues.
    """
    manifest = run.manifest
    digest = hashlib.sha256(json.dumps(asdict(run.identity), sort_keys=True).encode())
    digest.update(f"\0{manifest.checksum if manifest is not None else None}\0".encode())
    if manifest is not None and manifest.checksum and manifest.files and not run.changed:
        return digest.hexdigest()  # the manifest holds the hash of every file
    digest.update(msgspec.msgpack.encode([run.tracking, sorted(run.tracking_by_task.items())]))
    arrays = [] if run.curve is None else [("curve", run.curve.steps), ("curve", run.curve.values)]
    for mode, tasks in sorted(run.returns.items()):
        arrays += [(f"{mode}/{task}", tasks[task]) for task in sorted(tasks)]
    arrays += sorted(run.latency_s.items())
    for name, values in arrays:
        digest.update(f"\0{name}\0{values.size}\0".encode() + values.tobytes())
    return digest.hexdigest()


def _title(*parts: str) -> str:
    """Returns parts of a name on one line; Weights & Biases limits its length."""
    first = " ".join(plain_text(" ".join(parts[:-1])).split())
    last = f" {parts[-1]}" if parts[-1] else ""
    return first[: _MOST_NAME - len(last)] + last


def _titled(name: str, measure: Measure) -> str:
    """Returns the label, after the task or mode if the name has one."""
    between = name.split("/")[1:-1]
    return f"{'/'.join(between)}: {measure.label}" if between else measure.label


def _numbers(run: Run, profile: Profile) -> dict[str, Measure]:
    found = [measure for measure in measures(run, profile) if measure.quantity.value is not None]
    several_modes = not run.identity.mode
    names = unique_names(_name(measure, several_modes=several_modes) for measure in found)
    return dict(zip(names, found, strict=True))


def _name(measure: Measure, *, several_modes: bool) -> str:
    parts = (SCORE, measure.mode if several_modes else "", (measure.task or "").replace("/", "_"), measure.key)
    return "/".join(part for part in parts if part)


def _params(run: Run, profile: Profile) -> dict[str, Scalar]:
    identity, manifest = run.identity, run.manifest
    found: dict[str, Any] = {
        "algorithm": identity.algorithm,
        "domain": identity.domain,
        "task": identity.task,
        "mode": identity.mode,
        "seed": identity.seed,
        **({} if run.manifest is None else _arguments(run.manifest)),
        "profile": profile,
        "submission_sha256": identity.version if manifest is None else manifest.submission.sha256,
        "env_fingerprint": identity.fingerprint,
    }
    if manifest is not None:
        found |= {
            "env_id": manifest.env_id,
            "episodes": sum(map(len, run.episodes.values())) or None,
            "version.a2perf": manifest.a2perf_version,
            "version.python": manifest.python.get("version"),
            "git_commit": manifest.submission.git_commit,
            "config_sha256": manifest.config_sha256,
            "sandbox": None if manifest.sandbox is None else manifest.sandbox.level,
            **{f"host.{name}": manifest.host.get(name) for name in _HOST},
        }
    kept = [(name, value) for name, value in found.items() if value not in (None, "")]
    names = unique_names(name for name, _ in kept)
    return {name: _scalar(value) for name, (_, value) in zip(names, kept, strict=True)}


def _arguments(manifest: Manifest) -> dict[str, Any]:
    """Returns the arguments of environment and participant; values under names of secrets are replaced."""
    given = {f"arg.{name}": literal(value) for name, value in manifest.participant_args.items()}
    if has_public_seeds(manifest):  # otherwise the task itself may be an organizer's secret
        given |= {f"env.{name}": value for name, value in manifest.env_kwargs.items()}
    return {name: _HIDDEN if _SECRET.search(name) else value for name, value in given.items()}


def _scalar(value: Any) -> Scalar:
    if isinstance(value, bool | int | float):
        return value
    return plain_text(value if isinstance(value, str) else json.dumps(value, sort_keys=True, default=str))


def _tags(run: Run, content: str, profile: Profile) -> dict[str, str]:
    manifest = run.manifest
    failure = None if manifest is None else manifest.failure
    found = {
        "a2perf.content_sha256": content,
        "a2perf.state": run.state,
        "a2perf.layout": run.folder.layout,
        "a2perf.profile": profile,
        "a2perf.changed": "yes" if run.changed else "",
        "a2perf.exit_reason": (manifest.exit_reason or "") if manifest is not None else "",
        "a2perf.failure": "" if failure is None else f"{failure.kind.value} in {failure.where}",
        "a2perf.conditions": str(len(run.conditions)) if run.conditions else "",
        "a2perf.curve": "" if run.curve is None else run.curve.source,
    }
    return {name: plain_text(text) for name, text in found.items() if text}


def _times(run: Run) -> tuple[float | None, float | None]:
    """Returns start and end of a run in seconds since the epoch."""
    attempts = [] if run.manifest is None else run.manifest.attempts
    started = next((_epoch(attempt.started_at) for attempt in attempts), None)
    ended = next((_epoch(attempt.finished_at) for attempt in reversed(attempts)), None)
    if run.curve is not None and run.curve.times_s is not None and run.curve.times_s.size:
        if started is None and run.curve.times_since == "epoch":
            started = run.curve.began_s
        if ended is None and started is not None:
            ended = started + float(run.curve.elapsed_s().max())
    return started, ended


def _epoch(text: str | None) -> float | None:
    if not text:
        return None
    try:
        moment = datetime.datetime.fromisoformat(text)
    except ValueError:
        return None
    # Times without a zone are of an unknown one.
    return moment.timestamp() if moment.tzinfo is not None else None
