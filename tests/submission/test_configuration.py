"""Gin files: where they are found, and what a mistake in one says."""

import os

import gin
import pytest

from a2perf.constants import BenchmarkMode
from a2perf.errors import ConfigError
from a2perf.submission import configuration
from a2perf.submission.evaluator.submitted.identity import RunTask
from a2perf.submission.gin_origin import locate, origin_of
from a2perf.submission.main_submission import task_bindings
from a2perf.submission.participant_gin import Binding
from a2perf.submission.participant_settings import ALLOWED, permitted
from a2perf.submission.submission_util import Submission
from tests.made_submissions import WEB
from tests.made_submissions import gin as gin_file


@pytest.fixture(autouse=True)
def _clean_gin():
    yield
    gin.clear_config()


def parse(tmp_path, text: str, *bindings: str) -> Submission:
    path = tmp_path / "run.gin"
    path.write_text(text)
    configuration.parse([path], bindings)
    configuration.finalise(path.name, text)
    return Submission(root_dir=str(tmp_path), participant_module_path=str(tmp_path))


@pytest.mark.parametrize(
    "mode", ["%a2perf.constants.BenchmarkMode.INFERENCE", "%BenchmarkMode.INFERENCE", "'inference'"]
)
def test_mode_is_accepted_in_every_spelling(tmp_path, mode: str) -> None:
    settings = parse(tmp_path, f"Submission.mode = {mode}\nSubmission.domain = 'quadruped_locomotion'\n")
    assert settings.mode is BenchmarkMode.INFERENCE


@pytest.mark.parametrize(
    ("line", "message", "hint"),
    [
        ("Submision.mode = 'train'", r"line 3: 'Submision' is not a configurable name; did you mean 'Submission'", ""),
        ("Submission.moed = 1", r"line 3: Submission has no parameter 'moed'; did you mean 'mode'", "write mode"),
        ("Submission.qqqq = 1", r"line 3: Submission has no parameter 'qqqq'\n", "num_inference_steps"),
        ("Qqqq.mode = 1", r"line 3: 'Qqqq' is not a configurable name\n", "Submission"),
        ("Submission.mode = %BenchmarkMode.TRIAN", r"line 3: .*TRIAN is not defined; did you mean '.*TRAIN'", ""),
        ("import a2perf.nowhere", r"line 3: No module named 'a2perf.nowhere'", ""),
        ("Submission.mode = [1,", r"line", "close the bracket"),
        ("create_domian.env_name = 'x'", r"did you mean 'create_domain'", ""),
        ("track_emissions_decorator.contry = 'x'", r"has no parameter 'contry'", "country_iso_code"),
        ("Submission.num_inference_steps = 'many'", r"num_inference_steps = 'many' is not valid", "an integer"),
        ("Submission.num_inference_steps = -1", r"num_inference_steps = -1 is not valid", "0 or more"),
        ("Submission.num_inference_steps = True", r"num_inference_steps = True is not valid", "an integer"),
        ("Submission.measure_emissions = 1", r"measure_emissions = 1 is not valid", "True or False"),
        ("Submission.mode = 'trian'", r"'trian' is not a mode; did you mean 'train'", "inference"),
        ("Submission.domain = 'quadruped'", r"'quadruped' is not a known domain", "quadruped_locomotion"),
        ("Submission.inference_data = 'random'", r"inference_data = 'random' is not valid", "sampled"),
        ("Submission.fresh_policy = 'episodes'", r"'episodes' is not valid; did you mean 'episode'", "'run'"),
    ],
)
def test_mistake_names_place_and_nearest_name(tmp_path, line: str, message: str, hint: str) -> None:
    head = "Submission.mode = 'train'\nSubmission.domain = 'quadruped_locomotion'\n"
    with pytest.raises(ConfigError, match=message) as caught:
        parse(tmp_path, head + line + "\n")
    assert hint in (caught.value.hint or "")
    assert len(str(caught.value)) < 500


HEAD = "Submission.mode = 'inference'\nSubmission.domain = 'quadruped_locomotion'\n"


def test_the_later_of_both_names_of_a_setting_counts(tmp_path) -> None:
    named = parse(tmp_path, f"{HEAD}Submission.cpu_limit = 1\nEpisodes.repeats = 3\n", "Limits.cpu_limit = 2")
    assert (named.cpu_limit, named.repeats) == (2, 3)
    assert parse(tmp_path, f"{HEAD}Limits.cpu_limit = 1\n", "Submission.cpu_limit = 4").cpu_limit == 4
    with pytest.raises(ConfigError, match=r"cpu_limit is set as Limits\.cpu_limit and as Submission\.cpu_limit"):
        parse(tmp_path, f"{HEAD}Submission.cpu_limit = 1\nLimits.cpu_limit = 2\n")
    of_submission = permitted([Binding("Episodes.num_inference_steps", 7, 1)], "f")
    assert of_submission == {"Submission.num_inference_steps": 7}


def test_settings_of_older_files_are_accepted(tmp_path) -> None:
    assert parse(tmp_path, f"{HEAD}Submission.time_participant_code = False\n").num_inference_steps == 0
    assert parse(tmp_path, f"{HEAD}Submission.plot_metrics = False\n").num_inference_steps is None


def test_a_misspelt_parameter_of_create_domain_is_not_an_argument_of_the_environment(tmp_path) -> None:
    configuration.clear()
    parse(tmp_path, "Submission.mode = 'train'\nSubmission.domain = 'circuit_training'\ncreate_domain.env_nam = 'x'\n")
    with pytest.raises(ConfigError, match="no parameter 'env_nam'; did you mean 'env_name'"):
        RunTask.configured("circuit_training")


def test_missing_mode_says_what_to_add(tmp_path) -> None:
    with pytest.raises(ConfigError, match="mode is not set") as caught:
        parse(tmp_path, "Submission.domain = 'quadruped_locomotion'\n")
    assert "%BenchmarkMode.TRAIN" in (caught.value.hint or "")


def test_the_reference_names_every_parameter_that_a_submission_may_set(repository) -> None:
    page = (repository / "docs" / "reference" / "gin_files.md").read_text()
    assert [name for name in ALLOWED if f"`{name}`" not in page] == []


def test_file_is_found_here_then_in_the_submission_then_packaged(tmp_path, monkeypatch) -> None:
    here, submission = tmp_path / "here", tmp_path / "submission"
    here.mkdir()
    submission.mkdir()
    monkeypatch.chdir(here)
    packaged = locate("training.gin", submission=submission, domain="quadruped_locomotion").path
    assert packaged.parts[-4:] == ("submission", "configs", "quadruped_locomotion", "training.gin")
    (submission / "training.gin").write_text("")
    assert locate("training.gin", submission=submission, domain=None).path == submission / "training.gin"
    (here / "training.gin").write_text("")
    assert locate("training.gin", submission=submission, domain=None).path == here / "training.gin"


def test_several_packaged_matches_are_listed(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match=r"domain\.gin' matches 7 packaged files.*dog_pace"):
        locate("domain.gin", submission=tmp_path, domain="quadruped_locomotion")


def test_missing_file_lists_every_place(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match=r"nowhere\.gin' does not exist") as caught:
        locate("nowhere.gin", submission=tmp_path / "s", domain="quadruped_locomotion")
    assert str(tmp_path / "s" / "nowhere.gin") in caught.value.message
    assert os.path.join("quadruped_locomotion", "configs") in caught.value.message


WEB_FILE = gin_file(WEB, num_inference_steps=0, num_inference_episodes=1, record_frames=0, kwargs={"num_websites": 10})
DOG = "create_domain.env_name = 'QuadrupedLocomotion-DogPace-v0'"
ARGUMENT = "left out of {}, because it belongs to another task: create_domain.num_websites\n"


@pytest.mark.parametrize(
    ("place", "flags"),
    [
        ("web.gin", ["--task", "dog_pace"]),
        ("entry/web.gin", ["--task", "dog_pace"]),
        ("entry/web.gin", ["--task", "dog_pace", "--trust-submission-config"]),
        ("web.gin", ["--domain", "quadruped_locomotion", "--gin-bindings", DOG]),
        ("entry/web.gin", ["--domain", "quadruped_locomotion", "--gin-bindings", DOG]),
    ],
)
def test_a_task_replaces_the_arguments_of_another_domain(
    place: str, flags: list[str], submission, launch, tmp_path
) -> None:
    path = submission()
    (tmp_path / place).write_text(WEB_FILE)
    outcome = launch(path, place, *flags)
    assert outcome.status == 0, outcome.output
    name = "web.gin" if place.startswith("entry") else tmp_path / "web.gin"
    assert outcome.output.count(ARGUMENT.format(name)) == 1
    manifest = outcome.manifest("inference")
    assert (manifest["env_id"], manifest["env_kwargs"]) == ("QuadrupedLocomotion-DogPace-v0", {})
    assert manifest["task"] == "dog_pace"


GENERATED = """import a2perf.submission.submission_util
Submission.domain = 'circuit_training'
create_domain.env_name = 'CircuitTraining-Generated-v0'
create_domain.num_macros = 20
create_domain.utilization = 0.5
create_domain.is_eval = False
"""


def test_a_task_keeps_what_does_not_define_another_task(tmp_path) -> None:
    (tmp_path / "run.gin").write_text(GENERATED)
    file = origin_of(tmp_path / "run.gin", None)
    assert configuration.load(file, [], task=task_bindings(None, "generated")) == ["utilization"]
    bound = configuration.bound_parameters("create_domain")
    assert bound == {"env_name": "CircuitTraining-Generated-v0", "num_macros": 40, "seed": 0, "is_eval": False}
    assert configuration.load(file, ["create_domain.env_name = 'CircuitTraining-Generated-v0'"]) == []
    assert configuration.bound_parameters("create_domain")["utilization"] == 0.5
