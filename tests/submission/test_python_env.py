"""Environments of a submission's own: what they are keyed by, how they are built, shared, and deleted."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

import a2perf
from a2perf.cli.python_env import python_env as command
from a2perf.domains.registry import get_domain
from a2perf.errors import ConfigError, InfrastructureError, MissingDependency
from a2perf.storage import read_json
from a2perf.submission.evaluator import python_env
from a2perf.submission.evaluator.python_env import environments, installer, own_wheel
from tests.commands import run_command
from tests.submission import wheels
from tests.submission.wheels import recipe
from tests.waiting import Child, until

pytestmark = pytest.mark.usefixtures("own_cache")


def says(env: python_env.BuiltEnvironment) -> str:
    done = run_command([env.path / "bin" / "toy-says"], check=True)
    return done.stdout.strip()


# --- a2perf's own part ----------------------------------------------------------------------------------------------


def test_base_requirements_hold_the_worker_and_the_extra_and_nothing_heavy() -> None:
    names = {text.split(">")[0].split("=")[0] for text in own_wheel.base_requirements(["circuit-training"])}
    assert names == {"absl-py", "gin-config", "gymnasium", "msgpack", "numpy", "pillow", "numba"}
    every = {text.split(">")[0].split("=")[0] for text in own_wheel.base_requirements(["all"])}
    assert {"pybullet" if sys.version_info < (3, 12) else "mujoco", "selenium", "numba"} <= every
    assert not every & {"codecarbon", "matplotlib", "click", "rich"}
    with pytest.raises(ConfigError, match="no extra 'circuits'"):
        own_wheel.base_requirements(["circuits"])


def test_a_domain_of_another_package_needs_that_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    info = tmp_path / "moon_lander-1.2.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: moon-lander\nVersion: 1.2\n")
    (info / "entry_points.txt").write_text("[a2perf.domains]\nmoon = moon_lander:DOMAIN\n")
    monkeypatch.syspath_prepend(tmp_path)
    moon = replace(get_domain("web_navigation"), name="moon", extra="physics")
    assert python_env.requirements_of_domain(moon) == ((), ("moon-lander[physics]==1.2",))
    assert python_env.requirements_of_domain(get_domain("web_navigation")) == (("web-navigation",), ())


def test_own_wheel_is_complete_and_the_same_each_time(tmp_path: Path) -> None:
    package = Path(a2perf.__file__).parent
    (tmp_path / "again").mkdir()
    first, second = own_wheel.write_wheel(tmp_path), own_wheel.write_wheel(tmp_path / "again")
    assert first.read_bytes() == second.read_bytes()
    with zipfile.ZipFile(first) as archive:
        names = set(archive.namelist())
        assert archive.testzip() is None
    sources = {f"a2perf/{path.relative_to(package)}" for path in package.rglob("*.py")}
    assert sources <= names
    assert not [name for name in names if "__pycache__" in name]


def test_key_follows_everything_that_decides_about_the_content(
    tmp_path: Path, wheelhouse: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = recipe(tmp_path / "s", "toy==1.0\n", wheelhouse)
    assert one.key == recipe(tmp_path / "t", "# the same\ntoy==1.0\n", wheelhouse).key
    others = [
        recipe(tmp_path / "u", "toy==2.0\n", wheelhouse),
        replace(one, extras=("circuit-training",)),
        replace(one, interpreter=replace(one.interpreter, version="3.99.1", tag="cpython-399")),
        replace(one, interpreter=replace(one.interpreter, platform="linux-aarch64")),
    ]
    assert len({one.key, *(other.key for other in others)}) == 5
    before = one.key
    wheels.write_wheel(wheelhouse, "toy", "3.0")
    longer = one.key
    monkeypatch.setattr(environments, "content_hash", lambda: "an edited a2perf")
    assert len({one.key, longer, before}) == 3


# --- building and sharing -------------------------------------------------------------------------------------------


def test_two_versions_of_one_package_stand_side_by_side(tmp_path: Path, wheelhouse: Path) -> None:
    old, new = (recipe(tmp_path / f"s{pin}", f"toy=={pin}\n", wheelhouse) for pin in ("1.0", "2.0"))
    with (
        python_env.environment(old, tmp_path / "old.log") as first,
        python_env.environment(new, tmp_path / "new.log") as second,
    ):
        assert (says(first), says(second)) == ("toy 1.0", "toy 2.0")
        assert first.record.packages["toy"] == "1.0"
        assert first.record.packages["a2perf"] == "1.0.0"
        assert first.path in first.readable
        assert Path(os.path.realpath(first.python)).is_relative_to(first.readable[1])
        assert not first.record.reused
        # Byte code says where the file is now, not where it was built, and nothing else does either.
        assert b".building" not in next(first.path.rglob("toy/__pycache__/*.pyc")).read_bytes()
        assert ".building" not in (first.path / "bin" / "toy-says").read_text()


@pytest.mark.usefixtures("without_byte_code")
def test_an_environment_is_built_once_and_its_log_stays(tmp_path: Path, wheelhouse: Path) -> None:
    wanted = recipe(tmp_path / "s", "toy==1.0\n", wheelhouse)
    with python_env.environment(wanted, tmp_path / "first.log") as first:
        stamp = (first.path / environments.STAMP).stat()
    assert "building" in (tmp_path / "first.log").read_text().splitlines()[0]
    with python_env.environment(wanted, tmp_path / "second.log") as second:
        assert second.record.reused
        assert (second.path / environments.STAMP).stat().st_ino == stamp.st_ino
        assert (second.path / environments.STAMP).stat().st_mtime_ns > stamp.st_mtime_ns
    log = (tmp_path / "second.log").read_text()
    assert "reusing" in log.splitlines()[0]
    assert "+ toy==1.0" in log


BUILD = """
import sys
from pathlib import Path
from a2perf.submission.evaluator import python_env
from tests.submission.wheels import recipe
wheelhouse, log = map(Path, sys.argv[1:3])
with python_env.environment(recipe(log.with_suffix('.entry'), 'toy==1.0', wheelhouse), log) as env:
    print(env.record.reused, flush=True)
    sys.stdin.read()
"""


def builder(wheelhouse: Path, log: Path) -> subprocess.Popen[str]:
    argv = [sys.executable, "-c", BUILD, str(wheelhouse), str(log)]
    return Child(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def test_processes_that_need_the_same_build_it_once(tmp_path: Path, wheelhouse: Path) -> None:
    processes = [builder(wheelhouse, tmp_path / f"{number}.log") for number in range(2)]
    # both have it while both run: the second one waits for the build of the first, and not for its end
    assert sorted(process.stdout.readline().strip() for process in processes if process.stdout) == ["False", "True"]
    assert [process.communicate(timeout=300)[0] for process in processes] == ["", ""]
    assert len(python_env.list_environments()) == 1


@pytest.mark.parametrize("moment", ["building", "compileall"])
def test_a_build_that_is_killed_leaves_nothing_that_counts(tmp_path: Path, wheelhouse: Path, moment: str) -> None:
    slow = "x = [" + "1," * 20_000 + "]\n"  # large enough that compiling takes a while
    wheels.write_wheel(wheelhouse, "toy", "1.0", {f"toy/m{i}.py": slow for i in range(60)}, script="toy-says")
    wanted = recipe(tmp_path / "s", "toy==1.0\n", wheelhouse)
    log = tmp_path / "killed.log"
    process = builder(wheelhouse, log)
    sign = {"building": "building", "compileall": "+ toy==1.0"}[moment]
    until(lambda: log.exists() and sign in log.read_text())
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=300)
    listed = python_env.list_environments()
    assert all(one.stamp is None for one in listed)
    assert not (python_env.folder_of_environments() / wanted.key).exists()
    with python_env.environment(wanted, tmp_path / "again.log") as env:
        assert says(env) == "toy 1.0"
        assert not env.record.reused
    assert [one.stamp is not None for one in python_env.list_environments()] == [True]


@pytest.mark.usefixtures("without_byte_code")
def test_what_killed_builds_of_other_keys_left_goes_with_the_next_build(tmp_path: Path, wheelhouse: Path) -> None:
    left = python_env.folder_of_environments() / ".building-0123456789abcdef0123-xyz"
    (left / "environment" / "lib").mkdir(parents=True)
    with python_env.environment(recipe(tmp_path / "s", "toy==1.0\n", wheelhouse), tmp_path / "log"):
        pass
    assert not left.exists()
    assert len(python_env.list_environments()) == 1


@pytest.mark.usefixtures("without_byte_code")
def test_a_folder_without_a_stamp_is_built_anew(tmp_path: Path, wheelhouse: Path) -> None:
    wanted = recipe(tmp_path / "s", "toy==1.0\n", wheelhouse)
    with python_env.environment(wanted, tmp_path / "log") as env:
        (env.path / environments.STAMP).unlink()
    with python_env.environment(wanted, tmp_path / "log") as env:
        assert not env.record.reused
        assert says(env) == "toy 1.0"


# --- what cannot be had ---------------------------------------------------------------------------------------------


def unmade(wanted: python_env.Recipe, log: Path, kind: type[Exception]) -> str:
    with pytest.raises(kind) as caught, python_env.environment(wanted, log):
        pass
    assert python_env.list_environments() == []
    return str(caught.value)


def test_a_contradiction_with_a2perf_names_both_sides(tmp_path: Path, wheelhouse: Path) -> None:
    said = unmade(recipe(tmp_path / "s", "toy\nnumpy<1.20\n", wheelhouse), tmp_path / "log", ConfigError)
    assert "requirements.txt:2: numpy<1.20" in said
    assert "numpy>=1.26" in said
    assert len(said.splitlines()) <= 5


def test_an_index_that_does_not_answer_is_the_hosts_fault(
    tmp_path: Path, wheelhouse: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("UV_HTTP_RETRIES", "0")
    monkeypatch.setenv("UV_INDEX_URL", "http://127.0.0.1:9/simple")
    wanted = recipe(tmp_path / "s", "toy==7.0\n", wheelhouse, offline=False)
    assert "could not be reached" in unmade(wanted, tmp_path / "log", InfrastructureError)


def test_without_uv_nothing_is_made_and_the_error_says_so(
    tmp_path: Path, wheelhouse: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(installer.shutil, "which", lambda name: None)
    monkeypatch.setattr(installer.sys, "executable", str(tmp_path / "python"))
    sources = recipe(tmp_path / "s", "", wheelhouse).sources
    with pytest.raises(MissingDependency, match="isolated environments, is not installed") as error:
        installer.Installer(tmp_path, python_env.find_interpreter(), sources, tmp_path / "log")
    assert error.value.hint == "pip install uv"


def test_an_interpreter_that_does_not_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be run as a Python"):
        python_env.find_interpreter(tmp_path / "python")
    assert python_env.find_interpreter(sys.executable) == python_env.find_interpreter()


# --- list and prune -------------------------------------------------------------------------------------------------


def run(*arguments: str) -> tuple[int, str]:
    done = CliRunner().invoke(command, arguments, catch_exceptions=False, standalone_mode=False)
    return done.return_value or 0, done.output


@pytest.mark.usefixtures("without_byte_code")
def test_list_shows_key_size_use_and_requirements(tmp_path: Path, wheelhouse: Path) -> None:
    assert "no environments" in run()[1]
    wanted = recipe(tmp_path / "s", "toy==1.0\n", wheelhouse)
    with python_env.environment(wanted, tmp_path / "log"):
        (record,) = json.loads(run("--json")[1])
        assert (record["key"], record["complete"], record["in_use"]) == (wanted.key, True, True)
        assert record["size_bytes"] == read_json(Path(record["path"]) / environments.STAMP)["size_bytes"] > 500_000
        shown = run()[1]
    assert wanted.key in shown
    assert "toy==1.0" in shown
    assert "in use" in shown


@pytest.mark.usefixtures("without_byte_code")
def test_prune_deletes_by_age_and_spares_what_is_in_use(tmp_path: Path, wheelhouse: Path) -> None:
    recipes = {pin: recipe(tmp_path / f"s{pin}", f"toy=={pin}\n", wheelhouse) for pin in ("1.0", "2.0")}
    for pin, wanted in recipes.items():
        with python_env.environment(wanted, tmp_path / "log") as env:
            if pin == "1.0":
                os.utime(env.path / environments.STAMP, (time.time() - 40 * 86400,) * 2)
    assert "deleted 0" in run("--prune", "leftovers", "--yes")[1]
    assert json.loads(run("--prune", "30d", "--yes", "--json")[1])[0]["key"] == recipes["1.0"].key
    assert [one.stamp.key for one in python_env.list_environments() if one.stamp] == [recipes["2.0"].key]
    with python_env.environment(recipes["2.0"], tmp_path / "log") as env:
        assert "1 in use stay" in run("--prune", "all", "--yes")[1]
        assert says(env) == "toy 2.0"
    assert "deleted 1" in run("--prune", "all", "--yes")[1]
    assert python_env.list_environments() == []


@pytest.mark.usefixtures("without_byte_code")
def test_prune_asks_and_understands_ages(tmp_path: Path, wheelhouse: Path) -> None:
    with python_env.environment(recipe(tmp_path / "s", "toy\n", wheelhouse), tmp_path / "log"):
        pass
    done = CliRunner().invoke(command, ["--prune", "all"], input="n\n")
    assert done.exit_code == 1
    assert len(python_env.list_environments()) == 1
    with pytest.raises(ConfigError, match="--prune: 'soon' is not valid"):
        run("--prune", "soon", "--yes")
