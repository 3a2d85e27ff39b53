"""Whole runs whose participant has an environment of its own."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from a2perf.storage import read_json
from tests.made_submissions import WEB, gin, policy
from tests.submission import wheels

pytestmark = pytest.mark.usefixtures("own_cache")
POLICY = policy(
    top="import toy",
    load="print('toy', toy.VERSION, 'numpy', np.__file__)\nreturn env.action_space",
    infer="return policy.sample()",
)
SETTINGS = {"num_inference_steps": 5, "num_inference_episodes": 1, "record_frames": 0, "python_env": "isolated"}
GIN = gin(WEB, **SETTINGS)


@pytest.fixture(scope="module")
def real_wheelhouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheels")
    wheels.real_base(folder)
    for version in ("1.0", "2.0"):
        wheels.write_wheel(folder, "toy", version)
    return folder


@pytest.mark.timeout(900)
def test_submissions_with_conflicting_pins_run_under_one_evaluator_in_one_command(
    submission: Callable[..., Path],
    launch: Callable,
    real_wheelhouse: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("UV_FIND_LINKS", str(real_wheelhouse))
    first, second = (
        submission(f"s{pin[0]}", inference=POLICY, inference_gin=GIN, requirements_txt=f"toy=={pin}\n")
        for pin in ("1.0", "2.0")
    )
    flags = ("--submission", second, "--workers", 2)
    outcome = launch(first, "inference.gin", *flags, timeout=900)
    assert outcome.status == 0, outcome.output
    for folder, pin in ((first, "1.0"), (second, "2.0")):
        (bundle,) = (outcome.root / folder.name).glob("*/seed_0/inference")
        said = (bundle / "logs" / "stdout.log").read_text()
        assert f"toy {pin} numpy {tmp_path / 'cache' / 'python_envs'}" in said
        manifest = read_json(bundle / "manifest.json")
        assert (manifest["python_env"]["kind"], manifest["python_env"]["packages"]["toy"]) == ("isolated", pin)
        assert "toy" in (bundle / "logs" / "python_env.log").read_text()
        assert "logs/python_env.log" in manifest["files"]


def test_a_file_that_is_no_list_of_requirements_is_the_submissions_fault(
    submission: Callable[..., Path], launch: Callable
) -> None:
    outcome = launch(submission(inference_gin=GIN, requirements_txt="toy==1.0\n== nothing\n"), "inference.gin")
    assert outcome.status == 1
    manifest = outcome.manifest("inference")
    assert (manifest["exit_reason"], manifest["failure"]["kind"]) == ("contract", "contract")
    assert "requirements.txt:2" in manifest["failure"]["message"]


def test_generalization_builds_once_and_refuses_as_a_whole(
    submission: Callable[..., Path], launch: Callable, wheelhouse: Path
) -> None:
    file = gin(WEB, "generalization", **SETTINGS)
    folder = submission(inference=POLICY, inference_gin=file, requirements_txt="toy==3.1\n")
    outcome = launch(folder, "inference.gin")
    assert outcome.status == 2
    assert outcome.output.count("toy==3.1 cannot be installed") == 1
    assert "toy==3.1" in (outcome.root / "generalization" / "logs" / "python_env.log").read_text()
    assert not list((outcome.root / "generalization" / "metrics").glob("tasks/*/outcome.json"))


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_numpy_1_in_the_participant_answers_numpy_2_in_the_evaluator(
    submission: Callable[..., Path],
    launch: Callable,
    real_environment: Mapping[str, str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME"):  # where the user's index settings are
        if name in real_environment:
            monkeypatch.setenv(name, real_environment[name])
        else:
            monkeypatch.delenv(name)
    monkeypatch.delenv("A2PERF_OFFLINE")
    code = POLICY.replace("import toy\n", "").replace("'toy', toy.VERSION, 'numpy'", "'numpy', np.__version__")
    entry = submission(inference=code, inference_gin=GIN, requirements_txt="numpy==1.26.4\n")
    outcome = launch(entry, "inference.gin", timeout=600)
    assert outcome.status == 0, outcome.output
    assert "numpy 1.26.4" in (outcome.root / "inference" / "logs" / "stdout.log").read_text()
    assert importlib.metadata.version("numpy").startswith("2.")


def test_a_run_whose_package_cannot_be_had_ends_with_status_2_and_keeps_the_log(
    submission: Callable[..., Path], launch: Callable, wheelhouse: Path
) -> None:
    folder = submission(inference=POLICY, inference_gin=GIN, requirements_txt="toy==3.1\n")
    outcome = launch(folder, "inference.gin")
    assert outcome.status == 2
    assert "requirements.txt:1: toy==3.1 cannot be installed" in outcome.output
    assert "pip wheel --no-deps NAME -w DIR, then set UV_FIND_LINKS=DIR" in outcome.output
    manifest = outcome.manifest("inference")
    assert (manifest["state"], manifest["exit_reason"]) == ("failed", "configuration")
    assert "toy==3.1" in (outcome.root / "inference" / "logs" / "python_env.log").read_text()
