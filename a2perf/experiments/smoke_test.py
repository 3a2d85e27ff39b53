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
from a2perf.domains.registry import find_task
from a2perf.errors import UserError, did_you_mean
from a2perf.experiments.junit import Outcome, VerdictCase, VerdictSuite, junit_document
from a2perf.experiments.needs import find_submission, resolve_env_id
from a2perf.experiments.runners import smoke
from a2perf.experiments.runners.smoke import PHASES, PHASES_FILE
from a2perf.launch import QUEUE_FILE, Conductor, Resources, RunCommand, RunEvent, RunSpec, State
from a2perf.storage import write_atomic, write_json
from a2perf.submission.evaluator.process.failure_diagnosis import tail

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
    for env in envs:
        action, observation = _spaces_of(env) if algorithms else ("", "")
        for name in algorithms:
            reason = ""
            if action not in ACTION_SPACES[name]:
                reason = f"{name} cannot act in a {action} space"
            elif observation not in OBSERVATION_SPACES:
                reason = f"{name} cannot read a {observation} space"
            pairs.append(SmokePair(name, env, excluded=reason))
        if submissions:
            find_task(env)
        pairs += [SmokePair(folder.resolve().name, env, folder.absolute()) for folder in submissions]
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
        time_limit_s: wall time of a pair.
        fail_fast: start nothing more after the first failure.
    """
    folder = folder.absolute()
    tried = {pair.key: pair for pair in pairs if not pair.excluded}
    failed = False

    def on_event(event: RunEvent) -> None:
        nonlocal failed
        entry = event.entry
        if entry is None or entry.state not in (State.FINISHED, State.FAILED):
            return
        pair = tried[entry.key]
        _take(pair, folder / pair.key, entry.reason if entry.state is State.FAILED else "", event.wall_s)
        failed |= pair.has_failed
        parts = [
            f"{name} {phase.result}" + (f" ({phase.reason})" if phase.reason else "")
            for name, phase in pair.phases.items()
        ]
        say(f"  {pair.what} on {pair.env}: {', '.join(parts)}")

    with tempfile.TemporaryDirectory(prefix="a2perf-smoke-") as temporary:
        # no retries: the test must report every failure
        conductor.run(
            [_spec(pair, folder / pair.key, steps, time_limit_s) for pair in tried.values()],
            Path(temporary) / QUEUE_FILE,
            max_retries=0,
            on_event=on_event,
            stop=lambda: fail_fast and failed,
        )
    for pair in tried.values():
        pair.phases = {name: pair.phases.get(name, SmokePhase("not run")) for name in PHASES}


def _spec(pair: SmokePair, place: Path, steps: int, time_limit_s: float) -> RunSpec:
    place.mkdir(parents=True, exist_ok=True)
    (place / PHASES_FILE).unlink(missing_ok=True)
    what = ("--algorithm", pair.what) if pair.submission is None else ("--submission", str(pair.submission))
    argv = (*what, "--env-id", pair.env, "--folder", str(place), "--steps", str(steps))
    command = RunCommand(
        (sys.executable, "-P", "-m", smoke.__name__, *argv),
        name=pair.key,
        log=place / "output.log",
        resources=Resources(wall_s=time_limit_s),
        env={"OMP_NUM_THREADS": "1"},
    )
    return RunSpec(pair.key, command)


def _take(pair: SmokePair, place: Path, failure: str, wall_s: float) -> None:
    """Adds the phases of a pair that has ended."""
    path = place / PHASES_FILE
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
        record = json.loads(line)
        pair.phases[record["phase"]] = SmokePhase(record["result"], record.get("reason", ""), record["seconds"])
    missing = [name for name in PHASES if name not in pair.phases]
    if failure and not pair.has_failed and missing:
        output = " | ".join(tail(place / "output.log").splitlines()[-_TAIL_LINES:])[-400:] or "no output"
        pair.phases[missing[0]] = SmokePhase("failed", f"{failure}; {output}", wall_s)


def write_results(folder: Path, pairs: Sequence[SmokePair]) -> None:
    """Writes the results for other programs: ``smoke_test.json`` and JUnit XML."""
    rows = [{name: value for name, value in asdict(pair).items() if name != "submission"} for pair in pairs]
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
