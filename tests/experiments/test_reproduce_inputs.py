"""Bad input of ``a2perf reproduce``, and verdicts of strangers; nothing here needs a child process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import a2perf
from a2perf.errors import ConfigError
from a2perf.experiments.reproduce.rebuild import ReproduceRequest, fresh_seeds, rebuild
from a2perf.experiments.reproduce.selection import find_bundles, sample
from a2perf.report.leaderboard.entries import Trust, find_entries
from a2perf.runs import signing
from a2perf.runs.bundles.layout import CONFIG
from a2perf.runs.reproduction import ChangedCondition, Reproduction, place_of, write_reproduction
from a2perf.runs.signing import manifest_sha256
from a2perf.submission.evaluator.submitted.folder_content import identify_submission
from a2perf.submission.run_options import RunOptions
from tests.commands import call_a2perf
from tests.made_submissions import TOY, gin, policy, write_submission
from tests.metrics import made_bundles


def test_a_sample_is_seeded_and_stated_as_a_share_or_a_number(tmp_path: Path) -> None:
    for seed in range(10):
        made_bundles.write_inference(tmp_path / f"R{seed}", seed)
    found, _ = find_bundles([tmp_path])
    assert [one.folder.label for one in sample(found, "30%", 1)] == [one.folder.label for one in sample(found, "3", 1)]
    assert len(sample(found, "1%", 0)) == 1
    # what cannot be repeated is replaced by the next of the order; without anything else it is checked and says why
    able = {one.folder.label for one in found[::2]}
    assert {one.folder.label for one in sample(found, "5", 1, lambda bundle: bundle.folder.label in able)} == able
    assert sample(found, "3", 1, lambda bundle: False) == sample(found, "3", 1)
    for size in ("0", "110%", "half", "1.5"):
        with pytest.raises(ConfigError, match="--sample"):
            sample(found, size, 0)


def test_fresh_seeds_differ_from_the_recorded_ones_and_between_repetitions() -> None:
    manifest = made_bundles.manifest("inference", 0)
    manifest.seeds["episodes"] = list(range(50))
    first, second = (set(fresh_seeds(manifest, number, 50)) for number in (1, 2))
    assert len(first) == len(second) == 50
    assert not first & second
    assert not first & set(range(50))


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"x = 1\nimport os": 1}, "is not the name of an argument"),
        ({"output_plc_file": "/etc/passwd"}, "arguments of no registered task"),
    ],
)
def test_a_strangers_bundle_cannot_configure_the_evaluator(
    kwargs: dict[str, Any], message: str, tmp_path: Path
) -> None:
    bundle = made_bundles.write_inference(
        tmp_path / "R", 3, domain="circuit_training", env_id="CircuitTraining-ToyMacro-v0", env_kwargs=kwargs
    )
    (bundle / CONFIG).write_text("Submission.sandbox = 'none'\nSubmission.num_inference_episodes = 2\n")
    (found,), _ = find_bundles([tmp_path])
    rebuilt, missing = rebuild(found, tmp_path / "work", ReproduceRequest(paths=()))
    assert rebuilt is None
    assert any(message in text for text in missing)


def test_a_vanished_environment_and_submission_are_named(tmp_path: Path) -> None:
    made_bundles.write_inference(tmp_path / "R", 3, env_id="QuadrupedLocomotion-DogPace-v7")
    (found,), _ = find_bundles([tmp_path])
    _, missing = rebuild(found, tmp_path / "work", ReproduceRequest(paths=()))
    assert any("QuadrupedLocomotion-DogPace-v7" in text for text in missing)
    assert any("give its folder: --submission DIR" in text for text in missing)


def test_a_forged_bundle_is_refused(tmp_path: Path) -> None:
    bundle = made_bundles.write_inference(tmp_path / "R", 3)
    rollouts = bundle / "metrics" / "rollouts.json"
    rollouts.write_text(rollouts.read_text().replace("1", "2", 1))
    status, out, _ = call_a2perf("reproduce", tmp_path / "R", "-o", tmp_path / "out", "--fail-on", "refuted")
    assert status == 1
    assert "REFUSED: it was changed after the run: metrics/rollouts.json was changed" in out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--claim", "return>=1"], "no such option"),
        (["--episodes", "0"], "is not in the range"),
        (["--allow-changed"], "--allow-changed needs --submission DIR"),
        (["--entry", "agnet"], "did you mean 'agent'"),
        (["--key", "nowhere.key"], "the key nowhere.key cannot be read"),
    ],
)
def test_wrong_words_exit_with_2(words: list[str], message: str, tmp_path: Path) -> None:
    made_bundles.write_inference(tmp_path / "R", 3)
    status, _, err = call_a2perf("reproduce", tmp_path / "R", "-o", tmp_path / "out", *words)
    assert status == 2
    assert message in err


def verdict_on(bundle: Path, **given: Any) -> Reproduction:
    fields: dict[str, Any] = {
        "a2perf_version": "1",
        "a2perf_sha256": "",
        "bundle": "b",
        "manifest_sha256": manifest_sha256(bundle),
        "submission": "agent",
        "submission_sha256": "",
        "domain": "",
        "task": "trot",
        "mode": "inference",
        "root_seed": 3,
        "verdict": "CONFIRMED",
        "method": "bit-equal",
        "reason": "all episodes are bit-equal",
        "same_host": False,
        "finished_at": "2026-11-20T10:00:00",
    }
    return Reproduction(**{**fields, **given})


def shown_on_board(folder: Path, trust: Trust) -> list[str]:
    ((entry,), _, _) = find_entries(folder, trust)
    return [line.reproduction.text for line in entry.lines if line.reproduction is not None]


def test_a_verdict_that_comes_with_its_bundle_is_the_word_of_its_author(tmp_path: Path) -> None:
    bundle = made_bundles.write_inference(tmp_path / "runs" / "seed_3", 3)
    other = made_bundles.write_inference(tmp_path / "other" / "seed_4", 4)
    write_reproduction(place_of(bundle), verdict_on(bundle, finished_at="2099-01-01T00:00:00"))
    write_reproduction(place_of(other), verdict_on(bundle))  # of another bundle: it does not count there
    (run,), _ = find_bundles([bundle])
    assert run.reproduction is not None
    assert (run.reproduction.text, run.reproduction.signature) == ("reproduced, as the bundle states", "unsigned")
    assert shown_on_board(tmp_path / "runs", Trust()) == ["reproduced, as the bundle states"]
    assert shown_on_board(tmp_path / "other", Trust()) == []
    page = a2perf.write_report([a2perf.read_run(bundle)], tmp_path / "report").page.read_text(encoding="utf-8")
    assert "2099-01-01" not in page


def test_the_readers_own_verdict_and_a_refutation_win_whatever_the_dates(tmp_path: Path) -> None:
    bundle = made_bundles.write_inference(tmp_path / "runs" / "seed_3", 3)
    own = tmp_path / "verdicts"
    write_reproduction(place_of(bundle), verdict_on(bundle, finished_at="2099-01-01T00:00:00"))
    refuted = verdict_on(bundle, verdict="REFUTED", method="statistical", finished_at="2026-11-21")
    write_reproduction(own / "a.reproduction.json", refuted)
    write_reproduction(own / "b.reproduction.json", verdict_on(bundle, finished_at="2026-11-22"))
    assert shown_on_board(tmp_path / "runs", Trust.read(None, own)) == ["not reproduced 2026-11-21 on another host"]
    # with a trusted signature the record beside the bundle is as good as the reader's, and a refutation still wins
    signing.new_key(tmp_path / "key")
    write_reproduction(place_of(bundle), verdict_on(bundle, finished_at="2099-01-01T00:00:00"), tmp_path / "key")
    assert shown_on_board(tmp_path / "runs", Trust.read(tmp_path / "key.pub", own))[0].startswith("not reproduced")
    assert shown_on_board(tmp_path / "runs", Trust.read(tmp_path / "key.pub")) == [
        "reproduced 2099-01-01 on another host"
    ]


def test_a_refutation_in_another_environment_says_nothing_about_the_record(tmp_path: Path) -> None:
    bundle = made_bundles.write_inference(tmp_path / "runs" / "seed_3", 3)
    changed = ChangedCondition(name="files of the environment", recorded="1" * 12, repeated="2" * 12)
    void = verdict_on(bundle, verdict="REFUTED", method="statistical", changed=[changed])
    write_reproduction(tmp_path / "verdicts" / "a.reproduction.json", void)
    assert shown_on_board(tmp_path / "runs", Trust.read(None, tmp_path / "verdicts")) == []


def recorded_by(folder: Path, **changes: Any) -> Path:
    """Writes a bundle of the submission ``folder/agent``."""
    submission = identify_submission(folder / "agent")
    bundle = made_bundles.write_inference(
        folder / "runs", 3, domain="circuit_training", env_id=TOY, submission=submission, **changes
    )
    (bundle / CONFIG).write_text("")
    return made_bundles.seal(bundle)


HARMFUL = {
    "memory_limit_bytes": 0,
    "process_limit": 1_000_000,
    "artifact_limit_bytes": None,
    "run_time_limit_s": 1e9,
    "call_timeout_s": 1e6,
    "load_timeout_s": 1e6,
}


def test_limits_of_a_strangers_bundle_can_only_be_lower_than_those_of_this_host(tmp_path: Path) -> None:
    write_submission(tmp_path / "agent", policy())
    bundle = recorded_by(tmp_path, settings={**HARMFUL, "call_timeout_s": 5.0})
    (found,), _ = find_bundles([bundle.parent])
    rebuilt, missing = rebuild(found, tmp_path / "work", ReproduceRequest(paths=(), submissions=(tmp_path / "agent",)))
    assert rebuilt is not None, missing
    (spec,) = rebuilt.specs(0)
    text = (tmp_path / "work" / "record" / "run_0" / "inference" / "run.gin").read_text()
    assert spec.data["task"] == "trot"
    assert [name for name in HARMFUL if f"Submission.{name} =" in text] == ["call_timeout_s"]
    assert "Submission.call_timeout_s = 5.0" in text


def test_packages_of_a_record_are_not_built(tmp_path: Path) -> None:
    write_submission(tmp_path / "agent", policy())
    bundle = recorded_by(tmp_path, settings={"python_env": "built"})
    (found,), _ = find_bundles([bundle.parent])
    request = ReproduceRequest(paths=(), submissions=(tmp_path / "agent",))
    rebuilt, missing = rebuild(found, tmp_path / "work", request)
    assert rebuilt is None
    assert missing == ["its packages were built from source; only wheels are installed (--python-env isolated)"]
    asked = ReproduceRequest(paths=(), submissions=(tmp_path / "agent",), options=RunOptions.of(python_env="isolated"))
    assert rebuild(found, tmp_path / "work", asked)[0] is not None


@pytest.mark.parametrize("name", ["run_time_limit_s", "call_timeout_s", "load_timeout_s", "process_limit"])
def test_every_limit_has_an_upper_bound(name: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    write_submission(tmp_path / "agent", policy())
    (tmp_path / "run.gin").write_text(gin(TOY, **{name: 10**9}))
    words = ["run", "--submission", str(tmp_path / "agent"), "--gin-config", str(tmp_path / "run.gin")]
    assert call_a2perf(*words, "--root-dir", tmp_path / "runs").status == 2
    assert f"Submission.{name} = 1e+09 is not valid" in capfd.readouterr().err
