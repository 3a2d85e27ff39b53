"""What code hosts read: workflows, the action, hooks, citation. What they name exists here."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from a2perf import __version__
from tests.commands import run_command

ROOT = Path(__file__).resolve().parents[2]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
PINNED = re.compile(r"[\w.-]+/[\w.-]+(/[\w.-]+)*@(v\d+(\.\d+){0,2}|[0-9a-f]{40})")


def read(path: Path) -> Any:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def steps(path: Path) -> Iterator[dict[str, Any]]:
    """Yields the steps of a workflow or of the action."""
    content = read(path)
    for job in content["jobs"].values() if "jobs" in content else (content["runs"],):
        yield from job["steps"]


def targets() -> set[str]:
    return set(re.findall(r"^([a-z][\w-]*(?: [\w-]+)*):", (ROOT / "Makefile").read_text(), re.MULTILINE))


def make_goals(command: str) -> set[str]:
    """Returns the goals of every ``make`` in a shell command; variables are left out."""
    return {
        word
        for words in re.findall(r"\bmake((?: +[\w./=$-]+)+)", command)
        for word in words.split()
        if "=" not in word and not word.startswith("-")
    }


@pytest.mark.parametrize("path", [*WORKFLOWS, ROOT / "action.yml"], ids=lambda path: path.stem)
def test_make_targets_scripts_and_actions_exist(path: Path) -> None:
    known = {name for line in targets() for name in line.split()}
    found = 0
    for step in steps(path):
        command = step.get("run", "")
        assert make_goals(command) <= known, command
        for script in re.findall(r"scripts/[\w.]+", command):
            assert (ROOT / script).is_file(), script
        if "uses" in step:
            assert PINNED.fullmatch(step["uses"]), f"{step['uses']} is not pinned to a version"
        assert command or "uses" in step
        found += 1
    assert found >= 3


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_workflows_limit_time_and_permissions(path: Path) -> None:
    content = read(path)
    assert content["permissions"] == {"contents": "read"}
    for name, job in content["jobs"].items():
        assert "timeout-minutes" in job or name == "publish"
        systems = job["strategy"]["matrix"]["os"] if job["runs-on"] == "${{ matrix.os }}" else [job["runs-on"]]
        assert all(re.fullmatch(r"ubuntu-\d\d\.04(-arm)?|macos-\d\d|windows-latest", system) for system in systems)
        for key in ("run", "env"):
            assert "${{ github.event" not in json.dumps([step.get(key) for step in job["steps"]]), "shell injection"


def test_publishing_needs_no_stored_token() -> None:
    release = read(ROOT / ".github/workflows/release.yml")
    assert release[True] == {"push": {"tags": ["v*"]}}  # YAML reads the key `on` as true
    assert release["jobs"]["publish"]["permissions"] == {"id-token": "write"}
    assert "secrets." not in json.dumps(release["jobs"])


def test_hooks_are_local_and_their_programs_are_installed() -> None:
    path = ROOT / ".pre-commit-config.yaml"
    run_command([sys.executable, "-m", "pre_commit", "validate-config", str(path)], check=True)
    (repository,) = read(path)["repos"]
    assert repository["repo"] == "local"
    for hook in repository["hooks"]:
        assert hook["language"] == "system"
        program = hook["entry"].split()[0]
        assert Path(program).parent == Path(".venv/bin")
        assert (Path(sys.executable).parent / Path(program).name).exists(), program


def test_the_citation_is_of_this_version() -> None:
    citation = read(ROOT / "CITATION.cff")
    assert {"cff-version", "message", "title", "authors", "version", "date-released", "license"} <= set(citation)
    assert citation["version"] == __version__
    assert re.search(
        rf"^## \[{re.escape(__version__)}\] - {citation['date-released']}$",
        (ROOT / "CHANGELOG.md").read_text(),
        re.MULTILINE,
    )


def test_every_target_has_a_line_of_help() -> None:
    makefile = (ROOT / "Makefile").read_text()
    phony = re.search(r"^\.PHONY: ((?:.*\\\n)*.*)$", makefile, re.MULTILINE)
    assert phony
    done = run_command(["make", "--no-print-directory", "help"], ROOT, check=True)
    assert max(map(len, done.stdout.splitlines())) <= 110
    listed = {
        name for line in re.findall(r"^  ([a-z][\w, -]*?)  ", done.stdout, re.MULTILINE) for name in line.split(", ")
    }
    assert listed == set(phony[1].replace("\\\n", " ").split()) - {"help", "assets", "engines"}
