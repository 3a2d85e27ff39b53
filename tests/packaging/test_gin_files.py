"""The shipped gin files: complete, parseable, and consistent with each other and with the registered ids."""

from __future__ import annotations

from pathlib import Path

import gin
import pytest

from a2perf.domains.registry import domains, find_environment, gin_folders, packaged_gin_file
from a2perf.errors import ConfigError
from a2perf.submission import configuration, gin_origin
from a2perf.submission.submission_util import Submission

FILES = sorted(
    f"{domain}/{path.relative_to(folder)}"
    for domain in domains()
    for folder in gin_folders(domain)
    for path in folder.rglob("*.gin")
)
TASK_FILES = [name for name in FILES if name.count("/") == 2]
DOMAINS = ("quadruped_locomotion", "web_navigation", "circuit_training")


def packaged(name: str) -> Path:
    domain, _, below = name.partition("/")
    found = packaged_gin_file(domain, below)
    assert found is not None
    return found


@pytest.fixture(autouse=True)
def _no_configuration_left() -> None:
    gin.clear_config()


def test_every_domain_ships_its_files() -> None:
    for domain in DOMAINS:
        defaults, tasks = gin_folders(domain)
        assert {path.name for path in defaults.iterdir()} == {
            "train.gin",
            "training.gin",
            "inference.gin",
            "generalization.gin",
        }
        assert defaults.parts[-4:] == ("a2perf", "submission", "configs", domain)
        assert not list(tasks.glob("*.gin"))
        for task in tasks.iterdir():
            assert {path.name for path in task.iterdir()} >= {"inference.gin", "domain.gin"}


@pytest.mark.parametrize("domain", DOMAINS)
def test_both_names_of_the_training_file_hold_the_same(domain: str) -> None:
    folder = gin_folders(domain)[0]
    assert (folder / "train.gin").read_bytes() == (folder / "training.gin").read_bytes()


@pytest.mark.parametrize("name", FILES)
def test_file_configures_a_run_of_an_existing_environment_without_network(name: str) -> None:
    configuration.parse([packaged(name)], [])
    configuration.finalise()
    env_id = configuration.parameter("create_domain.env_name")
    assert env_id or name.endswith("generalization.gin")
    if env_id:
        assert find_environment(env_id)[0].name == name.split("/")[0]
    if not name.endswith("domain.gin"):
        settings = Submission()
        assert settings.domain == name.split("/")[0]
        assert settings.measure_emissions
        assert configuration.parameter("track_emissions_decorator.offline") is True
    if name in TASK_FILES and name.endswith("inference.gin"):
        bound = configuration.bound_parameters("create_domain")
        configuration.parse([packaged(name).with_name("domain.gin")], [])
        assert configuration.bound_parameters("create_domain") == bound


@pytest.mark.parametrize("domain", DOMAINS)
def test_generalization_file_names_tasks_that_have_a_folder(domain: str) -> None:
    configuration.parse([packaged(f"{domain}/generalization.gin")], [])
    tasks = configuration.parameter("Submission.generalization_tasks")
    assert len(tasks) >= 2
    for task in tasks:
        assert packaged(f"{domain}/{task}/domain.gin").is_file()
    assert tuple(tasks) == domains()[domain].generalization_tasks


def test_training_file_of_the_public_readme_is_the_shipped_one_but_for_the_task() -> None:
    """Platform 1.6: a file written for the earlier platform has the same bindings here."""
    text = """
    import a2perf.submission.submission_util
    Submission.mode = %BenchmarkMode.TRAIN
    Submission.domain = %BenchmarkDomain.WEB_NAVIGATION
    Submission.run_offline_metrics_only = False
    Submission.measure_emissions = True
    track_emissions_decorator.project_name = 'a2perf_web_navigation_train'
    track_emissions_decorator.measure_power_secs = 5
    track_emissions_decorator.save_to_file = True
    track_emissions_decorator.save_to_logger = False
    track_emissions_decorator.gpu_ids = None
    track_emissions_decorator.log_level = 'info'
    track_emissions_decorator.country_iso_code = 'USA'
    track_emissions_decorator.region = 'Massachusetts'
    track_emissions_decorator.offline = True
    """
    gin.clear_config()
    gin.parse_config("\n".join(line.strip() for line in text.splitlines()))
    names = ("Submission", "track_emissions_decorator")
    of_the_readme = [configuration.bound_parameters(name) for name in names]
    configuration.parse([packaged("web_navigation/training.gin")], [])
    assert [configuration.bound_parameters(name) for name in names] == of_the_readme


def test_commands_that_name_the_earlier_place_still_find_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    task = "difficulty_level_1_num_websites_1"
    for name in ("training.gin", "inference.gin", f"{task}/inference.gin"):
        for given in (
            f"a2perf/submission/configs/web_navigation/{name}",
            f"a2perf/domains/web_navigation/configs/{name}",
        ):
            found = gin_origin.locate(given, submission=tmp_path, domain=None)
            place = packaged(f"web_navigation/{name}")
            assert (found.path, found.origin, found.name) == (place, "packaged", f"web_navigation/{name}")
    with pytest.raises(ConfigError):
        gin_origin.locate("a2perf/submission/configs/web_navigation/../../registry.py", submission=None, domain=None)
