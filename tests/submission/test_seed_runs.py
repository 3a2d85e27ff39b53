"""Seeds and policies across runs: the same episodes for every submission, from a record, in an old bundle, afresh."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from a2perf.records import Manifest, RunState
from a2perf.runs.bundles.bundle import write_manifest
from a2perf.storage import read_record
from a2perf.submission.evaluator import seed_secret
from a2perf.submission.evaluator.playing.seeds import spawn_seeds
from tests.made_submissions import TROT, gin, policy

GIN = gin(TROT, time_participant_code=False, num_inference_episodes=2, record_frames=0, kwargs={"mode": "train"})
OTHER = policy(infer="return np.full(12, 0.1, np.float32)")
REMEMBERING = policy(
    top="""
    import os
    from pathlib import Path

    PLACES = (os.environ["A2PERF_ARTIFACTS"], os.environ["ROOT_DIR"], os.environ["HOME"])
    """,
    load="""
    marks = [Path(place, "mark") for place in PLACES]
    print("met", sum(mark.exists() for mark in marks), flush=True)
    for mark in marks:
        mark.touch()
    return {"calls": 0}
    """,
    infer="policy['calls'] += 1\nreturn np.full(12, 0.001 * policy['calls'], np.float32)",
)


@pytest.fixture
def evaluate(submission, launch, tmp_path: Path) -> Callable[..., Any]:
    """Evaluates a submission with a gin file of the organizer; returns the outcome."""
    file = tmp_path / "organizer.gin"
    file.write_text(GIN)

    def run(name: str, *flags: object, entry: str = "entry", **files: str) -> Any:
        outcome = launch(submission(entry, **files), file, *flags, root=tmp_path / name)
        assert outcome.status == 0, outcome.output
        return outcome

    return run


def episodes(outcome: Any) -> list[tuple[int, float]]:
    rollouts = json.loads((outcome.root / "inference" / "metrics" / "rollouts.json").read_text())
    return [(episode["seed"], episode["episode_return"]) for episode in rollouts["episodes"]]


def test_submissions_meet_the_same_episodes_on_hosts_that_share_a_secret(evaluate, tmp_path, monkeypatch) -> None:
    first, second = evaluate("first"), evaluate("second", entry="other", inference=OTHER)
    seeds = [seed for seed, _ in episodes(first)]
    assert [seed for seed, _ in episodes(second)] == seeds
    assert seeds != spawn_seeds(0, "episodes", 2)
    monkeypatch.setenv(seed_secret.VARIABLE, str(tmp_path / "another_host"))
    elsewhere = evaluate("elsewhere")
    assert not set(seeds) & {seed for seed, _ in episodes(elsewhere)}
    # the record alone repeats the run there
    repeated = evaluate("repeated", "--seeds-from", first.root / "inference")
    assert episodes(repeated) == episodes(first)
    assert repeated.manifest("inference")["seeds"] == first.manifest("inference")["seeds"]


def test_record_of_another_root_seed_is_refused(evaluate, submission, launch, tmp_path) -> None:
    first = evaluate("first")
    flags = ("--seed", "5", "--seeds-from", first.root / "inference")
    outcome = launch(submission(), tmp_path / "organizer.gin", *flags, root=tmp_path / "refused")
    assert outcome.status == 2
    assert "has the root seed 0, but this run has 5" in outcome.output


def test_interrupted_bundle_of_before_keyed_seeds_resumes_with_its_own(evaluate, launch, submission, tmp_path) -> None:
    done = evaluate("run", "--public-seeds")
    expected = episodes(done)
    assert [seed for seed, _ in expected] == spawn_seeds(0, "episodes", 2)
    bundle = done.root / "inference"
    manifest = read_record(bundle / "manifest.json", Manifest)
    del manifest.seeds["scheme"]
    manifest.state, manifest.files = RunState.INTERRUPTED, {}
    write_manifest(bundle, manifest)
    journal = bundle / "journal.jsonl"
    journal.write_text(journal.read_text().splitlines(keepends=True)[0])
    resumed = evaluate("run", "--public-seeds")
    assert episodes(resumed) == expected
    assert "scheme" not in resumed.manifest("inference")["seeds"]
    assert len(resumed.manifest("inference")["attempts"]) == 2


def test_fresh_policy_remembers_nothing_of_earlier_episodes(evaluate) -> None:
    kept = evaluate("kept", inference=REMEMBERING)
    fresh = evaluate("fresh", "--gin_bindings", "Submission.fresh_policy = 'episode'", inference=REMEMBERING)
    assert episodes(kept)[0] == episodes(fresh)[0]
    assert episodes(kept)[1][0] == episodes(fresh)[1][0]
    assert episodes(kept)[1][1] != episodes(fresh)[1][1], "the second episode began with the calls of the first"
    logs = sorted((fresh.root / "inference" / "logs").glob("episode_*/stdout.log"))
    assert [log.read_text().strip() for log in logs] == ["met 0", "met 0"]
    manifest = fresh.manifest("inference")
    assert manifest["timings_s"]["load_policy_per_episode"] > 0
    assert manifest["tracking"]["cpu_seconds"] > kept.manifest("inference")["tracking"]["cpu_seconds"]
    # what single episodes wrote is not kept; the mark is that of the process which loads first
    assert [path.name for path in (fresh.root / "inference" / "artifacts").iterdir()] == ["mark"]
