"""An archive names every forged row and every false result, and accuses no honest one."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from numpy._core import _multiarray_umath as numpy_core

import a2perf
from a2perf.runs import signing
from a2perf.runs.bundles.bundle import write_manifest
from a2perf.runs.bundles.inventory import read_manifest, record_files
from a2perf.storage import read_json, write_json

TASK = "toy_macro_stdcell"
POLICY = """
import numpy as np
def load_policy(env, **kwargs): return {seed}
def preprocess_observation(observation): return observation
def infer_once(policy, observation): return int(np.flatnonzero(observation["mask"])[policy])
"""
SWING = """
import numpy as np
def load_policy(env, **kwargs): return np.linspace(-3, 3, 999, dtype=np.float32)
def preprocess_observation(observation): return observation
def infer_once(policy, observation): return np.sin(np.exp(policy) * observation[2]).mean(keepdims=True)
"""
DISPATCHED = [name for name in numpy_core.__cpu_dispatch__ if numpy_core.__cpu_features__.get(name)]


def _run(*words: object, status: int = 0) -> str:
    command = [sys.executable, "-m", "a2perf", "host", *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == status, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    return done.stdout + done.stderr


def seal(bundle: Path, **host: str) -> None:
    """Writes a manifest that fits the changed bundle, as its author can."""
    manifest = read_manifest(bundle)
    manifest.host |= host
    record_files(bundle, manifest)
    write_manifest(bundle, manifest)


def overstate(bundle: Path, *, steps: bool) -> None:
    """Adds 1 to each return in the results and the journal; with ``steps`` to the last rewards too: all files agree."""
    place, results = bundle / "metrics" / "rollout_steps.npz", read_json(bundle / "metrics" / "rollouts.json")
    journal = [json.loads(line) for line in (bundle / "journal.jsonl").read_text().splitlines()]
    arrays = dict(np.load(place))
    end = 0
    for episode in results["episodes"]:
        begin, end = end, end + episode["length"]
        arrays["reward"][end - 1] += 1.0
        episode["episode_return"] = float(np.add.accumulate(arrays["reward"][begin:end])[-1])
        for line in journal:
            if line["kind"] == "episode" and line["episode"]["index"] == episode["index"]:
                line["episode"]["episode_return"] = episode["episode_return"]
    write_json(bundle / "metrics" / "rollouts.json", results)
    (bundle / "journal.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in journal))
    if steps:
        np.savez_compressed(place, **arrays)
    seal(bundle)


@pytest.fixture
def archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An archive of four runs: two honest ones, of which one had another processor, and two with better returns."""
    runs, folders = [], []
    for number, name in enumerate(("honest", "careless", "liar", "elsewhere")):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "inference.py").write_text(SWING if name == "elsewhere" else POLICY.format(seed=number % 2))
        for file in ("__init__.py", "requirements.txt"):
            (folder / file).touch()
        (folder / "train.py").write_text("def train(): pass\n")
        given = {"task": TASK, "episodes": 2}
        if name == "elsewhere":
            # without these features NumPy computes other last digits, as on a processor that does not have them
            monkeypatch.setenv("NPY_DISABLE_CPU_FEATURES", " ".join(DISPATCHED))
            passed = "Submission.pass_environment = ['NPY_DISABLE_CPU_FEATURES']"
            given = {"task": "Pendulum-v1", "episodes": 3, "bindings": [passed]}
        a2perf.evaluate(folder, root_dir=tmp_path / "runs" / name, progress=False, **given)
        runs.append(tmp_path / "runs" / name)
        folders += ["--submission", folder]
    monkeypatch.delenv("NPY_DISABLE_CPU_FEATURES")
    overstate(runs[1] / "inference", steps=False)
    overstate(runs[2] / "inference", steps=True)
    seal(runs[3] / "inference", cpu_model="Another Processor")
    _run("archive", tmp_path / "archive", *runs, *folders)
    return tmp_path / "archive"


@pytest.mark.timeout(900)
def test_false_results_and_forged_rows_are_named_and_honest_ones_are_confirmed_on_another_processor(
    archive: Path, tmp_path: Path
) -> None:
    key = tmp_path / "key"
    public = signing.new_key(key)
    said = _run("confirm", archive, "--share", "100%", "--key", key, "-o", tmp_path / "again", status=1)
    head = said.rpartition("head: ")[2].strip()
    records = {record["submission"]: record for record in map(read_json, (archive / "verdicts").iterdir())}
    verdicts = {name: (record["verdict"], record["method"]) for name, record in records.items()}
    assert verdicts == {
        "honest": ("CONFIRMED", "bit-equal"),
        "careless": ("REFUSED", "none"),
        "liar": ("REFUTED", "statistical"),
        "elsewhere": ("CONFIRMED", "statistical" if DISPATCHED else "bit-equal"),
    }
    assert "Another Processor" in [one["recorded"] for one in records["elsewhere"]["changed"]]

    _run("board", archive, "--trusted-keys", public, "-o", tmp_path / "site")
    rows = (tmp_path / "site" / "leaderboard.csv").read_text().splitlines()
    assert "reproduced 20" in next(row for row in rows if "honest" in row)
    stranger = signing.new_key(tmp_path / "stranger")
    _run("board", archive, "--trusted-keys", stranger, "-o", tmp_path / "other")
    assert "reproduced 20" not in (tmp_path / "other" / "leaderboard.csv").read_text()

    log = subprocess.run(["git", "log", "--format=%s"], cwd=archive, capture_output=True, text=True, check=True).stdout
    assert log.splitlines() == ["Confirm a share of 100%", "Add 4 packed run(s)"]

    forged, removed = (next((archive / "packs").glob(f"{name}-*")) for name in ("honest", "careless"))
    shutil.copyfile(next((archive / "packs").glob("liar-*")), forged)
    removed.unlink()
    verdict = next((archive / "verdicts").glob("*.json"))
    verdict.write_text(verdict.read_text().replace("CONFIRMED", "REFUTED") + " ")
    said = _run("confirm", archive, "--share", "1", "-o", tmp_path / "third", "--head", head, status=1)
    assert {line for line in said.splitlines() if line.startswith(("packs/", "verdicts/"))} == {
        f"packs/{forged.name}: was changed after it was archived",
        f"packs/{removed.name}: is missing",
        f"verdicts/{verdict.name}: was changed after it was archived",
    }

    chain = archive / "chain.jsonl"
    lines = chain.read_text().splitlines(keepends=True)
    chain.write_text("".join([lines[0], *lines[2:]]))
    said = _run("confirm", archive, "-o", tmp_path / "fourth", status=2)
    assert "line 2: the line before was changed, added or removed" in said
    chain.write_text(lines[0])
    assert f"does not contain {head}" in _run("confirm", archive, "-o", tmp_path / "fifth", "--head", head, status=2)


def test_a_folder_that_is_no_archive_is_refused(tmp_path: Path) -> None:
    assert "has no chain.jsonl" in _run("confirm", tmp_path, "-o", tmp_path / "again", status=2)
