"""`a2perf init` makes submissions that `a2perf check` accepts; `check` lists every problem of the others at once."""

from __future__ import annotations

import importlib.util
import json

import pytest
from click.testing import CliRunner

import a2perf
from a2perf.cli.results import report, score
from a2perf.cli.submission_folder import check, init
from a2perf.errors import AssetUnavailable, ConfigError, MissingDependency
from tests.made_submissions import TROT, policy
from tests.shipped import shipped_domains


def _run(command, *arguments):
    return CliRunner().invoke(command, [str(part) for part in arguments], standalone_mode=False, catch_exceptions=False)


@pytest.mark.parametrize("template", ["numpy", "minimal"])
def test_template_is_a_complete_submission_without_problems(tmp_path, template):
    folder = tmp_path / "mine"
    _run(init, folder, "--template", template)
    names = {path.name for path in folder.iterdir()}
    assert names >= {"requirements.txt", "README.md", "inference.gin"}
    assert names >= {"train.py", "inference.py", "__init__.py", "training.gin", ".github"}
    result = _run(check, folder, "--steps", 3)
    assert result.return_value == 0, result.output
    assert "WebNavigation-Difficulty-01-v0" in result.output


def _tasks():
    """Every task; the fast suite tries the first one of each domain and kind of observation, the slow one the rest."""
    kinds = set()
    for domain in shipped_domains().values():
        for task in domain.tasks:
            if task.kwargs.get("observation") == "text" and not importlib.util.find_spec("a2perf_agents"):
                continue  # these websites come with that distribution
            kind = (domain.name, "observation" in task.kwargs)
            yield pytest.param(task, id=task.name, marks=[pytest.mark.slow] if kind in kinds else [])
            kinds.add(kind)


@pytest.mark.parametrize("task", _tasks())
def test_default_template_trains_and_acts_on_every_task(tmp_path, task):
    try:
        a2perf.make(task.name).close()
    except (AssetUnavailable, MissingDependency) as error:
        pytest.skip(error.message)
    _run(init, tmp_path / "mine")
    arguments = {"episodes": 2, "steps": 20}
    report = a2perf.check(tmp_path / "mine", task=task.name, steps=3, train_limit_s=600, participant_args=arguments)
    text = str(report)
    assert report, text
    assert f"trained and stepped 3 times on {task.env_id}" in text


def test_default_template_learns_its_task_and_logs_the_curve(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    _run(init, "mine")
    task = "difficulty_level_1_num_websites_10"
    curve = a2perf.train("mine", task, root_dir="runs", public_seeds=True).curve
    result = a2perf.evaluate("mine", task, root_dir="runs", public_seeds=True)
    assert curve.values[:3].mean() < 1.2 < 1.5 < curve.values[-3:].mean()
    assert result.mean_return > 1.8  # the expert has 1.95, a random policy -12.4
    assert result.normalised_score > 0.95


def test_init_leaves_a_folder_with_content_alone(tmp_path):
    (tmp_path / "thesis.tex").write_text("precious")
    with pytest.raises(ConfigError, match="not an empty folder"):
        _run(init, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_check_lists_every_problem_at_once(minimal):
    (minimal / "requirements.txt").unlink()
    (minimal / "train.py").write_text("def train(:\n    pass\n")
    (minimal / "training.gin").write_text("import a2perf.submission.submission_util\nSubmission.mod = 'train'\n")
    (minimal / "inference.py").write_text(policy(load="return env.action_space", infer="return None"))
    result = _run(check, minimal, "--env-id", TROT, "--json")
    assert result.return_value == 1
    findings = json.loads(result.output)["findings"]
    text = "\n".join(f"{finding['where']}: {finding['message']}" for finding in findings)
    assert "import train.py: SyntaxError in train.py, line 1" in text
    assert "training.gin" in text
    assert "line 2: a submission's gin file may not set Submission.mod; did you mean 'mode'?" in text
    assert "requirements.txt" in text
    assert "infer_once: the action is None" in text
    assert len(findings) == 4


def test_check_lists_every_wrong_function_of_a_file(minimal):
    (minimal / "inference.py").write_text("def load_policy(): pass\nasync def infer_once(policy, observation): pass\n")
    result = _run(check, minimal, "--env-id", TROT)
    assert result.return_value == 1
    assert "expected load_policy(env, **participant_args), found load_policy()" in result.output
    assert "no function preprocess_observation" in result.output
    assert "infer_once is async" in result.output


def test_check_shows_the_participants_own_traceback(minimal):
    (minimal / "inference.py").write_text(policy(load="return open('weights that are not there')"))
    result = _run(check, minimal, "--env-id", TROT)
    assert result.return_value == 1
    assert "load_policy" in result.output
    assert "FileNotFoundError" in result.output
    assert 'inference.py", line 6' in result.output


def test_clipped_actions_are_a_problem_of_check_and_a_condition_of_score_and_report(minimal, tmp_path):
    source = (minimal / "inference.py").read_text()
    body = source.index("def infer_once")
    (minimal / "inference.py").write_text(
        source[:body] + "def infer_once(policy, observation):\n    return np.full(12, 99.0)\n"
    )
    checked = _run(check, minimal, "--env-id", TROT, "--steps", 3, "--json")
    assert checked.return_value == 1
    (finding,) = json.loads(checked.output)["findings"]
    assert finding["where"] == "infer_once"
    assert "3 of 3 actions were outside of Box(-6.283" in finding["message"]
    bindings = ["Submission.num_inference_steps = 1"]
    a2perf.evaluate(
        minimal, task="synthetic_trot", episodes=1, root_dir=tmp_path / "run", bindings=bindings, progress=False
    )
    for command, page in ((score, None), (report, tmp_path / "report" / "index.html")):
        done = _run(command, tmp_path / "run", *(() if page is None else ("-o", page.parent)))
        text = done.output if page is None else page.read_text()
        assert "actions were outside of the action space and were clipped" in " ".join(text.split()), command.name


def test_check_says_that_its_training_was_cut_short(minimal):
    (minimal / "train.py").write_text("import time\ndef train():\n    time.sleep(60)\n")
    (minimal / "inference.py").write_text(
        policy(top="import os", load="return open(os.environ['ROOT_DIR'] + '/policy')")
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
    ("content", "problem"),
    [
        (
            b"numpy>=1.26\ndefinitely-not-a-pkg==9.9\n",
            "requirements.txt:2: 'definitely-not-a-pkg==9.9' is not satisfied here",
        ),
        (b"numpy==0.1\n", "requirements.txt:1: 'numpy==0.1' is not satisfied here: version"),
        ("numpy\n".encode("utf-16"), "requirements.txt: requirements.txt is not UTF-8 text"),
        (b"toy @ https://localhost:1/toy-1.0-py3-none-any.whl\n", "contains a URL, which is not allowed"),
    ],
)
def test_check_names_the_lines_of_requirements_that_are_not_satisfied(minimal, content, problem):
    (minimal / "requirements.txt").write_bytes(content)
    result = _run(check, minimal, "--env-id", TROT, "--steps", 1)
    assert result.return_value == 1
    assert problem in result.output
    assert ("--python-env isolated" in result.output) == ("satisfied" in problem)


def test_a_missing_module_that_requirements_name_leads_to_the_isolated_environment(minimal, tmp_path):
    (minimal / "requirements.txt").write_text("definitely-not-a-pkg==9.9\n")
    (minimal / "inference.py").write_text(f"{(minimal / 'inference.py').read_text()}\nimport definitely_not_a_pkg\n")
    with pytest.raises(a2perf.RunFailed) as caught:
        a2perf.evaluate(minimal, "toy_macro_stdcell", episodes=1, root_dir=tmp_path / "runs")
    assert "No module named 'definitely_not_a_pkg' (requirements.txt:1: " in caught.value.message
    assert "add --python-env isolated" in caught.value.message


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
