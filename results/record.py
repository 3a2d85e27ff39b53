"""Records the shipped results: the submissions of ``EXAMPLES`` under the protocol, stripped to what scoring needs.

    python results/record.py [NAME ...]      runs what is missing in runs/results, then packs into results/recorded
    python results/record.py --again NAME    runs all of it again, for example with another language model
    python results/record.py --confirm NAME  repeats the evaluations of a record after a change of its example

`make results` runs this script. It calls `a2perf submit` and copies the results; finished runs are kept, so an
interrupted recording resumes. Times, energies and the last bits of floating-point numbers differ between machines;
returns follow from the seeds.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np
from PIL import Image

from a2perf.metrics.submitted import FILE, ProtocolRecord
from a2perf.records import Episode, Manifest, RolloutResults, TrainResults
from a2perf.runs.bundles.bundle import write_manifest
from a2perf.runs.bundles.inventory import record_files
from a2perf.runs.bundles.layout import CONFIG, EARLIER_CONFIG, MODEL_CALLS
from a2perf.runs.pack import pack
from a2perf.runs.packed.packed_archive import unpack
from a2perf.storage import read_record, sha256_of, write_record
from a2perf.submission.evaluator.submitted.folder_content import identify_submission

HOUSE = Path(__file__).resolve().parents[1]
EXAMPLES = ("examples", "packages/agents/examples", "packages/baselines/examples")
WORK, SHIPPED = HOUSE / "runs" / "results", HOUSE / "results" / "recorded"
KEPT = (
    CONFIG,
    EARLIER_CONFIG,
    MODEL_CALLS,
    "media/*.png",
    "media/*.plc",
    "media/*.states",
    "metrics/**/*",
    "artifacts/**/progress.csv",
    "artifacts/**/events.out.*",
)
"""Files of a bundle that are shipped with its manifest; the manifest records that the others were left out."""

PARTS_OF_COST = ("wirelength", "density", "congestion")
"""Names in the last ``info`` of an episode that are shipped."""

LEFT_OUT = ("codecarbon.log", "inference_emissions.csv")
"""Omitted files: the first is a log, the second repeats the system trace and the tracking report."""

ONLY_FOR_TRAINING = ("artifacts/resume/**/*", "artifacts/latest.npz", "artifacts/designs.json")
"""Checkpoints and their training designs. With all other artifacts `a2perf reproduce` can repeat an evaluation."""

MOST_POLICY_BYTES = 400_000
"""Policies with larger files are not shipped."""

DROPPED = "shipped without logs, journal, and checkpoints"
NOWHERE = "not recorded"
ONE_THREAD = {**os.environ, "OMP_NUM_THREADS": "1"}
MAIN_NUMBERS = ("wall_s", "cpu_seconds", "rss_peak_bytes", "energy")


@dataclass(frozen=True)
class Recording:
    """One call of `a2perf submit`.

    Attributes:
        domain: folder in which it is shipped.
        example: folder below one of ``EXAMPLES``.
        tasks: tasks of the protocol.
        flags: further flags.
        python: interpreter with the framework, relative to the repository; "" for this one.
        part: distinguishes recordings of one example, each of which can be repeated separately.
        server: example that serves the language model of the submission while it runs; "" for none.
    """

    domain: str
    example: str
    tasks: tuple[str, ...]
    flags: tuple[str, ...] = ()
    python: str = ""
    part: str = ""
    server: str = ""

    @property
    def name(self) -> str:
        """Path of its packed file among the shipped ones, without the suffix."""
        return f"{self.domain}/{self.example}" + (f"-{self.part}" if self.part else "")


_DOGS = ("dog_pace", "dog_trot", "dog_spin")
_CIRCUITS = ("toy_macro_stdcell", "ariane_twin")
_WEBSITES = tuple(f"difficulty_level_{level}_num_websites_1" for level in (1, 2, 3))
# the learner evaluates over four horizons: 600 steps are whole episodes
_SEARCH = "horizon=150,evaluate_every=2,step_size=0.04,noise=0.04,inputs=91:103,diagonal=1"
_LEARNER = f"iterations=12,time_budget_s=3600,workers=1,{_SEARCH}"
_ANNEALING = "max_moves=20000,time_budget_s=3600"
ALONE = ("--no-generalization", "--protocol", "v2")
SMALL = ("--protocol", "v2-small")
TF_AGENTS = ".venv-tf/bin/python"
"""Created by `make frameworks`: TensorFlow requires an older NumPy than the other packages."""

TORCH = TF_AGENTS
"""The same Python has PyTorch, Stable-Baselines3 and MuJoCo."""


def _batch(seconds: int) -> str:
    """Returns the arguments of a training run of `mujoco_ppo` on one core."""
    return f"threads=1,time_budget_s={seconds}"


_TEN_WEBSITES = tuple(f"difficulty_level_{level}_num_websites_10" for level in (1, 2, 3))
_AS_TEXT = tuple(f"text_level_{level}" for level in (1, 2, 3))
_PLACEMENTS = ("toy_macro_stdcell", "ariane", "ariane_twin")
_BASELINES = (
    Recording("small", "minimal", (*_DOGS, *_TEN_WEBSITES, *_PLACEMENTS), SMALL),
    Recording("small", "motion_imitation", _DOGS, SMALL),
    Recording("small", "web_solver", _TEN_WEBSITES, SMALL),
    Recording("small", "text_solver", _AS_TEXT, SMALL),
    Recording("small", "language_model_agent", _AS_TEXT[:1], SMALL, server="small_language_model"),
    Recording("small", "greedy_placer", _PLACEMENTS, SMALL),
    Recording("small", "annealing_placer", _PLACEMENTS, (*SMALL, "--participant-args", _ANNEALING)),
    Recording("small", "sb3_ppo", ("dog_pace",), SMALL),
    *(
        Recording("small", "mujoco_ppo", (f"dog_{gait}",), (*SMALL, "--participant-args", _batch(seconds)), TORCH, gait)
        for gait, seconds in (("spin", 420), ("pace", 660), ("trot", 1000))
    ),
    Recording("small", "torch_ppo_web", _TEN_WEBSITES, SMALL, TORCH),
    Recording(
        "small",
        "pretrained_placer",
        _PLACEMENTS,
        (*SMALL, "--participant-args", "time_budget_s=120"),
    ),
    Recording("small", "sb3_masked_dqn", (*_TEN_WEBSITES[:1], "toy_macro_stdcell"), SMALL, TORCH),
    Recording("small", "tf_agents_sac", ("dog_pace",), SMALL, TF_AGENTS),
    Recording("small", "sb3_sac", ("dog_pace",), (*SMALL, "--participant-args", "total_steps=30000"), TORCH),
    Recording("small", "tf_agents_ddqn", ("toy_macro_stdcell",), SMALL, TF_AGENTS),
    Recording("small", "tf_agents_ddqn", _TEN_WEBSITES[:1], SMALL, TF_AGENTS, "web"),
    Recording("small", "tf_agents_ppo", ("toy_macro_stdcell",), SMALL, TF_AGENTS),
    Recording("small", "tf_agents_bc", _DOGS, SMALL, TF_AGENTS, "quadruped"),
    Recording("small", "tf_agents_bc", _TEN_WEBSITES, SMALL, TF_AGENTS, "web"),
    Recording("small", "tf_agents_bc", _PLACEMENTS, SMALL, TF_AGENTS, "circuit"),
)

RECORDINGS = (
    Recording("circuit_training", "minimal", _CIRCUITS, ALONE),
    Recording("circuit_training", "greedy_placer", _CIRCUITS, ALONE),
    Recording("circuit_training", "annealing_placer", _CIRCUITS, (*ALONE, "--participant-args", _ANNEALING)),
    Recording("web_navigation", "minimal", _WEBSITES, ALONE),
    Recording("web_navigation", "web_solver", _WEBSITES, ALONE),
    Recording("web_navigation", "torch_ppo_web", _WEBSITES, ALONE, TORCH),
    Recording("learning", "minimal", ("synthetic_trot_v1",), ALONE),
    Recording(
        "learning",
        "numpy_ars",
        ("synthetic_trot_v1",),
        (*ALONE, "--track", "fixed_samples", "--participant-args", _LEARNER),
    ),
    Recording("quadruped_locomotion", "minimal", _DOGS, (*ALONE, "--quick")),
    Recording("quadruped_locomotion", "motion_imitation", _DOGS, (*ALONE, "--quick")),
    *_BASELINES,
)


def main() -> None:
    """Records the results and packs them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="DOMAIN/EXAMPLE; all by default")
    parser.add_argument("--again", action="store_true", help="remove the finished runs of the named recordings first")
    parser.add_argument("--confirm", action="store_true", help="name the present files in records that they repeat")
    given = parser.parse_args()
    if given.again and not given.names:
        parser.error("--again removes runs; name the recordings")
    known = {recording.name: recording for recording in RECORDINGS}
    unknown = [name for name in given.names if name not in known]
    if unknown:
        sys.exit(f"{unknown[0]} is not a recording; there are {', '.join(known)}")
    failed = []
    for name in given.names or known:
        if given.confirm:
            failed += [] if confirm(name) else [name]
            continue
        if given.again:
            shutil.rmtree(WORK / name, ignore_errors=True)
        status = record(known[name])
        if status != 0:
            failed.append(name)
            print(f"{name}: a2perf submit ended with status {status}; it is not shipped", file=sys.stderr)
            continue
        ship(WORK / name, SHIPPED / f"{name}.zip")
    size = sum(path.stat().st_size for path in SHIPPED.rglob("*.zip"))
    print(f"{SHIPPED.relative_to(HOUSE)}: {size / 2**20:.2f} MiB")
    sys.exit(1 if failed else 0)


def confirm(name: str) -> bool:
    """Repeats the evaluations of a shipped record with the present files of its submission.

    If all are confirmed, the record names these files by their hash; otherwise it stays as it is. A repeated command
    resumes.
    """
    packed, verdicts = SHIPPED / f"{name}.zip", WORK.parent / "confirmed" / name
    command = ["reproduce", str(packed), "--submission", folder_of(name), "--allow-changed", "-o", str(verdicts)]
    subprocess.run([sys.executable, "-m", "a2perf", *command], cwd=HOUSE, env=ONE_THREAD, check=False)
    with tempfile.TemporaryDirectory() as work:
        (folder,) = unpack(packed, Path(work))
        found = read_record(folder / FILE, ProtocolRecord)
        documents = [msgspec.json.decode(path.read_bytes()) for path in verdicts.rglob("*.reproduction.json")]
        confirmed = [document for document in documents if document["verdict"] == "CONFIRMED"]
        equal = sum(document["episodes"] == document["equal_episodes"] for document in confirmed)
        tested = sum(run.mode == "inference" for run in found.runs)
        print(f"{name}: {len(confirmed)} of {tested} evaluations confirmed, {equal} bit-equal", flush=True)
        if len(confirmed) < tested:
            return False
        now = identify_submission(HOUSE / folder_of(name))
        files = {"sha256": now.sha256, "scheme": now.scheme, "not_covered": now.not_covered}
        for run in found.runs:
            manifest = read_record(folder / run.path / "manifest.json", Manifest)
            manifest.submission = msgspec.structs.replace(manifest.submission, **files)
            write_manifest(folder / run.path, manifest)
            run.manifest_sha256 = sha256_of(folder / run.path / "manifest.json")
        before, after = found.submission.sha256[:12], now.sha256[:12]
        found.submission = msgspec.structs.replace(found.submission, **files)
        found.citation = found.citation.replace(before, after)
        write_record(folder / FILE, found)
        summary = folder / "summary.md"
        summary.write_text(summary.read_text(encoding="utf-8").replace(before, after), encoding="utf-8")
        pack([folder], packed, force=True)
    return True


def folder_of(name: str) -> str:
    """Returns the folder of a recording's submission, relative to the repository."""
    (example,) = {recording.example for recording in RECORDINGS if recording.name == name}
    (folder,) = [folder for folder in EXAMPLES if (HOUSE / folder / example).is_dir()]
    return f"{folder}/{example}"


def record(recording: Recording) -> int:
    """Runs one submission; returns the status of `a2perf submit`."""
    tasks = [word for task in recording.tasks for word in ("--task", task)]
    python = str(HOUSE / recording.python) if recording.python else sys.executable
    if not os.access(python, os.X_OK):
        print(f"{recording.name}: {recording.python} is missing: make frameworks", file=sys.stderr)
        return 3
    with model_server(recording.server) as endpoint:
        model = ("--model", str(_model_file(endpoint))) if endpoint else ()
        command = [
            python,
            "-m",
            "a2perf",
            "submit",
            folder_of(recording.name),
            "--public-seeds",
            *tasks,
            *recording.flags,
            *model,
            "-o",
            str(WORK / recording.name),
        ]
        print(f"\n$ a2perf {' '.join(command[3:])}", flush=True)
        return subprocess.run(command, cwd=HOUSE, env=ONE_THREAD, check=False).returncode


def _model_file(endpoint: str) -> Path:
    WORK.mkdir(parents=True, exist_ok=True)
    place = WORK / "model.toml"
    place.write_text(f'endpoint = "{endpoint}"\nmodels = ["small"]\n', encoding="utf-8")
    return place


@contextlib.contextmanager
def model_server(example: str) -> Iterator[str]:
    """Starts the server of a language model; yields its address, "" without an example."""
    if not example:
        yield ""
        return
    command = [sys.executable, f"packages/baselines/examples/{example}/serve.py", "--port", "0"]
    with subprocess.Popen(command, cwd=HOUSE, env=ONE_THREAD, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            line = server.stdout.readline()  # it is written as soon as the server accepts connections
            if " at http" not in line:
                sys.exit(f"{' '.join(command)} did not start")
            yield line.rpartition(" at ")[2].strip()
        finally:
            server.terminate()


def ship(source: Path, packed: Path) -> None:
    """Packs a stripped submission's folder; updates its manifests and its record to the remaining files."""
    with tempfile.TemporaryDirectory() as work:
        target = Path(work) / packed.stem
        copy_stripped(source, target)
        pack([target], packed, force=True)


def copy_stripped(source: Path, target: Path) -> None:
    """Copies the files of a submission's folder that scoring needs."""
    target.mkdir()
    found = read_record(source / FILE, ProtocolRecord)
    for run in found.runs:
        strip(source / run.path, target / run.path)
        run.manifest_sha256 = sha256_of(target / run.path / "manifest.json")
    found.submission.path = f"examples/{found.submission.name}"
    write_record(target / FILE, found)
    shutil.copyfile(source / "summary.md", target / "summary.md")


def compact_rollouts(source: Path, target: Path) -> None:
    """Copies episodes without defaults, and of their last state only the parts of a placement's cost."""
    results = read_record(source, RolloutResults)
    needed = {"index": -1, "seed": -1, "episode_return": 0.0, "length": -1, "terminated": True, "truncated": True}
    defaults = msgspec.to_builtins(msgspec.convert(needed, Episode))
    episodes = []
    for episode in results.episodes:
        episode.final_info = {name: value for name, value in episode.final_info.items() if name in PARTS_OF_COST}
        episode.wall_s = 0.0
        fields = msgspec.to_builtins(episode)
        episodes.append({name: value for name, value in fields.items() if name in needed or value != defaults[name]})
    target.write_bytes(msgspec.json.encode({**msgspec.to_builtins(results), "episodes": episodes}))


def compact_latency(source: Path, target: Path) -> None:
    """Copies the timed calls in nanoseconds, in the narrowest type and compressed."""
    with np.load(source, allow_pickle=False) as arrays:
        narrow = {
            name: values.astype(np.int32) if values.size and values.min() >= 0 and values.max() < 2**31 else values
            for name, values in arrays.items()
        }
    np.savez_compressed(target, **narrow)


def compact_picture(source: Path, target: Path) -> None:
    """Copies a picture at two thirds of its size, with 48 colours."""
    with Image.open(source) as picture:
        smaller = picture.convert("RGB").resize((picture.width * 2 // 3, picture.height * 2 // 3))
    smaller.quantize(48, dither=Image.Dither.NONE).save(target, optimize=True)


def compact_model_calls(source: Path, target: Path) -> None:
    """Copies the record of calls to a language model without questions and answers."""
    from a2perf_agents.calls import redact_journal

    shutil.copyfile(source, target)
    redact_journal(target)


def compact_json(source: Path, target: Path) -> None:
    """Copies a JSON document without its indentation."""
    target.write_bytes(msgspec.json.encode(msgspec.json.decode(source.read_bytes())))


COMPACT: dict[str, Callable[[Path, Path], object]] = {
    "rollouts.json": compact_rollouts,
    "latency.npz": compact_latency,
    "tracking.json": compact_json,
    "latency.json": compact_json,
    MODEL_CALLS: compact_model_calls,
}


def keep_policy(source: Path, target: Path) -> None:
    """Copies the artifacts that an evaluation needs, if they are small, and counts the others in the record."""
    every = {path for path in source.glob("artifacts/**/*") if path.is_file()}
    training = {path for pattern in ONLY_FOR_TRAINING for path in source.glob(pattern) if path.is_file()}
    policy = every - training
    if not policy or sum(path.stat().st_size for path in policy) > MOST_POLICY_BYTES:
        return
    for path in policy:
        copy = target / path.relative_to(source)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, copy)
    results = read_record(source / "metrics" / "train.json", TrainResults)
    results.training_files = len(training)
    write_record(target / "metrics" / "train.json", results)


def strip(source: Path, target: Path) -> None:
    """Copies one bundle without the name and paths of its machine."""
    for pattern in KEPT:
        for path in sorted(source.glob(pattern)):
            if path.is_file() and path.name not in LEFT_OUT:
                copy = target / path.relative_to(source)
                copy.parent.mkdir(parents=True, exist_ok=True)
                compact = compact_picture if path.suffix == ".png" else COMPACT.get(path.name, shutil.copyfile)
                compact(path, copy)
    keep_policy(source, target)
    manifest = read_record(source / "manifest.json", Manifest)
    manifest.submission.path = f"examples/{manifest.submission.name}"
    manifest.command = ["make", "results"]
    manifest.host.pop("hostname", None)
    for attempt in manifest.attempts:
        attempt.host, attempt.boot_id, attempt.pid = NOWHERE, NOWHERE, 0
        attempt.start_ticks, attempt.pid_namespace = None, ""
    # the whole report is in metrics/tracking.json
    manifest.tracking = {name: manifest.tracking[name] for name in MAIN_NUMBERS if name in manifest.tracking}
    manifest.warnings.append(DROPPED)
    record_files(target, manifest)
    write_manifest(target, manifest)


if __name__ == "__main__":
    main()
