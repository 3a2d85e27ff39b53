"""The three modes on a real environment, through the real commands."""

import base64
import csv
import io
import json
from pathlib import Path

import numpy as np
import pytest

from a2perf.runs.bundles.bundle import validate
from a2perf.sandbox import strongest_level
from tests.commands import bindings, flags, run_a2perf
from tests.made_submissions import policy

COUNTING = policy(
    top="import os",
    load="""
    assert env.action_space.shape == (12,)
    assert os.environ["A2PERF_ENV_ID"].startswith("QuadrupedLocomotion")
    return kwargs
    """,
    preprocess="assert observation.shape == (160,), observation.shape\nreturn observation * 1.0",
    infer="return np.full(12, float(policy.get('value', 0)), np.float32)",
)


def test_training_bundle_holds_what_was_asked_for(submission, launch) -> None:
    of_emissions = (
        "Submission.measure_emissions = True",
        "track_emissions_decorator.country_iso_code = 'USA'",
        "track_emissions_decorator.region = 'Atlantis'",
    )
    outcome = launch(submission(), "training.gin", "--seed", 5, "--gin_bindings", *of_emissions)
    assert outcome.status == 0, outcome.output
    manifest = outcome.manifest("train")
    assert manifest["state"] == "finished"
    assert manifest["root_seed"] == 5
    assert manifest["exit_reason"] == "returned"
    assert manifest["tracker_failures"] == []
    weights = outcome.root / "train" / "artifacts" / "weights.txt"
    assert weights.read_text() == str(manifest["seeds"]["participant"])
    assert "no carbon intensity for region 'Atlantis' of USA, the country's is used" in outcome.output
    rows = list(csv.DictReader((outcome.root / "metrics" / "train_emissions.csv").open()))
    assert rows
    assert {"energy_consumed", "ram_process", "method", "quality"} <= set(rows[0])
    assert float(rows[-1]["duration"]) > 0
    assert validate(outcome.root / "train") == []


def test_finished_run_is_printed_again_and_force_starts_anew(submission, launch) -> None:
    path = submission()
    first = launch(path, "training.gin").manifest("train")
    again = launch(path, "training.gin")
    assert again.status == 0
    assert "already finished" in again.output
    assert again.manifest("train") == first
    forced = launch(path, "training.gin", "--force")
    assert forced.status == 0
    assert forced.manifest("train")["attempts"] != first["attempts"]
    assert len(list((forced.root / "attic").iterdir())) == 1


def test_inference_sees_the_artefacts_of_the_training(submission, launch) -> None:
    code = COUNTING.replace(
        "return kwargs", "return {'value': open(os.environ['ROOT_DIR'] + '/weights.txt').read() and 0.1}"
    )
    path = submission(inference=code)
    assert launch(path, "training.gin").status == 0
    outcome = launch(path, "inference.gin")
    assert outcome.status == 0, outcome.output


@pytest.mark.group("pybullet")  # pictures
def test_inference_writes_latency_and_rollouts(submission, launch, tmp_path: Path) -> None:
    outcome = launch(
        submission(inference=COUNTING),
        "inference.gin",
        *flags(participant_args="value=0.05"),
        *bindings("Submission.record_frames = 3", "Submission.num_warmup_steps = 4"),
    )
    assert outcome.status == 0, outcome.output
    metrics = outcome.root / "inference" / "metrics"
    latency = json.loads((metrics / "latency.json").read_text())
    assert latency["observations"] == "20 fresh"
    assert latency["infer_once"]["count"] == 20
    assert latency["infer_once"]["warmup_count"] == 4
    assert latency["infer_once"]["includes"] == "infer_once only"
    assert latency["round_trip"]["median_s"] > latency["infer_once"]["median_s"] > 0
    assert latency["processor_time"]["count"] == latency["costs"]["steps"] == 20
    assert latency["costs"]["flags"] == []
    with np.load(metrics / "latency.npz") as arrays:
        assert arrays["infer_ns"].shape == (20,)
        assert np.all(arrays["round_trip_ns"] >= arrays["infer_ns"] + arrays["preprocess_ns"])
        seconds = arrays["infer_ns"] * 1e-9
    expected = {
        "mean_s": seconds.mean(),
        "std_s": seconds.std(ddof=1),
        "min_s": seconds.min(),
        "median_s": np.median(seconds),
        "p90_s": np.percentile(seconds, 90),
        "p99_s": np.percentile(seconds, 99),
        "max_s": seconds.max(),
        "throughput_hz": 1 / seconds.mean(),
    }
    assert {name: latency["infer_once"][name] for name in expected} == pytest.approx(expected)
    episodes = json.loads((metrics / "rollouts.json").read_text())["episodes"]
    assert [episode["index"] for episode in episodes] == [0, 1]
    with np.load(metrics / "rollout_steps.npz") as steps:
        assert np.bincount(steps["episode"]).tolist() == [episode["length"] for episode in episodes]
        assert steps["round_trip_ns"].min() > 0
    assert episodes[0]["seed"] != episodes[1]["seed"]
    assert set(episodes[0]["reward_terms"]) == {"pose", "velocity", "end_effector", "root_pose", "root_velocity"}
    assert episodes[0]["terminated"] != episodes[0]["truncated"]
    classic = json.loads((outcome.root / "metrics" / "inference_metrics_results.json").read_text())
    assert classic["rollout_returns"]["values"] == [episode["episode_return"] for episode in episodes]
    assert len(classic["inference_time"]["values"]) == 20
    assert classic["inference_time"]["unit"] == "s"
    assert run_a2perf("report", outcome.root, "-o", "report", cwd=tmp_path).returncode == 0  # it draws the pictures
    page = (tmp_path / "report" / "index.html").read_text()
    strip = base64.b64decode(page.partition('<img src="data:image/png;base64,')[2].partition('"')[0])
    from PIL import Image

    with Image.open(io.BytesIO(strip)) as picture:
        assert picture.height == 180
        assert picture.width > 3 * 180
        assert len(picture.convert("L").getcolors(maxcolors=256) or range(257)) > 20
    assert validate(outcome.root / "inference") == []


def test_same_seed_gives_the_same_returns_and_another_seed_does_not(submission, launch, tmp_path: Path) -> None:
    path = submission(inference=COUNTING)

    def returns(root: str, seed: int) -> list[float]:
        outcome = launch(path, "inference.gin", "--seed", seed, root=tmp_path / root)
        assert outcome.status == 0, outcome.output
        record = json.loads((outcome.root / "inference" / "metrics" / "rollouts.json").read_text())
        return [episode["episode_return"] for episode in record["episodes"]]

    first = returns("a", 3)
    assert returns("b", 3) == first
    assert returns("c", 4) != first


def test_evaluation_seeds_come_from_a_private_file(submission, launch, tmp_path: Path) -> None:
    private = tmp_path / "private.txt"
    private.write_text("101\n202\n303\n")
    given = bindings(f"Submission.evaluation_seeds_file = '{private}'")
    outcome = launch(submission(inference=COUNTING), "inference.gin", *given)
    assert outcome.status == 0, outcome.output
    assert outcome.manifest("inference")["seeds"]["episodes"] == [101, 202]


GENERALIZATION_GIN = """
import a2perf.submission.submission_util
Submission.mode = 'generalization'
Submission.domain = 'quadruped_locomotion'
Submission.num_generalization_episodes = 2
Submission.measure_emissions = True
Submission.generalization_tasks = ['synthetic_trot', 'synthetic_pace', 'synthetic_spin']
create_domain.mode = 'train'
"""


@pytest.mark.group("pybullet")
def test_generalization_runs_every_task(submission, launch) -> None:
    outcome = launch(submission(inference=COUNTING, generalization_gin=GENERALIZATION_GIN), "generalization.gin")
    assert outcome.status == 0, outcome.output
    rollouts = json.loads((outcome.root / "metrics" / "generalization_rollouts.json").read_text())
    assert set(rollouts) == {"synthetic_trot", "synthetic_pace", "synthetic_spin"}
    assert all(len(returns) == 2 for returns in rollouts.values())
    emissions = list(csv.DictReader((outcome.root / "metrics" / "generalization_emissions.csv").open()))
    assert len({row["run_id"] for row in emissions}) == 3
    manifest = outcome.manifest("generalization")
    assert manifest["sandbox"]["level"] == strongest_level()
    assert set(manifest["tracking"]) == set(rollouts)
    assert manifest["host"]
    assert manifest["tracker_failures"] == []
    assert validate(outcome.root / "generalization") == []


@pytest.mark.group("pybullet")
def test_failing_task_does_not_hide_the_others(submission, launch) -> None:
    code = COUNTING.replace(
        "    return kwargs",
        "    if 'Pace' in os.environ['A2PERF_ENV_ID']:\n        raise RuntimeError('lame')\n    return kwargs",
    )
    outcome = launch(submission(inference=code, generalization_gin=GENERALIZATION_GIN), "generalization.gin")
    assert outcome.status == 1, outcome.output
    assert "1 of 3 tasks failed: synthetic_pace (exception)" in outcome.output
    rollouts = json.loads((outcome.root / "metrics" / "generalization_rollouts.json").read_text())
    assert len(rollouts["synthetic_trot"]) == len(rollouts["synthetic_spin"]) == 2


def test_unknown_generalization_task_is_exit_2(submission, launch) -> None:
    gin = GENERALIZATION_GIN.replace("synthetic_spin", "synthetic_spim")
    outcome = launch(submission(generalization_gin=gin), "generalization.gin")
    assert outcome.status == 2
    assert "did you mean 'synthetic_spin_v1'" in outcome.output


def test_offline_rescoring_writes_the_same_files_and_runs_nothing(submission, launch) -> None:
    path = submission(inference=COUNTING)
    first = launch(path, "inference.gin")
    classic = first.root / "metrics" / "inference_metrics_results.json"
    before = classic.read_bytes()
    classic.unlink()
    (path / "inference.py").write_text("raise RuntimeError('must not be imported')\n")
    again = launch(path, "inference.gin", "--run_offline_metrics_only")
    assert again.status == 0, again.output
    assert classic.read_bytes() == before


def test_rescoring_without_a_recorded_run_is_exit_2(submission, launch) -> None:
    outcome = launch(submission(), "inference.gin", "--run-offline-metrics-only=true")
    assert outcome.status == 2
    assert "is not a recorded run" in outcome.output


@pytest.mark.parametrize(
    "flags", [("--root-dir", "--submission-gin-config-path"), ("--root_dir", "--submission_gin_config_path")]
)
def test_classic_command_line(flags: tuple[str, str], submission, tmp_path: Path) -> None:
    path = submission()
    run_a2perf(
        path, f"{flags[0]}={tmp_path / 'r'}", f"{flags[1]}={path.parent / 'training.gin'}", cwd=tmp_path, check=True
    )
    assert (tmp_path / "r" / "train" / "manifest.json").exists()


def test_folder_named_like_a_command_is_given_with_a_path(submission, tmp_path: Path) -> None:
    submission("report")
    run_a2perf("./report", "--root-dir=r", "--gin-config=training.gin", cwd=tmp_path, check=True)


def test_json_result_is_one_document_on_standard_output(submission, tmp_path: Path) -> None:
    given = ("--submission", submission(), "--gin-config", "training.gin", "--root-dir", "r")
    result = json.loads(run_a2perf("run", *given, "--json", cwd=tmp_path).stdout)
    assert result["exit_code"] == 0
    assert result["manifest"]["state"] == "finished"
