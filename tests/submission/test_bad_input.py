"""The table of bad input: each case has its message, its exit code and a readable bundle."""

import json

import pytest

from tests.commands import bindings
from tests.made_submissions import STANDS, TROT, policy

BAD_TRAIN = {
    "missing train.py": (None, "contract", r"train\.py"),
    "exception in train": ("def train():\n    raise ValueError('diverged')\n", "exception", "diverged"),
    "wrong signature": ("def train(a, b):\n    pass\n", "contract", "train"),
    "os._exit(0)": ("import os\ndef train():\n    os._exit(0)\n", "exit", "0"),
    "killed by a signal": (
        "import os, signal\ndef train():\n    os.kill(os.getpid(), signal.SIGSEGV)\n",
        "signal",
        "SIGSEGV",
    ),
}


@pytest.mark.parametrize("case", BAD_TRAIN)
def test_failing_training_is_never_a_success(case: str, submission, launch) -> None:
    code, kind, word = BAD_TRAIN[case]
    outcome = launch(submission(train=code), "training.gin")
    assert outcome.status == 1, outcome.output
    manifest = outcome.manifest("train")
    assert manifest["state"] == "failed"
    assert manifest["exit_code"] == 1
    assert manifest["failure"]["kind"] == kind
    assert word.replace("\\", "") in json.dumps(manifest["failure"])
    assert word.replace("\\", "") in outcome.output
    assert json.loads((outcome.root / "train" / "metrics" / "train.json").read_text())["exit_reason"] == kind


@pytest.mark.parametrize("gin", ["training.gin", "inference.gin"])
def test_a_missing_package_of_the_host_is_not_a_failure_of_the_submission(
    gin: str, submission, launch, tmp_path, monkeypatch
) -> None:
    engine = "mujoco" if "MuJoCo" in TROT else "pybullet"
    (tmp_path / "without").mkdir()
    (tmp_path / "without" / "sitecustomize.py").write_text(f"import sys\nsys.modules['{engine}'] = None\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "without"))
    outcome = launch(submission(train=f"import {engine}\ndef train():\n    pass\n"), gin)
    assert outcome.status == 2, outcome.output
    assert f"{TROT} needs" in outcome.output
    assert engine in outcome.output
    assert "  Hint: " in outcome.output
    assert not list(tmp_path.rglob("manifest.json"))


BAD_INFERENCE = {
    "exception in load_policy": ("load_policy", "raise OSError('no weights')", "exception", "no weights"),
    "wrong shape": ("infer_once", "return policy[:3]", "bad_output", "(3,)"),
    "NaN": ("infer_once", "return policy * np.nan", "bad_output", "NaN"),
    "never returns": ("infer_once", "import time; time.sleep(600)", "timeout", "infer_once"),
}


@pytest.mark.parametrize("case", BAD_INFERENCE)
def test_failing_inference_names_the_call(case: str, submission, launch) -> None:
    function, body, kind, word = BAD_INFERENCE[case]
    bodies = {"load": STANDS, **({"load": body} if function == "load_policy" else {"infer": body})}
    path = submission(inference=policy(**bodies))
    limit = ("--gin_bindings", "Submission.call_timeout_s = 2.0") if kind == "timeout" else ()
    outcome = launch(path, "inference.gin", *limit)
    assert outcome.status == 1, outcome.output
    failure = outcome.manifest("inference")["failure"]
    assert failure["kind"] == kind
    assert word in failure["message"] + failure["where"] + str(failure["traceback"])
    assert function in failure["where"]


BAD_CONFIGURATION = {
    "missing gin file": ("nowhere.gin", [], "does not exist"),
    "misspelt parameter": ("training.gin", ["Submission.modd = 3"], "did you mean 'mode'"),
    "unknown environment": (
        "inference.gin",
        ["create_domain.env_name = 'QuadrupedLocomotion-DogPaze'"],
        "did you mean",
    ),
    "unknown environment argument": ("inference.gin", ["create_domain.motion_fils = 1"], "motion_files"),
    "wrong type": ("training.gin", ["Submission.seed = 'seven'"], "Submission.seed = 'seven' is not valid"),
    "unknown sandbox": ("training.gin", ["Submission.sandbox = 'bubble'"], "bubble"),
    "unset variable to pass": ("training.gin", ["Submission.pass_environment = ['NOT_SET_AT_ALL']"], "NOT_SET_AT_ALL"),
}


@pytest.mark.parametrize("case", BAD_CONFIGURATION)
def test_configuration_mistake_is_exit_2_without_traceback(case: str, submission, launch) -> None:
    gin, given, message = BAD_CONFIGURATION[case]
    outcome = launch(submission(), gin, *bindings(*given))
    assert outcome.status == 2, outcome.output
    assert message in outcome.output
    assert "Traceback" not in outcome.output


@pytest.mark.parametrize(
    ("folder", "root", "flags", "said"),
    [
        ("nowhere", "root", [], "does not exist"),
        ("entry", "root", ["--participant_args", "steps"], "name=value"),
        ("entry", "occupied", [], "cannot be created"),
    ],
    ids=["no submission", "malformed arguments", "a file as the root directory"],
)
def test_paths_and_arguments_that_cannot_be_are_exit_2(
    folder: str, root: str, flags: list[str], said: str, submission, launch, tmp_path
) -> None:
    submission()
    (tmp_path / "occupied").write_text("")
    outcome = launch(tmp_path / folder, "training.gin", *flags, root=tmp_path / root)
    assert outcome.status == 2
    assert said in outcome.output


def test_empty_submission_folder_lists_what_is_missing(tmp_path, launch, submission) -> None:
    gin = submission().parent / "training.gin"
    empty = tmp_path / "empty"
    empty.mkdir()
    outcome = launch(empty, str(gin))
    assert outcome.status == 1
    assert "train.py" in outcome.output
    assert outcome.manifest("train")["failure"]["kind"] == "contract"


def test_flood_of_output_is_capped_and_does_not_stop_the_run(submission, launch) -> None:
    code = """
    import sys
    def train():
        line = "x" * 999 + "\\n"
        for _ in range(100_000):
            sys.stdout.write(line)
    """
    outcome = launch(submission(train=code), "training.gin")
    assert outcome.status == 0, outcome.output
    size = sum(path.stat().st_size for path in (outcome.root / "train" / "logs").rglob("*"))
    assert 10_000_000 < size < 11_500_000
    assert any("beyond the cap" in warning for warning in outcome.manifest("train")["warnings"])


def test_training_limit_keeps_artefacts_and_without_any_it_is_a_failure(submission, launch, tmp_path) -> None:
    endless = "\n    import time\n    time.sleep(600)\n"
    writes = "def train():\n    import os\n    open(os.environ['A2PERF_ARTIFACTS'] + '/w', 'w').write('1')" + endless
    limit = ("--gin_bindings", "Submission.train_time_limit_s = 1.0")
    kept = launch(submission("writes", train=writes), "training.gin", *limit, root=tmp_path / "kept")
    assert kept.status == 0, kept.output
    assert kept.manifest("train")["exit_reason"] == "time limit"
    nothing = launch(
        submission("idle", train="def train():" + endless), "training.gin", *limit, root=tmp_path / "nothing"
    )
    assert nothing.status == 1
    assert nothing.manifest("train")["failure"]["kind"] == "timeout"
