"""Conducts a smoke test: every pair in processes of its own, phase by phase; one failure does not hide the others."""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from a2perf import submission as submission_package
from a2perf.errors import UserError
from a2perf.experiments.runners.smoke import PHASES_FILE
from a2perf.experiments.smoke_test.plan import PHASES, Pair
from a2perf.launch import Ended, Entry, Event, Outcome, Queue, Resources, RunCommand, State, drive, get_launcher
from a2perf.launch.scheduler import default_classify
from a2perf.records import Manifest, RunState
from a2perf.storage import read_record

_RUNNER = "a2perf.experiments.runners.smoke"
_TAIL_LINES = 12


@dataclass
class Phase:
    """What a phase came to.

    Attributes:
        result: ``"passed"``, ``"failed"``, ``"not possible"`` or ``"not run"``.
        reason: why, in words.
        seconds: how long it took.
    """

    result: str
    reason: str = ""
    seconds: float = 0.0


@dataclass
class PairOutcome:
    """What a pair came to.

    Attributes:
        pair: the pair.
        phases: by name, in order; empty when the pair is excluded.
        log: where its output is.
    """

    pair: Pair
    phases: dict[str, Phase] = field(default_factory=dict)
    log: Path | None = None

    @property
    def has_failed(self) -> bool:
        """Whether a phase failed."""
        return any(phase.result == "failed" for phase in self.phases.values())


def conduct(
    pairs: Sequence[Pair],
    folder: Path,
    *,
    steps: int = 200,
    n_jobs: int = 1,
    time_limit_s: float = 300.0,
    fail_fast: bool = False,
    say: Callable[[str], None] = print,
) -> list[PairOutcome]:
    """Tries every pair.

    Args:
        pairs: what to try; excluded ones are only reported.
        folder: gets a folder with models, videos and the log of each pair.
        steps: environment steps of a training.
        n_jobs: pairs at the same time.
        time_limit_s: wall time of a pair (of each command, for a submission).
        fail_fast: start nothing more after the first failure.
        say: prints a line for people.
    """
    folder = folder.absolute()
    outcomes = {pair.key: PairOutcome(pair, log=folder / pair.key / "output.log") for pair in pairs}
    entries = [entry for pair in pairs if not pair.excluded for entry in _entries(pair, folder, steps, time_limit_s)]
    remaining = {key: sum(entry.data["pair"] == key for entry in entries) for key in outcomes}
    failed = False

    def on_event(event: Event) -> None:
        nonlocal failed
        if event.entry is None or event.entry.state not in (State.FINISHED, State.FAILED):
            return
        key = str(event.entry.data["pair"])
        outcome = outcomes[key]
        _take(outcome, event, folder / key)
        remaining[key] -= 1
        if not remaining[key]:
            failed |= outcome.has_failed
            say(f"  {_told(outcome)}")

    launcher = get_launcher("local")
    with (
        tempfile.TemporaryDirectory(prefix="a2perf-smoke-") as temporary,
        Queue(Path(temporary) / "queue.sqlite") as queue,
    ):
        queue.add(entries)
        drive(queue, launcher, n_jobs, classify=_classify, on_event=on_event, stop=lambda: fail_fast and failed)
        launcher.close()
    for outcome in outcomes.values():
        if not outcome.pair.excluded:
            outcome.phases = {name: outcome.phases.get(name, Phase("not run")) for name in PHASES}
    return list(outcomes.values())


def _entries(pair: Pair, folder: Path, steps: int, time_limit_s: float) -> list[Entry]:
    place = folder / pair.key
    place.mkdir(parents=True, exist_ok=True)
    (place / PHASES_FILE).unlink(missing_ok=True)

    def command(*argv: str) -> RunCommand:
        return RunCommand(
            (sys.executable, "-P", "-m", *argv), name=pair.key, log=place / "output.log",
            resources=Resources(wall_s=time_limit_s), env={"OMP_NUM_THREADS": "1"},
        )  # fmt: skip

    if pair.submission is None:
        words = ("--algorithm", pair.what, "--env-id", pair.env, "--folder", str(place), "--steps", str(steps))
        return [Entry(pair.key, command(_RUNNER, *words), {"pair": pair.key, "phases": list(PHASES)})]
    entries: list[Entry] = []
    common = ("--submission", str(pair.submission), "--root-dir", str(place / "run"), "--task", pair.env,
              "--domain", pair.domain, "--force")  # fmt: skip
    plans: list[tuple[tuple[str, ...], list[str]]] = [
        (("a2perf", "check", str(pair.submission), "--env-id", pair.env_id, "--train-limit", "5"), ["construct"]),
        (("a2perf", "run", *common, "--gin-config", "training.gin",
          "--gin-bindings", f"Submission.train_time_limit_s = {min(20.0, time_limit_s / 2)}"), ["train"]),
        (("a2perf", "run", *common, "--gin-config", _inference_config(pair),
          "--gin-bindings", "Submission.num_inference_steps = 10",
          "--gin-bindings", "Submission.num_inference_episodes = 1",
          "--gin-bindings", "Submission.record_videos = 1"), ["record", "reload"]),
    ]  # fmt: skip
    for argv, phases in plans:
        after = entries[-1].key if entries else None
        key = f"{pair.key}:{phases[0]}"
        entries.append(Entry(key, command(*argv), {"pair": pair.key, "phases": phases}, after=after))
    return entries


def _inference_config(pair: Pair) -> str:
    """Names the packaged configuration of the pair's task, or that of the whole domain where it has none."""
    own = f"{pair.env}/inference.gin"
    packaged = Path(submission_package.__path__[0], "configs", pair.domain)
    return own if (packaged / own).is_file() else "inference.gin"


def _take(outcome: PairOutcome, event: Event, place: Path) -> None:
    """Adds what a command of a pair came to."""
    entry = event.entry
    assert entry is not None
    expected = [str(name) for name in entry.data["phases"]]
    if outcome.pair.submission is None:
        path = place / PHASES_FILE
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        for line in lines:
            said = json.loads(line)
            outcome.phases[said["phase"]] = Phase(said["result"], said.get("reason", ""), said["seconds"])
        missing = [name for name in expected if name not in outcome.phases]
        if entry.state is State.FAILED and not outcome.has_failed and missing:
            outcome.phases[missing[0]] = Phase("failed", f"{entry.reason}; {_tail(place)}", event.wall_s)
        return
    if entry.state is State.FINISHED:
        has_video = any((place / "run").rglob("*.mp4"))
        for name in expected:
            possible = name != "record" or has_video
            reason = "" if possible else "the environment drew no video"
            outcome.phases[name] = Phase("passed" if possible else "not possible", reason, event.wall_s)
    elif entry.kind != "prerequisite":
        outcome.phases[expected[0]] = Phase(
            "failed", _failure(place) or f"{entry.reason}; {_tail(place)}", event.wall_s
        )


def _classify(entry: Entry, ended: Ended) -> Outcome:
    """Nothing of a smoke test is tried again: a failure is what it looks for."""
    outcome = default_classify(entry, ended)
    if outcome.kind == "infrastructure":
        return Outcome(False, "exit", outcome.reason, outcome.exit_code)
    return outcome


def _failure(place: Path) -> str:
    for mode in ("inference", "train"):
        try:
            manifest = read_record(place / "run" / mode / "manifest.json", Manifest)
        except UserError:
            continue
        if manifest.state is RunState.FAILED and manifest.failure is not None:
            return f"{manifest.failure.kind.value} in {manifest.failure.where}: {manifest.failure.message}"
    return ""


def _tail(place: Path) -> str:
    try:
        lines = (place / "output.log").read_text(encoding="utf-8", errors="replace").strip().splitlines()
    except OSError:
        return "no output"
    return " | ".join(lines[-_TAIL_LINES:])[-400:]


def _told(outcome: PairOutcome) -> str:
    words = [
        f"{name} {phase.result}" + (f" ({phase.reason})" if phase.reason else "")
        for name, phase in outcome.phases.items()
    ]
    return f"{outcome.pair.what} on {outcome.pair.env}: {', '.join(words)}"
