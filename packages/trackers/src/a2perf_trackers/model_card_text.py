"""The text of a model card in Markdown: results, how to reproduce them, and conditions."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import PurePosixPath

from a2perf._version import PROJECT_URL
from a2perf.errors import command_line
from a2perf.metrics.scores import SeedGroup
from a2perf.plain_text import markdown_block, markdown_text, safe_link
from a2perf.report.content import Condition, conditions_of_setting, shared
from a2perf.report.markdown import LEGEND
from a2perf.report.names import submission_kind
from a2perf.report.numbers_text import counted
from a2perf.report.provenance import conditions, sources_table
from a2perf.report.score_tables import ScoreTable, score_table
from a2perf.report.tables import to_markdown
from a2perf.report.task_results import labels_of
from a2perf_trackers.description import describe, has_public_seeds
from a2perf_trackers.model_results import ModelResults

_LINE = 88


def model_card_text(results: ModelResults) -> str:
    """Returns the Markdown below the metadata of a card.

    Text of a submission is escaped for Markdown and HTML.
    """
    labels = labels_of(results.settings)
    tables = [
        score_table(setting, f"results-{place}", results.profile, labels, short=True)
        for place, setting in enumerate(results.settings)
    ]
    anchors = {run.key: "results" for run in results.runs}
    parts = [f"# {markdown_text(results.title)}", *_introduction(results), "## Results"]
    for table in tables:
        parts += [f"### {markdown_text(table.title)}", to_markdown(table.table())]
    parts.append(LEGEND)
    parts += ["## How to reproduce", *_commands(results), to_markdown(sources_table(results.settings, labels, anchors))]
    parts += ["## Conditions", _conditions(results, tables)]
    return "\n\n".join(part.rstrip("\n") for part in parts) + "\n"


def _introduction(results: ModelResults) -> Iterator[str]:
    runs = results.runs
    info = next((run.info for run in runs if run.info.title or run.info.summary), runs[0].info)
    if info.summary:
        yield markdown_text(info.summary)
    seeds = len({run.identity.seed for run in runs if run.identity.seed is not None})
    tasks = f"{counted(len(results.settings), 'task')} with {counted(seeds, 'seed')}"
    yield (
        f"Evaluated with [a2perf]({PROJECT_URL}): {counted(len(runs), 'run')} on {tasks}. "
        f"Formulas: profile {results.profile}."
    )
    facts = [
        ("Kind", submission_kind(info)),
        ("Authors", ", ".join(info.authors)),
        ("Framework", info.framework),
        ("SHA-256 of the submission", results.version),
    ]
    lines = [f"- {name}: {markdown_text(text)}" for name, text in facts if text]
    if info.link and (link := safe_link(info.link)) != "#":
        lines.append(f"- Code or paper: <{link.translate(_IN_LINK)}>")
    if lines:
        yield "\n".join(lines)


_IN_LINK = str.maketrans({"<": "%3C", ">": "%3E", " ": "%20", '"': "%22", "`": "%60"})
"""Characters that would end a link in angle brackets."""


def _commands(results: ModelResults) -> Iterator[str]:
    """Yields commands that repeat the runs, and a remark if they cannot repeat the episodes."""
    lines = [f"git clone {PROJECT_URL}", "pip install -e ./a2perf"]
    for setting in results.settings:
        lines += [line for group in setting.groups if (line := _command(group, setting.task))]
    yield markdown_block("\n".join(dict.fromkeys(lines)))
    if not all(run.manifest is None or has_public_seeds(run.manifest) for run in results.runs):
        yield "The seeds of the episodes are secret, so these commands evaluate on other episodes of the same tasks."


def _command(group: SeedGroup, task: str) -> str:
    run = group.runs[0]
    manifest = run.manifest
    if manifest is None:
        return ""
    gin = f"{_GIN[group.mode]}.gin"
    if manifest.configuration is not None:
        # --task finds packaged files by name; the folder of an organizer's file is that of a machine
        file = PurePosixPath(manifest.configuration.file)
        gin = str(file) if manifest.configuration.origin == "participant" else file.name
    seeds = [str(seed) for seed in group.seeds if seed is not None]
    words = ["a2perf", "run", "--submission", manifest.submission.name, "--gin-config", gin]
    words += ["--task", task] if task else ["--domain", manifest.domain]
    words += ["--seeds", *seeds] if len(seeds) > 1 else ["--seed", *seeds]
    # the description replaces values of arguments with names of secrets
    given = {
        name.removeprefix("arg."): value
        for name, value in describe(run, trace=False).params.items()
        if name.startswith("arg.")
    }
    if given:
        words += ["--participant-args", ",".join(f"{name}={value}" for name, value in given.items())]
    return _wrapped(words)


def _wrapped(words: list[str]) -> str:
    """Returns a command line; a long one has a line for each option."""
    line = command_line(*words)
    if len(line) <= _LINE:
        return line
    # each word is quoted by itself, so a break never falls inside of one
    parts = [f" \\\n  {word}" if word.startswith("--") else f" {word}" for word in map(shlex.quote, words)]
    return "".join(parts).lstrip()


_GIN = {"train": "training", "inference": "inference", "generalization": "generalization"}


def _conditions(results: ModelResults, tables: list[ScoreTable]) -> str:
    labels = labels_of(results.settings)
    found: list[Condition] = []
    for setting, table in zip(results.settings, tables, strict=True):
        found += conditions_of_setting("", setting.title, setting.groups, labels, table)
    found += [Condition(run.key, "", text) for run in results.runs for text in conditions(run)]
    lines = []
    for text, places in shared(found).items():
        where = places[0][0] if len(places) == 1 else f"{len(places)} places, first {places[0][0]}"
        lines.append(f"- {markdown_text(text)} ({markdown_text(where)})")
    return "\n".join(lines) or "None: all files could be read completely."
