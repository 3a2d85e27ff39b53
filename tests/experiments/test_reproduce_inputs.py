"""Bad input of ``a2perf reproduce``, and judgements of recorded runs that need no child process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

import a2perf
from a2perf.cli import main
from a2perf.errors import ConfigError
from a2perf.experiments.reproduce.claims import QUANTITIES, Claim, parse_claim
from a2perf.experiments.reproduce.judgement import BundleJudgement, overall
from a2perf.experiments.reproduce.rebuild import ReproduceRequest, fresh_seeds, rebuild
from a2perf.experiments.reproduce.selection import find_bundles, sample
from a2perf.report.leaderboard.entries import Trust, find_entries
from a2perf.runs.bundles.layout import CONFIG
from a2perf.runs.bundles.reproduction import Reproduction, place_of, write_reproduction
from a2perf.runs.packed.signing import manifest_sha256
from a2perf.runs.run import Run, RunIdentity
from tests.metrics import made_bundles


@pytest.mark.parametrize(
    ("text", "comparison", "value"),
    [
        ("return>=380", ">=", 380.0),
        ("latency <= 3 ms", "<=", 3e-3),
        ("energy<=0.5 kWh", "<=", 0.5),
        ("energy<=3.6 MJ", "<=", 1.0),
        ("peak_memory<=2 GiB", "<=", 2.0**31),
        ("success>=90 %", ">=", 0.9),
        ("latency", "<=", None),
    ],
)
def test_claims_have_units(text: str, comparison: str, value: float | None) -> None:
    claim = parse_claim(text)
    assert claim.comparison == comparison
    assert claim.threshold == pytest.approx(value) if value is not None else claim.threshold is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("latency<=3", "has no unit; latency has s, ms"),
        ("latency<=3 kWh", "has the unit 'kWh'; latency has s, ms"),
        ("return>=380 ms", "has the unit 'ms'; return has no unit"),
        ("retrun>=380", "did you mean 'return'"),
        ("return>380", "is not valid"),
        ("success>=90", "between 0 and 1"),
        ("energy<=-1 J", "cannot be negative"),
    ],
)
def test_a_wrong_claim_says_what_is_valid(text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message.replace("+", r"\+")):
        parse_claim(text)


def status_of(words: list[str]) -> object:
    with pytest.raises(SystemExit) as ended:
        main(words)
    return ended.value.code


def run_with(values: list[float], latency: float = 0.0) -> Run:
    found = Run(RunIdentity(mode="inference"), returns={"inference": {"task": np.array(values)}})
    if latency:
        found.latency_s["round_trip"] = np.full(5, latency)
    return found


def judged(claim: Claim, recorded: Run, repeated: list[Run]) -> Any:
    found = BundleJudgement(recorded, [claim], max_runs=len(repeated), repeated=repeated)
    (result,) = found.results()
    return result


def test_a_claimed_threshold_is_judged_by_fresh_episodes_only() -> None:
    lucky, honest = run_with([400.0] * 20), run_with([300.0, 320.0, 310.0, 305.0, 315.0] * 4)
    result = judged(parse_claim("return>=380"), lucky, [lucky, honest])
    assert result.verdict == "REFUTED"
    assert result.reruns <= 20
    assert result.estimate == pytest.approx(310.0, abs=5.0)
    assert judged(parse_claim("return>=290"), lucky, [lucky, honest]).verdict == "CONFIRMED"
    assert judged(parse_claim("return>=380"), lucky, [lucky]).verdict == "INCONCLUSIVE"


def test_costs_are_judged_by_one_value_per_repetition() -> None:
    runs = [run_with([1.0], latency) for latency in (2.0e-3, 2.1e-3, 1.9e-3, 2.0e-3, 2.05e-3, 1.95e-3, 2.0e-3)]
    assert judged(parse_claim("latency<=3 ms"), runs[0], runs).verdict == "CONFIRMED"
    assert judged(parse_claim("latency<=1 ms"), runs[0], runs).verdict == "REFUTED"


def test_a_host_that_cannot_measure_a_claim_says_so() -> None:
    recorded, repeated = run_with([1.0]), run_with([1.0])
    for run, quality in ((recorded, "measured"), (repeated, "estimated")):
        run.tracking.energy.gross_kwh, run.tracking.energy.quality = 0.5, quality
    result = judged(parse_claim("energy<=0.6 kWh"), recorded, [repeated])
    assert result.verdict == "NOT CHECKED"
    assert "only estimates it" in result.reason
    missing = judged(parse_claim("latency<=1 s"), recorded, [repeated])
    assert missing.reason == "this host measured no latency"
    assert overall([result, missing])[0] == "NOT CHECKED"


def test_every_quantity_reads_a_recorded_bundle(tmp_path: Path) -> None:
    made_bundles.write_inference(tmp_path / "R", 3)
    (run,), _ = find_bundles([tmp_path])
    assert {name: quantity.values(run).size for name, quantity in QUANTITIES.items()} == {
        "return": 20, "success": 20, "latency": 1, "peak_memory": 0, "energy": 0,
    }  # fmt: skip


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


def test_a_forged_bundle_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bundle = made_bundles.write_inference(tmp_path / "R", 3)
    rollouts = bundle / "metrics" / "rollouts.json"
    rollouts.write_text(rollouts.read_text().replace("1", "2", 1))
    assert status_of(["reproduce", str(tmp_path / "R"), "-o", str(tmp_path / "out"), "--fail-on", "refuted"]) == 1
    assert "REFUSED: it was changed after the run: metrics/rollouts.json was changed" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--claim", "return>=1 ms"], "return has no unit"),
        (["--claim", "return>=1", "--claim", "return>=1"], "is given twice"),
        (["--allow-changed"], "--allow-changed needs --submission DIR"),
        (["--entry", "agnet"], "did you mean 'agent'"),
        (["--key", "nowhere.key"], "the key nowhere.key cannot be read"),
    ],
)
def test_wrong_words_exit_with_2(
    words: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made_bundles.write_inference(tmp_path / "R", 3)
    assert status_of(["reproduce", str(tmp_path / "R"), "-o", str(tmp_path / "out"), *words]) == 2
    assert message in capsys.readouterr().err


def test_a_verdict_beside_its_bundle_is_a_mark_on_leaderboard_and_report(tmp_path: Path) -> None:
    bundle = made_bundles.write_inference(tmp_path / "runs" / "seed_3", 3)
    other = made_bundles.write_inference(tmp_path / "other" / "seed_4", 4)
    (run,), _ = find_bundles([bundle])
    verdict = Reproduction(
        a2perf_version="1", a2perf_sha256="", bundle="b", manifest_sha256=manifest_sha256(bundle), submission="agent",
        submission_sha256="", domain="", task="trot", mode="inference", root_seed=3, verdict="CONFIRMED",
        method="bit-equal", reason="all episodes are bit-equal", same_host=False, finished_at="2026-11-20T10:00:00",
    )  # fmt: skip
    write_reproduction(place_of(bundle), verdict)
    write_reproduction(place_of(other), verdict)  # of another bundle: it does not count there
    text = "reproduced 2026-11-20 on another host"
    assert run.reproduction is not None
    assert (run.reproduction.text, run.reproduction.signature) == (text, "unsigned")
    ((entry,), _, _) = find_entries(tmp_path / "runs", Trust())
    assert [line.reproduction.text for line in entry.lines if line.reproduction is not None] == [text]
    ((foreign,), _, _) = find_entries(tmp_path / "other", Trust())
    assert [line.reproduction for line in foreign.lines] == [None]
    # a folder of verdicts counts for packed bundles too, and a refuted one is not hidden by an older one
    refuted = Reproduction(**{**msgspec.structs.asdict(verdict), "verdict": "REFUTED", "finished_at": "2026-11-21"})
    write_reproduction(tmp_path / "verdicts" / "x.reproduction.json", refuted)
    trust = Trust.read(None, tmp_path / "verdicts")
    ((entry,), _, _) = find_entries(tmp_path / "runs", trust)
    assert entry.lines[0].reproduction is not None
    assert entry.lines[0].reproduction.text == "not reproduced 2026-11-21 on another host"
    page = a2perf.write_report([a2perf.read_run(bundle)], tmp_path / "report").page.read_text(encoding="utf-8")
    assert text in page


def test_repetitions_of_a_training_run_count_once_each() -> None:
    recorded = run_with([10.0, 12.0, 11.0, 9.0])
    runs = [run_with([value - 1, value + 1]) for value in (10.4, 10.6, 10.5, 10.3, 10.7, 10.5, 10.45, 10.55)]
    judgement = BundleJudgement(recorded, [parse_claim("return>=5")], len(runs), trained=True, repeated=runs)
    (result,) = judgement.results()
    assert (result.verdict, result.reruns) == ("CONFIRMED", 7)  # the repetition of the recorded seeds does not count
