"""Commands of distributions: real entry points in a folder on the path, read by a real `a2perf`."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from a2perf._version import __version__
from a2perf.errors import MissingDependency
from tests.commands import run_a2perf, run_python
from tests.installed_package import write_package

COMMAND = """
import click

@click.command()
@click.option("--name", default="you")
def greet(name: str) -> None:
    \"\"\"Say hello to a participant.\"\"\"
    click.echo(f"hello {name}")

text = "no command"
"""


def installed(folder: Path, name: str, version: str, *points: str) -> None:
    write_package(folder, "greetings", COMMAND, "\n".join(["[a2perf.commands]", *points]), name=name, version=version)


def a2perf(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return run_a2perf(*words, cwd=folder, env={**os.environ, "PYTHONPATH": str(folder)})


def test_a_command_of_a_distribution_runs_and_stands_under_its_own_heading(tmp_path: Path) -> None:
    installed(tmp_path, "greetings", "0.3", "greet = greetings:greet", "export.greet = greetings:greet")
    (tmp_path / "greet").mkdir()  # a folder of this name is not taken for a submission
    assert a2perf(tmp_path, "greet", "--name", "Ada").stdout == "hello Ada\n"
    assert a2perf(tmp_path, "export", "greet").stdout == "hello you\n"
    text = a2perf(tmp_path, "--help").stdout
    assert "greetings:\n  greet        Say hello to a participant." in text
    assert text.index("Set up:") < text.index("greetings:") < text.index("Options:")


@pytest.mark.parametrize(
    ("point", "message"),
    [
        ("greet = greetings:missing", "the command greet cannot be loaded from greetings:missing: "),
        ("greet = greetings:text", "greetings:text is not a click command"),
    ],
)
def test_a_broken_command_is_an_error_and_stops_no_other(tmp_path: Path, point: str, message: str) -> None:
    installed(tmp_path, "greetings", "0.3", point)
    done = a2perf(tmp_path, "greet")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"a2perf: {message}")
    assert len(done.stderr.splitlines()) == 2
    assert a2perf(tmp_path, "--help").returncode == 0


def test_a_distribution_of_another_version_is_refused_with_both_versions(tmp_path: Path) -> None:
    installed(tmp_path, "a2perf-serve", "0.9.0", "wave = greetings:greet")
    done = a2perf(tmp_path, "wave")
    assert done.returncode == 2
    assert f"a2perf-serve 0.9.0 is installed, and a2perf is {__version__}" in done.stderr
    assert "pip install -e packages/serve" in done.stderr


@pytest.mark.parametrize(
    ("line", "message", "distribution"),
    [
        ("serve --protocol mcp", "a2perf serve comes with the distribution a2perf-serve", "serve"),
        ("datasets list", "a2perf datasets comes with the distribution a2perf-datasets", "datasets"),
        ("export croissant a/b-v0", "a2perf export croissant comes with the distribution a2perf-datasets", "datasets"),
        (
            "validate a/b-v0",
            "a/b-v0 holds no bundle, and datasets are checked by the distribution a2perf-datasets",
            "datasets",
        ),
    ],
)
def test_a_command_of_a_distribution_that_is_not_installed_names_it(
    line: str, message: str, distribution: str, tmp_path: Path
) -> None:
    (tmp_path / "datasets").mkdir()
    code = (
        "from a2perf import plugins; points = plugins.entry_points\n"
        "hidden = ('a2perf.commands', 'a2perf.validators')\n"
        "plugins.entry_points = lambda group: points('' if group in hidden else group)\n"
        "import sys; from a2perf.cli import main; main(sys.argv[1:])"
    )
    done = run_python(code, *line.split(), cwd=tmp_path)
    assert done.returncode == 2
    lines = done.stderr.splitlines()
    assert lines[0] == f"a2perf: {message}"
    assert f"pip install -e packages/{distribution}" in lines[1]
    assert len(lines) == 2


@pytest.mark.parametrize("name", ["OfflineDataset", "open_dataset"])
def test_a_name_of_a_distribution_that_is_not_installed_names_it(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    import a2perf as package

    monkeypatch.setitem(sys.modules, "a2perf_datasets", None)
    with pytest.raises(MissingDependency) as caught:
        getattr(package, name)
    assert str(caught.value) == (
        f"a2perf.{name} comes with the distribution a2perf-datasets\n"
        "  Hint: pip install -e packages/datasets, in a checkout"
    )
