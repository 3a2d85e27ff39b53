"""The tables of contents: which pages stand where. A page that no pattern names is an error of the build."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

# Heading -> patterns of pages in order; those of a folder in the order of their names.
CONTENTS = {
    "Tutorials": (
        "tutorials/first_submission", "beginners_guide", "tutorials/train_infer_generalize",
        "tutorials/your_framework", "tutorials/your_own_domain", "tutorials/your_own_metric",
        "tutorials/scores_and_papers", "tutorials/competition", "tutorials/rlops_in_ci", "tutorials/*",
    ),
    "How to": ("organizing_a_competition", "rlops", "coming_from", "howto/*"),
    "Explanation": ("explanation/*",),
    "Environments": (
        "environments/quadruped_locomotion", "environments/ids_quadruped_locomotion", "environments/web_navigation",
        "environments/ids_web_navigation", "environments/circuit_training", "environments/ids_circuit_training",
        "environments/ids_*", "environments/tasks", "environments/data_files", "environments/*",
    ),
    "Examples and results": ("report/technical_report", "results", "examples/*", "benchmarks", "report/*"),
    "Reference: generated from the code": (
        "commands/index", "reference/gin_parameters", "reference/metrics", "reference/file_schemas",
    ),
    "Reference": ("reference/*",),
    "Project": ("contributing", "docker", "notices"),
}  # fmt: skip


def contents(pages: Sequence[Path]) -> str:
    """Returns the tables of contents for the front page.

    Args:
        pages: all pages, relative to the top.

    Raises:
        ValueError: a page stands nowhere.
    """
    left = [page.with_suffix("") for page in sorted(pages) if page.name != "index.md" or page.parent.name == "commands"]
    left = [page for page in left if page.parent.name != "commands" or page.name == "index"]
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
