"""An archive names every forged row and every false result, and accuses no honest one."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import a2perf
from a2perf.runs import signing
from a2perf.runs.bundles.bundle import record_files, write_manifest
from a2perf.runs.bundles.inventory import read_manifest

TASK = "toy_macro_stdcell"
POLICY = """
import numpy as np
def load_policy(env, **kwargs): return {seed}
def preprocess_observation(observation): return observation
def infer_once(policy, observation): return int(np.flatnonzero(observation["mask"])[policy])
"""


def _run(*words: object, status: int = 0) -> str:
    command = [sys.executable, "-m", "a2perf", "host", *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == status, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    return done.stdout + done.stderr


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    """An archive of an honest run and of one with another return than it had, which its author hashed again."""
    runs, folders = [], []
    for number, name in enumerate(("honest", "liar")):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "inference.py").write_text(POLICY.format(seed=number))
        for file in ("__init__.py", "requirements.txt"):
            (folder / file).touch()
        (folder / "train.py").write_text("def train(): pass\n")
        a2perf.evaluate(folder, TASK, episodes=2, root_dir=tmp_path / "runs" / name, progress=False)
        runs.append(tmp_path / "runs" / name)
        folders += ["--submission", folder]
    bundle = runs[1] / "inference"
    changed = 0
    for file in [one for one in bundle.rglob("*") if one.is_file() and b'"episode_return":-1.' in one.read_bytes()]:
        file.write_bytes(file.read_bytes().replace(b'"episode_return":-1.', b'"episode_return":-0.'))
        changed += 1
    assert changed
    manifest = read_manifest(bundle)
    record_files(bundle, manifest)
    write_manifest(bundle, manifest)
    _run("archive", tmp_path / "archive", *runs, *folders)
    return tmp_path / "archive"


def test_a_false_result_and_a_forged_row_are_named_and_the_honest_one_is_confirmed(
    archive: Path, tmp_path: Path
) -> None:
    key = tmp_path / "key"
    public = signing.new_key(key)
    said = _run("confirm", archive, "--share", "100%", "--key", key, "-o", tmp_path / "again", status=1)
    head = said.rpartition("head: ")[2].strip()
    verdicts = {}
    for file in (archive / "verdicts").iterdir():
        record = json.loads(file.read_text())
        verdicts[record["submission"]] = record["verdict"]
    assert verdicts == {"honest": "CONFIRMED", "liar": "REFUSED"}

    _run("board", archive, "--trusted-keys", public, "-o", tmp_path / "site")
    rows = (tmp_path / "site" / "leaderboard.csv").read_text().splitlines()
    assert "reproduced 20" in next(row for row in rows if "honest" in row)
    stranger = signing.new_key(tmp_path / "stranger")
    _run("board", archive, "--trusted-keys", stranger, "-o", tmp_path / "other")
    assert "reproduced 20" not in (tmp_path / "other" / "leaderboard.csv").read_text()

    log = subprocess.run(["git", "log", "--format=%s"], cwd=archive, capture_output=True, text=True, check=True).stdout
    assert log.splitlines() == ["Confirm a share of 100%", "Add 2 packed run(s)"]

    forged = next((archive / "packs").glob("honest-*"))
    shutil.copyfile(next((archive / "packs").glob("liar-*")), forged)
    said = _run("confirm", archive, "--share", "1", "-o", tmp_path / "third", "--head", head, status=1)
    assert f"packs/{forged.name}: was changed after it was archived" in said

    chain = archive / "chain.jsonl"
    lines = chain.read_text().splitlines(keepends=True)
    chain.write_text("".join([lines[0], *lines[2:]]))
    said = _run("confirm", archive, "-o", tmp_path / "fourth", status=2)
    assert "line 2: the line before was changed, added or removed" in said
    chain.write_text(lines[0])
    assert f"does not contain {head}" in _run("confirm", archive, "-o", tmp_path / "fifth", "--head", head, status=2)


def test_a_folder_that_is_no_archive_is_refused(tmp_path: Path) -> None:
    assert "has no chain.jsonl" in _run("confirm", tmp_path, "-o", tmp_path / "again", status=2)
