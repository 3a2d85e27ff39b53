"""Names for people: submissions, their kinds and metrics. Titles of tasks and domains are in ``a2perf.domains``.

Every page shows a title and, in small print, the id that the files use.
"""

from __future__ import annotations

import hashlib
import re

from markupsafe import Markup

from a2perf.metrics import registry
from a2perf.plain_text import plain_text
from a2perf.records import SubmissionInfo
from a2perf.runs.submission_info import KINDS

KIND_TITLES = {
    "random": "Random",
    "scripted": "Scripted",
    "search": "Search",
    "pre-trained": "Pre-trained",
    "imitation": "Imitation",
    "learned": "Learned",
    "language-model": "Language model",
}
"""Badge of each kind, in the order in which kinds are listed."""

MODE_TITLES = {"train": "training", "inference": "inference", "generalization": "generalization"}
WITHOUT_MODEL = "without the model"
"""Note on the energy of a submission with a language model: what the server of the model used is not known."""

_KIND_SUMMARIES = {
    "random": "Draws random actions",
    "scripted": "Follows rules written by hand",
    "search": "Searches for each task instead of learning a policy",
    "pre-trained": "Uses a policy that was trained elsewhere",
    "imitation": "Learns from demonstrations",
    "learned": "Learns from its own episodes",
    "language-model": "Asks a language model for its actions",
}


def submission_title(name: str, info: SubmissionInfo | None = None) -> str:
    """Returns the title of a submission, its name if it has no title; safe to escape and show."""
    title = "" if info is None else info.title
    return " ".join(plain_text(title or name).split())


def submission_kind(info: SubmissionInfo | None) -> str:
    """Returns the badge of a submission, ``"Pre-trained"``; ``""`` if it states no kind."""
    return "" if info is None else KIND_TITLES.get(info.kind, "")


def badge(info: SubmissionInfo) -> Markup:
    """Returns the badge of a submission's kind for pages, with its meaning in a tooltip; empty if it states none."""
    title = submission_kind(info)
    drawn = Markup('<span class="badge" title="{}">{}</span>')
    return drawn.format(_KIND_SUMMARIES[info.kind], title) if title else Markup("")


def kind_order(kind: str) -> int:
    """Returns the position of a kind in lists; submissions without one come last."""
    return KINDS.index(kind) if kind in KINDS else len(KINDS)


def metric_title(name: str) -> str:
    """Returns the title of a metric, ``"Memory, resident peak"``; the name with spaces if it is not registered."""
    metric = registry.all_metrics().get(name)
    return metric.label if metric is not None else plain_text(name).replace("_", " ").capitalize()


def plain(text: str, limit: int = 400) -> str:
    """Returns text on one line, without control or bidirectional characters, cut off at ``limit`` characters."""
    line = " ".join(plain_text(text).split())
    return line if len(line) <= limit else f"{line[: limit - 1]}…"


def slug(name: str, version: str) -> str:
    """Returns a readable file name of letters, digits and hyphens, unique for each name and version."""
    readable = re.sub(r"[^a-z0-9]+", "-", name.lower())[:40].strip("-")
    digest = hashlib.sha256(f"{name}\0{version}".encode(errors="surrogatepass")).hexdigest()[:8]
    return f"{readable or 'submission'}-{digest}"
