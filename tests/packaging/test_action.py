"""The shell part of the GitHub Action, run with the variables of a workflow and stand-ins for `a2perf` and `gh`."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from tests.commands import run_command

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "action.sh"
MARKER = "<!-- a2perf ci a2perf-verdict -->"


DEFAULTS = {"sandbox": "bubblewrap", "verdict": "a2perf-verdict"}


@dataclass(frozen=True)
class Workflow:
    """A job of a workflow in ``folder``."""

    folder: Path
    variables: dict[str, str]

    def program(self, name: str, script: str) -> None:
        path = self.folder / "bin" / name
        path.write_text(f"#!/usr/bin/env bash\n{script}\n")
        path.chmod(0o755)

    def step(self, part: str, **inputs: str) -> subprocess.CompletedProcess[str]:
        given = {f"A2PERF_ACTION_{name.upper()}": value for name, value in {**DEFAULTS, **inputs}.items()}
        return run_command(["bash", str(SCRIPT), part], self.folder / "work", env={**self.variables, **given})

    def uploaded(self) -> None:
        """Copies the verdict to where the second job downloads it."""
        (self.folder / "temp" / "verdict").mkdir()
        shutil.copy(self.outputs()["verdict-file"], self.folder / "temp" / "verdict")

    def outputs(self) -> dict[str, str]:
        return dict(line.split("=", 1) for line in (self.folder / "output").read_text().splitlines())

    def summary(self) -> str:
        return (self.folder / "summary").read_text()

    def calls(self, program: str) -> list[list[str]]:
        path = self.folder / f"{program}.calls"
        return [line.split("\x1f")[:-1] for line in path.read_text().splitlines()] if path.exists() else []


@pytest.fixture
def workflow(tmp_path: Path) -> Workflow:
    for name in ("bin", "work", "temp"):
        (tmp_path / name).mkdir()
    (tmp_path / "event.json").write_text(json.dumps({"pull_request": {"number": 308}}))
    variables = {
        "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}",
        "RUNNER_TEMP": str(tmp_path / "temp"),
        "GITHUB_OUTPUT": str(tmp_path / "output"),
        "GITHUB_STEP_SUMMARY": str(tmp_path / "summary"),
        "GITHUB_EVENT_PATH": str(tmp_path / "event.json"),
        "GITHUB_REPOSITORY": "ada/robots",
        "GITHUB_WORKFLOW": "ci",
        "GITHUB_JOB": "judge",
        "CALLS": str(tmp_path),
    }
    return Workflow(tmp_path, variables)


def record(program: str) -> str:
    return f'printf \'%s\\x1f\' "$@" >> "$CALLS/{program}.calls"; echo >> "$CALLS/{program}.calls"'


def test_a_check_that_passes(workflow: Workflow) -> None:
    workflow.program("a2perf", record("a2perf") + "\necho 'mine: no problems'")
    done = workflow.step("run", command="check", arguments="'my folder' --steps 5 $HOME `id`")
    assert done.returncode == 0, done.stderr
    # quotes group words, and nothing is expanded
    words = ["my folder", "--steps", "5", "$HOME", "`id`"]
    assert workflow.calls("a2perf") == [["check", "--sandbox", "bubblewrap", *words]]
    assert workflow.outputs()["status"] == "0"
    assert workflow.summary().startswith("### a2perf check: passed\n")
    assert "mine: no problems" in workflow.summary()
    assert Path(workflow.outputs()["verdict-file"]).read_text() == workflow.summary()


def test_output_of_a_check_reaches_the_runner_as_text(workflow: Workflow) -> None:
    workflow.program("a2perf", "echo '::add-mask::a'; echo '::error file=x::no'; exit 1")
    lines = workflow.step("run", command="check", arguments="mine").stdout.splitlines()
    stop, word = lines[0].rsplit("::", 1)
    assert (stop, lines[1:]) == ("::stop-commands", ["::add-mask::a", "::error file=x::no", f"::{word}::"])
    again = workflow.step("run", command="check", arguments="mine").stdout.splitlines()[0]
    assert len(word) == 32
    assert again != lines[0]


def test_a_check_that_fails_and_prints_a_fence(workflow: Workflow) -> None:
    workflow.program("a2perf", "echo '```'; echo '# not a heading' >&2; exit 1")
    assert workflow.step("run", command="check", arguments="mine").returncode == 0
    assert workflow.outputs()["status"] == "1"
    assert "failed (exit status 1)" in workflow.summary()
    assert workflow.summary().count("```") == 2
    assert "# not a heading" in workflow.summary()


def test_a_comparison_shows_its_comment_and_not_one_of_before(workflow: Workflow) -> None:
    (workflow.folder / "work" / "old_comment.md").write_text("of another day")
    os.utime(workflow.folder / "work" / "old_comment.md", (1, 1))
    workflow.program("a2perf", "sleep 0.02; echo '**REGRESSION**' > compare_comment.md; exit 1")
    workflow.step("run", command="rlops", arguments="--exp-name ppo --fail-on regression")
    assert "**REGRESSION**" in workflow.summary()
    assert "of another day" not in workflow.summary()
    assert workflow.outputs()["status"] == "1"
    assert (workflow.folder / "work" / "old_comment.md").exists()


def test_another_command_is_refused(workflow: Workflow) -> None:
    workflow.program("a2perf", record("a2perf"))
    done = workflow.step("run", command="run; rm -rf /", arguments="")
    assert done.returncode == 2
    assert "valid are check, rlops and comment" in done.stdout
    assert workflow.calls("a2perf") == []


@pytest.mark.parametrize("arguments", ["mine 'open --sandbox bubblewrap", 'mine "open'])
def test_a_missing_quote_ends_the_step(workflow: Workflow, arguments: str) -> None:
    workflow.program("a2perf", record("a2perf"))
    done = workflow.step("run", command="check", arguments=arguments)
    assert (done.returncode, workflow.calls("a2perf")) == (2, [])
    assert "::error::the arguments cannot be split into words" in done.stdout


def test_without_arguments_the_command_gets_no_empty_word(workflow: Workflow) -> None:
    workflow.program("a2perf", record("a2perf"))
    assert workflow.step("run", command="rlops", arguments="").returncode == 0
    assert workflow.calls("a2perf") == [["rlops"]]


GITHUB = """
case "$*" in
*viewer*) echo "github-actions[bot]" ;;
*paginate*) jq -r "${@: -1}" "$CALLS/comments.json" ;;
esac
"""


@pytest.mark.skipif(shutil.which("jq") is None, reason="the stand-in of gh filters with jq")
@pytest.mark.parametrize("earlier", [None, 77])
def test_only_a_comment_of_this_token_is_replaced(workflow: Workflow, earlier: int | None) -> None:
    comments = [
        {"id": 5, "user": {"login": "mallory"}, "body": f"{MARKER}\nall fine"},
        {"id": 6, "user": {"login": "github-actions[bot]"}, "body": "another job"},
    ]
    if earlier is not None:
        comments.append({"id": earlier, "user": {"login": "github-actions[bot]"}, "body": f"{MARKER}\nold"})
    (workflow.folder / "comments.json").write_text(json.dumps(comments))
    workflow.program("a2perf", "echo fine")
    workflow.program("gh", record("gh") + GITHUB)
    workflow.step("run", command="check", arguments="mine")
    workflow.uploaded()
    done = workflow.step("comment")
    assert done.returncode == 0, done.stderr
    posted = workflow.calls("gh")[-1]
    place = "repos/ada/robots/issues/308/comments" if earlier is None else f"repos/ada/robots/issues/comments/{earlier}"
    assert posted[:5] == ["api", "--silent", "--method", "POST" if earlier is None else "PATCH", place]
    body = Path(posted[-1].removeprefix("body=@")).read_text()
    assert body == f"{MARKER}\n{workflow.summary()}"


def test_the_job_with_the_code_of_a_pull_request_has_no_token() -> None:
    steps = yaml.safe_load((SCRIPT.parents[1] / "action.yml").read_text())["runs"]["steps"]
    for step in steps:
        for word in ("token", "GH_TOKEN"):
            if word in json.dumps([step.get("env"), step.get("with")]):
                assert step["if"] == "inputs.command == 'comment'"
    (run,) = [step for step in steps if step.get("id") == "run"]
    assert run["env"]["A2PERF_ACTION_SANDBOX"] == "${{ inputs.sandbox }}"
    assert run["if"] == "inputs.command != 'comment'"


def test_a_token_that_may_not_write_is_a_warning(workflow: Workflow) -> None:
    workflow.program("a2perf", "echo fine")
    workflow.program("gh", "exit 1")
    workflow.step("run", command="check", arguments="mine")
    workflow.uploaded()
    done = workflow.step("comment")
    assert done.returncode == 0
    assert "::warning::no permission to comment" in done.stdout


def test_outside_a_pull_request_nothing_is_posted(workflow: Workflow) -> None:
    (workflow.folder / "event.json").write_text("{}")
    workflow.program("gh", record("gh"))
    done = workflow.step("comment", command="check")
    assert done.returncode == 0, done.stderr
    assert workflow.calls("gh") == []
