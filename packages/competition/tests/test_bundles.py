"""Bundles of Codabench and EvalAI, written here in their formats: scores, hostile entries, what is not supported."""

from __future__ import annotations

import datetime
import re
import zipfile
from pathlib import Path

import pytest
from click.testing import CliRunner

from a2perf.sandbox import available_levels
from a2perf_competition.host_command import host

pytestmark = pytest.mark.skipif("bubblewrap" not in available_levels(), reason="needs bubblewrap")

CODABENCH = """
version: 2
title: Squares
docker_image: codalab/codalab-legacy:py39
tasks:
- index: 0
  name: Small
  ingestion_program: ingestion
  scoring_program: scoring.zip
  input_data: input
  reference_data: small
- {index: 1, name: Large, scoring_program: scoring.zip, reference_data: large}
phases:
- {name: Code, start: 1-31-2026, end: 12-31-2026, tasks: [0], execution_time_limit: 5}
- {name: Results, start: 2027-01-01, tasks: [1], max_submissions: 3}
leaderboards:
- columns: [{key: error, sorting: asc}]
"""
INGESTION = """
import json, sys
sys.path.insert(0, "/app/ingested_program")
import model
numbers = json.load(open(sys.argv[1] + "/numbers.json"))
json.dump([model.square(number) for number in numbers], open(sys.argv[2] + "/answers.json", "w"))
"""
SCORING = """
import json, sys
answers, truth = (json.load(open(f"{sys.argv[1]}/{name}.json")) for name in ("res/answers", "ref/truth"))
json.dump({"error": sum(abs(a - b) for a, b in zip(answers, truth))}, open(sys.argv[2] + "/scores.json", "w"))
"""


def write(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


@pytest.fixture
def codabench(tmp_path: Path) -> Path:
    folder = tmp_path / "bundle"
    write(
        folder,
        {
            "competition.yaml": CODABENCH,
            "ingestion/metadata.yaml": "command: python3 $ingestion_program/run.py $input $output",
            "ingestion/run.py": INGESTION,
            "input/numbers.json": "[1, 2, 3]",
            "small/truth.json": "[1, 4, 9]",
            "large/truth.json": "[100]",
        },
    )
    with zipfile.ZipFile(folder / "scoring.zip", "w") as archive:
        archive.writestr("metadata", "command: python3 $program/score.py $input $output")
        archive.writestr("score.py", SCORING)
    return folder


def call(*words: object) -> tuple[int, str]:
    done = CliRunner().invoke(host, [str(word) for word in words], standalone_mode=False)
    if done.exception:
        return 2, str(done.exception)
    return done.return_value or 0, done.output


def scored(bundle: Path, submission: Path) -> tuple[int, str]:
    return call("score", bundle, submission, "-o", submission / "out", "--python", "/usr/bin/python3")


def test_a_codabench_bundle_scores_code_and_results(codabench: Path, tmp_path: Path) -> None:
    code = write(
        tmp_path / "code", {"model.py": "def square(number): return number * number + 1", "answers.json": "[98]"}
    )
    assert scored(codabench, code) == (0, "Code, Small: error 3\nResults, Large: error 2\n")


@pytest.mark.parametrize(
    ("model", "failure"),
    [
        ("def square(number):\n    while True: pass", "the submission exceeds the limit wall_s of 5"),
        ("import os; os.kill(1, 9); raise SystemExit('stop')", "the submission ended with status 1: stop"),
        ("print(open('/app/input/ref/truth.json').read())", "No such file or directory: '/app/input/ref/truth.json'"),
        ("import socket; socket.create_connection(('1.1.1.1', 53), 3)", "Network is unreachable"),
        ("open('/app/program/run.py', 'w')", "Read-only file system"),
        ("import sys; sys.exit(0)", "no scores"),
    ],
)
def test_a_hostile_submission_is_blamed_and_reads_no_solution(
    model: str, failure: str, codabench: Path, tmp_path: Path
) -> None:
    status, printed = scored(codabench, write(tmp_path / "code", {"model.py": model, "answers.json": "[100]"}))
    first, second = printed.splitlines()
    assert (status, second) == (1, "Results, Large: error 0")
    assert failure in first or (failure == "no scores" and "the scoring program ended with status 1" in first)


def test_an_evalai_challenge_calls_its_evaluate(tmp_path: Path) -> None:
    challenge = write(
        tmp_path / "challenge",
        {
            "challenge_config.yaml": (
                "title: Sums\nevaluation_script: evaluation\n"
                "leaderboard: [{id: 1, schema: {labels: [Total], default_order_by: Total}}]\n"
                "challenge_phases:\n- {id: 1, name: Dev, codename: dev, test_annotation_file: truth.txt}\n"
            ),
            "evaluation/__init__.py": "from .main import evaluate\n",
            "evaluation/main.py": (
                "def evaluate(annotation, submission, codename, **kwargs):\n"
                "    total = int(open(annotation).read()) + int(open(submission).read())\n"
                "    return {'result': [{'train_split': {'Total': total}}], 'submission_result': codename}\n"
            ),
            "truth.txt": "40",
        },
    )
    assert scored(challenge, write(tmp_path / "entry", {"mine.txt": "2"})) == (0, "Dev, dev: Total 42\n")


def test_what_is_not_supported_is_listed_and_what_is_missing_is_named(codabench: Path) -> None:
    status, printed = call("check", codabench)
    assert status == 0
    assert "task: Code, Small: ingestion_program, scoring_program, input_data, reference_data" in printed
    assert "score: error, smaller is better" in printed
    assert "not supported: max_submissions of the phase Results is left out" in printed
    assert (
        "no Python environment stands for the image codalab/codalab-legacy:py39"
        in call("score", codabench, codabench, "-o", codabench / "out")[1]
    )
    (codabench / "scoring.zip").unlink()
    assert "scoring_program of the task 'Small' is missing" in call("check", codabench)[1]
    (codabench / "competition.yaml").write_text("title: x\ntasks: []")
    assert "cannot be read: KeyError: 'phases'" in call("check", codabench)[1]


def text_of(page: Path) -> str:
    return " ".join(re.sub("<[^>]+>", " ", page.read_text().partition("<header>")[2]).split())


def test_a_host_runs_the_entries_of_a_bundle(codabench: Path, tmp_path: Path) -> None:
    described = (codabench / "competition.yaml").read_text()
    now = datetime.datetime.now(datetime.UTC)
    (codabench / "competition.yaml").write_text(
        described.replace("1-31-2026", f"{now:%m-%d-%Y}").replace("12-31-2026", f"{now.year + 2}-01-01")
    )
    folder = write(tmp_path / "h", {"host.toml": 'python = "/usr/bin/python3"\n'})
    codabench.rename(folder / "bundle")
    code = {"ada": "number * number", "bob": "number * number + 1", "eve": "print('my log', open('/none'))"}
    for entrant, result in code.items():
        write(folder / "inbox" / entrant / "mine", {"model.py": f"def square(number): return {result}"})
    assert call("run", folder, "--once")[0] == 0
    page = text_of(folder / "site/index.html")
    assert "Squares Tasks: Small, Large. An entry is" in page
    assert "Rank Entrant Entry error 1 ada ada-1 mine 0 2 bob bob-1 mine 3" in page
    entry = text_of(folder / "site/entries/eve-1.html")
    assert "State Failed Phase Code Cause" in entry
    assert "Small: the submission ended with status 1: FileNotFoundError" in entry
    assert "Small, err Traceback" in entry
    assert "truth" not in entry
