"""Other places where strangers' words are shown, and files of strangers that rlops reads."""

from __future__ import annotations

import contextlib
import json
import os
import re
import sqlite3
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from xml.etree import ElementTree

import pytest

import a2perf
from a2perf.errors import UserError
from a2perf.experiments.junit import junit_document
from a2perf.experiments.performance_test import run_test
from a2perf.experiments.performance_test.condition import PerformanceVerdict
from a2perf.experiments.submit import summary_text
from a2perf.launch.queue_file import QueueFile
from a2perf.metrics.submitted import ProtocolRecord, ProtocolScore, SubmittedRun
from a2perf.records import SubmissionIdentity
from a2perf.runs.bundles import files
from a2perf.runs.bundles.files import BundleFiles
from a2perf.runs.events.log_files import LogKind, find_logs
from a2perf.runs.series import SeriesReader
from a2perf.runs.stores import index
from a2perf.stranger_files import Bounds
from tests.attacks.test_what_others_read import BAD, NAME, _check, hostile, obeyed, printed
from tests.commands import run_a2perf
from tests.metrics import made_bundles
from tests.rlops.made_runs import METRIC, write_run

__all__ = ["hostile"]


def test_signing_and_verifying_show_hostile_bundles(hostile: Path, tmp_path: Path, noted) -> None:
    pytest.importorskip("cryptography")
    printed(["sign", str(hostile), "--new-key", str(tmp_path / "key")])
    printed(["validate", str(hostile), "--signed-by", "any"])
    assert json.loads(printed(["validate", str(hostile), "--signed-by", "any", "--json"]))
    noted("hostile names in bundles that are signed and verified", "escaped everywhere")


def test_comparisons_and_tags_show_hostile_runs(tmp_path: Path, noted) -> None:
    store, out = tmp_path / "store", tmp_path / "out"
    out.mkdir()
    for tag in ("old", "new"):
        for seed in range(2):
            made = write_run(
                store,
                f"{tag}/{seed}\x1b[2J",
                env_id="CartPole-v1",
                seed=seed,
                tags=[tag],
                version=NAME,
                user=BAD,
                config={NAME: BAD},
                curves={METRIC: [(step, 1.0) for step in range(20)]},
            )
            record = json.loads((made / "rlops.json").read_text())
            (made / "rlops.json").write_text(json.dumps({**record, "env_id": NAME}))
    groups = ["--exp-name", "ppo", "--tags", "new", "old", "--store", str(store)]
    printed(["rlops", *groups, "--output-filename", str(out / "compare")])
    printed(["rlops-tags", "--list", "--store", str(store)])
    added = ["--add", "later", "--source-tag", "new", "--reason", BAD, "--yes"]
    printed(["rlops-tags", *added, "--store", str(store)])
    printed(["rlops-tags", "--history", "later", "--store", str(store)])
    written = [path for path in out.rglob("*") if path.suffix in (".html", ".svg", ".md", ".csv", ".json")]
    assert {path.suffix for path in written} == {".html", ".svg", ".md", ".csv", ".json"}
    for path in written:
        _check(path)
        if path.suffix == ".svg":
            ElementTree.parse(path)
    noted("hostile names of environments, versions and tags in comparisons", "escaped everywhere")


def test_the_summary_of_a_submission_is_words(tmp_path: Path, noted) -> None:
    run = SubmittedRun(task=NAME, seed=1, mode="train", path=NAME, state="failed", reason=BAD, attempts=2)
    score = ProtocolScore(iqm=0.5, low=0.1, high=0.9, seeds=1, expected=3, notes=[BAD])
    record = ProtocolRecord(
        a2perf_version="1",
        protocol="v1",
        protocol_sha256="0" * 64,
        track="open",
        asked_track="open",
        quick=False,
        submission=SubmissionIdentity(name=NAME, path=NAME, sha256="0" * 64),
        complete=False,
        rankable=False,
        not_rankable=[BAD],
        tasks=[NAME],
        runs=[run],
        scores={NAME: score},
        overall=score,
        core=False,
        recorded_at="",
        citation=BAD,
    )
    (tmp_path / "summary.md").write_text(summary_text(record))
    _check(tmp_path / "summary.md")
    rows = [line for line in summary_text(record).splitlines() if line.startswith("|")]
    assert {len(re.findall(r"(?<!\\)\|", row)) for row in rows} == {5}
    noted("hostile names and reasons in the summary of a submission", "escaped everywhere")


def test_junit_of_hostile_names_is_xml(noted) -> None:
    run = SimpleNamespace(seed=1, state="failed", values=[0.5], reason=BAD + "\udc80")
    test = SimpleNamespace(name=NAME)
    outcome = SimpleNamespace(test=test, verdict=PerformanceVerdict.FAILED, message=BAD, wall_s=1.0, runs=[run])
    suite = ElementTree.fromstring(junit_document(run_test.suite_of(cast("Any", [outcome]))).encode())
    assert not obeyed("".join(suite.itertext()))
    noted("control characters in results for continuous integration", "escaped, XML stays valid")


@pytest.mark.parametrize("command", ["wrap", "perftest"])
def test_what_a_script_says_is_shown_escaped(command: str, tmp_path: Path, noted) -> None:
    script = f"def main(env):\n    print({BAD!r})\n    raise RuntimeError({BAD!r})\n"
    script += "if __name__ == '__main__':\n    main('')\n"
    (tmp_path / "bad.py").write_text(script)
    tests = tmp_path / "conf" / "performance" / "Toy"
    tests.mkdir(parents=True)
    test = {
        "env": NAME,
        "command": f"{sys.executable} bad.py",
        "performance_testing_conditions": {
            "total_runs": 1,
            "succ_runs": 1,
            "eval_columns": "score",
            "eval_value": 0.9,
            "on_crash": "count_as_failure",
        },
        "hydra": {"sweeper": {"n_jobs": 1, "study_name": "toy", "max_duration_minutes": 5}},
    }
    (tests / "a-test.yaml").write_text(json.dumps(test))
    words = ["bad.py", "--env", "CartPole-v1", "--seed", "1", "--videos", "0", "--root-dir", str(tmp_path / "run")]
    done = run_a2perf(command, *(words if command == "wrap" else ["run"]), cwd=tmp_path)
    said = done.stdout + done.stderr
    assert done.returncode in (1, 2)
    assert "RuntimeError" in said or "crashed" in said
    assert not obeyed(said)
    for path in tmp_path.rglob("junit.xml"):
        ElementTree.parse(path)
    noted(f"escapes in the output and the exception of a script under {command}", "shown escaped")


# --- files that rlops reads ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["[" * 10**5, "1" * 3000, "1" * 10**4, '{"a":' * 10**4])
def test_hostile_values_of_a_history_cost_their_row(text: str, tmp_path: Path, noted) -> None:
    (tmp_path / "history.jsonl").write_text(f'{{"x": {text}}}\n{{"y": 2.0, "_step": 7}}\n')
    series = SeriesReader(find_logs(BundleFiles(tmp_path), below="")).series("y", LogKind.WANDB)
    assert series is not None
    assert (list(series.steps), list(series.values)) == ([7], [2.0])
    noted("nested JSON and endless integers in the history of a tracker", "a condition")


def test_fifos_sparse_files_links_and_deep_trees_below_a_run(tmp_path: Path, noted) -> None:
    run = write_run(tmp_path, "run", curves={METRIC: [(step, 1.0) for step in range(20)]})
    artifacts = run / "command" / "artifacts"
    os.mkfifo(artifacts / "a.csv")
    (artifacts / "b.csv").symlink_to("/dev/zero")
    for name in ("progress.csv", "d.csv", "events.out.tfevents.9"):
        (artifacts / name).touch()
        os.truncate(artifacts / name, 1 << 42)
    deep = artifacts
    for _ in range(300):
        deep = deep / "z"  # looked at last; what is deeper than the bound ends the search
    deep.mkdir(parents=True)
    reader = SeriesReader(find_logs(BundleFiles(run / "command")))
    reader.open_all()
    series = reader.series(METRIC, LogKind.EVENTS)
    assert series is not None
    assert len(series.values) == 20
    assert (
        len([note for note in reader.notes if "larger than" in note or note.endswith("limit of 268435456 bytes")]) == 3
    )
    noted("fifos, sparse files and links among the files of a stored run", "a condition")


def test_a_store_of_too_many_names_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "RUN_BOUNDS", Bounds(entries=20))
    for number in range(30):
        (tmp_path / f"{number}").mkdir()
    with pytest.raises(UserError, match="limit of 20 names"):
        list(index.find_run_folders(tmp_path))


def test_a_strangers_queue_with_a_view_in_the_place_of_a_table_is_not_queried(tmp_path: Path, noted) -> None:
    """A view is a program that runs in the reader; this one would not end."""
    folder = tmp_path / "experiment"
    with QueueFile(folder / "queue.sqlite"):
        pass
    with contextlib.closing(sqlite3.connect(folder / "queue.sqlite")) as database:
        database.executescript(
            "DROP TABLE entries; CREATE VIEW entries AS WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c)"
            " SELECT n AS number, 'k' AS key FROM c;"
        )
    done = run_a2perf("status", str(folder), timeout=120)
    assert done.returncode == 2
    assert "is not a queue that a2perf made" in done.stderr
    assert len(done.stderr.splitlines()) <= 5
    noted("a queue with a view that does not end, read by `a2perf status`", "refused by its definitions")


def test_one_extreme_return_does_not_take_the_report_of_its_neighbours(tmp_path: Path, noted) -> None:
    """The return is finite and its square is not; all hashes fit."""
    for seed in (1, 2):
        made_bundles.write_inference(tmp_path / "runs" / f"honest_{seed}", seed)
    bundle = made_bundles.write_inference(tmp_path / "runs" / "hostile", 3, name="hostile")
    path = bundle / "metrics" / "rollouts.json"
    document = json.loads(path.read_text())
    for episode in document["episodes"]:
        episode["episode_return"] = 1e308
    path.write_text(json.dumps(document))
    made_bundles.seal(bundle)
    for words in (["score", "--all"], ["report", "-o", "page"], ["leaderboard", "-o", "site"]):
        done = run_a2perf(words[0], "runs", *words[1:], cwd=tmp_path, check=True, timeout=120)
        assert "Traceback" not in done.stderr
        assert "RuntimeWarning" not in done.stderr
    (honest, *_) = [group for group in a2perf.score(tmp_path / "runs").groups if group.entry["algorithm"] == "agent"]
    assert honest["returns"].value == pytest.approx(11.5, abs=1.0)
    done = run_a2perf("validate", str(bundle))
    assert done.returncode == 1
    assert "the return 1e+308 of episode 0 is too large" in done.stdout
    noted("a finite return of which the square is not", "the run is not counted, its neighbours are reported")
