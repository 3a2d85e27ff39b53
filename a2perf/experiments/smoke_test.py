"""Smoke tests: every algorithm and submission runs in every environment, independent of its performance.

The pairs are the cross product without those of incompatible spaces. Each runs in separate processes, phase by phase; a
failure does not stop the other pairs.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from a2perf._version import __version__
from a2perf.domains.registry import domains, packaged_gin_file
from a2perf.errors import UserError, did_you_mean
from a2perf.experiments.junit import Outcome, VerdictCase, VerdictSuite, junit_document
from a2perf.experiments.needs import find_submission, resolve_env_id
from a2perf.experiments.runners.smoke import PHASES_FILE
from a2perf.launch import QUEUE_FILE, Conductor, Resources, RunCommand, RunEvent, RunSpec, State
from a2perf.launch.outcomes import read_manifest
from a2perf.records import RunState
from a2perf.runs.bundles.layout import bundle_path
from a2perf.storage import write_atomic, write_json
from a2perf.submission.evaluator.process.failure_diagnosis import tail

_RUNNER = "a2perf.experiments.runners.smoke"
_TAIL_LINES = 12
SCHEMA = 1
_OUTCOMES: dict[str, Outcome] = {"passed": "passed", "failed": "failed"}
"""All other results of a phase are skipped test cases."""

ACTION_SPACES: dict[str, tuple[str, ...]] = {
    "a2c": ("Box", "Discrete", "MultiDiscrete", "MultiBinary"),
    "ddpg": ("Box",),
    "dqn": ("Discrete",),
    "ppo": ("Box", "Discrete", "MultiDiscrete", "MultiBinary"),
    "sac": ("Box",),
    "td3": ("Box",),
}
"""Action spaces that each algorithm of Stable-Baselines3 supports."""

OBSERVATION_SPACES = ("Box", "Discrete", "MultiDiscrete", "MultiBinary", "Dict")
"""Observation spaces that its policies support."""

PHASES = ("construct", "train", "record", "reload")


@dataclass
class SmokePhase:
    """The result of a phase.

    Attributes:
        result: ``"passed"``, ``"failed"``, ``"not possible"`` or ``"not run"``.
    """

    result: str
    reason: str = ""
    seconds: float = 0.0


@dataclass
class SmokePair:
    """One algorithm or submission in one environment, and its results.

    Attributes:
        what: name of the algorithm, or of the submission's folder.
        env: environment id, or task of a submission.
        excluded: why the pair is not tested; empty if it is.
    """

    what: str
    env: str
    submission: Path | None = None
    domain: str = ""
    env_id: str = ""
    excluded: str = ""
    phases: dict[str, SmokePhase] = field(default_factory=dict)

    @property
    def key(self) -> str:
        """Name of the pair for files and lists."""
        return f"{self.what}-{self.env}".replace("/", "_")

    @property
    def has_failed(self) -> bool:
        """Whether a phase failed."""
        return any(phase.result == "failed" for phase in self.phases.values())


def plan(algorithms: Sequence[str], submissions: Sequence[Path], envs: Sequence[str]) -> list[SmokePair]:
    """Returns every pair, including excluded ones.

    Raises:
        UserError: an algorithm, submission or environment is unknown.
    """
    for name in algorithms:
        if name not in ACTION_SPACES:
            raise UserError(
                f"{name!r} is not an algorithm of the smoke test{did_you_mean(name, ACTION_SPACES)}",
                hint=f"choose one of: {', '.join(ACTION_SPACES)}",
            )
    submissions = [find_submission(folder) for folder in submissions]
    for folder in submissions:
        if not folder.is_dir():
            raise UserError(f"the submission {folder} is not a folder", hint="check --submissions")
    pairs = []
    known = [(domain.name, task.name, task.env_id) for domain in domains().values() for task in domain.tasks]
    for env in envs:
        domain, task, env_id = next((found for found in known if env in found[1:]), ("", "", ""))
        action, observation = ("", "")
        if algorithms:
            action, observation = _spaces_of(env)
        for name in algorithms:
            reason = ""
            if action not in ACTION_SPACES[name]:
                reason = f"{name} cannot act in a {action} space"
            elif observation not in OBSERVATION_SPACES:
                reason = f"{name} cannot read a {observation} space"
            pairs.append(SmokePair(name, env, excluded=reason))
        for folder in submissions:
            reason = "" if domain else f"{env} does not belong to a domain of a2perf"
            pairs.append(SmokePair(folder.resolve().name, task or env, folder, domain, env_id, reason))
    return list({pair.key: pair for pair in pairs}.values())  # an algorithm or environment may be given twice


def _spaces_of(env: str) -> tuple[str, str]:
    """Returns the kinds of the action and of the observation space."""
    import gymnasium

    made = gymnasium.make(resolve_env_id(env)[0], disable_env_checker=True)
    try:
        return type(made.action_space).__name__, type(made.observation_space).__name__
    finally:
        made.close()


def try_pairs(
    pairs: Sequence[SmokePair],
    folder: Path,
    conductor: Conductor,
    *,
    steps: int = 200,
    time_limit_s: float = 300.0,
    fail_fast: bool = False,
    say: Callable[[str], None] = print,
) -> None:
    """Tests every pair and fills in its phases.

    Args:
        folder: output folder; each pair gets a folder in it for models, videos and the log.
        time_limit_s: wall time of a pair (of each command, for a submission).
        fail_fast: start nothing more after the first failure.
    """
    folder = folder.absolute()
    by_key = {pair.key: pair for pair in pairs}
    specs = [spec for pair in pairs if not pair.excluded for spec in run_specs(pair, folder, steps, time_limit_s)]
    remaining = {key: sum(spec.data["pair"] == key for spec in specs) for key in by_key}
    failed = False

    def on_event(event: RunEvent) -> None:
        nonlocal failed
        if event.entry is None or event.entry.state not in (State.FINISHED, State.FAILED):
            return
        pair = by_key[str(event.entry.data["pair"])]
        _take(pair, event, folder / pair.key)
        remaining[pair.key] -= 1
        if not remaining[pair.key]:
            failed |= pair.has_failed
            phases = pair.phases.items()
            parts = [
                f"{name} {phase.result}" + (f" ({phase.reason})" if phase.reason else "") for name, phase in phases
            ]
            say(f"  {pair.what} on {pair.env}: {', '.join(parts)}")

    with tempfile.TemporaryDirectory(prefix="a2perf-smoke-") as temporary:
        queue_file = Path(temporary) / QUEUE_FILE
        # no retries: the test must report every failure
        conductor.run(specs, queue_file, max_retries=0, on_event=on_event, stop=lambda: fail_fast and failed)
    for pair in pairs:
        if not pair.excluded:
            pair.phases = {name: pair.phases.get(name, SmokePhase("not run")) for name in PHASES}


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
    own = f"{pair.env}/inference.gin"  # of the task; some have only that of the domain
    common = ("--submission", str(pair.submission), "--root-dir", str(place / "run"), "--task", pair.env,
              "--domain", pair.domain, "--force")  # fmt: skip
    plans: list[tuple[tuple[str, ...], list[str]]] = [
        (("a2perf", "check", str(pair.submission), "--env-id", pair.env_id, "--train-limit", "5"), ["construct"]),
        (("a2perf", "run", *common, "--gin-config", "training.gin",
          "--gin-bindings", f"Submission.train_time_limit_s = {min(20.0, time_limit_s / 2)}"), ["train"]),
        (("a2perf", "run", *common, "--gin-config", own if packaged_gin_file(pair.domain, own) else "inference.gin",
          "--gin-bindings", "Submission.num_inference_steps = 10",
          "--gin-bindings", "Submission.num_inference_episodes = 1",
          "--gin-bindings", "Submission.record_videos = 1"), ["record", "reload"]),
    ]  # fmt: skip
    for argv, phases in plans:
        after = specs[-1].key if specs else None
        key = f"{pair.key}:{phases[0]}"
        specs.append(RunSpec(key, command(*argv), {"pair": pair.key, "phases": phases}, after=after))
    return specs


def _take(pair: SmokePair, event: RunEvent, place: Path) -> None:
    """Adds the result of a command of a pair."""
    entry = event.entry
    assert entry is not None
    expected = [str(name) for name in entry.data["phases"]]
    if pair.submission is None:
        path = place / PHASES_FILE
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        for line in lines:
            record = json.loads(line)
            pair.phases[record["phase"]] = SmokePhase(record["result"], record.get("reason", ""), record["seconds"])
        missing = [name for name in expected if name not in pair.phases]
        if entry.state is State.FAILED and not pair.has_failed and missing:
            pair.phases[missing[0]] = SmokePhase("failed", f"{entry.reason}; {_tail(place)}", event.wall_s)
        return
    if entry.state is State.FINISHED:
        has_video = any((place / "run").rglob("*.mp4"))
        for name in expected:
            possible = name != "record" or has_video
            reason = "" if possible else "the environment drew no video"
            pair.phases[name] = SmokePhase("passed" if possible else "not possible", reason, event.wall_s)
    elif entry.kind != "prerequisite":
        pair.phases[expected[0]] = SmokePhase(
            "failed", _failure(place) or f"{entry.reason}; {_tail(place)}", event.wall_s
        )


def _failure(place: Path) -> str:
    for mode in ("inference", "train"):
        manifest = read_manifest(bundle_path(place / "run", mode))
        if manifest is not None and manifest.state is RunState.FAILED and manifest.failure is not None:
            return f"{manifest.failure.kind.value} in {manifest.failure.where}: {manifest.failure.message}"
    return ""


def _tail(place: Path) -> str:
    return " | ".join(tail(place / "output.log").splitlines()[-_TAIL_LINES:])[-400:] or "no output"


def write_results(folder: Path, pairs: Sequence[SmokePair]) -> None:
    """Writes the results for other programs: ``smoke_test.json`` and JUnit XML."""
    rows = [
        {
            "what": pair.what,
            "env": pair.env,
            "excluded": pair.excluded,
            "phases": {name: asdict(phase) for name, phase in pair.phases.items()},
        }
        for pair in pairs
    ]
    write_json(folder / "smoke_test.json", {"schema": SCHEMA, "a2perf_version": __version__, "pairs": rows})
    write_atomic(folder / "junit.xml", junit_document(suite_of(pairs)))


def suite_of(pairs: Sequence[SmokePair]) -> VerdictSuite:
    """Returns one test case per phase and pair; excluded and impossible ones are marked as skipped."""
    cases = []
    for pair in pairs:
        what, env = pair.what, pair.env
        if pair.excluded:
            cases.append(VerdictCase(env, "skipped", "excluded", pair.excluded, group=what))
        for name, phase in pair.phases.items():
            result = _OUTCOMES.get(phase.result, "skipped")
            reason = phase.reason or (phase.result if result == "skipped" else "")
            cases.append(VerdictCase(f"{env}: {name}", result, phase.result, reason, group=what, seconds=phase.seconds))
    return VerdictSuite("smoke tests", tuple(cases))
