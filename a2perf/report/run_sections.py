"""The section of each run: its numbers, phases, charts, pictures, record, and why it failed."""

from __future__ import annotations

import base64
import dataclasses
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import PurePosixPath

import msgspec
import numpy as np

from a2perf.domains import task_title, video
from a2perf.domains.registry import all_environments, load_attribute
from a2perf.errors import MissingDependency
from a2perf.metrics.application import generalization, returns
from a2perf.metrics.latency import latency_round_trip_mean, latency_round_trip_p99
from a2perf.metrics.system import energy_gross, memory_pss_peak, memory_rss_peak, wall_clock
from a2perf.metrics.values import Profile
from a2perf.plain_text import plain_text
from a2perf.report import provenance
from a2perf.report.figures.drawing import Chart
from a2perf.report.figures.run_charts import charts_of
from a2perf.report.names import submission_title
from a2perf.report.numbers_text import counted, rounded_text
from a2perf.report.run_numbers import Measure, find, measures
from a2perf.report.tables import MISSING, Cell, Column, Quantity, Table, Text, text_table
from a2perf.runs.bundles import layout
from a2perf.runs.run import Run
from a2perf.runs.tracking_record import COMPONENTS, CONTRIBUTIONS, recorded

MAX_MEDIA_BYTES = 4 * 2**20
MAX_MEDIA = 4
MAX_PICTURES = 64
RUN_PAGES = "run_pages"
"""Folder of the pages of runs in a large report."""
Names = Callable[..., str]


@dataclasses.dataclass(frozen=True)
class Picture:
    """A picture or film inside the page.

    Attributes:
        kind: ``"image"`` or ``"video"``.
        uri: the data URI; empty if the file is too large for the page, which ``caption`` then states.
    """

    kind: str
    uri: str
    alt: str
    caption: str


@dataclasses.dataclass(frozen=True)
class RunSection:
    """One run in the report.

    Attributes:
        href: link from the first page of the report to this section.
    """

    anchor: str
    href: str
    run: Run
    title: str
    state: str
    state_text: str
    measures: list[Measure]
    numbers: Table
    phases: Table | None
    uncertainties: Table | None
    endings: list[str]
    charts: list[Chart]
    pictures: list[Picture]
    record: Table
    conditions: list[str]
    failure_lines: list[tuple[str, str]]
    failure_text: str


@dataclasses.dataclass(frozen=True)
class RootSection:
    """The runs of one run root: one submission on one task with one seed."""

    anchor: str
    label: str
    title: str
    subtitle: str
    runs: list[RunSection]


def root_section(label: str, runs: list[Run], new_name: Names, profile: Profile, own_charts: bool) -> RootSection:
    """Returns the section of a run root."""
    manifest = next((run.manifest for run in runs if run.manifest is not None), None)
    if manifest is None:
        identity = runs[0].identity
        unreadable = runs[0].state == "unreadable"
        title = label if unreadable else runs[0].algorithm
        subtitle = "no manifest could be read" if unreadable else f"{runs[0].folder.layout} · folder {label}"
        if identity.seed is not None:
            subtitle += f" · seed {identity.seed}"
    else:
        title = submission_title(manifest.submission.name, runs[0].info)
        if manifest.task:
            title += f" on {task_title(manifest.domain, manifest.task)}"
        where = manifest.env_id or manifest.domain
        subtitle = f"{where} · task {manifest.task} · seed {manifest.root_seed} · folder {label}"
    anchor = new_name(label)
    page = "" if own_charts else f"{RUN_PAGES}/{anchor}.html"
    sections = [_run_section(run, new_name, profile, page) for run in runs]
    return RootSection(anchor, label, plain_text(title), plain_text(subtitle), sections)


def _run_section(run: Run, new_name: Names, profile: Profile, page: str) -> RunSection:
    anchor = new_name(run.root, run.mode)
    found = measures(run, profile)
    failed = None if run.manifest is None else run.manifest.failure
    failure_lines, failure_text = provenance.failure(run)
    return RunSection(
        anchor=anchor,
        href=f"{page}#{anchor}",
        run=run,
        title=(run.mode or run.folder.layout).capitalize(),
        state=run.state,
        state_text=f"{run.state}: {failed.kind.value}" if failed is not None else run.state,
        measures=found,
        numbers=_numbers_table(found),
        phases=_phases_table(run),
        uncertainties=uncertainty_table(run),
        endings=_endings(run),
        charts=[] if page else charts_of(anchor, run),
        pictures=_pictures(run, 1 if page else MAX_MEDIA, draws=not page),
        record=provenance.record_table(run),
        conditions=provenance.conditions(run),
        failure_lines=failure_lines,
        failure_text=failure_text,
    )


def run_table(runs: Sequence[RunSection]) -> Table:
    """Returns the table of all runs, one row each."""
    costs = ("Latency", "Energy", memory_rss_peak.title, wall_clock.title)
    heads = ("Run", "State", "Environment", "Return", "Length", *costs)
    return text_table("All runs", heads, map(_summary_row, runs), texts=3, kind="cards")


def _summary_row(section_of: RunSection) -> tuple[Cell, ...]:
    run, found = section_of.run, section_of.measures
    identity = run.identity
    where = Text(text="–")
    if run.manifest is not None:
        where = Text(
            text=plain_text(run.manifest.env_id or run.manifest.domain),
            detail=plain_text(f"{run.manifest.task} · seed {run.manifest.root_seed}"),
        )
    elif identity.task:
        seed = "" if identity.seed is None else f" · seed {identity.seed}"
        where = Text(text=plain_text(identity.task), detail=plain_text(f"{identity.domain}{seed}"))
    name = run.root if run.state == "unreadable" else run.algorithm
    several = run.mode == "generalization"
    return (
        Text(text=name, detail=run.mode or run.folder.layout, href=section_of.href),
        Text(text=section_of.state_text, state=section_of.state),
        where,
        _number(found, (generalization if several else returns).name),
        Quantity(value=None) if several else _number(found, "episode_length"),
        _number(found, latency_round_trip_mean.name, "p99", latency_round_trip_p99.name),
        _number(found, energy_gross.name),
        _number(found, memory_rss_peak.name, "PSS", memory_pss_peak.name),
        _number(found, wall_clock.name),
    )


def _number(found: list[Measure], name: str, label: str = "", beside: str = "") -> Quantity:
    """Returns a number without its note, and another one beside it."""
    quantity, other = find(found, name) or Quantity(value=None), find(found, beside)
    text = "" if other is None or other.value is None else f"{label} {rounded_text(other.value, other.unit)}"
    return msgspec.structs.replace(quantity, note=None, beside=text)


def _numbers_table(found: Sequence[Measure]) -> Table:
    rows = [
        (
            measure.label if measure.task is None else f"{measure.label}, {plain_text(measure.task)}",
            msgspec.structs.replace(of, note=None),
            of.provenance or MISSING,
            plain_text("; ".join(filter(None, (of.method, of.spread_kind, of.note))) or MISSING),
        )
        for measure in found
        for of in [measure.quantity]
    ]
    heads = ("Measure", Column(key="value", title="Value", align="right"), "Provenance", "Method")
    return text_table("Every number", heads, rows, texts=4)


def _phases_table(run: Run) -> Table | None:
    rows: list[tuple[Cell | str, ...]] = []
    for task, report in (run.tracking_by_task or {"": run.tracking}).items():
        quality = report.energy.quality
        kind = None if quality in ("", "none") else "measured" if quality == "measured" else "estimated"
        for phase, cost in report.phases.items():
            if phase == "end":
                continue
            rows.append(
                (
                    plain_text(f"{task}: {phase}" if task else phase),
                    Quantity(value=recorded(cost.wall_s), unit="s", provenance="measured"),
                    Quantity(value=recorded(cost.cpu_seconds), unit="s", provenance="measured"),
                    Quantity(value=recorded(cost.energy_gross_kwh) if kind else None, unit="kWh", provenance=kind),
                    Quantity(value=recorded(cost.rss_peak_bytes), unit="bytes", provenance="measured"),
                )
            )
    if not rows:
        return None
    heads = ("Phase", "Wall clock", "CPU time", "Energy, gross", "Peak RSS")
    return text_table("Cost of each phase", heads, rows)


def uncertainty_table(run: Run) -> Table | None:
    """Returns energies with the contributions to their uncertainty; None if no uncertainty was recorded."""
    rows: list[tuple[Cell | str, ...]] = []
    for task, report in (run.tracking_by_task or {"": run.tracking}).items():
        energy = report.energy
        for name, part in (("total", energy), *((part, getattr(energy, part)) for part in COMPONENTS)):
            if part.quality in ("", "none"):
                continue
            for kind in ("gross", "net"):
                unsure = getattr(part, f"{kind}_uncertainty")
                expanded = recorded(unsure.expanded_kwh)
                if expanded is None:
                    continue
                label = f"{name if name == 'total' else name.upper()}, {kind}"
                value = recorded(getattr(part, f"{kind}_kwh"))
                own = "measured" if part.quality == "measured" else "estimated"
                rows.append(
                    (
                        plain_text(f"{task}: {label}" if task else label),
                        Quantity(value=value, spread=expanded, unit="kWh", provenance=own),
                        *(Quantity(value=recorded(getattr(unsure, cause)), unit="kWh") for cause in CONTRIBUTIONS),
                    )
                )
    if not rows:
        return None
    causes = (name.removesuffix("_kwh").capitalize() for name in CONTRIBUTIONS)
    heads = ("Energy", "Value ± U (k = 2)", *causes)
    return text_table("Uncertainty of energy; contributions are standard uncertainties", heads, rows)


def _endings(run: Run) -> list[str]:
    """Returns one sentence per task on how its episodes ended."""
    lines = []
    for task, episodes in run.episodes.items():
        ways = Counter(
            plain_text(episode.termination.replace("_", " "))
            if episode.termination
            else "time limit"
            if episode.truncated
            else "the task's end"
            for episode in episodes
        )
        if ways:
            ordered = sorted(ways.items(), key=lambda item: (-item[1], item[0]))
            listed = ", ".join(f"{count} by {way}" for way, count in ordered)
            where = f" on {plain_text(task)}" if len(run.episodes) > 1 else ""
            lines.append(f"{counted(len(episodes), 'episode')}{where} ended: {listed}.")
    return lines


def _pictures(run: Run, most: int, *, draws: bool) -> list[Picture]:
    """Returns pictures and films; ``draws``: also pictures of recorded states, which takes half a second."""
    found = []
    for media in run.details.media[:most]:
        path = PurePosixPath(media.name)
        episode = path.stem.replace("_", " ")
        if media.size > MAX_MEDIA_BYTES:
            caption = f"{path.name} is larger than {MAX_MEDIA_BYTES // 2**20} MiB; it is only in the folder of the run"
            found.append(Picture("image", "", "", caption))
        elif path.suffix == ".mp4":
            uri = _data_uri(media.read(MAX_MEDIA_BYTES), "video/mp4")
            found.append(Picture("video", uri, f"Film of {episode}", episode))
        elif draws or path.suffix != layout.STATES:
            caption = f"{episode}: evenly spaced frames from left to right; scroll sideways for all"
            try:
                content = media.read(MAX_MEDIA_BYTES)
                strip = _drawn(run, content) if path.suffix == layout.STATES else content
                found.append(Picture("image", _data_uri(strip, "image/png"), f"Picture strip of {caption}", caption))
            except (ValueError, msgspec.DecodeError, MissingDependency) as error:
                found.append(Picture("image", "", "", plain_text(f"no picture of {episode}: {error}")))
    return found


def _drawn(run: Run, content: bytes) -> bytes:
    """Returns the picture strip of recorded states; a ``ValueError`` if no known environment has such states."""
    _, environment = all_environments().get((run.manifest and run.manifest.env_id) or "", (None, None))
    states = msgspec.json.decode(content, type=list[list[float]])
    if environment is None or environment.pictures is None or not 0 < len(states) <= MAX_PICTURES:
        raise ValueError("its states are not those of a known environment")
    return video.strip(load_attribute(environment.pictures)(np.array(states)))


def _data_uri(content: bytes, kind: str) -> str:
    return f"data:{kind};base64,{base64.b64encode(content).decode()}"
