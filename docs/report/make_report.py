"""Builds the technical report and its leaderboard from recorded bundles.

    python docs/report/make_report.py [RECORDED] [-o DIR] [--no-pdf] [--processes N]

writes ``index.html``, ``report.md``, ``report.tex``, ``report.pdf`` (if ``pdflatex`` is installed), ``figures/`` and
``leaderboard/``; `make paper` does so for ``results/recorded``. Nothing is run. The same bundles give the same report,
and every number in it is computed.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import grids
import jinja2
import pictures
from document import Document, Picture, Placed, Plot, compose, to_html, to_latex, to_markdown
from findings import HERE, Findings, Row, data, find, seeds_of
from goals import counts, judge

from a2perf.domains.registry import get_domain
from a2perf.errors import UserError
from a2perf.report.leaderboard import write_leaderboard
from a2perf.report.leaderboard.pareto import static_svg
from a2perf.report.numbers_text import row_scale, written
from a2perf.runs.bundle import integrity
from a2perf.storage import write_atomic

HOUSE = HERE.parents[1]
TITLE = "Baselines of a2perf: what they reach, how reliably, and what it costs"
_WHITE = b'<rect width="100%" height="100%" fill="#ffffff"/>'


def main(argv: Sequence[str] | None = None) -> int:
    """Builds the report; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recorded", nargs="?", type=Path, default=HOUSE / "results" / "recorded")
    parser.add_argument("-o", "--output", type=Path, default=HOUSE / "build" / "report")
    parser.add_argument("--no-pdf", action="store_true", help="leave the PDF out")
    parser.add_argument("--processes", type=int, default=len(os.sched_getaffinity(0)))
    given = parser.parse_args(argv)
    try:
        found = build(given.recorded, given.output, processes=given.processes)
    except UserError as error:
        print(f"error: {error.message}\n  Hint: {error.hint}", file=sys.stderr)
        return 2
    verdicts = counts(judge(found))
    print(f"{len(found.rows)} entries of {len(found.baselines())} baselines on {len(found.tasks())} tasks; goals: "
          + ", ".join(f"{count} {verdict}" for verdict, count in verdicts.items()))  # fmt: skip
    print(f"leaderboard: {given.output / 'leaderboard' / 'index.html'}\nreport: {given.output / 'index.html'}")
    if given.no_pdf:
        return 0
    problem = typeset(given.output)
    print(f"no PDF: {problem}" if problem else f"PDF: {given.output / 'report.pdf'}")
    return 0


def build(recorded: Path, out: Path, *, processes: int = 1) -> Findings:
    """Writes the leaderboard and every format of the report except the PDF.

    Args:
        recorded: folder of bundles.
        out: folder to write.
        processes: how many may share the scoring.

    Raises:
        UserError: nothing is recorded there, or nothing under a protocol.
    """
    site = write_leaderboard(
        recorded, out / "leaderboard", title="Baselines of a2perf", integrity=integrity, reports=False,
        processes=processes,
    )  # fmt: skip
    found = find(site.record, recorded)
    document = document_of(found)
    figures = out / "figures"
    shutil.rmtree(figures, ignore_errors=True)
    figures.mkdir(parents=True)
    for item in document.placed():
        _write_figure(item, figures)
    write_atomic(out / "index.html", to_html(document))
    write_atomic(out / "report.md", to_markdown(document))
    write_atomic(out / "report.tex", to_latex(document))
    return found


def document_of(found: Findings) -> Document:
    """Returns the report's text with its tables and figures."""
    available: dict[str, Placed | None] = {
        "spaces": grids.spaces_grid(found), "tasks": grids.tasks_grid(found), "baselines": grids.baselines_grid(found),
        "matrix": grids.matrix_grid(found), "goals": grids.goals_grid(found), "curves": pictures.curves(found),
        "reliability-energy": pictures.reliability_energy(found), "reliability": grids.reliability_grid(found),
        "published": grids.published_grid(found), "costs": grids.costs_grid(found), "steps": grids.steps_grid(found),
        "overhead": grids.overhead_grid(), "throughput": grids.throughput_grid(), "others": grids.others_grid(found),
    }  # fmt: skip
    for domain in found.domains():
        available[f"results-{domain}"] = grids.results_grid(found, domain)
        available[f"frames-{domain}"] = pictures.frames(found, domain)
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(HERE), undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True,
        autoescape=False,  # this is Markdown, and its reader is configured to escape HTML
    )  # fmt: skip
    text = environment.get_template("report.md.jinja").render(
        **fields(found), placed={name for name, item in available.items() if item is not None}
    )
    return compose(TITLE, overview(found), text, available)


def overview(found: Findings) -> str:
    """Returns one sentence on the recorded runs and their dates."""
    days = sorted({day for row in found.rows for manifest in row.manifests() for attempt in manifest.attempts
                   if (day := attempt.started_at[:10])})  # fmt: skip
    when = "" if not days else f", recorded {days[0]}" if days[0] == days[-1] else f", recorded {days[0]} to {days[-1]}"
    return f"{len(found.baselines())} baselines, {len(found.tasks())} tasks, {found.runs()} runs{when}."


def fields(found: Findings) -> dict[str, Any]:
    """Returns every field of the template."""
    verdicts = counts(judge(found))
    references = data("references.toml")
    manifests = [manifest for row in found.rows for manifest in row.manifests()]
    kinds = sorted({row.entry.provenance for row in found.rows} - {"not recorded"})
    evaluation = next(iter(found.tasks())).evaluation
    entered = {task.name for task in found.tasks()}
    return {
        "protocol": found.protocol.name,
        "domains": found.domains(),
        "n": {
            "baselines": len(found.baselines()), "learned": sum(one.learns for one in found.baselines()),
            "tasks": len(entered), "domains": len(found.domains()), "runs": found.runs(), "seeds": seeds_of(found.rows),
            "goals": sum(verdicts.values()), "met": verdicts["met"], "missed": verdicts["missed"],
            "open": verdicts["not recorded"],
            "timed_calls": evaluation.timed_calls, "warmup_calls": evaluation.warmup_calls,
            "noisy": sum(any(word.startswith("noisy host") for word in one.warnings) for one in manifests),
            "unranked": sum(bool(row.entry.not_ranked) for row in found.rows),
        },
        "energy_note": _energy_note(kinds),
        "energy_limit": _energy_limit(kinds),
        "hosts": _hosts(found),
        "longest": _longest(found),
        "missing": ", ".join(f"`{task.name}`" for task in found.protocol.core_tasks() if task.name not in entered),
        "unrecorded": ", ".join(f"`{key}`" for key in grids.known(found)),
        "sentences": sentences(found),
        "published": data("published.toml")["result"][0],
        "references": [one["entry"] for one in references.values()],
        "cite": lambda key: f"({references[key]['short']})",
    }  # fmt: skip


def sentences(found: Findings) -> list[str]:
    """Returns the main results, one paragraph per domain."""
    paragraphs = []
    for domain in found.domains():
        parts = []
        for task in found.tasks(domain):
            best = found.best(task.name, [*_KINDS])
            learned = found.best(task.name, ["learned", "imitation"])
            if best is None:
                continue
            text = f"`{task.name}`: {best.label} {_score_words(best)}"
            if learned is None:
                text += ", nothing learned is recorded"
            elif learned is not best:
                text += f", best learned: {learned.label} {_score_words(learned)}"
            parts.append(text)
        if parts:
            paragraphs.append(f"**{get_domain(domain).title}**, highest normalised scores. {'; '.join(parts)}.")
    return paragraphs


def typeset(out: Path) -> str:
    """Runs LaTeX on ``report.tex``; returns why there is no PDF, or an empty string."""
    program = shutil.which("pdflatex")
    if program is None:
        return "pdflatex is not installed"
    environment = {**os.environ, "SOURCE_DATE_EPOCH": "0", "FORCE_SOURCE_DATE": "1"}
    command = [program, "-interaction=nonstopmode", "-halt-on-error", "report.tex"]
    for _ in range(2):  # the second run resolves the references of the first
        done = subprocess.run(command, cwd=out, env=environment, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            lines = [line for line in done.stdout.splitlines() if line.startswith("!")]
            return f"pdflatex failed: {lines[0] if lines else 'see report.log'}"
    for ending in ("aux", "log", "out"):
        (out / f"report.{ending}").unlink(missing_ok=True)
    return ""


def _write_figure(item: Placed, folder: Path) -> None:
    if isinstance(item, Picture):
        write_atomic(folder / f"{item.name}.png", item.png)
    elif isinstance(item, Plot):
        for chart in item.charts:
            # a dark page would hide the dark text of the chart without this white background
            svg = static_svg(chart)
            start = svg.index(b">", svg.index(b"<svg")) + 1
            write_atomic(folder / f"{chart.name}.svg", svg[:start] + _WHITE + svg[start:])
            write_atomic(folder / f"{chart.name}.pdf", chart.views[0].pdf)


def _score_words(row: Row) -> str:
    score = row.entry.score
    if score.value is None:
        return "no score"
    return f"{score.value:.3f}".replace("-", "−")


def _energy_note(kinds: Sequence[str]) -> str:
    if kinds == ["measured"]:
        return "Energy is measured with counters of the processor."
    if kinds == ["estimated"]:
        return "Energy is estimated from processor time with a model of the processor, and marked as such."
    return (
        "Energy is measured in some runs and estimated in others; each value is marked, and the two are never ranked "
        "together."
    )


def _energy_limit(kinds: Sequence[str]) -> str:
    if "estimated" not in kinds:
        return "Energy counters cover processors and memory, not the rest of a machine."
    return (
        "The recording machine has no energy counter: energy comes from a model of the processor. Ratios between "
        "baselines follow processor time; absolute values may be wrong by a factor."
    )


def _hosts(found: Findings) -> str:
    known = {
        f"{manifest.host.get('cpu_usable', manifest.host.get('cpu_count', '?'))} processors of "
        f"{manifest.host.get('cpu_model', 'an unnamed model')}"
        for row in found.rows for manifest in row.manifests()
    }  # fmt: skip
    return "; ".join(sorted(known))


def _longest(found: Findings) -> dict[str, str]:
    known = [(seconds, row) for row in found.rows if (seconds := row.number("train", "wall_clock")) is not None]
    if not known:
        return {"time": "no time", "label": "none was recorded", "task": "any task"}
    seconds, row = max(known, key=lambda pair: pair[0])
    scale = row_scale([seconds], "s")
    return {"time": f"{written(seconds, scale).text()} {scale.unit}", "label": row.label, "task": row.entry.task}


_KINDS = ("random", "scripted", "search", "pre-trained", "imitation", "learned", "language-model", "other")

if __name__ == "__main__":
    sys.exit(main())
