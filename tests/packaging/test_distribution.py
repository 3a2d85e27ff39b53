"""What is built is complete: a wheel, made from the source archive, serves as well as a checkout."""

from __future__ import annotations

import os
import shutil
import sys
import tarfile
import time
import tomllib
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from a2perf.domains.registry import domains
from tests.commands import flags, run_command
from tests.participants import make_participant

IGNORED = shutil.ignore_patterns(
    ".git", ".venv*", "build", "dist", "*.egg-info", "__pycache__", ".*_cache", ".hypothesis"
)
MAX_BYTES = 1.3e9  # of an environment with a single domain; imageio-ffmpeg alone has 165 MB


@dataclass(frozen=True)
class Built:
    """The two archives and the names inside them, below their top folder."""

    wheel: Path
    wheel_names: frozenset[str]
    sdist_names: frozenset[str]


@pytest.fixture(scope="session")
def built(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Built:
    """Builds the source archive from a copy of the checkout, and the wheel from the source archive."""
    folder = tmp_path_factory.mktemp("build")

    def ignored(place: str, names: list[str]) -> set[str]:
        return IGNORED(place, names) | ({"runs"} if Path(place) == repository else set())

    shutil.copytree(repository, folder / "source", ignore=ignored, symlinks=True)
    given = flags(no_isolation=True, outdir=folder / "dist")
    run_command([sys.executable, "-m", "build", *given, folder / "source"], check=True)
    (wheel,), (sdist,) = (folder / "dist").glob("*.whl"), (folder / "dist").glob("*.tar.gz")
    with zipfile.ZipFile(wheel) as archive:
        wheel_names = frozenset(archive.namelist())
    with tarfile.open(sdist) as archive:
        sdist_names = frozenset(name.partition("/")[2] for name in archive.getnames())
    return Built(wheel, wheel_names, sdist_names)


def _files(folder: Path, *patterns: str) -> set[str]:
    found = (path for pattern in patterns for path in folder.rglob(pattern))
    return {path.relative_to(folder).as_posix() for path in found if path.is_file() and "__pycache__" not in path.parts}


def test_wheel_holds_every_module_and_every_data_file(repository: Path, built: Built) -> None:
    package = repository / "a2perf"
    wanted = _files(package, "*.py", "*.gin", "py.typed", "templates/*", "data/*")
    missing = {name for name in wanted if f"a2perf/{name}" not in built.wheel_names}
    assert not missing
    assert any(name.startswith("report/templates/") for name in wanted)


@pytest.mark.parametrize("folder", ["templates", "examples"])
def test_wheel_carries_the_folders_that_lie_beside_the_package(repository: Path, built: Built, folder: str) -> None:
    wanted = _files(repository / folder, "*")
    assert wanted
    assert not {name for name in wanted if f"a2perf/{folder}/{name}" not in built.wheel_names}


def test_wheel_holds_nothing_else(built: Built) -> None:
    tops = {name.partition("/")[0] for name in built.wheel_names}
    assert tops == {"a2perf", next(top for top in tops if top.endswith(".dist-info"))}
    assert not [name for name in built.wheel_names if name.endswith((".pyc", ".lock", ".zip"))]


def test_source_archive_can_be_tested(built: Built) -> None:
    for name in (
        "Makefile",
        "requirements.lock",
        "requirements-lower.txt",
        "LICENSE",
        "third_party/NOTICES.md",
        "README.md",
    ):
        assert name in built.sdist_names
    assert "tests/packaging/test_distribution.py" in built.sdist_names
    assert "docs/tutorials/first_submission.md" in built.sdist_names


def test_lock_is_pinned_by_hash_and_names_no_index(repository: Path) -> None:
    text = (repository / "requirements.lock").read_text(encoding="utf-8")
    requirements = [line for line in text.splitlines() if line and not line.startswith((" ", "#"))]
    assert len(requirements) > 40
    for requirement in requirements:
        assert "==" in requirement
        assert requirement.endswith("\\")  # its hashes follow
    assert "://" not in text
    assert "--index" not in text
    assert "find-links" not in text
    for heavy in ("torch", "tensorflow", "ray"):
        assert not any(requirement.startswith(f"{heavy}==") for requirement in requirements)


# --- fresh environments: these install packages as a user would -------------------------------------------------------


def _extras(repository: Path) -> dict[str, list[str]]:
    project = tomllib.loads((repository / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return dict(project["optional-dependencies"])


def _fresh(folder: Path, environment: Mapping[str, str], *requirements: str) -> tuple[Path, float, int]:
    """Makes an environment with pip alone; returns its interpreter, the seconds it took, and its bytes."""
    started = time.monotonic()
    run_command([sys.executable, "-m", "venv", str(folder)], check=True, env=environment)
    python = folder / "bin" / "python"
    command = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *requirements]
    run_command(command, check=True, timeout=None, env=environment)
    seconds = time.monotonic() - started
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
    return python, seconds, size


def _own(environment: Mapping[str, str], tmp_path: Path) -> dict[str, str]:
    """The user's package index settings, but a cache and a home of the test's own for a2perf."""
    return {**environment, "A2PERF_CACHE_DIR": str(tmp_path / "cache"), "A2PERF_OFFLINE": "1", "OMP_NUM_THREADS": "1"}


EPISODE = """
import sys
from a2perf.domains.registry import domains
from a2perf.domains.tfa.suite_gym import make_environment
from a2perf.errors import AssetUnavailable
extra, played = sys.argv[1], 0
for domain in domains().values():
    if extra in (domain.extra, "all"):
        for task in domain.tasks:
            try:
                env = make_environment(task.env_id, dict(task.kwargs))
            except AssetUnavailable:
                continue
            env.reset(seed=0)
            over = False
            while not over:
                _, _, terminated, truncated, _ = env.step(env.action_space.sample())
                over = terminated or truncated
            env.close()
            played += 1
            break
print("played", played)
"""


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("extra", ["quadruped-locomotion", "web-navigation", "circuit-training", "all"])
def test_extra_resolves_alone_and_runs_an_episode(
    built: Built, repository: Path, real_environment: Mapping[str, str], tmp_path: Path, extra: str
) -> None:
    assert extra in _extras(repository)
    environment = _own(real_environment, tmp_path)
    python, seconds, size = _fresh(tmp_path / "venv", environment, f"{built.wheel}[{extra}]")
    print(f"\n{extra}: {seconds:.0f} s, {size / 1e6:.0f} MB")
    done = run_command([str(python), "-c", EPISODE, extra], tmp_path, check=True, env=environment)
    own = [domain for domain in domains().values() if domain.extra]  # installed distributions bring more
    domains_of = [domain for domain in own if extra in (domain.extra, "all")]
    assert f"played {len(domains_of)}" in done.stdout
    if extra != "all":
        assert size < MAX_BYTES


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_wheel_outside_the_checkout_does_the_whole_job(
    built: Built, real_environment: Mapping[str, str], tmp_path: Path
) -> None:
    environment = _own(real_environment, tmp_path)
    python, _, _ = _fresh(tmp_path / "venv", environment, f"{built.wheel}[quadruped-locomotion]")
    environment["PATH"] = f"{python.parent}{os.pathsep}{environment['PATH']}"
    commands = (
        "a2perf init mine",
        "a2perf check mine --participant-args episodes=1",
        "a2perf-launch --submission mine --gin_config training.gin --root_dir runs/mine --participant_args episodes=1",
        "a2perf-launch --submission mine --gin_config inference.gin "
        "--root_dir runs/mine --gin_bindings 'Submission.num_inference_steps=50' "
        "--gin_bindings 'Submission.num_inference_episodes=1'",
        "a2perf validate runs/mine",
        "a2perf report runs/mine -o runs/report",
        "a2perf demo --output runs/demo --train-seconds 5",
    )
    for command in commands:
        run_command(["bash", "-c", command], tmp_path, check=True, timeout=None, env=environment)
    assert (tmp_path / "runs" / "report" / "index.html").is_file()
    assert (tmp_path / "runs" / "demo" / "report" / "index.html").is_file()


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_participant_process_works_at_the_lower_bounds(
    built: Built, repository: Path, real_environment: Mapping[str, str], tmp_path: Path
) -> None:
    from a2perf.domains.tfa.suite_gym import make_environment

    python, _, _ = _fresh(
        tmp_path / "venv", real_environment, "--requirement", str(repository / "requirements-lower.txt")
    )
    run_command(
        [str(python), "-m", "pip", "install", "--quiet", "--no-deps", str(built.wheel)],
        check=True,
        env=dict(real_environment),
    )
    env_id = "QuadrupedLocomotion-SyntheticTrot-v0"
    variables = {
        "SEED": "1",
        "A2PERF_ENV_ID": env_id,
        "A2PERF_ENV_KWARGS": '{"mode": "test"}',
        "ROOT_DIR": str(tmp_path / "artifacts"),
    }
    (tmp_path / "artifacts").mkdir()
    env = make_environment(env_id, {"mode": "test"})
    for mode in ("train", "inference"):
        process = make_participant(
            repository / "templates" / "submission",
            mode=mode,
            python=python,
            environment=variables,
            artifacts=tmp_path / "artifacts",
            logs=tmp_path / mode / "logs",
        )
        with process:
            process.start()
            if mode == "train":
                process.train({"episodes": "1"})
            else:
                process.load_policy({})
                observation, _ = env.reset(seed=0)
                for _ in range(5):
                    observation, *_ = env.step(process.infer(observation).action)
    env.close()
