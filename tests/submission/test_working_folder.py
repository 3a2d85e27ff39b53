"""Relative names: train() saves in its artifacts folder, inference reads what was saved and what was submitted."""

import json
from pathlib import Path

import pytest

import a2perf as a2perf_api
from tests.commands import run_a2perf
from tests.made_submissions import policy, write_submission

TRAIN = """
    import json
    CONFIG = json.load(open("config.json"))  # a file of the submission
    def train(where=".", read=None, name=None):
        if read:
            open(read)
        with open(f"{where}/weights.json", "w") as file:
            json.dump(CONFIG["action"], file)
"""
LOADS = policy(
    top="import json",
    load="""
        assert json.load(open('config.json'))['action'] == 1
        return json.load(open(kwargs.get('name', 'weights.json')))
    """,
)
LEVELS = ["process", pytest.param("bubblewrap", marks=pytest.mark.group("bwrap"))]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = write_submission(tmp_path / "entry", LOADS, TRAIN)
    (folder / "config.json").write_text(json.dumps({"action": 1}))
    return folder


@pytest.mark.parametrize("level", LEVELS)
def test_inference_reads_what_train_saved_under_the_same_relative_name(folder: Path, level: str) -> None:
    given = ("--submission", folder, "--task", "CartPole-v1", "--sandbox", level, "--root-dir", "r")
    for mode in ("training", "inference"):
        extra = () if mode == "training" else ("--gin-bindings", "Submission.num_inference_steps=5")
        run_a2perf("run", *given, "--gin-config", f"{mode}.gin", *extra, cwd=folder.parent, check=True)
    assert json.loads((folder.parent / "r" / "train" / "artifacts" / "weights.json").read_text()) == 1
    assert sorted(path.name for path in folder.iterdir()) == sorted(
        ["__init__.py", "config.json", "inference.py", "requirements.txt", "train.py"]
    )


@pytest.mark.parametrize(
    ("level", "arguments", "said"),
    [
        pytest.param(
            "bubblewrap",
            "where=/usr",
            "write to the folder A2PERF_ARTIFACTS, which is where train() works",
            marks=pytest.mark.group("bwrap"),
        ),
        (
            "process",
            "read=config.json",
            "train() works in A2PERF_ARTIFACTS; name a file of the submission by Path(__file__).parent / NAME",
        ),
        (
            "process",
            "name=other.json",
            "relative names are those of the submission and of what training saved (weights.json)",
        ),
    ],
)
def test_a_file_that_cannot_be_used_says_where_to(folder: Path, level: str, arguments: str, said: str) -> None:
    given = ("--env-id", "CartPole-v1", "--sandbox", level, "--participant-args", arguments)
    done = run_a2perf("check", folder, *given, cwd=folder.parent)
    assert done.returncode == 1
    assert said in done.stdout + done.stderr


def test_python_trains_and_evaluates_by_relative_names(folder: Path, tmp_path: Path) -> None:
    given = {"env": "CartPole-v1", "root_dir": tmp_path / "r", "sandbox": "process", "public_seeds": True}
    a2perf_api.train(folder, **given)
    result = a2perf_api.evaluate(folder, episodes=1, bindings=["Submission.num_inference_steps = 5"], **given)
    assert 8 <= result.mean_return <= 11  # one action, always to the right
