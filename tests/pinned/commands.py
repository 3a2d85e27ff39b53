"""What commands print and what runs write: exit statuses, keys of ``--json``, files of bundles and their keys."""

from __future__ import annotations

import contextlib
import csv
import json
import re
from pathlib import Path
from typing import Any

import numpy as np

from tests.commands import Ended, call_a2perf, run_python
from tests.pinned import condense
from tests.shipped_runs import copy_parts

REPOSITORY = Path(__file__).resolve().parents[2]
CONF = REPOSITORY / "compatibility" / "conf" / "performance"

# leaves that a correct command always answers with the same value; of all others only the type is pinned
STABLE = (
    "dataset_id",
    "domain",
    "env_id",
    "env_kwargs",
    "episodes",
    "exit_code",
    "exit_reason",
    "failed",
    "finished",
    "infos",
    "layout",
    "length",
    "mode",
    "modes",
    "problems",
    "root_seed",
    "schema",
    "state",
    "status",
    "submission",
    "valid",
)
# objects whose keys are names of files, packages, tasks or scores, or depend on the machine
BY_NAME = ("codecarbon", "container", "files", "inventory", "limits", "packages", "scores", "tasks")
_IN_PACKED = re.compile(r"/[^/\"]+\.zip/")  # a path in a packed file; the folder of the same name follows
_TRAIN = """
def train(**arguments):
    import os, pathlib
    folder = pathlib.Path(os.environ["A2PERF_ARTIFACTS"])
    (folder / "weights.txt").write_text(os.environ["SEED"])
    (folder / "progress.csv").write_text("env_steps,mean_return\\n" + "".join(f"{n * 100},{n}\\n" for n in range(5)))
    if arguments.get("fails"):
        raise RuntimeError("asked to fail")
"""
_INFERENCE = """
import numpy as np

def load_policy(env, **arguments):
    return np.zeros(env.action_space.shape, np.float32)

def preprocess_observation(observation):
    return observation

def infer_once(policy, observation):
    return policy
"""
_GIN = """
import a2perf.submission.submission_util
Submission.mode = %BenchmarkMode.{mode}
Submission.domain = %BenchmarkDomain.QUADRUPED_LOCOMOTION
create_domain.env_name = 'QuadrupedLocomotion-SyntheticTrot-v0'
"""
_EVALUATION = """
Submission.num_inference_steps = 20
Submission.num_inference_episodes = 2
Submission.record_frames = 1
Submission.call_timeout_s = 60
create_domain.mode = 'train'
"""
_GENERALIZATION = """
Submission.num_generalization_episodes = 1
Submission.generalization_tasks = ['synthetic_trot']
"""


def _written(folder: Path) -> Path:
    """Writes a submission and its gin files; returns ``folder``."""
    entry = folder / "entry"
    entry.mkdir()
    for name, text in {
        "entry/train.py": _TRAIN,
        "entry/inference.py": _INFERENCE,
        "entry/requirements.txt": "",
        "entry/__init__.py": "",
        "train.gin": _GIN.format(mode="TRAIN") + "Submission.measure_emissions = True\n",
        "inference.gin": _GIN.format(mode="INFERENCE") + _EVALUATION,
        "generalization.gin": _GIN.format(mode="GENERALIZATION") + _GENERALIZATION,
        "bad.gin": _GIN.format(mode="INFERENCE") + "Submission.num_inference_stepz = 20\n",
    }.items():
        (folder / name).write_text(text)
    return folder


def _shape(value: Any, *kept: str) -> Any:
    return condense.shape(value, (*STABLE, *kept), BY_NAME)


def _started(folder: Path, *arguments: object) -> Ended:
    """Runs ``a2perf ARGUMENTS`` as a process of its own, for what handles signals and starts participants."""
    done = run_python("from a2perf.cli import main; main()", *arguments, cwd=folder)
    return Ended(done.returncode, done.stdout, done.stderr)


def _run(folder: Path, gin: str, *arguments: object) -> Ended:
    return _started(folder, "run", "--submission", "entry", "--gin-config", gin, "--sandbox", "process", *arguments)


# --- bundles ----------------------------------------------------------------------------------------------------------


def bundles(folder: Path) -> dict[str, Any]:
    """Files of each mode's bundle and of its root, and the keys of each JSON, CSV and npz file."""
    _written(folder)
    found: dict[str, Any] = {}
    known: dict[str, Any] = {}
    for mode in ("train", "inference", "generalization"):
        root = folder / "root" / mode
        done = _run(folder, f"{mode}.gin", "--root-dir", root, "--json")
        assert done.status == 0, done.err
        found[mode] = {"files": _files(root, known)}
        found[mode]["answer"] = _folded(_shape(done.json()), known, f"{mode} answer")
    failed = _run(folder, "train.gin", "--root-dir", folder / "root" / "failed", "--participant-args", "fails=1")
    found["failed train"] = {"status": failed.status, "files": sorted(_files(folder / "root" / "failed", {}))}
    return found


def _folded(value: Any, known: dict[str, Any], place: str) -> Any:
    """Returns ``value`` with each larger object that was met before replaced by the place where it was."""
    if not isinstance(value, dict):
        return [_folded(entry, known, place) for entry in value] if isinstance(value, list) else value
    if len(json.dumps(value)) > 200:
        for name, other in known.items():
            if not condense.differences(value, other):
                return f"as {name}"
        known[place] = value
    return {key: _folded(entry, known, f"{place}/{key}") for key, entry in value.items()}


def _files(root: Path, known: dict[str, Any]) -> dict[str, Any]:
    """Returns the files below ``root`` with their keys; what was met in an earlier file names that."""
    files: dict[str, Any] = {}
    for path in sorted(root.rglob("*")):
        name = re.sub(r"\d{4,}", "N", path.relative_to(root).as_posix())
        if path.is_file():
            files[name] = _folded(_keys(path), known, name)
        elif not any(path.iterdir()):
            files[f"{name}/"] = "empty folder"
    return files


def _keys(path: Path) -> Any:
    """Returns the keys of a file whose form is known, else only that it is there."""
    if path.suffix == ".json":
        return _shape(json.loads(path.read_text()))
    if path.suffix == ".csv":
        with path.open(newline="") as stream:
            return next(csv.reader(stream))
    if path.suffix == ".npz":
        with np.load(path) as arrays:
            return {name: f"{arrays[name].dtype.name} of {arrays[name].ndim} dimensions" for name in arrays.files}
    if path.suffix == ".jsonl":
        return [sorted(json.loads(line)) for line in path.read_text().splitlines()][:1]
    return "file"


# --- commands ---------------------------------------------------------------------------------------------------------


def commands(folder: Path) -> dict[str, Any]:
    """The exit status of each command line, and the shape of what it prints with ``--json``."""
    _written(folder)
    runs = copy_parts(folder / "recorded", ["learning"])
    (folder / "empty").mkdir()
    (folder / "not_a_run.txt").write_text("words")
    found: dict[str, Any] = {}
    known: dict[str, Any] = {}

    def note(line: str, done: Ended) -> None:
        assert line not in found
        if "--json" in line and done.status in (0, 1, 3) and done.out.strip():
            answer = json.loads(_IN_PACKED.sub("/", json.dumps(done.json())))
            found[line] = {"status": done.status, "answer": _folded(_shape(answer), known, line)}
        else:
            found[line] = [done.status, "prints" if done.out.strip() else "silent"]

    with contextlib.chdir(folder):
        for line in _STARTED.strip().splitlines():
            note(line, _started(folder, *line.split()))
        for line in _CALLED.strip().splitlines():
            words = [word.replace("CONF", str(CONF)) for word in line.split()]
            done = call_a2perf(*words)
            assert "Traceback" not in done.err, (line, done.err)
            note(line, done)
    assert runs.is_dir()
    return found


# every line runs in one folder, in this order
_STARTED = """
run --submission entry --gin-config train.gin --root-dir one --seed 3 --sandbox process --json
run --submission entry --gin-config train.gin --root-dir one --seed 3 --sandbox process
run --submission entry --gin-config train.gin --root-dir one --seed 4 --sandbox process
run --submission entry --gin-config train.gin --root-dir two --participant-args fails=1 --sandbox process --json
run --submission entry --gin-config bad.gin --root-dir three
run --submission entry --gin-config train.gin --root-dir many --seeds 0 1 --participant-args fails=1 --json
check entry --env-id QuadrupedLocomotion-SyntheticTrot-v0 --steps 5 --train-limit 20 --sandbox process --json
submit entry -o submitted --task toy_macro_stdcell --quick --sandbox process --gin-bindings Submission.mode='nonsense'
"""
_CALLED = """
--version
--help
nonsense
run
run --submission entry
run --submission missing --gin-config train.gin
run --submission entry --gin-config missing.gin
run --submission entry --gin-config train.gin --seed -1
run --submission entry --gin-config train.gin --sandbox nonsense
run --submission entry --gin-config train.gin --launcher nonsense
run --submission entry --gin-config train.gin --python-env nonsense
run --submission entry --gin-config train.gin --domain nonsense
run --submission entry --gin-config train.gin --task nonsense
run --submission entry --gin-config train.gin --memory-limit-bytes nonsense
check missing
check entry --steps 0
status many --json
status many
status one
status missing
status empty
validate one --json
validate two --json
validate one
validate empty
validate missing
validate recorded --json
validate recorded --signed-by trusted
validate missing --signed-by any
score one --json
score one -o scored_one
score one two -o scored_both --json
score empty
score missing
score not_a_run.txt
score recorded -o scored --profile nonsense
report one -o reported_one
report missing -o reported_missing
report empty -o reported_empty
report one
leaderboard empty -o site_empty
leaderboard missing -o site_missing
leaderboard one -o site_one --no-reports --json
rlops
rlops --store one --filters nonsense
rlops --store missing --exp-name numpy_ars --tags nonsense
rlops --store recorded/learning --exp-name numpy_ars --tags nonsense --env-ids QuadrupedLocomotion-SyntheticTrot-v0
rlops-tags --list --store one
rlops-tags --add good --store one --yes
rlops-tags --add
rlops-import
perftest list --conf CONF
perftest list --conf missing
perftest run nonsense --conf CONF
smoketest nonsense
wrap
wrap missing.py --env CartPole-v1
benchmark
validate toys/missing-v0
envs list --json
envs list
envs list nonsense
data list --json
data list nonsense
protocol --json
protocol v1 dog_pace
protocol v1-small --json
protocol nonsense
protocol v2 nonsense
doctor --json
doctor
submit missing -o submitted
submit entry
submit entry -o submitted --task nonsense
submit entry -o submitted --protocol nonsense
python-env
init new_entry
init ./new_entry
init
sign missing
demo nonsense
"""
