"""Titles of domains, tasks and environments: each registration has one, and unknown names are made readable."""

import pytest

from a2perf.domains import domain_title, domains, environment_title, task_summary, task_title
from a2perf.domains.registry import all_environments
from tests.commands import run_python


def test_every_task_and_environment_has_a_title_and_a_description():
    for domain in domains().values():
        titles = [task_title(domain.name, task.name) for task in domain.tasks]
        assert len(set(titles)) == len(titles), domain.name
        for task, title in zip(domain.tasks, titles, strict=True):
            assert title == task.title
            assert "_" not in title
            assert len(title) <= 24
            assert task_summary(domain.name, task.name)
    for name, (domain, environment) in all_environments().items():  # also by its alias
        assert environment_title(name) == task_title(domain.name, name) == environment.title
        assert environment.title
        assert environment.summary


@pytest.mark.parametrize(
    ("domain", "task", "title"),
    [
        ("web_navigation", "difficulty_level_2_num_websites_10", "Level 2, 10 websites"),
        ("web_navigation", "held_out_3_level_2", "Held-out 3, level 2"),
        ("quadruped_locomotion", "dog_pace", "Dog, pace"),
        ("quadruped_locomotion", "mujoco_dog_pace", "Dog, pace (MuJoCo)"),
        ("circuit_training", "all", "All tasks"),
        ("nobody_knows_it", "my_own_task", "My own task"),
        ("nobody_knows_it", "Some-Environment-v3", "Some-Environment-v3"),
        ("nobody_knows_it", "", ""),
    ],
)
def test_title_of_a_task(domain: str, task: str, title: str):
    assert task_title(domain, task) == title


def test_title_of_an_unknown_domain_is_its_name_made_readable():
    assert domain_title("web_navigation") == "Web navigation"
    assert domain_title("my_domain") == "My domain"
    assert task_summary("my_domain", "x") == ""
    assert environment_title("Some-Environment-v3") == "Some-Environment-v3"


@pytest.mark.parametrize(
    ("work", "heavy"),
    [
        ("domains.task_title('circuit_training', 'ariane')", {"numpy", "gymnasium"}),
        ("domains.register_environments(); domains.domains()", {"selenium", "PIL", "matplotlib", "gin", "mujoco"}),
    ],
    ids=["titles", "records and ids"],
)
def test_descriptions_of_domains_load_no_heavy_library(work: str, heavy: set[str]):
    code = (
        f"import sys\nfrom a2perf import domains\n{work}\n"
        f"heavy = {heavy | {'pybullet', 'numba'}} & set(sys.modules)\nassert not heavy, heavy"
    )
    run_python(code, check=True)
