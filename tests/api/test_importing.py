"""``import a2perf``: fast, light, from anywhere, and from the parent of a checkout."""

from __future__ import annotations

import json
import shlex
import shutil
import sys
import sysconfig
import venv
from importlib.util import find_spec
from pathlib import Path

import pytest

import a2perf
from tests.commands import run_command

HEAVY = (
    "matplotlib",
    "pandas",
    "polars",
    "pyarrow",
    "torch",
    "tensorflow",
    "numba",
    "pybullet",
    "selenium",
    "mlflow",
    "tensorboard",
    "wandb",
    "rich",
    "codecarbon",
    "scipy",
    "jinja2",
    "IPython",
    "h5py",
    "minari",
    "huggingface_hub",
    "a2perf.cli",
    "a2perf.submission.evaluator",
    "a2perf.submission.main_submission",
)


def fresh(code: str, *, cwd: Path | str = "/", python: str = sys.executable) -> str:
    done = run_command([python, "-c", code], cwd, check=True)
    return done.stdout.strip()


def test_no_public_name_loads_a_heavy_library() -> None:
    assert all(find_spec(name) for name in HEAVY if name.startswith("a2perf."))
    code = (
        "import json, sys, a2perf\nloaded = {}\n"
        f"for name in {sorted(a2perf._HOMES)!r}:\n"
        "    before = set(sys.modules)\n    getattr(a2perf, name)\n"
        f"    loaded[name] = [one for one in {HEAVY!r} if one in sys.modules and one not in before]\n"
        "print(json.dumps(loaded))"
    )
    assert {name: found for name, found in json.loads(fresh(code)).items() if found} == {}


def test_a_process_of_a_participant_imports_little_before_its_code() -> None:
    code = "import sys; plain = set(sys.modules); import a2perf.submission.participant.worker\n"
    assert int(fresh(f"{code}print(len(set(sys.modules) - plain))")) <= 120


@pytest.mark.parametrize("name", ["read_runs", "read_run", "score", "Table", "write_report"])
def test_reading_results_loads_no_environment(name: str) -> None:
    found = "[one for one in sys.modules if one.startswith(('a2perf.domains.', 'gymnasium'))]"
    assert fresh(f"import sys, a2perf; a2perf.{name}; print({found})") == "[]"


def test_listing_tasks_imports_no_environment() -> None:
    code = (
        "import sys, a2perf; tasks = a2perf.tasks(); tasks.to_pandas; repr(tasks); tasks._repr_html_()\n"
        f"print(len(tasks), [one for one in (*{HEAVY!r}, 'gymnasium') if one in sys.modules])"
    )
    assert fresh(code) == f"{len(a2perf.tasks())} []"


# --- the parent of a checkout that is called a2perf -------------------------------------------------------------------


@pytest.fixture
def checkout(tmp_path: Path, repository: Path) -> Path:
    """A small checkout in a folder ``a2perf``: what a build of the package reads, and two modules."""
    folder = tmp_path / "projects" / "a2perf"
    (folder / "a2perf").mkdir(parents=True)
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE", "MANIFEST.in"):
        shutil.copy(repository / name, folder / name)
    (folder / "third_party").mkdir()
    shutil.copy(repository / "third_party" / "NOTICES.md", folder / "third_party")
    shutil.copy(repository / "a2perf" / "_version.py", folder / "a2perf")
    (folder / "a2perf" / "__init__.py").write_text("from a2perf._version import __version__\n")
    return folder


def _flags_of_make(repository: Path) -> list[str]:
    """Returns the flags with which `make setup` installs the checkout."""
    text = (repository / "Makefile").read_text(encoding="utf-8")
    (line,) = (line for line in text.splitlines() if line.startswith("EDITABLE :="))
    return shlex.split(line.partition(":=")[2])


def test_a_script_in_the_parent_of_a_checkout_finds_the_package(
    checkout: Path, repository: Path, tmp_path: Path
) -> None:
    """Without the flags, ``projects/a2perf`` is an empty namespace package for ``projects/script.py``."""
    venv.create(tmp_path / "env", with_pip=False)
    python = str(tmp_path / "env" / "bin" / "python")
    site = sysconfig.get_path("purelib")
    pip = [sys.executable, "-m", "pip", "--python", python, "--isolated", "--disable-pip-version-check", "install"]
    flags = ["--quiet", "--no-index", "--no-deps", "--no-build-isolation", *_flags_of_make(repository)]
    variables = {"PATH": "/usr/bin:/bin", "PYTHONPATH": site, "HOME": str(tmp_path)}
    run_command([*pip, *flags, str(checkout)], check=True, env=variables)
    code = "import a2perf; print(a2perf.__file__, a2perf.__version__)"
    package = checkout / "a2perf" / "__init__.py"
    for folder in (checkout.parent, checkout, tmp_path, Path("/")):
        assert fresh(code, cwd=folder, python=python) == f"{package} {a2perf.__version__}"
    script = checkout.parent / "script.py"
    script.write_text(code)
    shown = run_command([python, str(script)], "/", check=True).stdout
    assert shown.strip() == f"{package} {a2perf.__version__}"


def test_another_checkout_in_the_working_directory_comes_first(tmp_path: Path) -> None:
    (tmp_path / "a2perf").mkdir()
    (tmp_path / "a2perf" / "__init__.py").write_text("")
    assert fresh("import a2perf; print(a2perf.__file__)", cwd=tmp_path) == str(tmp_path / "a2perf" / "__init__.py")
