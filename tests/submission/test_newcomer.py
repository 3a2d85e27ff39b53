"""The faults that a newcomer met in the earlier public platform, each kept from coming back (platform spec, part B).

Numbers 15 and 16, gin files without environment or tasks, are in ``tests/packaging/test_gin_files.py``.
"""

import importlib
import importlib.metadata
import json
import os
import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest

import a2perf
from a2perf.domains.registry import domains
from a2perf.errors import MissingDependency
from tests.shipped import shipped_domains
from tests.submission.conftest import command


def test_01_every_domain_is_importable_as_the_readme_says() -> None:
    for name in shipped_domains():
        module = importlib.import_module(f"a2perf.domains.{name}")
        assert module.DOMAIN.name == name


OF_A_FRAMEWORK = ("a2perf.domains.tfa.py_environment",)


def test_02_every_module_imports_with_the_declared_dependencies() -> None:
    failed = []
    for module in pkgutil.walk_packages(a2perf.__path__, "a2perf."):
        if module.name.rpartition(".")[2] == "__main__" or module.name.endswith(".guard"):
            continue
        try:
            importlib.import_module(module.name)
        except MissingDependency as error:
            # only what stands for a framework as a whole may need it, and then says how to get it
            if not module.name.startswith(OF_A_FRAMEWORK) or "pip install" not in (error.hint or ""):
                failed.append(f"{module.name}: {error}")
        except ModuleNotFoundError as error:
            failed.append(f"{module.name}: {error}")
    assert failed == []


def test_03_a_plain_clone_holds_everything(repository: Path) -> None:
    assert not (repository / ".gitmodules").exists()
    assert all((repository / "a2perf" / "domains" / name / "__init__.py").stat().st_size for name in shipped_domains())


def test_04_environments_register_with_gymnasium_1() -> None:
    import gymnasium

    assert int(gymnasium.__version__.split(".")[0]) >= 1
    assert "QuadrupedLocomotion-DogPace-v0" in gymnasium.registry


def test_05_runs_with_codecarbon_3(submission, launch) -> None:
    assert int(importlib.metadata.version("codecarbon").split(".")[0]) >= 3
    outcome = launch(submission(), "training.gin", "--gin_bindings", "Submission.measure_emissions = True")
    assert outcome.status == 0, outcome.output
    assert outcome.manifest("train")["tracker_failures"] == []


def test_06_arguments_for_a_train_without_parameters_are_no_silent_success(submission, launch) -> None:
    path = submission(train="def train():\n    pass\n")
    outcome = launch(path, "training.gin", "--participant_args", "gin_config_path=a.gin")
    assert outcome.status == 1
    assert "successfully" not in outcome.output


def test_07_gin_path_may_be_relative(submission, tmp_path: Path) -> None:
    submission()
    argv = command("--submission", "entry", "--gin_config", "./training.gin", "--root_dir", "r")
    done = subprocess.run(argv, cwd=tmp_path, capture_output=True, text=True, env=os.environ.copy(), timeout=300)
    assert done.returncode == 0, done.stderr


def test_08_needs_no_activated_environment(submission, tmp_path: Path) -> None:
    argv = command("--submission", submission(), "--gin_config", "training.gin", "--root_dir", tmp_path / "r")
    environment = {**os.environ, "PATH": str(tmp_path)}
    done = subprocess.run(argv, cwd=tmp_path, capture_output=True, text=True, env=environment, timeout=300)
    assert done.returncode == 0, done.stderr


def test_09_missing_package_of_the_submission_is_a_named_failure(submission, launch) -> None:
    outcome = launch(submission(train="import stable_baselines77\ndef train():\n    pass\n"), "training.gin")
    assert outcome.status == 1
    assert "No module named 'stable_baselines77'" in outcome.output


def test_10_requirements_of_the_submission_do_not_touch_the_platform(submission, launch) -> None:
    before = {found.name: found.version for found in importlib.metadata.distributions()}
    assert launch(submission(requirements_txt="numpy<1\nno-such-package==9\n"), "training.gin").status == 0
    importlib.invalidate_caches()
    assert {found.name: found.version for found in importlib.metadata.distributions()} == before


def test_11_failing_environment_at_import_is_a_failure(submission, launch) -> None:
    code = "import gymnasium\nenv = gymnasium.make('WebNavigation-NoSuchThing-v0')\ndef train():\n    pass\n"
    outcome = launch(submission(train=code), "training.gin")
    assert outcome.status == 1
    assert "NoSuchThing" in outcome.output


@pytest.mark.group("pybullet")
def test_12_missing_function_is_named_with_its_signature(submission, launch) -> None:
    code = "def preprocess_observation(observation):\n    return observation\n"
    code += "def infer_once(policy, observation):\n    return 0\n"
    outcome = launch(submission(inference=code), "inference.gin")
    assert outcome.status == 1
    assert outcome.manifest("inference")["failure"]["kind"] == "contract"
    assert "load_policy(env" in outcome.output


SIGNATURES = {
    "readme": ("load_policy(env, **kwargs)", "preprocess_observation(observation)", "infer_once(policy, observation)"),
    "runner": (
        "load_policy(env, **kwargs)",
        "preprocess_observation(x, time_step_spec=None)",
        "infer_once(policy, preprocessed_observation)",
    ),
    "template": ("load_model(env)", "preprocess_observation(observation)", "infer_once(model, observation)"),
    "keywords": (
        "load_policy(env)",
        "preprocess_observation(observation)",
        "infer_once(*, policy, preprocessed_observation)",
    ),
}


@pytest.mark.group("pybullet")
@pytest.mark.parametrize("style", SIGNATURES)
def test_13_every_published_signature_works(style: str, submission, launch) -> None:
    load, preprocess, infer = SIGNATURES[style]
    first = preprocess.split("(")[1].split(",")[0].strip(")")
    code = f"""
import numpy as np
class Actor:
    pass
def {load}:
    return Actor()
def {preprocess}:
    return {first}
def {infer}:
    return np.zeros(12, np.float32)
"""
    bindings = ["--gin_bindings", "Submission.num_inference_episodes = 1"]
    outcome = launch(submission(inference=code), "inference.gin", *bindings)
    assert outcome.status == 0, outcome.output


@pytest.mark.group("pybullet")
def test_14_any_object_is_a_policy(submission, launch) -> None:
    code = """
import numpy as np
def load_policy(env):
    return lambda observation: observation[:12] * 0
def preprocess_observation(observation):
    return observation
def infer_once(policy, observation):
    return policy(observation)
"""
    outcome = launch(submission(inference=code), "inference.gin")
    assert outcome.status == 0, outcome.output
    assert len(json.loads((outcome.root / "inference/metrics/rollouts.json").read_text())["episodes"]) == 2


def test_17_every_spelling_of_an_id_is_accepted() -> None:
    for domain in domains().values():
        for environment in domain.environments:
            for name in (environment.id, *environment.aliases):
                from a2perf.domains import find_environment

                assert find_environment(name)[1] is environment


def test_18_own_results_can_be_reported(submission, launch, tmp_path: Path) -> None:
    outcome = launch(submission(), "training.gin")
    argv = [sys.executable, "-m", "a2perf", "report", str(outcome.root), "-o", str(tmp_path / "report")]
    done = subprocess.run(argv, capture_output=True, text=True, env=os.environ.copy(), timeout=300)
    assert done.returncode == 0, done.stderr
    assert "train" in (tmp_path / "report" / "report.md").read_text()


def test_19_launches_without_a_terminal(submission, tmp_path: Path) -> None:
    argv = command("--submission", submission(), "--gin_config", "training.gin", "--root_dir", tmp_path / "r")
    environment = {name: value for name, value in os.environ.items() if name not in ("USER", "LOGNAME", "TERM")}
    done = subprocess.run(
        argv, cwd=tmp_path, stdin=subprocess.DEVNULL, capture_output=True, text=True, env=environment,
        start_new_session=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
