"""What a report says, before any format: settings with their tables and charts, then every run by itself.

The page, Markdown and LaTeX are renderings of the ``Report`` made here.
"""

from __future__ import annotations

import base64
import dataclasses
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import msgspec

from a2perf.metrics import registry
from a2perf.metrics.values import Profile
from a2perf.records import Episode
from a2perf.report import provenance
from a2perf.report.cohorts import Setting, settings_of
from a2perf.report.drawing import Chart
from a2perf.report.evidence import Run, by_root, plain_text
from a2perf.report.run_charts import charts_of
from a2perf.report.run_numbers import Measure, find, measures, number, section
from a2perf.report.score_tables import MODE_WORDS, ScoreTable, score_table
from a2perf.report.setting_charts import charts_of_setting
from a2perf.report.tables import Cell, Column, Pair, Quantity, Table, Text

MAX_MEDIA_BYTES = 4 * 2**20
MAX_MEDIA = 4
MAX_RUNS_WITH_CHARTS = 12
"""In a larger report runs are lines in the charts of their setting; their own charts would be too many to look at."""
STATES = ("finished", "failed", "interrupted", "unfinished", "unreadable", "recorded")


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
class Condition:
    """Something that a reader of the numbers should know.

    Attributes:
        where: what it is about: a run, or an algorithm in a setting.
        anchor: of that part of the page.
        words: the condition.
    """

    where: str
    anchor: str
    words: str


@dataclasses.dataclass(frozen=True)
class SettingSection:
    """One task with all algorithms that were run on it.

    Attributes:
        table: the rows that a paper prints.
        every_metric: all that was scored.
    """

    anchor: str
    setting: Setting
    table: ScoreTable
    every_metric: ScoreTable
    charts: list[Chart]


@dataclasses.dataclass(frozen=True)
class RunSection:
    """One run in the report."""

    anchor: str
    run: Run
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


@dataclasses.dataclass(frozen=True)
class Report:
    """Everything a report says.

    Attributes:
        profile: set of formulas; ``rules`` is their version.
        settings: what is compared.
        summary: all runs, a row each.
        sources: where the numbers come from, a row a cohort.
        conditions: of all runs and cohorts.
    """

    title: str
    lede: str
    profile: Profile
    settings: list[SettingSection]
    summary: Table
    sources: Table
    conditions: list[Condition]
    roots: list[RootSection]
    rules: int = registry.RULES

    def runs(self) -> list[RunSection]:
        """Returns the sections of all runs in order."""
        return [run for root in self.roots for run in root.runs]

    def charts(self) -> list[Chart]:
        """Returns every chart in order."""
        of_settings = [chart for setting in self.settings for chart in setting.charts]
        return [*of_settings, *(chart for run in self.runs() for chart in run.charts)]


def make_report(runs: Sequence[Run], title: str | None = None, profile: Profile = "corrected") -> Report:
    """Turns runs into a report.

    Args:
        runs: ordered by root.
        title: heading; made from the runs when not given.
        profile: set of formulas.
    """
    names = _Names()
    settings = [_setting_section(setting, profile, names) for setting in settings_of(runs, profile)]
    own_charts = len(runs) <= MAX_RUNS_WITH_CHARTS
    roots = [_root_section(label, held, names, profile, own_charts) for label, held in by_root(runs).items()]
    sections = [section for root in roots for section in root.runs]
    anchors = {section.run.key: section.anchor for section in sections}
    return Report(
        title=plain_text(title) if title else _title(runs),
        lede=_lede(runs),
        profile=profile,
        settings=settings,
        summary=_summary_table(sections),
        sources=provenance.sources_table([section.setting for section in settings], anchors),
        conditions=_all_conditions(settings, sections),
        roots=roots,
    )


class _Names:
    """Gives out names that are safe in files and anchors, each once."""

    def __init__(self) -> None:
        self._given: set[str] = set()

    def new(self, *words: str) -> str:
        """Returns a new name made of the words."""
        base = re.sub(r"[^a-z0-9]+", "-", "-".join(words).lower()).strip("-")[:80].strip("-") or "run"
        name, count = base, 1
        while name in self._given:
            count += 1
            name = f"{base}-{count}"
        self._given.add(name)
        return name


def _setting_section(setting: Setting, profile: Profile, names: _Names) -> SettingSection:
    anchor = names.new(setting.title)
    return SettingSection(
        anchor=anchor,
        setting=setting,
        table=score_table(setting, anchor, profile, headlines=True),
        every_metric=score_table(setting, f"{anchor}-all", profile),
        charts=charts_of_setting(setting, names.new),
    )


def _all_conditions(settings: Sequence[SettingSection], sections: Sequence[RunSection]) -> list[Condition]:
    found = []
    for section_of in settings:
        for cohort in section_of.setting.cohorts:
            where = f"{cohort.algorithm}, {MODE_WORDS[cohort.mode]} on {section_of.setting.title}"
            found += [Condition(where, section_of.anchor, words) for words in cohort.conditions]
            lost = {
                name: value for name, value in cohort.scores.items() if (value.condition or "").startswith("failed")
            }
            found += [Condition(where, section_of.anchor, f"{name} {v.condition}") for name, v in lost.items()]
            noted = [note for value in cohort.scores.values() for note in value.notes if _is_warning(note)]
            found += [Condition(where, section_of.anchor, words) for words in dict.fromkeys(noted)]
    for run in sections:
        found += [Condition(run.run.key, run.anchor, words) for words in run.conditions]
    for point, words in registry.problems().items():
        found.append(Condition(f"metric package {point}", "", words))
    return found


def _is_warning(note: str) -> bool:
    """Says whether a metric's note is about data that were left out or cannot be ranked, not about how it is made."""
    return any(words in note for words in ("left out", "not finite", "MIXED", "went back", "did not record"))


def _root_section(label: str, runs: list[Run], names: _Names, profile: Profile, own_charts: bool) -> RootSection:
    manifest = next((run.manifest for run in runs if run.manifest is not None), None)
    if manifest is None:
        identity = runs[0].recorded.identity
        unreadable = runs[0].state == "unreadable"
        title = label if unreadable else runs[0].algorithm
        subtitle = "no manifest could be read" if unreadable else f"{runs[0].folder.layout} · folder {label}"
        if identity.seed is not None:
            subtitle += f" · seed {identity.seed}"
    else:
        title = plain_text(manifest.submission.name)
        where = manifest.env_id or manifest.domain
        subtitle = f"{where} · task {manifest.task} · seed {manifest.root_seed} · folder {label}"
    sections = [_run_section(run, names, profile, own_charts) for run in runs]
    return RootSection(names.new(label), label, title, plain_text(subtitle), sections)


def _run_section(run: Run, names: _Names, profile: Profile, own_charts: bool) -> RunSection:
    anchor = names.new(run.root, run.mode)
    found = measures(run, profile)
    failure_lines, failure_text = provenance.failure(run)
    return RunSection(
        anchor=anchor,
        run=run,
        title=(run.mode or run.folder.layout).capitalize(),
        state=run.state,
        state_words=_state_words(run),
        measures=found,
        numbers=_numbers_table(anchor, found),
        phases=_phases_table(anchor, run),
        endings=_endings(run),
        charts=charts_of(anchor, run) if own_charts else [],
        pictures=_pictures(run, MAX_MEDIA if own_charts else 1),
        record=provenance.record_table(anchor, run),
        conditions=provenance.conditions(run),
        failure_lines=failure_lines,
        failure_text=failure_text,
    )


def _state_words(run: Run) -> str:
    if run.manifest is not None and run.manifest.failure is not None:
        return f"{run.state}: {run.manifest.failure.kind.value}"
    return run.state


def _title(runs: Sequence[Run]) -> str:
    names = sorted({run.algorithm for run in runs if run.state != "unreadable"} - {""})
    if not names:
        return "a2perf report"
    return ", ".join(names) if len(names) <= 3 else f"{len(names)} submissions"


def _lede(runs: Sequence[Run]) -> str:
    manifests = [run.manifest for run in runs if run.manifest is not None]
    submissions = len({run.algorithm for run in runs if run.state != "unreadable"})
    environments = len({manifest.env_id for manifest in manifests} - {"", None})
    if not environments:
        environments = len({(run.recorded.identity.domain, run.recorded.identity.task) for run in runs})
    counts = Counter(run.state for run in runs)
    counted = ", ".join(f"{counts[state]} {state}" for state in STATES if counts[state])
    days = sorted({attempt.started_at[:10] for manifest in manifests for attempt in manifest.attempts} - {""})
    when = "" if not days else f" {days[0]}." if len(days) == 1 else f" {days[0]} to {days[-1]}."
    return (
        f"{_counted(len(runs), 'run')} of {_counted(submissions, 'submission')} on "
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


def _summary_row(section_of: RunSection) -> tuple[Cell, ...]:
    run, found = section_of.run, section_of.measures
    identity = run.recorded.identity
    where = Text(text="–")
    if run.manifest is not None:
        where = Text(
            text=plain_text(run.manifest.env_id or run.manifest.domain),
            detail=plain_text(f"{run.manifest.task} · seed {run.manifest.root_seed}"),
        )
    elif identity.task:
        seed = "" if identity.seed is None else f" · seed {identity.seed}"
        where = Text(text=plain_text(identity.task), detail=plain_text(f"{identity.domain}{seed}"))
    nothing = Quantity(value=None)
    name = run.root if run.state == "unreadable" else run.algorithm
    several = run.mode == "generalization"
    return (
        Text(text=name, detail=run.mode or run.folder.layout, href=f"#{section_of.anchor}"),
        Text(text=section_of.state_words, state=section_of.state),
        where,
        _bare(find(found, "generalization" if several else "returns") or nothing, keep_n=True),
        (None if several else find(found, "episode_length")) or nothing,
        Pair(
            first=_bare(find(found, "latency_infer_once_median") or nothing),
            second=_bare(find(found, "latency_infer_once_p99") or nothing),
            labels=("median", "p99"),
        ),
        _bare(find(found, "energy_gross") or nothing),
        Pair(
            first=_bare(find(found, "memory_rss_peak") or nothing),
            second=_bare(find(found, "memory_pss_peak") or nothing),
            labels=("RSS", "PSS"),
        ),
        _bare(find(found, "wall_clock") or nothing),
    )


def _bare(quantity: Quantity, *, keep_n: bool = False) -> Quantity:
    """Leaves out the note, and the sample size where the cell's second line holds another quantity."""
    return msgspec.structs.replace(quantity, n=quantity.n if keep_n else None, note=None)


def _numbers_table(anchor: str, found: Sequence[Measure]) -> Table:
    columns = (
        Column(key="measure", title="Measure"),
        Column(key="value", title="Value", align="right"),
        Column(key="provenance", title="Provenance"),
        Column(key="method", title="What it is"),
    )
    rows = tuple(
        (
            Text(text=measure.label if measure.task is None else f"{measure.label}, {plain_text(measure.task)}"),
            msgspec.structs.replace(measure.quantity, note=None),
            Text(text=measure.quantity.provenance or "–"),
            Text(text=_what_it_is(measure.quantity)),
        )
        for measure in found
    )
    return Table(name=f"{anchor}-numbers", caption="Every number", columns=columns, rows=rows)


def _what_it_is(quantity: Quantity) -> str:
    return plain_text("; ".join(w for w in (quantity.method, quantity.spread_kind, quantity.note) if w) or "–")


def _phases_table(anchor: str, run: Run) -> Table | None:
    columns = (
        Column(key="phase", title="Phase"),
        Column(key="wall", title="Wall clock", align="right"),
        Column(key="cpu", title="CPU time", align="right"),
        Column(key="energy", title="Energy, gross", align="right"),
        Column(key="memory", title="Peak RSS", align="right"),
    )
    rows = []
    for task, report in (run.recorded.tracking_by_task or {"": run.recorded.tracking}).items():
        quality = str(section(report, "energy").get("quality") or "none")
        kind = None if quality == "none" else "measured" if quality == "measured" else "estimated"
        for phase, cost in section(report, "phases").items():
            if phase == "end" or not isinstance(cost, dict):
                continue
            rows.append((
                Text(text=plain_text(f"{task}: {phase}" if task else phase)),
                Quantity(value=number(cost, "wall_s"), unit="s", provenance="measured"),
                Quantity(value=number(cost, "cpu_seconds"), unit="s", provenance="measured"),
                Quantity(value=number(cost, "energy_gross_kwh") if kind else None, unit="kWh", provenance=kind),
                Quantity(value=number(cost, "rss_peak_bytes"), unit="bytes", provenance="measured"),
            ))  # fmt: skip
    if not rows:
        return None
    return Table(name=f"{anchor}-phases", caption="Cost of each phase", columns=columns, rows=tuple(rows))


def _endings(run: Run) -> list[str]:
    """Says how the episodes of each task ended."""
    lines = []
    for task, episodes in run.recorded.episodes.items():
        ways = Counter(_ending(episode) for episode in episodes)
        if ways:
            ordered = sorted(ways.items(), key=lambda item: (-item[1], item[0]))
            words = ", ".join(f"{count} by {way}" for way, count in ordered)
            where = f" on {plain_text(task)}" if len(run.recorded.episodes) > 1 else ""
            lines.append(f"{_counted(len(episodes), 'episode')}{where} ended: {words}.")
    return lines


def _ending(episode: Episode) -> str:
    if episode.termination:
        return plain_text(episode.termination.replace("_", " "))
    return "time limit" if episode.truncated else "the task's end"


def _pictures(run: Run, most: int) -> list[Picture]:
    found = []
    for path in run.media[:most]:
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
