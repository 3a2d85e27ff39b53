"""Reports: from recorded runs to one page, Markdown, LaTeX, CSV, JSON and figures for papers.

``write_report`` is the whole of it. A report reads recorded runs and nothing
else: no environment, no submission, no network.
The same bundles give the same bytes.
"""

from __future__ import annotations

from a2perf.report.writing import ReportFiles, write_report

__all__ = ["ReportFiles", "write_report"]
