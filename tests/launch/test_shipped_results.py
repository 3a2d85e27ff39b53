"""The shipped results are whole: every bundle is sound, every score follows from its episodes, nobody is named."""

from __future__ import annotations

import hashlib
import json
import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from a2perf import compare, read_runs
from a2perf.experiments.reproduce.rebuild import ReproduceRequest, rebuild
from a2perf.experiments.reproduce.selection import find_bundles
from a2perf.metrics import protocol as protocols
from a2perf.metrics.scores import score_runs
from a2perf.metrics.submitted import ProtocolRecord, read_submitted, submitted_of
from a2perf.records import RolloutResults, RunState
from a2perf.runs.bundles.bundle import validate
from a2perf.runs.bundles.files import files_of
from a2perf.runs.bundles.inventory import read_manifest
from a2perf.storage import parse_record
from a2perf.stranger_files import Kind
from tests.commands import run_a2perf

SHIPPED = Path(__file__).resolve().parents[2] / "results" / "recorded"
PACKED = sorted(SHIPPED.glob("*/*.zip"))
FOLDERS = [path / path.stem for path in PACKED]
each_submission = pytest.mark.parametrize("folder", FOLDERS, ids=[f"{path.parent.name}-{path.stem}" for path in PACKED])
EXAMPLES = SHIPPED.parents[1] / "examples"
OF_THE_CORE = [path for path in PACKED if (EXAMPLES / path.stem).is_dir()]
NO_MARK = "not recorded"
RIVALS = {"circuit_training": ("minimal", "greedy_placer"), "web_navigation": ("minimal", "web_solver")}
"""Those that the repository alone can repeat."""


def record_of(folder: Path) -> ProtocolRecord:
    """Returns the record of a submission in a packed file."""
    record = read_submitted(folder)
    assert record is not None
    return record


def test_every_folder_has_rivals_and_learning_has_curves() -> None:
    rivals: dict[str, set[str]] = {}
    for path in PACKED:
        rivals.setdefault(path.parent.name, set()).add(path.stem)
    assert set(rivals) == {"circuit_training", "web_navigation", "quadruped_locomotion", "learning", "small"}
    assert all(len(names) >= 2 for names in rivals.values())
    learning = files_of(SHIPPED / "learning" / "numpy_ars.zip")
    assert sum(entry.status.name == "progress.csv" for entry in learning.entries()) == 5


def test_they_are_small() -> None:
    sizes = [path.stat().st_size for path in SHIPPED.rglob("*") if path.is_file()]
    assert sum(sizes) < 22_000_000
    assert max(sizes) < 3_000_000


@each_submission
def test_bundles_are_sound_and_name_no_machine(folder: Path) -> None:
    record = record_of(folder)
    assert record.complete
    for run in record.runs:
        bundle = folder / run.path
        assert validate(bundle) == []
        manifest = read_manifest(bundle)
        assert manifest.state is RunState.FINISHED
        assert {(attempt.host, attempt.boot_id) for attempt in manifest.attempts} == {(NO_MARK, NO_MARK)}
        assert "hostname" not in manifest.host
        assert manifest.submission.path == f"examples/{folder.name.partition('-')[0]}"
        assert submitted_of(bundle) == record
    for entry in files_of(folder).entries():
        if entry.status.kind is Kind.FILE:
            with entry.open() as stream:
                assert b"/home/" not in stream.read(), entry.status.path


@each_submission
def test_scores_follow_from_episodes_and_stored_references(folder: Path) -> None:
    record = record_of(folder)
    protocol = protocols.load(record.protocol)
    assert record.protocol_sha256 == protocols.sha256(record.protocol)
    for run in record.runs:
        bundle = files_of(folder / run.path)
        assert run.manifest_sha256 == hashlib.sha256(bundle.read("manifest.json", 1 << 20)).hexdigest()
        if run.mode == "inference":
            results = parse_record(bundle.read("metrics/rollouts.json", 1 << 24), RolloutResults, run.path)
            mean = float(np.mean([episode.episode_return for episode in results.episodes]))
            assert run.mean_return == pytest.approx(mean, abs=1e-12)
            assert run.normalised == pytest.approx(float(protocol.task(run.task).normalise(mean)), abs=1e-12)
    assert record.rankable is not record.quick
    summary = files_of(folder).read("summary.md", 1 << 20).decode()
    assert record.citation in summary.replace("\\[", "[").replace("\\]", "]")  # brackets are escaped in Markdown


def test_rivals_stand_where_they_should() -> None:
    def iqm(name: str) -> float:
        value = record_of(SHIPPED / f"{name}.zip" / name.rpartition("/")[2]).overall.iqm
        assert value is not None
        return value

    for domain in ("circuit_training", "web_navigation", "quadruped_locomotion", "learning", "small"):
        assert iqm(f"{domain}/minimal") < 0.05  # the floor is the best trivial policy, which may be better than random
    assert iqm("circuit_training/minimal") < iqm("circuit_training/greedy_placer")
    assert iqm("circuit_training/greedy_placer") < iqm("circuit_training/annealing_placer")
    assert iqm("web_navigation/web_solver") == pytest.approx(1.0, abs=0.01)
    assert iqm("quadruped_locomotion/motion_imitation") == pytest.approx(1.0, abs=0.1)
    assert iqm("learning/numpy_ars") > 0.1  # 12 iterations on a task that pays for progress only
    assert iqm("small/motion_imitation") == pytest.approx(1.0, abs=0.1)
    assert iqm("small/greedy_placer") < iqm("small/annealing_placer")
    assert iqm("web_navigation/torch_ppo_web") == pytest.approx(1.0, abs=0.01)
    assert min(iqm("small/mujoco_ppo-pace"), iqm("small/mujoco_ppo-spin")) > 0.9


def test_they_score_without_any_damage() -> None:
    document = score_runs([SHIPPED / "learning"], cached=False)
    assert {group["algorithm"] for group in document["groups"]} == {"minimal", "numpy_ars"}
    assert [run["conditions"] for run in document["runs"] if run["conditions"]] == []


@pytest.mark.parametrize("level", [1, 2, 3])
def test_readers_of_arrays_and_of_text_have_the_same_return_in_every_episode(level: int) -> None:
    returns = []
    for name, task in (
        ("web_solver", f"difficulty_level_{level}_num_websites_10"),
        ("text_solver", f"text_level_{level}"),
    ):
        folder = SHIPPED / "small" / f"{name}.zip" / name
        paths = [run.path for run in record_of(folder).runs if run.task == task and run.mode == "inference"]
        files = [files_of(folder / path).read("metrics/rollouts.json", 1 << 24) for path in paths]
        found = [parse_record(content, RolloutResults, name).episodes for content in files]
        returns.append([(one.seed, one.episode_return) for episodes in found for one in episodes])
    assert len(returns[0]) == 300
    assert returns[0] == returns[1]


def test_readers_of_arrays_and_of_text_are_compared_on_one_task() -> None:
    runs = read_runs([SHIPPED / "small" / f"{name}.zip" for name in ("web_solver", "text_solver")])
    assert len(runs.where(view="text")) == len(runs.where(task=["text_level_1", "text_level_2", "text_level_3"])) == 9
    one = runs.where(task="difficulty_level_1_num_websites_10")
    assert len(one) == 6
    compared = compare(one, baseline="web_solver", candidate="text_solver")
    assert "text_solver: not separated" in str(compared)
    assert "different views of a task (text against the default). Episodes and rewards are the same" in str(compared)
    assert "text_solver, inference on web_navigation/difficulty_level_1_num_websites_10, observes text" in str(
        one.scores()
    )


@pytest.mark.parametrize("packed", OF_THE_CORE, ids=lambda packed: packed.stem)
def test_a_record_that_can_be_repeated_names_the_present_files_of_its_submission(packed: Path, tmp_path: Path) -> None:
    """`python results/record.py --confirm NAME` renews a record whose submission has changed."""
    assert changed_files(packed, EXAMPLES, tmp_path) == []


@pytest.mark.parametrize("domain", ["circuit_training", "web_navigation"])
def test_a_drawn_record_repeats(domain: str, tmp_path: Path) -> None:
    drawn = random.SystemRandom().randrange(10_000)  # the sample's number is in the output of a failure
    packed = [SHIPPED / domain / f"{name}.zip" for name in RIVALS[domain]]
    words = ("reproduce", *packed, "--submission", EXAMPLES, "--sample", f"2:{drawn}", "--fail-on", "unchecked")
    run_a2perf(*words, "--json", "-o", tmp_path / "again", cwd=tmp_path, check=True)
    found = [json.loads(path.read_bytes()) for path in (tmp_path / "again").rglob("*.reproduction.json")]
    assert len(found) == 2
    for one in found:
        assert one["verdict"] == "CONFIRMED"
        # the last bits of a placement's cost differ between processors, which are then named
        elsewhere = "processor" in {condition["name"] for condition in one["changed"]}
        assert one["episodes"] == one["equal_episodes"] or elsewhere


def changed_files(packed: Path, examples: Path, folder: Path) -> list[str]:
    """Returns why a record cannot be repeated with the present files; nothing if no files could repeat it."""
    bundles, _ = find_bundles([packed])
    options = ReproduceRequest(paths=(), submissions=(examples,))
    if rebuild(bundles[0], folder, replace(options, allow_changed=True))[1]:
        return []  # it is shipped without the artifacts that an evaluation needs
    missing: list[str] = rebuild(bundles[0], folder, options)[1]
    return missing
