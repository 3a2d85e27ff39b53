"""Imports by earlier names, kept for one release: of modules that moved to a distribution or to a folder.

The first end in one line that names the distribution; the second import the module from its folder, because submissions
use it.

Standard library only: every import of ``a2perf`` imports this.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:  # not from `typing`, which would slow down every import of a2perf
    from collections.abc import Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType
    from typing import Any

MOVED = {
    "a2perf.metrics.model_costs": "a2perf_agents.costs",
    "a2perf.report.model_section": "a2perf_agents.section",
    "a2perf.runs.model_calls": "a2perf_agents.calls",
    "a2perf.runs.model_record": "a2perf_agents.record",
    "a2perf.runs.model_use": "a2perf_agents.use",
    "a2perf.runs.transcripts": "a2perf_agents.transcripts",
    "a2perf.submission.evaluator.model_relay": "a2perf_agents.relay",
    "a2perf.exporters": "a2perf_trackers",
    "a2perf.integrations": "a2perf_trackers",
    "a2perf.learning": "a2perf_baselines.learning",
    "a2perf.domains.candidates": "a2perf_baselines.candidates",
    "a2perf.submission.participant.adapters.tf_agents_candidates": "a2perf_baselines.tf_agents_candidates",
}
"""The new name of each module; the first part names the distribution ``packages/NAME``."""
OF_DOMAINS = ("agents", "batch", "candidates", "pairs", "residual_control")
"""Last words of modules of domains, ``a2perf.domains.DOMAIN.NAME``, that are in ``a2perf_baselines.DOMAIN``."""


def _new_name(module: str) -> str | None:
    above, _, name = module.rpartition(".")
    if module not in MOVED and name.endswith(OF_DOMAINS) and above.startswith("a2perf.domains."):
        folder = above.replace("a2perf.domains.", "a2perf_baselines.", 1)
        return folder if name == "agents" else f"{folder}.{name}"
    return MOVED.get(module)


class _MovedFinder:
    """Asked last, for modules that no other finder knows."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        new = _new_name(fullname)
        if new is None:
            return _in_folder(fullname, path or ())
        raise ModuleNotFoundError(moved(fullname, new), name=new.partition(".")[0])


def _in_folder(fullname: str, places: Sequence[str]) -> ModuleSpec | None:
    above, _, name = fullname.rpartition(".")
    for place in places if above.startswith("a2perf.") else ():
        for folder in sorted(os.listdir(place)):
            if os.path.exists(f"{place}/{folder}/{name}.py"):
                from importlib.machinery import ModuleSpec

                loader: Any = _FolderLoader(f"{above}.{folder}.{name}")
                return ModuleSpec(fullname, loader)
    return None


class _FolderLoader:
    """Loads a module by its new name."""

    def __init__(self, name: str) -> None:
        self._name = name

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        from importlib import import_module

        module = import_module(self._name)
        self._spec = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self._spec  # the import system has set that of the earlier name


def announce_moves() -> None:
    """Answers imports of the old names."""
    sys.meta_path.append(_MovedFinder())


def moved(module: str, new: str) -> str:
    """Returns the error for a module that moved."""
    package = new.partition(".")[0]
    folder = package.removeprefix("a2perf_")
    return (
        f"{module} is now {new}, of the distribution {package.replace('_', '-')}: "
        f"pip install -e packages/{folder}, in a checkout"
    )
