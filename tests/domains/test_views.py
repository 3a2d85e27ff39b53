"""Views of a task: the same environment with the same arguments but for those that select what is observed."""

from __future__ import annotations

from pathlib import Path

import pytest

from a2perf.domains import view_title
from a2perf.domains.registry import Domain, Task, domains, get_domain
from a2perf.plugins import is_installed
from a2perf.submission.evaluator.submitted.identity import RunTask
from tests.commands import run_a2perf

VIEWS = [(domain, task) for domain in domains().values() for task in domain.tasks if task.view_of]


@pytest.mark.parametrize(("domain", "view"), VIEWS, ids=[task.name for _, task in VIEWS])
def test_a_view_differs_from_its_task_only_in_what_is_observed(domain: Domain, view: Task) -> None:
    shown = domain.task(view.view_of)
    selected = domain.view_arguments(view.kwargs)
    assert (shown.view_of, domain.view_arguments(shown.kwargs)) == ("", {})
    assert selected
    assert (view.env_id, view.kwargs) == (shown.env_id, {**shown.kwargs, **selected})
    assert view in domain.views_of(shown.name)
    run = RunTask(domain.name, view.name, view.env_id, dict(view.kwargs)).view
    assert run is not None
    assert (run.task, run.arguments) == (view.view_of, selected)


def test_websites_are_shown_as_arrays_unless_the_arguments_select_another_view() -> None:
    web = get_domain("web_navigation")
    assert {task.name for task in web.tasks if web.view_arguments(task.kwargs)} == {task.name for _, task in VIEWS}
    for kwargs in ({}, {"num_websites": 5}, {"num_websites": 5, "observation": "arrays"}):
        assert RunTask(web.name, "difficulty_level_1_num_websites_5", "x", kwargs).view is None
    other = RunTask(web.name, "difficulty_level_1_num_websites_5", "x", {"observation": "screenshot"}).view
    assert other is not None
    assert (other.task, other.name) == ("difficulty_level_1_num_websites_5", "screenshot")
    assert [view_title("web_navigation", view) for view in ("", "text")] == ["arrays", "text"]
    assert [view_title(name, "") for name in ("circuit_training", "unknown")] == ["", ""]


@pytest.mark.skipif(is_installed("a2perf-agents"), reason="a2perf-agents is installed")
def test_a_view_of_a_distribution_that_is_not_installed_names_it(repository: Path, tmp_path: Path) -> None:
    done = run_a2perf(
        "run", "--submission", str(repository / "examples" / "minimal"), "--task", "text_level_1", cwd=tmp_path
    )
    assert done.returncode == 2
    said, hint = done.stderr.splitlines()[-2:]
    assert said.endswith("observation='text' of web navigation comes with the distribution a2perf-agents")
    assert "packages/agents" in hint
    assert "Traceback" not in done.stderr
