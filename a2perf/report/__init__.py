"""Reports: from recorded runs to one page, Markdown, LaTeX, CSV, JSON and figures for papers.

``write_report`` does all of it. A report reads only recorded runs: no environment, submission or network. The same runs
give the same bytes. Packages and scripts add sections with ``register_section``. Importing this package loads nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from a2perf.report.own_sections import ReportSection, register_section, unregister_section
    from a2perf.report.writing import WrittenReport, write_report

_HOMES = {
    "WrittenReport": "writing",
    "ReportSection": "own_sections",
    "register_section": "own_sections",
    "unregister_section": "own_sections",
    "write_report": "writing",
}

__all__ = ["ReportSection", "WrittenReport", "register_section", "unregister_section", "write_report"]


def __getattr__(name: str) -> Any:
    """Loads a public name from its module on first use."""
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{home}"), name)
