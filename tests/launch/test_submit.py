"""A whole protocol for one submission: planned, run, resumed, scored and counted without sparing it."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from a2perf.errors import ConfigError
from a2perf.experiments.protocol_plan import RUN_OPTIONS, SubmitRequest, plan, trains
from a2perf.experiments.submit import exit_code, submit, summary_text
from a2perf.launch.conductor import Conductor
from a2perf.launch.interface import ExitStatus
from a2perf.launch.run_spec import RunCommand, RunSpec
from a2perf.metrics import protocol as protocols
from a2perf.metrics.submitted import submitted_of
from a2perf.plain_text import markdown_text
from a2perf.records import Failure, FailureKind, Manifest, RunState, TrainResults
from a2perf.runs.bundles.inventory import hash_files
from a2perf.storage import read_record, write_json, write_record
from a2perf.submission.evaluator.playing.seeds import spawn_seeds
from a2perf.submission.evaluator.submitted.folder_content import identify_submission
from a2perf.submission.run_options import RunOptions
from tests.commands import flags, run_a2perf
from tests.made_submissions import policy, write_submission
from tests.metrics import made_bundles as made

PROTOCOL = protocols.load("v1")
TOY, PACE = "toy_macro_stdcell", "dog_pace"
IDLE = 'def train(**arguments):\n    """Nothing to learn."""\n'
LEARNS = """
import os, pathlib
def train():
    folder = pathlib.Path(os.environ["A2PERF_ARTIFACTS"])
    steps = int(os.environ["A2PERF_TRAIN_STEPS"])
    rows = "".join(f"{int(steps * part / 4)},{part}\\n" for part in range(5))
    (folder / "progress.csv").write_text("env_steps,mean_return\\n" + rows)
"""
RANDOM = policy(
    top="import os",
    load="""
    if os.environ["SEED"] == "{broken}":
        raise RuntimeError("this seed is not mine")
    env.action_space.seed(0)
    return env.action_space
    """,
    infer="return policy.sample(observation['mask'].astype('int8'))",
)


@pytest.fixture
def folder(tmp_path: Path) -> Callable[..., Path]:
    """Writes a submission."""

    def write(name: str = "entry", train: str = LEARNS, inference: str = RANDOM) -> Path:
        return write_submission(tmp_path / "submissions" / name, inference, train)

    return write


def planned(request: SubmitRequest) -> list[RunSpec]:
    return plan(request, request.submission.parent / "out")


def bindings_of(spec: RunSpec) -> list[str]:
    flags = spec.command.evaluator_flags() or ()
    return [value for flag, value in pairwise(flags) if flag == "--extra-gin-bindings"]


def asked(submission: Path, *tasks: str, **changes: Any) -> SubmitRequest:
    options = RunOptions({name: changes.pop(name) for name in RUN_OPTIONS if name in changes})
    fields: dict[str, Any] = {"track": "open", "generalization": False, "options": options, **changes}
    return SubmitRequest(submission=submission, tasks=tasks or (TOY,), **{"protocol": PROTOCOL, **fields})


class MadeRuns:
    """A launcher without processes: it writes the bundle of each command and reports its end.

    Args:
        returns: mean return of an inference, by task and seed; by default the expert's.
        failing: names of runs that fail by the participant's fault.
        steps: last step of every learning curve.
        energy_kwh: energy of every training run; None records none.
        left: whether training runs leave artifacts.
    """

    name = "made"

    def __init__(
        self,
        *,
        returns: Callable[[str, int], float] | None = None,
        failing: Sequence[str] = (),
        steps: int = 1000,
        energy_kwh: float | None = 0.01,
        left: bool = True,
    ) -> None:
        self.started: list[str] = []
        self._returns = returns or (lambda task, seed: PROTOCOL.task(task).reference("expert").mean)
        self._failing, self._steps, self._energy_kwh, self._left = failing, steps, energy_kwh, left
        self._ended = ExitStatus(0)

    identity = "made"

    def start(self, command: RunCommand) -> MadeRuns:
        self.started.append(command.name)
        name, seed, mode = command.name.split("/")
        flags = command.evaluator_flags() or ()
        path = Path(flags[flags.index("--root-dir") + 1]) / mode
        (path / "metrics").mkdir(parents=True)
        task = PROTOCOL.task(name)
        number = int(seed.removeprefix("seed_"))
        record = made.manifest(mode, number, task=name, env_fingerprint=task.fingerprint)
        record.submission = identify_submission(Path(flags[flags.index("--participant-module-path") + 1]))
        record.exit_reason = "finished"
        record.attempts[0].finished_at = f"2026-03-0{number}T00:00:00.000+00:00"
        if command.name in self._failing:
            record.state = RunState.FAILED
            record.failure = Failure(kind=FailureKind.EXCEPTION, where=mode, message="it raised")
            record.exit_reason = "exception"
        elif mode == "train":
            self._write_training(path)
        else:
            made_episodes = made.episodes([self._returns(name, number)] * 3)
            results = made.RolloutResults(task=name, env_id=task.env_id, episodes=made_episodes)
            write_record(path / "metrics" / "rollouts.json", results)
        record.files = hash_files(path)
        write_record(path / "manifest.json", record)
        self._ended = ExitStatus(1 if record.failure else 0)
        return self

    def _write_training(self, path: Path) -> None:
        results = TrainResults(
            wall_s=1.0, participant_wall_s=1.0, exit_reason="returned", artifact_bytes=1, artifact_files=int(self._left)
        )
        write_record(path / "metrics" / "train.json", results)
        if self._left:
            (path / "artifacts").mkdir()
            (path / "artifacts" / "progress.csv").write_text(f"env_steps,mean_return\n0,0\n{self._steps},1\n")
        if self._energy_kwh is not None:
            energy = {"net_kwh": self._energy_kwh, "quality": "estimated"}
            write_json(path / "metrics" / "tracking.json", {"energy": energy})

    def poll(self) -> ExitStatus:
        return self._ended

    def cancel(self) -> None: ...

    def adopt(self, identity: str) -> None: ...

    def wait(self, timeout_s: float) -> None: ...

    def run(self, command: RunCommand) -> int:
        raise AssertionError("a protocol's runs are never in the foreground")

    def close(self) -> None: ...


# --- the plan ---------------------------------------------------------------------------------------------------------


def test_learning_submission_is_trained_and_evaluated_on_every_seed(folder) -> None:
    runs = planned(asked(folder(), TOY, generalization=True))
    assert [run.data["mode"] for run in runs] == ["train", "inference", "generalization"] * 5
    assert [run.data["seed"] for run in runs[::3]] == PROTOCOL.task(TOY).training_seeds
    assert {run.after for run in runs[1:3]} == {runs[0].key}
    assert runs[0].command.name == f"{TOY}/seed_1/train"
    bindings = bindings_of(runs[1])
    assert "Submission.num_inference_episodes = 100" in bindings
    assert "Submission.num_inference_steps = None" in bindings
    assert "create_domain.env_name = 'CircuitTraining-ToyMacro-v0'" in bindings


def test_submission_without_learning_is_only_evaluated(folder) -> None:
    runs = planned(asked(folder(train=IDLE), PACE, generalization=True))
    assert {run.data["mode"] for run in runs} == {"inference", "generalization"}
    assert all(run.after is None for run in runs)


@pytest.mark.parametrize(
    ("source", "learns"),
    [
        (IDLE, False),
        ("def train():\n    pass\n", False),
        ("def train():\n    return\n", False),
        ("def train():\n    ...\n", False),
        ("def train():\n    print('hello')\n", True),
        ("def train():\n    return work()\n", True),
        ("from elsewhere import train\n", True),
        ("def train(:\n", True),
    ],
)
def test_only_a_body_without_effect_counts_as_nothing_to_learn(folder, source: str, learns: bool) -> None:
    assert trains(folder(train=source)) is learns


def test_quick_reduces_seeds_episodes_calls_and_time(folder) -> None:
    runs = planned(asked(folder(), TOY, quick=True))
    assert {run.data["seed"] for run in runs} == {1, 2, 3}
    assert "Submission.num_inference_episodes = 10" in bindings_of(runs[1])
    assert "Submission.train_time_limit_s = 60.0" in bindings_of(runs[0])


def test_python_and_data_sets_of_the_submission_go_to_every_run(folder) -> None:
    runs = planned(asked(folder(), TOY, participant_python="/opt/python", datasets_path="sets", python_env="isolated"))
    for run in runs:
        given = dict(pairwise(run.command.evaluator_flags() or ()))
        assert given["--participant-python"] == "/opt/python"
        assert (given["--datasets-path"], given["--python-env"]) == ("sets", "isolated")


def test_tracks_tell_the_budget_and_energy_is_enforced(folder) -> None:
    by_track = {track: planned(asked(folder(), TOY, track=track))[0] for track in protocols.TRACKS}
    variables = {
        track: {name: value for name, value in run.command.env.items() if name.startswith("A2PERF_TRAIN_")}
        for track, run in by_track.items()
    }
    bindings = {track: bindings_of(run) for track, run in by_track.items()}
    assert variables["fixed_samples"] == {"A2PERF_TRAIN_STEPS": "320000"}
    assert "Submission.pass_environment = ['A2PERF_TRAIN_STEPS']" in bindings["fixed_samples"]
    assert variables["fixed_energy"] == {"A2PERF_TRAIN_ENERGY_KWH": "0.05"}
    assert "Submission.train_energy_limit_kwh = 0.05" in bindings["fixed_energy"]
    assert variables["open"] == {}
    assert "Submission.train_energy_limit_kwh = None" in bindings["open"]


def test_training_environment_differs_only_as_the_protocol_says(folder) -> None:
    training, inference = planned(asked(folder(), PACE))[:2]
    assert "create_domain.mode = 'train'" in bindings_of(training)
    assert "create_domain.mode = 'test'" in bindings_of(inference)


def test_a_view_of_a_task_is_run_under_the_rules_of_the_task(folder) -> None:
    name = "text_level_1"
    wanted = asked(folder(), name, protocol=protocols.load("v1-small"))
    training, evaluation = planned(wanted)[:2]
    assert evaluation.command.name == f"{name}/seed_1/inference"
    assert any(flag.endswith(f"{name}/inference.gin") for flag in evaluation.command.evaluator_flags() or ())
    for run in (training, evaluation):
        assert {"create_domain.num_websites = 10", "create_domain.observation = 'text'"} <= set(bindings_of(run))
    arrays = planned(asked(wanted.submission, "difficulty_level_1_num_websites_10", protocol=wanted.protocol))[1]
    assert set(bindings_of(evaluation)) - set(bindings_of(arrays)) == {"create_domain.observation = 'text'"}
    # the domain's generalization is that of a view, too
    v1 = msgspec.structs.replace(
        PROTOCOL,
        generalization={
            "web_navigation": msgspec.structs.replace(
                PROTOCOL.generalization["web_navigation"], trained_on="difficulty_level_1_num_websites_10"
            )
        },
    )
    further = planned(asked(wanted.submission, name, protocol=v1, generalization=True))[2]
    assert further.data["mode"] == "generalization"
    assert "create_domain.observation = 'text'" in bindings_of(further)


def test_a_task_may_not_be_submitted_in_two_views(folder, tmp_path) -> None:
    both = asked(folder(), "difficulty_level_1_num_websites_10", "text_level_1")
    with pytest.raises(ConfigError, match="difficulty_level_1_num_websites_10 and text_level_1 are the same task"):
        submit(both, tmp_path / "out", Conductor(MadeRuns()))


def test_binding_may_not_set_what_the_protocol_fixes(folder) -> None:
    with pytest.raises(ConfigError, match="num_inference_episodes is fixed by protocol v1"):
        planned(asked(folder(), bindings=("Submission.num_inference_episodes = 1",)))


# --- what comes of it -------------------------------------------------------------------------------------------------


def test_whole_protocol_is_scored_against_the_stored_references(folder, tmp_path) -> None:
    task = PROTOCOL.task(PACE)
    low, high = task.reference("random").mean, task.reference("expert").mean
    shares = {1: 0.2, 2: 0.4, 3: 0.5, 4: 0.6, 5: 0.9}
    runs = MadeRuns(returns=lambda name, seed: low + shares[seed] * (high - low))
    record, summary = submit(asked(folder(), PACE), tmp_path / "out", Conductor(runs))
    assert exit_code(record, summary) == 0
    assert [run.normalised for run in record.runs if run.mode == "inference"] == pytest.approx(list(shares.values()))
    score = record.scores[PACE]
    # the interquartile mean of five: a quarter of 1.25 values is cut off on each side
    assert score.iqm == pytest.approx((0.75 * 0.4 + 0.5 + 0.75 * 0.6) / 2.5)
    assert score.low is not None
    assert score.low < score.iqm < score.high
    assert (score.low, score.high) == (pytest.approx(0.12, abs=0.02), pytest.approx(0.99, abs=0.05))
    assert record.complete
    assert record.rankable
    assert not record.core
    assert record.recorded_at.startswith("2026-03-05")
    sha = identify_submission(folder()).sha256[:12]
    assert record.citation.startswith(f"entry (sha256 {sha}), A2Perf protocol v1")
    assert f"2026-03-05: normalised IQM {score.iqm:.3f} [" in record.citation
    assert "\n" not in record.citation
    assert markdown_text(record.citation) in summary_text(record)


def test_stopped_submission_goes_on_where_it_was(folder, tmp_path) -> None:
    wanted, out, runs = asked(folder(), TOY), tmp_path / "out", MadeRuns()
    record, summary = submit(wanted, out, Conductor(runs), stop=lambda: len(runs.started) >= 3)
    assert exit_code(record, summary) == 130
    assert not record.complete
    assert "missing (it has not run)" in " ".join(record.not_rankable)
    rest = MadeRuns()
    record, summary = submit(wanted, out, Conductor(rest))
    assert exit_code(record, summary) == 0
    assert sorted(runs.started + rest.started) == sorted(run.path for run in record.runs)


def test_failed_seed_is_missing_and_stays_failed(folder, tmp_path) -> None:
    wanted, out = asked(folder(), TOY), tmp_path / "out"
    failing = (f"{TOY}/seed_2/inference", f"{TOY}/seed_4/train")
    record, summary = submit(wanted, out, Conductor(MadeRuns(failing=failing)))
    assert exit_code(record, summary) == 1
    assert (record.scores[TOY].seeds, record.scores[TOY].expected) == (3, 5)
    assert record.scores[TOY].notes == [f"{TOY}: 2 of 5 seeds missing"]
    assert "3 of 5 seeds" in record.citation
    states = {run.path: (run.state, run.reason) for run in record.runs}
    assert states[failing[0]] == ("failed", "exception")
    assert states[f"{TOY}/seed_4/inference"] == ("missing", "its training failed")
    assert not record.rankable
    assert f"{failing[0]}: failed (exception)" in record.not_rankable
    lucky = MadeRuns()
    record, summary = submit(wanted, out, Conductor(lucky))
    assert lucky.started == []
    assert exit_code(record, summary) == 1


def test_only_seeds_that_every_task_has_make_the_overall_score(folder, tmp_path) -> None:
    runs = MadeRuns(failing=(f"{TOY}/seed_5/inference",))
    record, _ = submit(asked(folder(train=IDLE), PACE, TOY), tmp_path / "out", Conductor(runs))
    assert (record.overall.seeds, record.overall.tasks) == (4, 2)
    assert record.scores[PACE].seeds == 5
    assert record.overall.iqm == pytest.approx(1.0)


def test_further_tasks_may_join_but_no_other_submission(folder, tmp_path) -> None:
    out, submission = tmp_path / "out", folder(train=IDLE)
    submit(asked(submission, TOY), out, Conductor(MadeRuns()))
    more = MadeRuns()
    record, _ = submit(asked(submission, PACE, TOY), out, Conductor(more))
    assert {name.split("/")[0] for name in more.started} == {PACE}
    assert record.tasks == [PACE, TOY]
    with pytest.raises(ConfigError, match="holds another submission: --quick was False, now True"):
        submit(asked(submission, TOY, quick=True), out, Conductor(MadeRuns()))
    (submission / "inference.py").write_text(RANDOM + "\n# changed\n")
    with pytest.raises(ConfigError, match="holds another submission: submission was"):
        submit(asked(submission, TOY), out, Conductor(MadeRuns()))


def test_quick_and_own_bindings_are_marked_as_not_rankable(folder, tmp_path) -> None:
    record, _ = submit(asked(folder(), quick=True), tmp_path / "quick", Conductor(MadeRuns()))
    assert record.complete
    assert record.not_rankable == ["made with --quick, a reduced protocol"]
    assert "quick, not rankable" in record.citation
    own = asked(folder(), bindings=("Submission.call_timeout_s = 5.0",))
    record, _ = submit(own, tmp_path / "own", Conductor(MadeRuns()))
    assert record.not_rankable == ["made with additional bindings: Submission.call_timeout_s = 5.0"]


def test_record_of_a_run_is_found_from_the_run(folder, tmp_path) -> None:
    out = tmp_path / "out"
    record, _ = submit(asked(folder(train=IDLE)), out, Conductor(MadeRuns()))
    assert submitted_of(out / TOY / "seed_1" / "inference") == record
    assert submitted_of(out / "other" / "seed_1" / "inference") is None
    assert submitted_of(tmp_path) is None
    (out / "protocol.json").write_text("{")
    assert submitted_of(out / TOY / "seed_1" / "inference") is None


def test_environment_that_behaves_otherwise_is_not_rankable(folder, tmp_path) -> None:
    wanted, out = asked(folder(train=IDLE)), tmp_path / "out"
    submit(wanted, out, Conductor(MadeRuns()))
    path = out / TOY / "seed_3" / "inference" / "manifest.json"
    write_record(path, msgspec.structs.replace(read_record(path, Manifest), env_fingerprint="another"))
    record, _ = submit(wanted, out, Conductor(MadeRuns()))
    assert record.not_rankable == [f"{TOY}/seed_3/inference: the environment behaves otherwise than the protocol's"]


# --- budgets ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("track", "runs", "verdict", "used", "kept"),
    [
        ("fixed_samples", MadeRuns(steps=320_000), "kept", 320_000.0, True),
        ("fixed_samples", MadeRuns(steps=320_001), "exceeded", 320_001.0, False),
        ("fixed_samples", MadeRuns(left=False), "kept", 0.0, True),
        ("fixed_energy", MadeRuns(energy_kwh=0.05), "kept", 0.05, True),
        ("fixed_energy", MadeRuns(energy_kwh=0.06), "exceeded", 0.06, False),
        ("fixed_energy", MadeRuns(energy_kwh=None), "unknown", None, False),
    ],
)
def test_track_holds_only_where_every_training_is_known_to_have_kept_it(
    folder, tmp_path, track, runs, verdict, used, kept
) -> None:
    runs.started.clear()
    record, _ = submit(asked(folder(), track=track), tmp_path / "out", Conductor(runs))
    checks = [run.budget for run in record.runs if run.mode == "train"]
    assert {(check.verdict, check.used) for check in checks} == {(verdict, used)}
    assert record.track == (track if kept else "open")
    assert record.asked_track == track
    assert ("was requested" in summary_text(record)) is not kept


def test_submission_that_learns_nothing_keeps_every_budget(folder, tmp_path) -> None:
    record, _ = submit(asked(folder(train=IDLE), track="fixed_energy"), tmp_path / "out", Conductor(MadeRuns()))
    assert record.track == "fixed_energy"


# --- the command ------------------------------------------------------------------------------------------------------


def test_command_runs_a_protocol_for_real_and_counts_a_crash(folder, tmp_path) -> None:
    broken = spawn_seeds(2, "participant", 1)[0]
    submission = folder(inference=RANDOM.replace("{broken}", str(broken)))
    out = tmp_path / "out"
    how = flags(task=TOY, quick=True, no_generalization=True, track="fixed_samples", workers=2, public_seeds=True)
    given = ("submit", submission, *how, "-o", out, "--json")
    done = run_a2perf(*given, cwd=tmp_path, timeout=900)
    assert done.returncode == 1, done.stderr
    record = json.loads(done.stdout)
    assert record["track"] == "fixed_samples"
    assert record["public_seeds"] is True
    assert "public seeds" in record["citation"]
    ends = {(run["seed"], run["mode"]): run["state"] for run in record["runs"]}
    assert ends == {(seed, mode): "finished" for seed in (1, 2, 3) for mode in ("train", "inference")} | {
        (2, "inference"): "failed"
    }
    assert (record["scores"][TOY]["seeds"], record["scores"][TOY]["expected"]) == (2, 3)
    task = protocols.load().task(TOY)
    rollouts = json.loads((out / TOY / "seed_1" / "inference" / "metrics" / "rollouts.json").read_text())
    returns = [episode["episode_return"] for episode in rollouts["episodes"]]
    assert [episode["seed"] for episode in rollouts["episodes"]] == spawn_seeds(1, "episodes", 10)
    first = next(run for run in record["runs"] if run["seed"] == 1 and run["mode"] == "inference")
    assert first["normalised"] == pytest.approx(float(task.normalise(np.mean(returns))))
    manifests = {path: path.read_bytes() for path in sorted(out.rglob("manifest.json"))}
    again = run_a2perf(*given, cwd=tmp_path)
    assert again.returncode == 1
    assert json.loads(again.stdout) == record
    assert {path: path.read_bytes() for path in sorted(out.rglob("manifest.json"))} == manifests


def test_a_missing_package_of_this_host_is_found_before_a_run_counts(folder, tmp_path) -> None:
    (tmp_path / "without").mkdir()
    (tmp_path / "without" / "sitecustomize.py").write_text("import sys\nsys.modules['pybullet'] = None\n")
    without = {**os.environ, "PYTHONPATH": str(tmp_path / "without")}
    given = ("submit", folder(), "--quick", "-o", tmp_path / "out", "--task", PACE)
    done = run_a2perf(*given, cwd=tmp_path, env=without)
    assert done.returncode == 2
    assert done.stderr.splitlines()[0] == (
        "a2perf: QuadrupedLocomotion-DogPace-v0 needs packages that are not installed on this host: pybullet"
    )
    assert done.stderr.splitlines()[1].startswith("  Hint: ")
    assert not (tmp_path / "out").exists()
