"""The platform without its engines: it runs any environment of Gymnasium, and its own tests pass."""

from __future__ import annotations

import os
import re
import shutil
import site
import subprocess
import tempfile
import venv
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from docs.building.budget import ENGINES
from tests.commands import run_command

SUITE = (
    "api",
    "attacks",
    "cli",
    "domains",
    "experiments",
    "fuzz",
    "launch",
    "metrics",
    "platforms",
    "report",
    "rlops",
    "runs",
    "sandbox",
    "submission",
    *("test_assets.py", "test_plugins.py", "test_storage.py", "test_stranger_files.py", "test_worker_pool.py"),
)
FEWEST_PASSED = 800
"""The rule of ``tests/conftest.py`` leaves out tests that name an engine; it must not leave out all."""


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    """A folder that other users can enter, as those of pytest are not: some tests start processes of another user."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        yield folder


@pytest.fixture(scope="module")
def run(folder: Path, repository: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs Python in a copy of the repository in which the folders of the engines are absent."""
    tree, python = folder / "platform", folder / "python"
    tree.mkdir()

    def left_out(folder: str, names: list[str]) -> list[str]:
        return ["__pycache__", *ENGINES] if Path(folder).name == "domains" else ["__pycache__"]

    for name in ("a2perf", "tests"):
        shutil.copytree(repository / name, tree / name, ignore=left_out)
    for path in repository.iterdir():
        if not path.name.startswith(".") and not (tree / path.name).exists():
            (tree / path.name).symlink_to(path)
    venv.create(python, with_pip=False)
    (packages,) = python.glob("lib/python*/site-packages")
    # without the .pth file in it, which leads to this checkout
    (packages / "platform.pth").write_text("\n".join([str(tree), *site.getsitepackages()]))

    def run(*words: str, timeout: int = 300, env: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
        return run_command([str(python / "bin" / "python"), *words], tree, timeout=timeout, env=env)

    return run


def test_any_environment_runs_and_nothing_names_an_engine(run) -> None:
    listed = run("-m", "a2perf", "envs", "list")
    assert (listed.returncode, listed.stderr) == (0, "")
    assert not any(name in listed.stdout for name in ENGINES)
    code = (
        "import a2perf\n"
        "result = a2perf.evaluate(lambda observation: 0, env='CartPole-v1', episodes=2, progress=False)\n"
        "print(len(result.returns), min(result.returns) > 5)"
    )
    evaluated = run("-c", code)
    assert (evaluated.returncode, evaluated.stdout, evaluated.stderr) == (0, "2 True\n", "")
    wrong = run("-m", "a2perf", "run", "--task", "dog_pace", "--submission", "tests")
    assert wrong.returncode == 2
    assert len(wrong.stderr.splitlines()) <= 5


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_the_suite_of_the_platform_passes(run, real_environment: Mapping[str, str]) -> None:
    words = ["-m", "pytest", "-q", "-n", str(os.cpu_count()), "-m", "not slow", *(f"tests/{name}" for name in SUITE)]
    done = run(*words, timeout=3000, env=real_environment)
    assert done.returncode == 0, done.stdout[-10_000:]
    assert int(re.findall(r"(\d+) passed", done.stdout)[-1]) >= FEWEST_PASSED
