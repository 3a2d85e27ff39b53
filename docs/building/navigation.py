"""The tables of contents. A page that no pattern matches is an error of the build."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

# Heading -> patterns of pages in order; those of a folder in the order of their names.
CONTENTS = {
    "Tutorials": (
        "tutorials/first_submission",
        "tutorials/python",
        "tutorials/train_infer_generalize",
        "tutorials/competition",
        "tutorials/*",
    ),
    "Notebooks": (
        "notebooks/first_evaluation",
        "notebooks/comparing_two_algorithms",
        "notebooks/figure_and_table_for_a_paper",
        "notebooks/*",
    ),
    "How-to guides": (
        "how_to/your_framework",
        "how_to/scores_and_papers",
        "how_to/compare_anything",
        "how_to/organizing_a_competition",
        "how_to/hosting_a_competition",
        "how_to/rlops",
        "how_to/wrap_a_script",
        "how_to/coming_from",
        "how_to/your_own_domain",
        "how_to/your_own_metric",
        "how_to/your_own_*",
        "how_to/*",
    ),
    "Explanation": (
        "architecture",
        "explanation/why_these_metrics",
        "explanation/energy",
        "explanation/statistics",
        "explanation/threat_model",
        "explanation/*",
    ),
    "Environments": (
        "environments/index",
        "environments/quadruped_locomotion",
        "environments/web_navigation",
        "environments/circuit_training",
        "environments/any",
        "environments/*_*",
        "environments/tasks",
        "environments/data_files",
        "environments/*",
    ),
    "Examples and results": ("results", "examples/*", "benchmarks"),
    "Distributions": ("packages/index", "packages/*"),
    "Reference: generated from the code": (
        "reference/python_api",
        "commands/index",
        "reference/gin_parameters",
        "reference/metrics",
        "reference/file_schemas",
    ),
    "Reference": ("reference/*",),
    "Project": ("contributing", "changelog", "security", "docker", "notices"),
}


def is_environment(page: Path) -> bool:
    """Returns whether a page describes one environment or audit; the page of its domain, or ``audits``, lists it."""
    return page.parent.name == "environments" and re.search(r"-v\d+$|^audit_", page.stem) is not None


def contents(pages: Sequence[Path]) -> str:
    """Returns the tables of contents for the front page.

    Args:
        pages: all pages, relative to the top.

    Raises:
        ValueError: no pattern matches a page.
    """
    left = [page.with_suffix("") for page in sorted(pages) if page != Path("index.md")]
    left = [page for page in left if page.parent.name != "commands" or page.name == "index"]
    left = [page for page in left if not is_environment(page)]
    text = []
    for heading, patterns in CONTENTS.items():
        chosen: list[Path] = []
        for pattern in patterns:
            here = [page for page in left if page.match(pattern) and len(page.parts) == pattern.count("/") + 1]
            chosen += here
            left = [page for page in left if page not in here]
        if chosen:
            lines = "\n".join(str(page) for page in chosen)
            text.append(f'```{{toctree}}\n:hidden:\n:caption: "{heading}"\n\n{lines}\n```\n')
    if left:
        raise ValueError(f"no table of contents names {', '.join(map(str, left))}; see docs/building/navigation.py")
    return "\n".join(text)
