"""Runs a smoke test: each pair in separate processes, phase by phase; a failure does not stop the other pairs."""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from a2perf.domains.registry import packaged_gin_file
from a2perf.experiments.runners.smoke import PHASES_FILE
from a2perf.experiments.smoke_test.plan import PHASES, SmokePair
from a2perf.launch import QUEUE_FILE, Conductor, Resources, RunCommand, RunEvent, RunSpec, State
from a2perf.launch.outcomes import read_manifest
from a2perf.records import RunState
from a2perf.runs.layout import bundle_path

_RUNNER = "a2perf.experiments.runners.smoke"
_TAIL_LINES = 12


@dataclass
class SmokePhase:
    """The result of a phase.

    Attributes:
        result: ``"passed"``, ``"failed"``, ``"not possible"`` or ``"not run"``.
        seconds: its duration.
    """

    result: str
    reason: str = ""
    seconds: float = 0.0


@dataclass
class PairOutcome:
    """The result of a pair.

    Attributes:
        phases: results by name, in order; empty if the pair is excluded.
    """

    pair: SmokePair
    phases: dict[str, SmokePhase] = field(default_factory=dict)
    log: Path | None = None

    @property
    def has_failed(self) -> bool:
        """Whether a phase failed."""
        return any(phase.result == "failed" for phase in self.phases.values())


def try_pairs(
    pairs: Sequence[SmokePair],
    folder: Path,
    conductor: Conductor,
    *,
    steps: int = 200,
    time_limit_s: float = 300.0,
    fail_fast: bool = False,
    say: Callable[[str], None] = print,
) -> list[PairOutcome]:
    """Tests every pair.

    Args:
        pairs: the pairs; excluded ones are only reported.
        folder: output folder; each pair gets a folder in it for models, videos and the log.
        time_limit_s: wall time of a pair (of each command, for a submission).
        fail_fast: start nothing more after the first failure.

    Returns:
        One outcome per pair.
    """
    folder = folder.absolute()
    outcomes = {pair.key: PairOutcome(pair, log=folder / pair.key / "output.log") for pair in pairs}
    specs = [spec for pair in pairs if not pair.excluded for spec in run_specs(pair, folder, steps, time_limit_s)]
    remaining = {key: sum(spec.data["pair"] == key for spec in specs) for key in outcomes}
    failed = False

    def on_event(event: RunEvent) -> None:
        nonlocal failed
        if event.entry is None or event.entry.state not in (State.FINISHED, State.FAILED):
            return
        key = str(event.entry.data["pair"])
        outcome = outcomes[key]
        _take(outcome, event, folder / key)
        remaining[key] -= 1
        if not remaining[key]:
            failed |= outcome.has_failed
            say(f"  {_line(outcome)}")

    with tempfile.TemporaryDirectory(prefix="a2perf-smoke-") as temporary:
        queue_file = Path(temporary) / QUEUE_FILE
        # no retries: the test must report every failure
        conductor.run(specs, queue_file, max_retries=0, on_event=on_event, stop=lambda: fail_fast and failed)
    for outcome in outcomes.values():
        if not outcome.pair.excluded:
            outcome.phases = {name: outcome.phases.get(name, SmokePhase("not run")) for name in PHASES}
    return list(outcomes.values())


def run_specs(pair: SmokePair, folder: Path, steps: int, time_limit_s: float) -> list[RunSpec]:
    """Returns the runs of a pair: one command for an algorithm, three for a submission, one after the other."""
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
        return [RunSpec(pair.key, command(_RUNNER, *words), {"pair": pair.key, "phases": list(PHASES)})]
    specs: list[RunSpec] = []
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
        after = specs[-1].key if specs else None
        key = f"{pair.key}:{phases[0]}"
        specs.append(RunSpec(key, command(*argv), {"pair": pair.key, "phases": phases}, after=after))
    return specs


def _inference_config(pair: SmokePair) -> str:
    """Returns the packaged configuration of the pair's task or, if it has none, of the domain."""
    own = f"{pair.env}/inference.gin"
    return own if packaged_gin_file(pair.domain, own) else "inference.gin"


def _take(outcome: PairOutcome, event: RunEvent, place: Path) -> None:
    """Adds the result of a command of a pair."""
    entry = event.entry
    assert entry is not None
    expected = [str(name) for name in entry.data["phases"]]
    if outcome.pair.submission is None:
        path = place / PHASES_FILE
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        for line in lines:
            record = json.loads(line)
            outcome.phases[record["phase"]] = SmokePhase(record["result"], record.get("reason", ""), record["seconds"])
        missing = [name for name in expected if name not in outcome.phases]
        if entry.state is State.FAILED and not outcome.has_failed and missing:
            outcome.phases[missing[0]] = SmokePhase("failed", f"{entry.reason}; {_tail(place)}", event.wall_s)
        return
    if entry.state is State.FINISHED:
        has_video = any((place / "run").rglob("*.mp4"))
        for name in expected:
            possible = name != "record" or has_video
            reason = "" if possible else "the environment drew no video"
            outcome.phases[name] = SmokePhase("passed" if possible else "not possible", reason, event.wall_s)
    elif entry.kind != "prerequisite":
        outcome.phases[expected[0]] = SmokePhase(
            "failed", _failure(place) or f"{entry.reason}; {_tail(place)}", event.wall_s
        )


def _failure(place: Path) -> str:
    for mode in ("inference", "train"):
        manifest = read_manifest(bundle_path(place / "run", mode))
        if manifest is not None and manifest.state is RunState.FAILED and manifest.failure is not None:
            return f"{manifest.failure.kind.value} in {manifest.failure.where}: {manifest.failure.message}"
    return ""


def _tail(place: Path) -> str:
    try:
        lines = (place / "output.log").read_text(encoding="utf-8", errors="replace").strip().splitlines()
    except OSError:
        return "no output"
    return " | ".join(lines[-_TAIL_LINES:])[-400:]


def _line(outcome: PairOutcome) -> str:
    parts = [
        f"{name} {phase.result}" + (f" ({phase.reason})" if phase.reason else "")
        for name, phase in outcome.phases.items()
    ]
    return f"{outcome.pair.what} on {outcome.pair.env}: {', '.join(parts)}"
