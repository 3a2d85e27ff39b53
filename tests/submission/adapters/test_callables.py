"""Any callable as a submission, and the record of what a policy was trained on."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from a2perf.records import FailureKind
from a2perf.submission.evaluator.process.failures import ParticipantFailure
from a2perf.submission.participant.adapters import callables
from a2perf.submission.participant.adapters.contract import find
from a2perf.submission.participant.adapters.origin import record_environment, require_origin
from a2perf.submission.participant.signatures import ContractError
from tests.commands import run_python
from tests.made_submissions import write_submission
from tests.submission.adapters import submissions

IMPORT = "from a2perf.submission.participant.adapters import callables\n"
UNPACK = "load_policy, preprocess_observation, infer_once = callables.contract"


def test_function_is_a_submission_of_three_lines(tmp_path: Path) -> None:
    folder = write_submission(
        tmp_path / "entry", IMPORT + f"{UNPACK}(lambda seen: seen[:12] * 2, observation=lambda seen: seen + 1)\n"
    )
    (action,) = submissions.answers(folder, tmp_path, [np.arange(160, dtype=np.float32)])
    assert action.tolist() == [2.0 * (index + 1) for index in range(12)]


def test_function_that_loads_gets_the_environment_and_the_arguments(tmp_path: Path) -> None:
    text = (
        IMPORT
        + f"""
def load(env, gain="1"):
    size = env.action_space.shape[0]
    return lambda seen: [float(gain)] * size

{UNPACK}(load=load)
"""
    )
    folder = write_submission(tmp_path / "entry", text)
    (action,) = submissions.answers(folder, tmp_path, [np.zeros(160, np.float32)], gain="0.5")
    assert list(action) == [0.5] * 12


def test_what_cannot_be_called_is_named(tmp_path: Path) -> None:
    with pytest.raises(ContractError, match="act=3 is not callable"):
        callables.contract(3)  # type: ignore[arg-type]
    with pytest.raises(ContractError, match="either a policy or a function that loads one"):
        callables.contract()
    folder = write_submission(tmp_path / "entry", IMPORT + f"{UNPACK}(load=lambda env: {{}})\n")
    with pytest.raises(ParticipantFailure) as caught:
        submissions.answers(folder, tmp_path, [])
    assert caught.value.failure.kind is FailureKind.CONTRACT
    assert "<lambda> returned a dict, which is not callable" in caught.value.failure.message


def test_adapters_import_no_framework_before_a_policy_is_loaded() -> None:
    code = (
        "import sys\nfrom a2perf.submission.participant.adapters import callables, sb3, tf_agents\n"
        "sb3.contract(algorithm='PPO'), tf_agents.contract()\n"
        "print(sorted({'torch', 'tensorflow', 'tf_agents', 'stable_baselines3', 'gymnasium'} & set(sys.modules)))"
    )
    done = run_python(code, check=True)
    assert done.stdout.strip() == "[]"


def test_missing_file_says_what_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "artifacts").mkdir()
    (tmp_path / "artifacts" / "modle.zip").touch()
    monkeypatch.setenv("ROOT_DIR", str(tmp_path / "artifacts"))
    with pytest.raises(ContractError, match=r"model 'model\.zip' not found in the training artifacts \(modle\.zip"):
        find("model.zip", "model")


def test_policy_is_also_found_in_the_submission(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "model.zip").touch()
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ROOT_DIR", raising=False)
    assert find("model.zip", "model") == tmp_path / "model.zip"


def test_policy_of_another_domain_is_refused_and_one_of_another_task_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy = tmp_path / "policies" / "greedy_policy"
    policy.mkdir(parents=True)
    monkeypatch.setenv("A2PERF_ENV_ID", "QuadrupedLocomotion-DogPace-v0")
    monkeypatch.setenv("A2PERF_ARTIFACTS", str(tmp_path))
    require_origin(policy, "the policy")
    record_environment()
    monkeypatch.setenv("A2PERF_ENV_ID", "QuadrupedLocomotion-DogTrot-v0")
    require_origin(policy, "the policy")
    monkeypatch.setenv("A2PERF_ENV_ID", "WebNavigation-v0")
    with pytest.raises(
        ContractError,
        match="the policy was trained on QuadrupedLocomotion-DogPace-v0, but this run uses WebNavigation-v0",
    ):
        require_origin(policy, "the policy")
    record_environment(env_id="CartPole-v1")
    with pytest.raises(ContractError, match="trained on CartPole-v1"):
        require_origin(policy, "the policy")


def test_damaged_record_and_no_run_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "trained_on.json").write_text("{")
    with pytest.raises(ContractError, match="called outside of a run"):
        record_environment()
    monkeypatch.setenv("A2PERF_ENV_ID", "WebNavigation-v0")
    with pytest.raises(ContractError, match=r"trained_on\.json cannot be read"):
        require_origin(tmp_path / "model.zip", "the model")
