"""Repeated and perturbed episodes and confidences, from the command to the scores."""

from __future__ import annotations

import json
from pathlib import Path

import gymnasium
import numpy as np
import pytest

from a2perf.errors import ConfigError
from a2perf.metrics.scores import score_runs
from a2perf.records import FailureKind, Manifest, RolloutResults
from a2perf.runs.bundles.agreement import episode_plan
from a2perf.runs.bundles.bundle import validate
from a2perf.storage import read_record
from a2perf.submission.evaluator.playing.action_record import BINS, ActionRecorder
from a2perf.submission.evaluator.playing.seeds import RunSeeds
from a2perf.submission.evaluator.process.answers import BadAnswer, confidence
from a2perf.submission.evaluator.process.failures import ParticipantFailure
from a2perf.submission.settings import Submission
from tests.commands import bindings, flags
from tests.made_submissions import TOY, WEB, gin, policy
from tests.participants import make_participant

GIN = {
    "time_participant_code": False,
    "num_inference_episodes": 1,
    "record_frames": 0,
    "fresh_policy": "episode",
    "kwargs": {"num_websites": 5, "step_limit": 2},
}
SEEDED = (
    policy(
        top="import os",
        load="""
        return {"action": int(os.environ["SEED"]) % 12500, "confidence": float(kwargs.get("confidence", 0.25))}
        """,
        infer="return policy['action']",
    )
    + "\ndef report_confidence(policy):\n    return policy['confidence']\n"
)


def settings(**given: object) -> Submission:
    return Submission(mode="inference", domain="web_navigation", **given)


def test_run_with_repeats_keeps_its_scored_episodes_and_records_the_others(submission, launch) -> None:
    path = submission(inference=SEEDED, inference_gin=gin(WEB, **GIN))
    shared = ("--perturbations", "order", "--public-seeds", "--concurrent-episodes", 3)
    outcome = launch(path, "inference.gin", "--repeats", 2, *shared)
    assert outcome.status == 0, outcome.output
    bundle = outcome.root / "inference"
    manifest = read_record(bundle / "manifest.json", Manifest)
    assert (manifest.repeats, manifest.perturbations, manifest.concurrent_episodes) == (2, ["order"], 3)
    assert validate(bundle) == []
    rollouts = read_record(bundle / "metrics" / "rollouts.json", RolloutResults)
    (seed,) = manifest.seeds["episodes"]
    assert [(e.index, e.seed, e.task_index, e.repeat, e.perturbation) for e in rollouts.episodes] == [
        (0, seed, 0, 0, "")
    ]
    assert [(e.index, e.seed, e.task_index, e.repeat, e.perturbation) for e in rollouts.further] == [
        (1, seed, 0, 1, ""),
        (2, seed, 0, 0, "order"),
    ]
    # A process of a repetition has another seed, the others that of the run.
    of_repeat = [seed % 12500 for seed in RunSeeds(manifest.root_seed).draw("participant", 2)]
    assert of_repeat[0] == manifest.seeds["participant"] % 12500
    for episode in (*rollouts.episodes, *rollouts.further):
        assert set(episode.actions.sequence) == {of_repeat[episode.repeat]}
        assert episode.confidence == 0.25
        assert episode.policy_cpu_s > 0
    group = score_runs([outcome.root], cached=False)["groups"][0]
    assert group["scores"]["success_rate"]["value"] == 0.0
    assert group["scores"]["returns"]["notes"] == ["1 episodes of 1 run(s)"]
    # Another number of repeats is another run.
    again = launch(path, "inference.gin", "--repeats", 3, *shared)
    assert again.status == 2
    assert "repeats was 2, now 3" in again.output


def test_confidence_outside_of_its_range_fails_the_participant(submission, tmp_path) -> None:
    with make_participant(submission(inference=SEEDED), logs=tmp_path / "logs", environment={"SEED": "1"}) as opened:
        opened.start()
        opened.load_policy({"confidence": "1.5"})
        assert opened.reports_confidence
        with pytest.raises(ParticipantFailure) as caught:
            opened.confidence()
    failure = caught.value.failure
    assert (failure.kind, failure.where) == (FailureKind.BAD_OUTPUT, "report_confidence")
    assert "its confidence is 1.5; expected a number from 0 to 1" in failure.message


def test_submission_with_a_wrong_signature_is_refused(submission, tmp_path) -> None:
    path = submission(inference=SEEDED.replace("report_confidence(policy)", "report_confidence()"))
    with make_participant(path, logs=tmp_path / "logs", environment={"SEED": "1"}) as opened:
        opened.start()
        with pytest.raises(ParticipantFailure, match="expected report_confidence"):
            opened.load_policy({})


@pytest.mark.parametrize("value", [True, None, "0.5", float("nan"), -0.1, 2, [0.5], np.array([0.1, 0.2]), 10**400])
def test_answers_that_are_not_a_confidence(value: object) -> None:
    with pytest.raises(BadAnswer, match="expected a number from 0 to 1"):
        confidence(("ok", value))


@pytest.mark.parametrize("value", [0, 1, 0.5, np.float32(0.5), np.array([0.5])])
def test_answers_that_are_a_confidence(value: object) -> None:
    assert confidence(("ok", value)) == pytest.approx(float(np.asarray(value).item()))


def test_settings_are_checked() -> None:
    assert settings().perturbations == ()
    assert settings(perturbations=["all"]).perturbations == ("wording", "order", "layout")
    assert settings(perturbations=["layout", "wording"]).perturbations == ("wording", "layout")
    with pytest.raises(ConfigError, match="'friction' is not a perturbation of web_navigation"):
        settings(perturbations=["friction"])
    with pytest.raises(ConfigError, match="lists 'order' twice"):
        settings(perturbations=["order", "order"])
    with pytest.raises(ConfigError, match=r"Submission\.repeats = 0"):
        settings(repeats=0)


def test_plan_without_options_is_the_scored_episodes() -> None:
    plan = list(episode_plan(1, (), [7, 9]))
    assert [(one.index, one.seed, one.task_index, one.is_scored) for one in plan] == [(0, 7, 0, True), (1, 9, 1, True)]
    longer = list(episode_plan(2, ["order"], [7, 9]))
    assert longer[:2] == plan
    assert [one.is_scored for one in longer] == [True] * 2 + [False] * 4


def test_actions_are_recorded_by_the_stated_rules() -> None:
    discrete = ActionRecorder(gymnasium.spaces.Discrete(5))
    for action in (3, 1, 3):
        discrete(None, None, action)
    assert discrete.record().sequence == [3, 1, 3]
    assert discrete.record().histograms == []
    low, high = np.array([-1.0, 0.0], np.float32), np.array([1.0, 8.0], np.float32)
    box = ActionRecorder(gymnasium.spaces.Box(low, high))
    for action in ([-1.0, 8.0], [-0.999, 7.99], [0.0, 4.0]):
        box(None, None, np.array(action, np.float32))
    record = box.record()
    assert record.bins == BINS
    assert [np.flatnonzero(counts).tolist() for counts in record.histograms] == [[0, BINS // 2], [BINS // 2, BINS - 1]]
    assert record.sequence[0] == record.sequence[1] != record.sequence[2]
    assert max(record.sequence) < 2**53
    open_ended = ActionRecorder(gymnasium.spaces.Box(-np.inf, np.inf, (1,)))
    open_ended(None, None, np.array([1.0], np.float32))  # 1 / (1 + 1) of the way from 0 to 1
    assert np.flatnonzero(open_ended.record().histograms[0]).tolist() == [3 * BINS // 4]
    parts = gymnasium.spaces.Tuple([gymnasium.spaces.Discrete(2), gymnasium.spaces.Discrete(2)])
    other = ActionRecorder(parts)
    other(None, None, (0, 1))
    assert other.record().sequence == []
    assert len(other.record().sha256) == 64


@pytest.mark.slow
def test_invalid_action_fails_the_perturbed_episode_and_not_the_run(submission, launch) -> None:
    code = policy(
        load="return []",
        infer="""
        policy.append(None)
        # The two macros of the scored episode, then a cell outside of the grid.
        return int(np.argmax(observation["mask"])) if len(policy) <= 2 else 0
        """,
    )
    organizers = gin(TOY, time_participant_code=False, record_frames=0)
    outcome = launch(
        submission(inference=code, inference_gin=organizers), "inference.gin", "--perturbations", "mirrored"
    )
    assert outcome.status == 0, outcome.output
    rollouts = json.loads((outcome.root / "inference" / "metrics" / "rollouts.json").read_text())
    (failed,) = rollouts["further"]
    assert (failed["success"], failed["termination"], failed["length"]) == (False, "invalid action", 1)
    assert rollouts["episodes"][0]["length"] == 2


@pytest.mark.slow
@pytest.mark.parametrize(
    ("example", "domain", "task", "perturbation"),
    [
        ("web_solver", "web_navigation", "difficulty_level_1_num_websites_5", "wording"),
        ("minimal", "circuit_training", "toy_macro_stdcell", "mirrored"),
        ("minimal", "quadruped_locomotion", "synthetic_trot", "friction"),
    ],
)
def test_examples_run_with_repeats_and_a_perturbation(
    example: str, domain: str, task: str, perturbation: str, launch, repository: Path
) -> None:
    given = bindings(
        *(
            f"Submission.{name} = {value}"
            for name, value in (("num_inference_episodes", 2), ("num_inference_steps", 0), ("record_frames", 0))
        )
    )
    outcome = launch(
        repository / "examples" / example,
        "inference.gin",
        *flags(domain=domain, task=task, repeats=2, perturbations=perturbation),
        *given,
    )
    assert outcome.status == 0, outcome.output
    rollouts = json.loads((outcome.root / "inference" / "metrics" / "rollouts.json").read_text())
    assert [e["perturbation"] for e in rollouts["further"]] == ["", "", perturbation, perturbation]
    if example == "web_solver":
        (scored, *_), (repeated, *_) = rollouts["episodes"], rollouts["further"]
        assert scored["success"]
        assert repeated["actions"] == scored["actions"]
