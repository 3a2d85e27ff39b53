"""Attaches trackers to a process tree; writes their report to ``tracking.json``, main numbers to the manifest."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from a2perf.metrics.trackers.emissions import EmissionsSettings, resolve_settings
from a2perf.metrics.trackers.host import describe_host
from a2perf.metrics.trackers.sampler import Sampler
from a2perf.records import Attempt, Manifest
from a2perf.runs.bundles.attempts import with_earlier
from a2perf.runs.bundles.bundle import Bundle
from a2perf.runs.bundles.layout import METRICS, TRACKING_FILE
from a2perf.sandbox import Confined
from a2perf.storage import write_json
from a2perf.submission.settings import Trackers


def attach(sampler: Sampler, tree: Confined) -> None:
    """Attaches trackers to a process tree, beside those of the same run that still live."""
    sampler.attach(tree.tree_root, cgroup=tree.cgroups, clock=tree.cpu_clock, root_is_guard=True)


@contextmanager
def tracking(settings: Trackers, bundle: Bundle) -> Iterator[Sampler]:
    """Tracks the participant's process tree of a bundle and copies the main numbers into the manifest."""
    manifest = bundle.manifest
    with tracker(bundle.metrics, settings, mode=manifest.mode, attempts=manifest.attempts) as sampler:
        bundle.clock.follow_energy(lambda: sampler.net_kwh)
        try:
            yield sampler
        finally:
            data = msgspec.to_builtins(sampler.stop())
            last = manifest.attempts[-1]
            last.net_kwh, last.gross_kwh = data["energy"]["net_kwh"], data["energy"]["gross_kwh"]
            record_tracking(manifest, with_earlier(data, manifest.attempts))


@contextmanager
def tracker(
    directory: Path, settings: Trackers | None = None, *, mode: str, attempts: Sequence[Attempt] = ()
) -> Iterator[Sampler]:
    """Tracks the process tree attached inside the context; always writes the report to ``tracking.json``.

    Args:
        settings: those of a run, which together with gin's decide about codecarbon.
        attempts: attempts of the run; time, energy and emissions of the report are sums over them.
    """
    sampler = Sampler(
        directory=directory,
        mode=mode,
        interval_s=1.0,
        settings=EmissionsSettings() if settings is None else resolve_settings(),
        with_codecarbon=settings is not None and settings.measure_emissions,
    )
    sampler.prepare()
    try:
        yield sampler
    finally:
        write_json(directory / TRACKING_FILE, with_earlier(msgspec.to_builtins(sampler.stop()), attempts))


def remarks(bundle: Path) -> list[str]:
    """Returns what was not tracked as asked: trackers that failed, and a coarser place than the given one."""
    found = []
    for file in sorted((bundle / METRICS).rglob(TRACKING_FILE)):
        data = json.loads(file.read_text())
        found += [f"tracker {failure['tracker']} was switched off: {failure['error']}" for failure in data["failures"]]
        place = data["emissions"]
        found += [f"emissions: {place['note']}"] if place["note"] and place["country_iso_code"] else []
    return list(dict.fromkeys(found))


def record_tracking(manifest: Manifest, data: dict[str, Any]) -> None:
    """Copies the main numbers of a tracking report into the manifest."""
    manifest.tracking = data
    manifest.tracker_failures = list(data.get("failures", []))
    manifest.host = msgspec.to_builtins(describe_host())
    if warning := data.get("account", {}).get("warning"):
        manifest.warnings.append(str(warning))
    host = data.get("host", {})
    if host.get("noisy"):
        manifest.warnings.append(f"noisy host: {'; '.join(host.get('reasons', []))}")
