"""The help, the form of errors, completion, and what fits a terminal of 80 columns."""

from __future__ import annotations

import os
import re
import shutil
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from a2perf.cli import _COMMANDS, SECTIONS, cli
from a2perf.cli.doctor import doctor
from a2perf.errors import ConfigError
from a2perf.submission.gin_origin import locate
from tests.commands import call_a2perf, run_command

# --- help -------------------------------------------------------------------------------------------------------------


def test_help_lists_every_command_once_by_section_and_fits_80_columns() -> None:
    status, out, _ = call_a2perf("--help")
    assert status == 0
    assert list(SECTIONS) == ["Run", "Look", "Compare", "Publish", "Set up"]
    body = out[out.index("\nRun:\n") : out.index("\nOptions:\n")]
    listed = re.findall(r"^  ([a-z][\w-]*)  +\S", body, re.MULTILINE)
    assert listed == [name for names in SECTIONS.values() for name in names] == list(_COMMANDS)
    assert max(map(len, out.splitlines())) <= 80
    assert "--submission-gin-config-path" not in out  # the earlier form is described by `a2perf run --help`
    assert "--submission-gin-config-path" in call_a2perf("run", "--help")[1]


@pytest.mark.parametrize("name", ["run", "submit", "check", "data", "doctor", "benchmark", "wrap", "sign"])
def test_help_of_main_commands_shows_examples_whose_options_exist(name: str) -> None:
    context = click.Context(cli, info_name="a2perf")
    command = cli.get_command(context, name)
    assert command is not None
    text = command.get_help(click.Context(command, info_name=f"a2perf {name}", parent=None))
    examples = re.findall(rf"^    (a2perf {name} .*?)(?:   .*)?$", text, re.MULTILINE)
    assert examples, name
    flags = {flag for option in command.params for flag in option.opts}
    for example in examples:
        if not isinstance(command, click.Group):
            assert {word for word in example.partition(" -- ")[0].split() if word.startswith("-")} <= flags, example


@pytest.mark.parametrize(
    ("line", "option"),
    [
        ("rlops --exp-name sac --exp-name ppo", "--exp-name"),
        ("rlops compare --exp-name sac --exp-name sac", "--exp-name"),
        ("compare a b --gate 0.1 --gate 0.2", "--gate"),
        ("score runs --json --json", "--json"),
        ("data list --json --json", "--json"),
    ],
)
def test_an_option_that_does_not_repeat_is_given_once(line: str, option: str) -> None:
    status, out, err = call_a2perf(*line.split())
    assert (status, out) == (2, "")
    assert f"a2perf: {option} is given 2 times and takes one value" in err


# --- errors -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "message", "hint"),
    [
        ("reprot runs", "there is no command 'reprot'; did you mean 'report'?", "a2perf --help"),
        ("xyz", "there is no command 'xyz'", "a2perf --help"),
        ("tags list", "there is no command 'tags'; did you mean 'rlops tags'?", "a2perf --help"),
        ("--verison", "no such option '--verison'; did you mean '--version'?", "a2perf --help"),
        ("run ada", "a2perf run does not take 'ada'", "a2perf run --submission ada --gin-config FILE"),
        ("run --seed 1", "missing option '--submission'", "a2perf run --help"),
        ("run --submission / --task t --seed x", "--seed: 'x' is not a seed", "write whole numbers"),
        ("check a --repeats 2", "a2perf check does not take --repeats", "`a2perf run` takes it"),
        ("run --submission a --metric-values-dir b", "a2perf run does not take --metric-values-dir", "add --gin"),
        ("status a b", "a2perf status does not take 'b'", "a2perf status --help"),
        ("envs lst", "no such command 'lst'", "a2perf envs --help"),
        ("check /nonexistent", "/nonexistent is not a folder", "give the folder"),
    ],
)
def test_every_mistake_is_two_lines_with_a_hint(line: str, message: str, hint: str) -> None:
    status, out, err = call_a2perf(*line.split())
    assert (status, out) == (2, "")
    first, second = err.splitlines()
    assert first.startswith(f"a2perf: {message}")
    assert second.startswith(f"  Hint: {hint}")


def test_program_without_arguments_prints_its_help_and_ends_with_two() -> None:
    status, out, err = call_a2perf()
    assert status == 2
    assert "Usage: a2perf" in out + err


# --- completion -------------------------------------------------------------------------------------------------------


def test_the_program_completes_commands_and_options() -> None:
    program = shutil.which("a2perf", path=os.path.dirname(sys.executable))
    if program is None:
        pytest.skip("a2perf is not installed as a program")
    for words, expected in (("a2perf repo", "plain,report"), ("a2perf data fet", "plain,fetch")):
        environment = {"_A2PERF_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
        done = run_command([program], env={**os.environ, **environment})
        assert done.stdout.splitlines() == [expected]


# --- doctor -----------------------------------------------------------------------------------------------------------


def test_doctor_fits_80_columns_and_ends_with_the_next_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    lines = CliRunner().invoke(doctor, [], catch_exceptions=False).output.splitlines()
    assert max(map(len, lines)) <= 80
    assert lines.index("Ready") < next(n for n, line in enumerate(lines) if "issing" in line and line[0] != " ")
    assert re.fullmatch(r"ready: .*Quadruped locomotion.*; next: (make|a2perf) demo", lines[-1])
    assert lines[-2] == ""


# --- --task and packaged gin files ------------------------------------------------------------------------------------


def test_a_task_selects_its_packaged_gin_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match="matches 8 packaged files") as caught:
        locate("domain.gin", submission=tmp_path, domain="circuit_training")
    assert "--task" in str(caught.value.hint)
    default = locate("inference.gin", submission=tmp_path, domain="circuit_training").path
    assert default.parts[-4:] == ("submission", "configs", "circuit_training", "inference.gin")
    for domain in ("circuit_training", None):
        found = locate("inference.gin", submission=tmp_path, domain=domain, task="toy_macro_stdcell")
        assert found.path.parts[-3:] == ("configs", "toy_macro_stdcell", "inference.gin")
    (tmp_path / "inference.gin").write_text("")  # the submission's own file comes first
    found = locate("inference.gin", submission=tmp_path, domain="circuit_training", task="toy_macro_stdcell")
    assert found.path == tmp_path / "inference.gin"
