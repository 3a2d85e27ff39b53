"""What random kills must not do: lose something, count it twice, leave something over, or change a result."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from a2perf.launch.conductor import QUEUE_FILE
from a2perf.launch.queue import Queue
from a2perf.launch.queue_entry import State
from a2perf.runs.bundles.bundle import validate
from tests.launch import remains
from tests.launch.kill_forms import Form, bundles, result_of

LAUNCHER, EVALUATOR, GUARD, SANDBOX, WORKER, CHILD = "launcher", "evaluator", "guard", "bwrap", "worker", "child"
VICTIMS = (LAUNCHER, EVALUATOR, GUARD, SANDBOX, WORKER, CHILD)
PARTICIPANT = {GUARD, SANDBOX, WORKER}
"""Victims that belong to the participant: the evaluator must count their death as its failure."""

Attempt = tuple[int, str]


def kind_of(process: psutil.Process, root: int) -> str:
    """Returns the part of a run that a process belongs to."""
    words = process.cmdline()
    line = " ".join(words)
    if process.pid == root:
        return LAUNCHER
    if words and Path(words[0]).name == "bwrap":
        return SANDBOX
    if "guard.main" in line:
        return GUARD
    if "a2perf.submission.participant.worker" in line:
        return WORKER
    return EVALUATOR if "a2perf.submission.main_submission" in line else CHILD


def members(root: int) -> list[tuple[psutil.Process, str]]:
    """Returns the living processes of a command's tree with their kinds."""
    found = []
    try:
        top = psutil.Process(root)
        tree = [top, *top.children(recursive=True)]
    except psutil.Error:
        return []
    for process in tree:
        try:
            if process.status() != psutil.STATUS_ZOMBIE:
                found.append((process, kind_of(process, root)))
        except psutil.Error:
            continue
    return found


@dataclass
class Ledger:
    """What was seen in a round after each of its commands, to be found again at its end.

    Attributes:
        place: folder of the round.
        form: its command.
        processes: every process that was seen in one of its trees.
        attempts: by bundle the attempts that some manifest listed.
        journals: contents of journals in which a command had left whole lines, by bundle.
    """

    place: Path
    form: Form
    processes: set[psutil.Process] = field(default_factory=set)
    attempts: dict[str, set[Attempt]] = field(default_factory=dict)
    journals: dict[str, set[bytes]] = field(default_factory=dict)

    def note(self) -> None:
        """Reads the bundles as they are now."""
        for name, bundle in bundles(self.place / self.form.root).items():
            self.attempts.setdefault(name, set()).update(_attempts(_manifest(bundle)))
            journal = bundle / "journal.jsonl"
            content = journal.read_bytes() if journal.exists() else b""
            if whole := content[: content.rfind(b"\n") + 1]:
                self.journals.setdefault(name, set()).add(whole)


@dataclass
class Findings:
    """What is wrong with a round, in four classes, and how many of its runs were resumed."""

    lost: list[str] = field(default_factory=list)
    twice: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    resumed: int = 0

    def lines(self) -> list[str]:
        """Returns each finding with its class."""
        named = (("lost", self.lost), ("twice", self.twice), ("left over", self.left), ("wrong", self.wrong))
        return [f"{name}: {text}" for name, texts in named for text in texts]


def check_results(ledger: Ledger, reference: dict[str, Any], findings: Findings, *, may_fail: bool) -> None:
    """Compares a round with the undisturbed reference.

    Args:
        ledger: what was seen.
        reference: results of the same command that nobody killed.
        findings: gets what is wrong.
        may_fail: the participant was killed and the command has no flag to repeat its failures: such a run, and what
            needed it, may be missing.
    """
    root = ledger.place / ledger.form.root
    found = bundles(root)
    failed = {name for name, bundle in found.items() if may_fail and _killed_participant(_manifest(bundle))}
    needed = {f"{Path(name).parent}/inference" for name in failed if name.endswith("/train")}
    findings.lost += [f"{name}: no bundle" for name in reference if name not in found and name not in needed]
    findings.wrong += [f"{name}: not in the reference" for name in found if name not in reference]
    for name, bundle in found.items():
        manifest = _manifest(bundle)
        if name not in failed:
            findings.wrong += [f"{name}: {problem}" for problem in validate(bundle)]
            if (result := result_of(bundle)) != reference.get(name):
                findings.wrong.append(f"{name}: {_difference(result, reference.get(name) or {})}")
        _check_episodes(name, bundle, reference, findings, complete=name not in failed)
        _check_attempts(name, bundle, ledger, findings)
        _check_journals(name, bundle, ledger, findings)
        findings.resumed += sum(attempt["archived"] is None for attempt in manifest["attempts"]) > 1
    if (root / QUEUE_FILE).exists():
        _check_queue(root / QUEUE_FILE, findings, may_fail=may_fail)


def leftovers(ledger: Ledger) -> list[str]:
    """Returns what is left of a round beside its results."""
    pids = {process.pid for process in ledger.processes}
    pids |= {pid for attempts in ledger.attempts.values() for pid, _ in attempts}
    return remains.leftovers(ledger.place, ledger.processes, pids)


def _check_episodes(name: str, bundle: Path, reference: dict[str, Any], findings: Findings, *, complete: bool) -> None:
    path = bundle / "journal.jsonl"
    lines = path.read_text().splitlines() if path.exists() else []
    entries = [json.loads(line) for line in lines]
    counts = Counter(entry["episode"]["index"] for entry in entries if entry["kind"] == "episode")
    findings.twice += [f"{name}: episode {index} {count} times" for index, count in counts.items() if count > 1]
    if complete:
        expected = {episode[0] for episode in reference.get(name, {}).get("episodes", ())}
        findings.lost += [f"{name}: episode {index}" for index in sorted(expected - set(counts))]


def _check_attempts(name: str, bundle: Path, ledger: Ledger, findings: Findings) -> None:
    manifest = _manifest(bundle)
    listed = _attempts(manifest)
    seen = ledger.attempts.get(name, set())
    for archived in (bundle.parent / "attic").glob(f"{bundle.name}-*/manifest.json"):
        seen |= _attempts(_manifest(archived.parent))
    findings.lost += [f"{name}: attempt of process {pid} at {at}" for pid, at in sorted(seen - listed)]
    numbers = [attempt["number"] for attempt in manifest["attempts"]]
    if numbers != list(range(1, len(numbers) + 1)) or len(listed) != len(numbers):
        findings.twice.append(f"{name}: attempts {numbers}")
    findings.wrong += [
        f"{name}: attempt {attempt['number']} has no outcome"
        for attempt in manifest["attempts"]
        if not attempt["outcome"]
    ]


def _check_journals(name: str, bundle: Path, ledger: Ledger, findings: Findings) -> None:
    """A line that was written once stays to the byte: an episode that was recorded is not played again."""
    paths = [bundle / "journal.jsonl", *(bundle.parent / "attic").glob(f"{bundle.name}-*/journal.jsonl")]
    final = [path.read_bytes() for path in paths if path.exists()]
    for content in ledger.journals.get(name, ()):
        if not any(one.startswith(content) for one in final):
            findings.lost.append(f"{name}: {len(content.splitlines())} recorded lines changed or gone")


def _check_queue(path: Path, findings: Findings, *, may_fail: bool) -> None:
    with Queue(path) as queue:
        for entry in queue.entries():
            finished = sum(change["state"] == "finished" for change in queue.history(entry.key))
            if entry.state is not State.FINISHED and not (may_fail and entry.state is State.FAILED):
                findings.wrong.append(f"queue: {entry.key} is {entry.state.value}: {entry.reason}")
            if finished > 1:
                findings.twice.append(f"queue: {entry.key} finished {finished} times")


def _manifest(bundle: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((bundle / "manifest.json").read_text())
    return found


def _attempts(manifest: dict[str, Any]) -> set[Attempt]:
    return {(attempt["pid"], attempt["started_at"]) for attempt in manifest["attempts"]}


def _killed_participant(manifest: dict[str, Any]) -> bool:
    failure = manifest["failure"]
    return manifest["state"] == "failed" and failure is not None and failure["kind"] != "infrastructure"


def _difference(result: dict[str, Any], reference: dict[str, Any]) -> str:
    names = [name for name in {*result, *reference} if result.get(name) != reference.get(name)]
    return "; ".join(f"{name} {str(result.get(name))[:200]}, not {str(reference.get(name))[:200]}" for name in names)
