"""The faults that a newcomer met in the earlier public platform, each kept from coming back (platform spec, part B).

Elsewhere: 1 and 4 (imports, registration) in ``tests/test_register_environments.py``; 5 and 7 (codecarbon, relative
paths) in ``test_modes.py``; 14 is part of 13; 15 and 16 (gin files without environment or tasks) in
``tests/packaging/test_gin_files.py``; 18 in ``tests/report``.
"""

import importlib
import importlib.metadata
import os
import pkgutil
import subprocess
from pathlib import Path

import pytest

import a2perf
from a2perf.domains.registry import domains
from a2perf.errors import MissingDependency
from tests.commands import launch as launched
from tests.made_submissions import policy
from tests.shipped import shipped_domains

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


def test_08_needs_no_activated_environment(submission, tmp_path: Path) -> None:
    given = ("--submission", submission(), "--gin_config", "training.gin", "--root_dir", tmp_path / "r")
    launched(*given, cwd=tmp_path, env={**os.environ, "PATH": str(tmp_path)}, check=True)


def test_10_requirements_of_the_submission_do_not_touch_the_platform(submission, launch) -> None:
    before = {found.name: found.version for found in importlib.metadata.distributions()}
    assert launch(submission(requirements_txt="numpy<1\nno-such-package==9\n"), "training.gin").status == 0
    importlib.invalidate_caches()
    assert {found.name: found.version for found in importlib.metadata.distributions()} == before


@pytest.mark.parametrize(
    ("code", "arguments", "said"),
    [
        pytest.param("", ("--participant_args", "gin_config_path=a.gin"), "gin_config_path", id="06 unknown argument"),
        pytest.param("import stable_baselines77", (), "No module named 'stable_baselines77'", id="09 missing package"),
        pytest.param(
            "import gymnasium\ngymnasium.make('WebNavigation-NoSuchThing-v0')",
            (),
            "NoSuchThing",
            id="11 failing environment at import",
        ),
    ],
)
def test_06_09_11_failing_training_is_a_named_failure(
    code: str, arguments: tuple[str, ...], said: str, submission, launch
) -> None:
    outcome = launch(submission(train=f"{code}\ndef train():\n    pass\n"), "training.gin", *arguments)
    assert outcome.status == 1
    assert said in outcome.output
    assert "successfully" not in outcome.output


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
        "preprocess_observation(observation, time_step_spec=None)",
        "infer_once(policy, preprocessed_observation)",
    ),
    "template": ("load_model(env)", "preprocess_observation(observation)", "infer_once(model, observation)"),
    "keywords": (
        "load_policy(env)",
        "preprocess_observation(observation)",
        "infer_once(*, policy, preprocessed_observation)",
    ),
}


@pytest.mark.parametrize("style", SIGNATURES)
def test_13_every_published_signature_works(style: str, submission, launch) -> None:
    code = policy(top="class Actor:\n    pass", load="return Actor()", infer="return np.zeros(12, np.float32)")
    for usual, other in zip(SIGNATURES["readme"], SIGNATURES[style], strict=True):
        code = code.replace(f"def {usual}", f"def {other}")
    bindings = ["--gin_bindings", "Submission.num_inference_episodes = 1"]
    outcome = launch(submission(inference=code), "inference.gin", *bindings)
    assert outcome.status == 0, outcome.output


def test_17_every_spelling_of_an_id_is_accepted() -> None:
    for domain in domains().values():
        for environment in domain.environments:
            for name in (environment.id, *environment.aliases):
                from a2perf.domains import find_environment

                assert find_environment(name)[1] is environment


def test_19_launches_without_a_terminal(submission, tmp_path: Path) -> None:
    given = ("--submission", submission(), "--gin_config", "training.gin", "--root_dir", tmp_path / "r")
    environment = {name: value for name, value in os.environ.items() if name not in ("USER", "LOGNAME", "TERM")}
    launched(*given, cwd=tmp_path, stdin=subprocess.DEVNULL, env=environment, start_new_session=True, check=True)
