"""Recorded evaluations repeated from their record: equal, changed, not seeded; with real child processes."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from a2perf.experiments.reproduce.rebuild import ReproduceRequest, rebuild
from a2perf.experiments.reproduce.reproduction import FAIL_ON, Reproductions, reproduce
from a2perf.experiments.reproduce.selection import find_bundles
from a2perf.launch import Conductor
from a2perf.launch.interface import get_launcher
from a2perf.runs import signing
from a2perf.runs.reproduction import mark_of, place_of, read_reproduction
from a2perf.submission.run_options import RunOptions
from tests.commands import flags, launch
from tests.made_submissions import TROT, gin, policy, write_submission


def write_agent(folder: Path, action: float) -> Path:
    infer = f"return np.full(policy.shape, {action}, dtype=np.float32)"
    return write_submission(folder, policy(load="return env.action_space", infer=infer))


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a submission, ``agent``, and its recorded evaluation, ``runs/seed_0/inference``."""
    folder = tmp_path_factory.mktemp("recorded")
    write_agent(folder / "agent", 0.0)
    gin = folder / "run.gin"
    gin.write_text(
        "import a2perf.submission.submission_util\nSubmission.mode = %BenchmarkMode.INFERENCE\n"
        "Submission.num_inference_episodes = 2\nSubmission.time_participant_code = False\n"
        "Submission.record_frames = 0\nSubmission.sandbox = 'process'\n"
    )
    given = flags(submission=folder / "agent", gin_config=gin, root_dir=folder / "runs" / "seed_0", task=TROT)
    launch(*given, cwd=folder, check=True)
    return folder


def repeat(folder: Path, out: Path, **given: object) -> Reproductions:
    options = RunOptions.of(sandbox="process")
    given = {"output": out, "paths": [folder / "runs"], "options": options, **given}
    with Conductor(get_launcher("local"), 1, console=None) as conductor:
        return reproduce(ReproduceRequest(**given), conductor)  # type: ignore[arg-type]


def copied(recorded: Path, target: Path) -> Path:
    shutil.copytree(recorded, target, copy_function=shutil.copy2)
    return target


def test_a_deterministic_evaluation_is_bit_equal_and_the_verdict_is_signed_and_kept(
    recorded: Path, tmp_path: Path
) -> None:
    signing.new_key(tmp_path / "key")
    found = repeat(recorded, tmp_path / "out", key=tmp_path / "key")
    (verdict,) = found.verdicts
    assert (verdict.verdict, verdict.method, verdict.equal_episodes) == ("CONFIRMED", "bit-equal", 2)
    assert verdict.first_difference is None
    assert "observation, action, reward" in verdict.checked[0]
    assert verdict.same_host is True
    assert {item.name for item in verdict.changed} <= {"a2perf code"}  # of a checkout that changes during the test
    assert [run.seeds for run in verdict.runs] == ["recorded"]
    assert found.exit_code(FAIL_ON["unchecked"]) == 0
    # a mark counts for this manifest only, and only with the signature that belongs to it
    bundle = recorded / "runs" / "seed_0" / "inference"
    (place,) = (tmp_path / "out").glob("*/*.reproduction.json")
    raw = signing.trusted_keys(tmp_path / "key.pub")[0][1]
    mark = mark_of(bundle, names={signing.key_id(raw): "me"}, others=[place])
    assert mark is not None
    assert (mark.signature, mark.verdict) == ("signed", "CONFIRMED")
    assert mark.text == f"reproduced {verdict.finished_at[:10]} on the same host"
    document = json.loads(place.read_text())
    document["reason"] = "another one"
    forged = tmp_path / "forged.reproduction.json"
    forged.write_text(json.dumps(document))
    assert mark_of(bundle, others=[forged]) is None
    document |= {"signature": None, "manifest_sha256": "0" * 64}
    forged.write_text(json.dumps(document))
    assert mark_of(bundle, others=[forged]) is None
    # the same command again keeps the verdict
    again = repeat(recorded, tmp_path / "out")
    assert (again.kept, again.verdicts[0].finished_at) == (1, verdict.finished_at)


def test_flags_of_the_recorded_command_are_repeated(recorded: Path, tmp_path: Path) -> None:
    """Flags are not in the gin configuration, only in the settings of the manifest."""
    base, limit = tmp_path / "flags", 900_000_000
    given = flags(
        submission=recorded / "agent",
        gin_config=recorded / "run.gin",
        root_dir=base / "runs" / "seed_0",
        task=TROT,
        repeats=2,
        memory_limit_bytes=limit,
        run_time_limit_s=500,
        concurrent_episodes=2,
        allow_weaker=True,
    )
    launch(*given, cwd=tmp_path, check=True)
    weaker = RunOptions.of(sandbox="process", allow_weaker=True)  # a record cannot ask for it
    (verdict,) = repeat(base, tmp_path / "out", options=weaker).verdicts
    assert (verdict.verdict, verdict.method) == ("CONFIRMED", "bit-equal")
    (path,) = [path for path in (tmp_path / "out").rglob("run_0/inference/manifest.json") if "record" not in path.parts]
    first = json.loads((base / "runs" / "seed_0" / "inference" / "manifest.json").read_text())
    again = json.loads(path.read_text())
    assert again["repeats"] == first["repeats"] == 2
    assert again["sandbox"]["limits"] == first["sandbox"]["limits"]
    assert again["sandbox"]["limits"]["memory_bytes"] == limit
    assert again["settings"]["run_time_limit_s"] == 500


def test_another_policy_is_not_run_unless_allowed_and_its_first_step_differs(recorded: Path, tmp_path: Path) -> None:
    folder = copied(recorded, tmp_path / "copy")
    shutil.rmtree(folder / "agent")
    write_agent(tmp_path / "changed" / "agent", 0.3)
    moved = folder / "runs" / "seed_0" / "inference"
    (bundle,), _ = find_bundles([folder / "runs"])
    rebuilt, _ = rebuild(bundle, tmp_path / "work", ReproduceRequest(paths=(), submissions=(tmp_path / "changed",)))
    assert rebuilt is not None
    assert rebuilt.submission == recorded / "agent"  # the recorded path still leads to the code with the hash
    (recorded / "agent").rename(recorded / "away")
    try:
        (found,) = repeat(folder, tmp_path / "out2", submissions=[tmp_path / "changed"]).verdicts
        assert found.verdict == "NOT CHECKED"
        assert "--allow-changed" in found.missing[0]
        assert any("2 episodes have the seeds" in text for text in found.checked)
        result = repeat(folder, tmp_path / "out3", submissions=[tmp_path / "changed"], allow_changed=True)
    finally:
        (recorded / "away").rename(recorded / "agent")
    (found,) = result.verdicts
    assert found.first_difference is not None
    assert (found.first_difference.episode, found.first_difference.step) == (0, 0)
    assert found.first_difference.array == "action"
    assert found.changed[0].name == "submission"
    assert (found.method, found.equal_episodes) == ("statistical", 0)
    (place,) = (tmp_path / "out3" / "seed_0").glob("inference-*.reproduction.json")
    assert read_reproduction(place) == found
    assert not place_of(moved).exists()


def test_an_unseeded_policy_plays_the_episodes_that_were_asked_for_and_is_compared_once(tmp_path: Path) -> None:
    infer = "return np.random.default_rng().uniform(-1, 1, policy.shape).astype(np.float32)"
    write_submission(tmp_path / "agent", policy(load="return env.action_space", infer=infer))
    (tmp_path / "run.gin").write_text(gin(TROT, num_inference_episodes=3, num_inference_steps=0, sandbox="process"))
    words = ["--submission", tmp_path / "agent", "--gin-config", tmp_path / "run.gin"]
    launch(*words, "--root-dir", tmp_path / "runs" / "seed_0", cwd=tmp_path, check=True)
    (verdict,) = repeat(tmp_path, tmp_path / "out", episodes=5).verdicts
    assert (verdict.method, verdict.equal_episodes) == ("statistical", 0)
    assert [run.seeds for run in verdict.runs] == ["recorded", "fresh"]
    found = verdict.statement
    assert found is not None
    assert (found.unit, found.recorded_n, found.repeated_n, found.look) == ("episodes", 3, 6, 2)
    # the same number keeps the verdict, another one is another look
    assert repeat(tmp_path, tmp_path / "out", episodes=6).kept == 1
    (again,) = repeat(tmp_path, tmp_path / "out").verdicts
    assert again.statement is not None
    assert (again.statement.unit, again.statement.repeated_n) == ("episodes of equal seeds", 3)


def test_a_verdict_is_void_when_its_conditions_have_changed(recorded: Path, tmp_path: Path) -> None:
    (first,) = repeat(recorded, tmp_path / "out").verdicts
    assert {"a2perf", "submission"} <= set(first.conditions)
    (place,) = (tmp_path / "out").glob("*/*.reproduction.json")
    document = json.loads(place.read_text())
    document |= {"verdict": "REFUTED", "conditions": {**first.conditions, "a2perf": "0" * 64}}
    place.write_text(json.dumps(document))
    again = repeat(recorded, tmp_path / "out")
    assert (again.kept, again.verdicts[0].verdict) == (0, "CONFIRMED")
    # a call that cannot repeat the bundle leaves the verdict of an earlier one
    (recorded / "agent").rename(recorded / "away")
    try:
        (unchecked,) = repeat(recorded, tmp_path / "out").verdicts
    finally:
        (recorded / "away").rename(recorded / "agent")
    assert unchecked.verdict == "NOT CHECKED"
    assert read_reproduction(place).verdict == "CONFIRMED"
