"""The conditions of runs: host, day, Python and packages. Their effect cannot be seen in the scores.

All runs of a version may share a shift that its code did not cause. A comparison therefore warns if the conditions of
two versions differ.
"""

from __future__ import annotations

import functools
import importlib.metadata
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from a2perf.runs.bundles.run_record import StoredRun

_MOST_NAMED = 5
ADVICE = "run both versions interleaved, on the same seeds and hosts"


def packages_of(words: Sequence[str]) -> dict[str, str]:
    """Returns the versions of the packages that a command's Python has, by lower-case name.

    Reads the interpreter's folder and executes nothing. Empty for a command that names no Python.
    """
    named = next((word for word in words if Path(word).name.startswith("python")), None)
    found = shutil.which(named) if named is not None else None
    # Do not resolve the path: the Python of a virtual environment is a link to another installation.
    return {} if found is None else dict(_packages_below(Path(found).absolute().parent.parent))


@functools.lru_cache(maxsize=8)
def _packages_below(prefix: Path) -> dict[str, str]:
    if prefix == Path(sys.prefix):
        folders = [folder for folder in sys.path if folder.endswith("-packages")]
    else:
        folders = [str(folder) for folder in sorted(prefix.glob("lib/python3*/*-packages"))]
    versions = {
        (item.metadata["Name"] or "").lower(): item.version for item in importlib.metadata.distributions(path=folders)
    }
    return {name: versions[name] for name in sorted(versions) if name}


def differences(candidate: Sequence[StoredRun], baseline: Sequence[StoredRun]) -> list[str]:
    """Describes how the conditions of two groups of runs differ; values that no run recorded count as equal."""
    differences = []
    hosts = [{run.host for run in runs if run.host} for runs in (candidate, baseline)]
    if all(hosts) and hosts[0] != hosts[1]:
        differences.append(f"hosts differ ({_named(hosts[0])} against {_named(hosts[1])})")
    days = [{run.started_at[:10] for run in runs if run.started_at} for runs in (candidate, baseline)]
    if all(days) and not days[0] & days[1]:
        differences.append(f"no day has runs of both ({_named(days[0])} against {_named(days[1])})")
    pythons = [{run.python for run in runs if run.python} for runs in (candidate, baseline)]
    if all(pythons) and pythons[0] != pythons[1]:
        differences.append(f"Python differs ({_named(pythons[0])} against {_named(pythons[1])})")
    versions = [_versions(runs) for runs in (candidate, baseline)]
    if all(versions):
        changed = [
            f"{name} {_named(versions[0].get(name, {'missing'}))} against {_named(versions[1].get(name, {'missing'}))}"
            for name in sorted(versions[0].keys() | versions[1].keys())
            if versions[0].get(name) != versions[1].get(name)
        ]
        if changed:
            more = f" and {len(changed) - _MOST_NAMED} more" if len(changed) > _MOST_NAMED else ""
            differences.append(f"packages differ ({'; '.join(changed[:_MOST_NAMED])}{more})")
    return differences


def _versions(runs: Sequence[StoredRun]) -> dict[str, set[str]]:
    """Returns the versions of each package; empty if no run recorded them."""
    recorded = [run.packages for run in runs if run.packages]
    names = {name for packages in recorded for name in packages}
    return {name: {packages.get(name, "missing") for packages in recorded} for name in names}


def _named(values: set[str]) -> str:
    ordered = sorted(values)
    return ", ".join(ordered[:_MOST_NAMED]) + (", ..." if len(ordered) > _MOST_NAMED else "")
