"""Cards for the hub: read back equal values, escape what strangers wrote, and are published only as a whole."""

from __future__ import annotations

import copy
import dataclasses
import shlex
import sys
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner
from huggingface_hub import ModelCard
from markdown_it import MarkdownIt

from a2perf.errors import ConfigError, MissingDependency, UserError
from a2perf.metrics.scores import score_runs
from a2perf.records import ConfigurationRecord, SubmissionInfo
from a2perf.runs.run import Run
from a2perf_trackers import runs_of
from a2perf_trackers.huggingface import model_card
from a2perf_trackers.huggingface_command import huggingface as command
from tests.shipped_runs import SHIPPED, packed

LEARNED = packed("small/numpy_ars")
HOSTILE = '---\n<script>alert(1)</script> [x](javascript:1) | `a` "q": {y}\x1b[31m'


@pytest.fixture(scope="module")
def runs() -> list[Run]:
    return [run for run in runs_of(LEARNED) if run.identity.task == "dog_trot"]


@pytest.fixture(scope="module")
def card(runs: list[Run]) -> ModelCard:
    return model_card(runs, license="apache-2.0", tags=["locomotion"])


def test_loaded_card_holds_the_scores_of_the_runs(card: ModelCard, runs: list[Run], tmp_path: Path) -> None:
    card.save(tmp_path / "README.md")
    loaded = ModelCard.load(tmp_path / "README.md")
    assert loaded.data.eval_results == card.data.eval_results
    assert loaded.data.model_name == "ARS (NumPy)"
    found = {(r.dataset_split, r.metric_type): r for r in loaded.data.eval_results}
    document = score_runs([LEARNED], cached=False)
    compared = 0
    for group in document["groups"]:
        if group["task"] != "dog_trot":
            continue
        for name, value in group["scores"].items():
            result = found.get((group["mode"], {"returns": "mean_reward"}.get(name, name)))
            if result is None:
                continue
            compared += 1
            assert result.metric_value == value["value"]
            assert result.metric_args["provenance"] == value["provenance"]
            assert result.metric_args.get("interval") == value["interval"]
            assert result.metric_args.get("spread") == value["spread"]
            assert result.metric_args["runs"] == 3
            assert result.verified is False
    assert compared == len(found) - 1  # the normalised score is not a metric of the registry
    best = found["inference", "normalised_score"]
    assert (best.dataset_type, best.dataset_config) == ("QuadrupedLocomotion-DogTrot-v0", "dog_trot")
    assert best.dataset_revision == runs[0].identity.fingerprint
    assert best.dataset_args == {"mode": "test", "num_parallel_envs": 1}
    assert best.task_type == "reinforcement-learning"


def test_metadata_has_emissions_of_training_in_grams(card: ModelCard, runs: list[Run]) -> None:
    metadata = yaml.safe_load(str(card).split("---")[1])
    grams = sum(run.tracking.emissions.kg_co2eq for run in runs if run.mode == "train") * 1000
    assert metadata["co2_eq_emissions"]["emissions"] == pytest.approx(grams)
    assert metadata["co2_eq_emissions"]["source"].endswith("(estimated)")
    assert metadata["co2_eq_emissions"]["geographical_location"] == "USA/Massachusetts"
    assert metadata["library_name"] == "a2perf"
    assert metadata["license"] == "apache-2.0"
    assert metadata["pipeline_tag"] == "reinforcement-learning"
    assert metadata["tags"] == ["a2perf", "reinforcement-learning", "quadruped_locomotion", "dog_trot", "locomotion"]
    only_evaluated = model_card([run for run in runs if run.mode == "inference"])
    assert "co2_eq_emissions" not in yaml.safe_load(str(only_evaluated).split("---")[1])


def test_text_has_results_with_provenance_intervals_and_commands(card: ModelCard) -> None:
    text = card.text
    assert "### Dog, trot" in text
    assert "| Energy ↓ mWh | ≈⚠ 0.325 ± 0.054<br>\\[0.190, 0.501\\] |" in text
    assert "| **Reliability, training** |" in text
    commands = [shlex.split(line) for line in text.replace("\\\n", " ").splitlines() if line.startswith("a2perf run")]
    assert [command[2:10] for command in commands] == [
        ["--submission", "numpy_ars", "--gin-config", f"{phase}.gin", "--task", "dog_trot", "--seeds", "1"]
        for phase in ("training", "inference")
    ]
    assert "Times and energies unreliable, noisy host" in text


@pytest.mark.parametrize(
    ("origin", "file", "given"),
    [
        ("packaged", "quadruped_locomotion/dog_trot/inference.gin", "inference.gin"),
        ("organizer", "/home/ada/secret project/mine.gin", "mine.gin"),
        ("participant", "configs/mine.gin", "configs/mine.gin"),
    ],
)
def test_commands_name_the_gin_file_without_folders_of_a_machine(
    runs: list[Run], origin: str, file: str, given: str
) -> None:
    run = copy.deepcopy(next(run for run in runs if run.mode == "inference"))
    assert run.manifest is not None
    run.manifest.configuration = ConfigurationRecord(file=file, origin=origin, trusted=True, sha256="0")
    text = model_card(run).text
    assert f"--gin-config {given} " in text.replace("\\\n", "")
    assert "/home/ada" not in text


def require_harmless(markdown: str) -> None:
    """Renders a card with HTML allowed, as the hub does, and looks for elements that a stranger wrote."""
    html = MarkdownIt("commonmark", {"html": True}).enable("table").render(markdown)
    assert "<script" not in html
    assert "<b>" not in html
    assert 'href="javascript' not in html
    assert html.count("<h1>") == 1


def strange(run: Run) -> Run:
    info = SubmissionInfo(
        title=HOSTILE, summary=HOSTILE, authors=[HOSTILE], framework=HOSTILE, link=f"http://x/{HOSTILE}"
    )
    assert run.manifest is not None
    return dataclasses.replace(
        run, identity=dataclasses.replace(run.identity, algorithm=HOSTILE), info=info, conditions=[HOSTILE]
    )


def test_text_of_strangers_is_escaped_for_yaml_markdown_and_html(runs: list[Run], tmp_path: Path) -> None:
    card = model_card([strange(run) for run in runs], tags=[HOSTILE])
    card.save(tmp_path / "README.md")
    loaded = ModelCard.load(tmp_path / "README.md")
    assert loaded.data.eval_results == card.data.eval_results
    assert loaded.data.model_name.startswith("--- <script>")  # a value of YAML, not a part of the page
    require_harmless(loaded.text)
    assert "\x1b" not in str(loaded)
    assert loaded.text.lstrip().startswith("# ")


def test_secret_seeds_and_arguments_stay_out_of_the_card(runs: list[Run]) -> None:
    hidden = copy.deepcopy(runs)
    for run in hidden:
        assert run.manifest is not None
        run.manifest.seeds.update(scheme=2, key="key-of-this-run")
        run.manifest.env_kwargs["terrain"] = "hidden hills"
        run.manifest.participant_args["hub_token"] = "hf_sesame"
    text = str(model_card(hidden))
    seeds = [str(seed) for run in hidden for seed in run.manifest.seeds.get("episodes", [])]  # type: ignore[union-attr]
    assert len(seeds) == 60
    for secret in ("key-of-this-run", "hidden hills", "hf_sesame", *seeds):
        assert secret not in text
    assert "The seeds of the episodes are secret" in text


def test_runs_that_a_card_cannot_describe_are_refused(runs: list[Run], tmp_path: Path) -> None:
    other = runs_of(SHIPPED / "small" / "motion_imitation.zip")
    with pytest.raises(UserError, match=r"runs of 2 submissions.*motion_imitation, numpy_ars"):
        model_card([*runs, *other])
    assert model_card([*runs, *other], algorithm="numpy_ars").data.model_name == "ARS (NumPy)"
    with pytest.raises(UserError, match="no run of 'numpy_arz'; did you mean 'numpy_ars'"):
        model_card(runs, algorithm="numpy_arz")
    older = dataclasses.replace(runs[0], identity=dataclasses.replace(runs[0].identity, version="0" * 64))
    with pytest.raises(UserError, match="runs of 2 versions of numpy_ars"):
        model_card([*runs, older])
    with pytest.raises(UserError, match="is not finished"):
        model_card(dataclasses.replace(runs[0], identity=dataclasses.replace(runs[0].identity, state="running")))
    with pytest.raises(UserError, match="was changed after it ended"):
        model_card(dataclasses.replace(runs[0], changed=True))
    with pytest.raises(UserError):
        model_card(tmp_path)


def test_missing_package_names_its_extra(runs: list[Run], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(MissingDependency, match=r"huggingface_hub.*\n.*'packages/trackers\[huggingface\]'"):
        model_card(runs)


def test_command_writes_and_prints(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = CliRunner().invoke
    file = tmp_path / "README.md"
    written = run(command, [str(LEARNED), "-o", str(file)], standalone_mode=False, catch_exceptions=False)
    assert written.output == f"{file}\n"
    printed = run(command, [str(LEARNED)], standalone_mode=False, catch_exceptions=False)
    assert printed.output.rstrip() == file.read_text().rstrip()
    with pytest.raises(ConfigError, match="exists already"):
        run(command, [str(LEARNED), "-o", str(file)], standalone_mode=False, catch_exceptions=False)
