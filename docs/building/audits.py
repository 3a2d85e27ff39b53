"""The pages of the audits: one per task of the protocols, from ``results/audits.json``, and the list of them."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from a2perf.domains import task_title
from a2perf.domains.registry import Task
from a2perf.metrics import protocol as protocols
from docs.building.markdown import code, table

RECORDED = Path(__file__).resolve().parents[2] / "results" / "audits.json"
VERDICTS = ("holds", "fails", "not applicable")


def write(folder: Path) -> None:
    """Writes ``audits.md`` and ``audit_TASK.md`` per task of the protocols.

    Raises:
        KeyError: a task has no audit, or a check that fails no explanation in ``results/audits.toml``.
    """
    audits, reasons = read()
    rows, pages = [], []
    for version in protocols.versions():
        for task in protocols.load(version).tasks.values():
            if f"audit_{task.name}" in pages:
                continue
            audit, name = audits[task.name], f"audit_{task.name}"
            pages.append(name)
            (folder / f"{name}.md").write_text(page(audit, task.domain, task.env_id, reasons), encoding="utf-8")
            rows.append([f"[{task.name}]({name}.md)", *_counts(audit), ", ".join(map(_name, _failed(audit)))])
    text = (
        "# Audits\n\nEvery task of the protocols was attacked with policies that should not win, and checked for what "
        "a comparison relies on: [checks and limits](../packages/audit.md). A check that fails is explained on the "
        f"page of its task.\n\n{table(['task', *VERDICTS, 'checks that fail'], rows)}\n"
    )
    contents = "```{toctree}\n:hidden:\n\n" + "\n".join(pages) + "\n```\n"
    (folder / "audits.md").write_text(f"{text}\n{contents}", encoding="utf-8")


def read() -> tuple[dict[str, Any], dict[str, Any]]:
    """Returns the recorded audits, and the explanations of checks that fail, both by task."""
    audits = {one["subject"]: one for one in json.loads(RECORDED.read_text(encoding="utf-8"))}
    return audits, tomllib.loads(RECORDED.with_suffix(".toml").read_text(encoding="utf-8"))


def page(audit: Mapping[str, Any], domain: str, env_id: str, reasons: Mapping[str, Any]) -> str:
    """Returns the page of one task.

    Raises:
        KeyError: a check that fails has no explanation.
    """
    task = audit["subject"]
    holds, fails, rest = _counts(audit)
    text = [f"# Audit of {task_title(domain, task)}", ""]
    text += [
        f"{code(task)} is a task of [{env_id}]({env_id}.md). Of the [checks](../packages/audit.md), {holds} hold, "
        f"{fails} fail, {rest} do not apply. The expert is the one of the protocol; for circuits, annealing of ten "
        "seconds. Repeat it:\n"
    ]
    text += [f"```sh\n{audit['command']}\n```", ""]
    if failed := _failed(audit):
        text += ["## Checks that fail", "", *(f"* **{_name(check)}**: {reasons[task][check]}" for check in failed), ""]
    checks = [[_name(one["check"]), one["verdict"], one["question"], _evidence(one)] for one in audit["findings"]]
    text += ["## Checks", "", table(["check", "verdict", "question", "evidence"], checks)]
    means = [[name, f"{mean:.4g}", f"± {half:.2g}"] for name, mean, half in audit["returns"]]
    text += ["## Mean returns", "", table(["policy", "return", "95 % interval"], means)]
    return "\n".join(text)


def links(tasks: Iterable[Task]) -> str:
    """Returns links to the audits of tasks; "" if none was audited."""
    known = read()[0]
    found = [f"[{task.title or task.name}](audit_{task.name}.md)" for task in tasks if task.name in known]
    return f"Audits: {', '.join(found)}.\n" if found else ""


def _counts(audit: Mapping[str, Any]) -> list[str]:
    verdicts = [one["verdict"] for one in audit["findings"]]
    return [str(verdicts.count(verdict)) for verdict in VERDICTS]


def _failed(audit: Mapping[str, Any]) -> list[str]:
    return [one["check"] for one in audit["findings"] if one["verdict"] == "fails"]


def _evidence(finding: Mapping[str, Any]) -> str:
    return finding["evidence"] + ("" if finding["seed"] is None else f" (seed {finding['seed']})")


def _name(check: str) -> str:
    return check.replace("_", " ")
