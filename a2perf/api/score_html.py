"""Scores as HTML for notebooks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from markupsafe import Markup

from a2perf.api.html import heading, listed, quiet, shown, view
from a2perf.api.score_text import MODE_NAMES, headlines
from a2perf.api.table_text import counted

_MOST_GROUPS = 40
_MOST_CONDITIONS = 20


def scores_html(document: Mapping[str, Any]) -> Markup:
    """Returns one table per mode with a row per group, and the conditions of the runs."""
    groups = document["groups"]
    parts = []
    for mode in ("inference", "generalization", "train"):
        held = [group for group in groups if group["mode"] == mode]
        if held:
            parts.append(_mode_table(mode, held))
    found = [f"{run['run']}: {condition}" for run in document["runs"] for condition in run["conditions"]]
    for group in groups:
        found += [f"{group['algorithm']} on {group['task'] or group['domain']}: {text}" for text in group["conditions"]]
    if found:
        parts += [heading("Conditions"), listed(found[:_MOST_CONDITIONS])]
    if len(found) > _MOST_CONDITIONS:
        parts.append(quiet(f"{len(found) - _MOST_CONDITIONS} more in .document"))
    counts = f"{counted(len(document['runs']), 'run')}, {counted(len(groups), 'group')}"
    remarks = f"Mean ± standard deviation over runs; 95 % intervals in brackets; ≈ estimated by a model. {counts}; "
    parts.append(quiet(f"{remarks}profile {document['profile']}, rules {document['rules']}."))
    return view(*parts)


def _mode_table(mode: str, groups: list[Mapping[str, Any]]) -> Markup:
    rows = [{title: (number, remark) for title, number, remark in headlines(group)} for group in groups]
    titles = list(dict.fromkeys(title for row in rows for title in row))
    remarks = {title: next(row[title][1] for row in rows if title in row) for title in titles}
    head = Markup("").join(
        Markup('<th scope="col" class="n" title="{}">{}</th>').format(remarks[title], title) for title in titles
    )
    body = Markup("").join(
        _row(group, row, titles) for group, row in list(zip(groups, rows, strict=True))[:_MOST_GROUPS]
    )
    more = quiet(f"… {len(groups) - _MOST_GROUPS} more groups") if len(groups) > _MOST_GROUPS else Markup("")
    return Markup(
        '<table><caption>{}</caption><thead><tr><th scope="col">Algorithm</th><th scope="col">Task</th>'
        '<th scope="col" class="n">Runs</th>{}</tr></thead><tbody>{}</tbody></table>{}'
    ).format(MODE_NAMES[mode].capitalize(), head, body, more)


def _row(group: Mapping[str, Any], row: Mapping[str, tuple[str, str]], titles: list[str]) -> Markup:
    cells = Markup("").join(Markup('<td class="n">{}</td>').format(row.get(title, ("–", ""))[0]) for title in titles)
    return Markup('<tr><th scope="row">{}</th><td>{}</td><td class="n">{}</td>{}</tr>').format(
        shown(group["algorithm"]), shown(group["task"] or group["domain"] or "–"), len(group["runs"]), cells
    )
