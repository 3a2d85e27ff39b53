"""`a2perf init` makes submissions that `a2perf check` accepts; `check` lists every problem of the others at once."""

from __future__ import annotations

import json
import shutil

import pytest
from click.testing import CliRunner

from a2perf.cli.check import check
from a2perf.cli.init import TEMPLATES, init
from a2perf.errors import ConfigError

TROT = "QuadrupedLocomotion-SyntheticTrot-v0"


def _run(command, *arguments):
    return CliRunner().invoke(command, [str(part) for part in arguments], standalone_mode=False, catch_exceptions=False)


@pytest.mark.parametrize("template", list(TEMPLATES))
def test_template_is_a_complete_submission_without_problems(tmp_path, template):
    folder = tmp_path / "mine"
    _run(init, folder, "--template", template)
    names = {path.name for path in folder.iterdir()}
    assert names >= {"requirements.txt", "README.md", "inference.gin"}
    assert names >= (
        {"placer.py"}
        if template == "placer"
        else {"train.py", "inference.py", "__init__.py", "training.gin", ".github"}
    )
    arguments = ("--participant-args", "episodes=1") if template == "numpy" else ()
    result = _run(check, folder, "--steps", 3, *arguments)
    assert result.return_value == 0, result.output
    assert (
        "CircuitTraining-MacroPlacement-v0" if template == "placer" else f"stepped 3 times on {TROT}"
    ) in result.output


def test_init_leaves_a_folder_with_content_alone(tmp_path):
    (tmp_path / "thesis.tex").write_text("precious")
    with pytest.raises(ConfigError, match="not an empty folder"):
        _run(init, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


@pytest.fixture
def minimal(tmp_path, repository):
    folder = tmp_path / "submission"
    shutil.copytree(repository / "examples" / "minimal", folder, ignore=shutil.ignore_patterns("__pycache__"))
    return folder


def test_check_lists_every_problem_at_once(minimal):
    (minimal / "requirements.txt").unlink()
    (minimal / "train.py").write_text("def train(:\n    pass\n")
    (minimal / "training.gin").write_text("import a2perf.submission.submission_util\nSubmission.mod = 'train'\n")
    (minimal / "inference.py").write_text(
        "def load_policy(env, **kw):\n    return env.action_space\n"
        "def preprocess_observation(observation):\n    return observation\n"
        "def infer_once(policy, observation):\n    return None\n"
    )
    result = _run(check, minimal, "--env-id", TROT, "--json")
    assert result.return_value == 1
    findings = json.loads(result.output)["findings"]
    text = "\n".join(f"{finding['where']}: {finding['message']}" for finding in findings)
    assert "train.py:1" in text
    assert "training.gin" in text
    assert "line 2: a submission's gin file may not set Submission.mod; did you mean 'mode'?" in text
    assert "requirements.txt" in text
    assert "infer_once: the action is None" in text
    assert len(findings) == 4


def test_check_shows_the_participants_own_traceback(minimal):
    (minimal / "inference.py").write_text(
        "def load_policy(env, **kw):\n    return open('weights that are not there')\n"
        "def preprocess_observation(observation):\n    return observation\n"
        "def infer_once(policy, observation):\n    return policy\n"
    )
    result = _run(check, minimal, "--env-id", TROT)
    assert result.return_value == 1
    assert "load_policy" in result.output
    assert "FileNotFoundError" in result.output
    assert 'inference.py", line 2' in result.output


def test_check_says_that_its_training_was_cut_short(minimal):
    (minimal / "train.py").write_text("import time\ndef train():\n    time.sleep(60)\n")
    (minimal / "inference.py").write_text(
        "import os\n"
        "def load_policy(env, **kw):\n    return open(os.environ['ROOT_DIR'] + '/policy')\n"
        "def preprocess_observation(observation):\n    return observation\n"
        "def infer_once(policy, observation):\n    return policy\n"
    )
    result = _run(check, minimal, "--env-id", TROT, "--train-limit", 0.5)
    assert result.return_value == 1
    assert "stopped after 0.5 s" in result.output
    assert "--artifacts" in result.output


def test_check_uses_given_artifacts_instead_of_training(minimal, tmp_path):
    (minimal / "train.py").write_text("def train():\n    raise RuntimeError('must not be called')\n")
    source = (minimal / "inference.py").read_text()
    (minimal / "inference.py").write_text(
        source.replace(
            "    env.action_space.seed", "    open(os.environ['ROOT_DIR'] + '/policy')\n    env.action_space.seed"
        )
    )
    artifacts = tmp_path / "artifacts"
    artifacts.mkdir()
    (artifacts / "policy").write_text("trained elsewhere")
    result = _run(check, minimal, "--env-id", TROT, "--steps", 2, "--artifacts", artifacts)
    assert result.return_value == 0, result.output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere"], "is not a folder"),
        ([".", "--env-id", "QuadrupedLocomotion-DogPase-v0"], "did you mean 'QuadrupedLocomotion-DogPace-v0'"),
        ([".", "--participant-args", "novalue"], "is not name=value"),
    ],
)
def test_wrong_use_is_told_apart_from_a_wrong_submission(minimal, monkeypatch, arguments, message):
    monkeypatch.chdir(minimal)
    with pytest.raises(ConfigError, match=message):
        _run(check, *arguments)
