"""What a report says, before any format: the summary, the sections by run, their tables, charts and pictures.

Pages and Markdown files are two renderings of the ``Report`` made here.
"""

from __future__ import annotations

import base64
import dataclasses
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import msgspec

from a2perf.records import Episode
from a2perf.report import provenance
from a2perf.report.drawing import Chart
from a2perf.report.experiment import Bundle, Experiment, plain_text
from a2perf.report.measures import Measure, find, measures, number, provenance_of, section
from a2perf.report.run_charts import charts_of, comparisons
from a2perf.report.tables import Cell, Column, Pair, Quantity, Table, Text

MAX_MEDIA_BYTES = 4 * 2**20
MAX_MEDIA = 4
STATE_WORDS = {
    "finished": "finished",
    "failed": "failed",
    "interrupted": "interrupted",
    "unfinished": "unfinished",
    "unreadable": "unreadable",
}


@dataclasses.dataclass(frozen=True)
class Picture:
    """A picture or film inside the page.

    Attributes:
        kind: ``"image"`` or ``"video"``.
        uri: the data URI; empty when the file is too large, ``caption`` then says so.
    """

    kind: str
    uri: str
    alt: str
    caption: str


@dataclasses.dataclass(frozen=True)
class RunSection:
    """One bundle in the report."""

    anchor: str
    bundle: Bundle
    title: str
    state: str
    state_words: str
    measures: list[Measure]
    numbers: Table
    phases: Table | None
    endings: list[str]
    charts: list[Chart]
    pictures: list[Picture]
    record: Table
    notes: list[str]
    failure_lines: list[tuple[str, str]]
    failure_text: str


@dataclasses.dataclass(frozen=True)
class RootSection:
    """The bundles of one run root: one submission on one task with one seed."""

    anchor: str
    label: str
    title: str
    subtitle: str
    runs: list[RunSection]


@dataclasses.dataclass(frozen=True)
class Report:
    """Everything a report says."""

    title: str
    lede: str
    summary: Table
    comparisons: list[Chart]
    roots: list[RootSection]

    def runs(self) -> list[RunSection]:
        """Returns the sections of all bundles in order."""
        return [run for root in self.roots for run in root.runs]

    def charts(self) -> list[Chart]:
        """Returns every chart in order."""
        return [*self.comparisons, *(chart for run in self.runs() for chart in run.charts)]


def make_report(experiment: Experiment, title: str | None = None) -> Report:
    """Turns an experiment into a report.

    Args:
        experiment: the runs.
        title: heading; made from the runs when not given.
    """
    names = _Names()
    roots = [_root_section(label, bundles, names) for label, bundles in experiment.roots().items()]
    runs = [run for root in roots for run in root.runs]
    return Report(
        title=plain_text(title) if title else _title(experiment),
        lede=_lede(experiment),
        summary=_summary_table(runs),
        comparisons=comparisons([run.bundle for run in runs], names.new),
        roots=roots,
    )


class _Names:
    """Gives out names that are safe in files and anchors, each once."""

    def __init__(self) -> None:
        self._given: set[str] = set()

    def new(self, *words: str) -> str:
        """Returns a new name made of the words."""
        base = re.sub(r"[^a-z0-9]+", "-", "-".join(words).lower()).strip("-")[:80] or "run"
        name, number = base, 1
        while name in self._given:
            number += 1
            name = f"{base}-{number}"
        self._given.add(name)
        return name


def _root_section(label: str, bundles: list[Bundle], names: _Names) -> RootSection:
    manifest = next((bundle.manifest for bundle in bundles if bundle.manifest is not None), None)
    if manifest is None:
        title, subtitle = label, "no manifest could be read"
    else:
        title = plain_text(manifest.submission.name)
        where = manifest.env_id or manifest.domain
        subtitle = f"{where} · task {manifest.task} · seed {manifest.root_seed} · folder {label}"
    runs = [_run_section(bundle, names) for bundle in bundles]
    return RootSection(names.new(label), label, title, subtitle, runs)


def _run_section(bundle: Bundle, names: _Names) -> RunSection:
    anchor = names.new(bundle.label, bundle.mode)
    found = measures(bundle)
    failure_lines, failure_text = provenance.failure(bundle)
    return RunSection(
        anchor=anchor,
        bundle=bundle,
        title=bundle.mode.capitalize(),
        state=bundle.state,
        state_words=_state_words(bundle),
        measures=found,
        numbers=_numbers_table(anchor, found),
        phases=_phases_table(anchor, bundle),
        endings=_endings(bundle),
        charts=charts_of(anchor, bundle),
        pictures=_pictures(bundle),
        record=provenance.record_table(anchor, bundle),
        notes=provenance.notes(bundle),
        failure_lines=failure_lines,
        failure_text=failure_text,
    )


def _state_words(bundle: Bundle) -> str:
    words = STATE_WORDS.get(bundle.state, bundle.state)
    if bundle.manifest is not None and bundle.manifest.failure is not None:
        words += f": {bundle.manifest.failure.kind.value}"
    return words


def _title(experiment: Experiment) -> str:
    names = sorted({bundle.manifest.submission.name for bundle in experiment.bundles if bundle.manifest is not None})
    if not names:
        return "a2perf report"
    return plain_text(", ".join(names) if len(names) <= 3 else f"{len(names)} submissions")


def _lede(experiment: Experiment) -> str:
    bundles = experiment.bundles
    manifests = [bundle.manifest for bundle in bundles if bundle.manifest is not None]
    submissions = len({manifest.submission.name for manifest in manifests})
    played = [results.env_id for bundle in bundles for results in bundle.rollouts.values()]
    environments = len({*played, *(manifest.env_id for manifest in manifests)} - {"", None})
    states = {state: sum(bundle.state == state for bundle in bundles) for state in STATE_WORDS}
    counted = ", ".join(f"{count} {STATE_WORDS[state]}" for state, count in states.items() if count)
    days = sorted({attempt.started_at[:10] for manifest in manifests for attempt in manifest.attempts})
    when = "" if not days else f" {days[0]}." if len(days) == 1 else f" {days[0]} to {days[-1]}."
    return (
        f"{_counted(len(bundles), 'run')} of {_counted(submissions, 'submission')} on "
        f"{_counted(environments, 'environment')}: {counted}.{when}"
    )


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def _summary_table(runs: Sequence[RunSection]) -> Table:
    columns = (
        Column(key="run", title="Run"),
        Column(key="state", title="State"),
        Column(key="environment", title="Environment"),
        Column(key="return", title="Return", align="right"),
        Column(key="episode_length", title="Length", align="right"),
        Column(key="latency", title="Latency", align="right"),
        Column(key="energy", title="Energy", align="right"),
        Column(key="memory_peak", title="Peak memory", align="right"),
        Column(key="wall_clock", title="Wall clock", align="right"),
    )
    rows = tuple(_summary_row(run) for run in runs)
    return Table(name="summary", caption="All runs", columns=columns, rows=rows, cards=True)


def _summary_row(run: RunSection) -> tuple[Cell, ...]:
    bundle, manifest = run.bundle, run.bundle.manifest
    name = bundle.label if manifest is None else plain_text(manifest.submission.name)
    where = Text(text="–")
    if manifest is not None:
        where = Text(text=manifest.env_id or manifest.domain, detail=f"{manifest.task} · seed {manifest.root_seed}")
    nothing = Quantity(value=None)
    overall = find(run.measures, "return_over_tasks")
    length = find(run.measures, "episode_length") if overall is None else None
    return (
        Text(text=name, detail=bundle.mode, href=f"#{run.anchor}"),
        Text(text=run.state_words, state=run.state),
        where,
        overall or find(run.measures, "return") or nothing,
        length or nothing,
        Pair(
            first=_bare(find(run.measures, "latency_infer_once_median") or nothing),
            second=find(run.measures, "latency_infer_once_p99") or nothing,
            labels=("median", "p99"),
        ),
        find(run.measures, "energy_gross") or nothing,
        Pair(
            first=_bare(find(run.measures, "memory_rss_peak") or nothing),
            second=find(run.measures, "memory_pss_peak") or nothing,
            labels=("RSS", "PSS"),
        ),
        find(run.measures, "wall_clock") or nothing,
    )


def _bare(quantity: Quantity) -> Quantity:
    """Leaves out the sample size and the note, where the cell's second line holds another quantity."""
    return msgspec.structs.replace(quantity, n=None, note=None)


def _numbers_table(anchor: str, found: Sequence[Measure]) -> Table:
    columns = (
        Column(key="measure", title="Measure"),
        Column(key="value", title="Value", align="right"),
        Column(key="provenance", title="Provenance"),
        Column(key="method", title="What it is"),
    )
    rows = tuple(
        (
            Text(text=measure.label if measure.task is None else f"{measure.label}, {measure.task}"),
            measure.quantity,
            Text(text=measure.quantity.provenance or "–"),
            Text(text="; ".join(w for w in (measure.quantity.method, measure.quantity.spread_kind) if w) or "–"),
        )
        for measure in found
    )
    return Table(name=f"{anchor}-numbers", caption="Every number", columns=columns, rows=rows)


def _phases_table(anchor: str, bundle: Bundle) -> Table | None:
    columns = (
        Column(key="phase", title="Phase"),
        Column(key="wall", title="Wall clock", align="right"),
        Column(key="cpu", title="CPU time", align="right"),
        Column(key="energy", title="Energy, gross", align="right"),
        Column(key="memory", title="Peak RSS", align="right"),
    )
    rows = []
    for task, report in bundle.tracking.items():
        kind = provenance_of(section(report, "energy").get("quality"))
        for phase, cost in section(report, "phases").items():
            if phase == "end" or not isinstance(cost, dict):
                continue
            rows.append((
                Text(text=f"{task}: {phase}" if task else phase),
                Quantity(value=number(cost, "wall_s"), unit="s", provenance="measured"),
                Quantity(value=number(cost, "cpu_seconds"), unit="s", provenance="measured"),
                Quantity(value=number(cost, "energy_gross_kwh") if kind else None, unit="kWh", provenance=kind),
                Quantity(value=number(cost, "rss_peak_bytes"), unit="bytes", provenance="measured"),
            ))  # fmt: skip
    if not rows:
        return None
    return Table(name=f"{anchor}-phases", caption="Cost of each phase", columns=columns, rows=tuple(rows))


def _endings(bundle: Bundle) -> list[str]:
    """Says how the episodes of each task ended."""
    lines = []
    for task, results in bundle.rollouts.items():
        ways = Counter(_ending(episode) for episode in results.episodes)
        if ways:
            ordered = sorted(ways.items(), key=lambda item: (-item[1], item[0]))
            words = ", ".join(f"{count} by {way}" for way, count in ordered)
            where = f" on {task}" if len(bundle.rollouts) > 1 else ""
            lines.append(f"{_counted(len(results.episodes), 'episode')}{where} ended: {words}.")
    return lines


def _ending(episode: Episode) -> str:
    if episode.termination:
        return plain_text(episode.termination.replace("_", " "))
    return "time limit" if episode.truncated else "the task's end"


def _pictures(bundle: Bundle) -> list[Picture]:
    found = []
    for path in bundle.media[:MAX_MEDIA]:
        episode = path.stem.replace("_", " ")
        if path.stat().st_size > MAX_MEDIA_BYTES:
            words = f"{path.name} is larger than {MAX_MEDIA_BYTES // 2**20} MiB and stays in the run's folder"
            found.append(Picture("image", "", "", words))
        elif path.suffix == ".png":
            caption = f"{episode}: evenly spaced frames, from left to right"
            found.append(Picture("image", _data_uri(path, "image/png"), f"Picture strip of {caption}", caption))
        else:
            found.append(Picture("video", _data_uri(path, "video/mp4"), f"Film of {episode}", episode))
    return found


def _data_uri(path: Path, kind: str) -> str:
    return f"data:{kind};base64,{base64.b64encode(path.read_bytes()).decode()}"
