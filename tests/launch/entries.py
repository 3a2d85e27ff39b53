"""A small submission for launchers: circuit placement by a fixed rule, a participant that dies at a given point."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

from tests.commands import command
from tests.launch.kill_forms import bundles, result_of
from tests.made_submissions import TOY, gin, policy, write_submission
from tests.waiting import Child, until

KILL = """
import os, signal, subprocess, sys, time

def reached(point):
    once = os.environ["KILL_ONCE"]
    if os.environ["KILL_AT"] in (f"participant: {point}", f"guard: {point}"):
        try:
            os.close(os.open(once, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return
        os.kill(os.getppid() if os.environ["KILL_AT"].startswith("guard") else os.getpid(), signal.SIGKILL)
        time.sleep(60)  # the guard's death takes this process along, but not at once on a busy machine

def leave_a_daemon():
    code = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"
    subprocess.Popen([sys.executable, "-S", "-c", code, os.environ["KILL_ONCE"]], cwd="/", start_new_session=True)
"""

TRAIN = """
import os, pathlib
from .killing import reached

def train():
    artifacts = pathlib.Path(os.environ["A2PERF_ARTIFACTS"])
    (artifacts / "half.txt").write_text(os.environ["SEED"])
    reached("train")
    (artifacts / "weights.txt").write_text(os.environ["SEED"])
"""

INFERENCE = policy(
    top="""
    from .killing import leave_a_daemon, reached

    reached("import")

    class Policy:
        calls = 0
    """,
    load="""
    leave_a_daemon()
    reached("load_policy")
    return Policy()
    """,
    infer="""
    policy.calls += 1
    if policy.calls == 19:  # 15 for the latency, then in the second of three episodes of two steps
        reached("infer_once")
    free = np.flatnonzero(observation["mask"])
    return int(free[int(observation["current_node"][0]) * 7919 % len(free)])
    """,
)
_SETTINGS = {
    "num_inference_steps": 5,
    "num_inference_episodes": 3,
    "record_frames": 0,
    "pass_environment": ["KILL_AT", "KILL_ONCE"],
}
GIN_FILES = {
    "inference.gin": gin(TOY, **_SETTINGS),
    "generalization.gin": gin(
        TOY, "generalization", **_SETTINGS, num_generalization_episodes=2, generalization_tasks=["toy_macro_stdcell"]
    ),
    "training.gin": gin(TOY, "train", **_SETTINGS),
}


def write_manifest(bundle: Path, **given: object) -> None:
    """Writes the manifest of a bundle with the given fields; the mode is the name of the folder."""
    whole = {
        "a2perf_version": "1",
        "mode": bundle.name,
        "domain": "d",
        "task": "t",
        "env_id": None,
        "env_kwargs": {},
        "env_fingerprint": None,
        "submission": {"name": "s", "path": "s", "sha256": ""},
        "root_seed": 0,
        "seeds": {},
        "participant_args": {},
        "config_sha256": "",
        "attempts": [],
        **given,
    }
    bundle.mkdir(parents=True, exist_ok=True)
    (bundle / "manifest.json").write_text(json.dumps(whole))


def write_entry(folder: Path) -> Path:
    """Writes the submission, and beside it the organizer's gin files."""
    write_submission(folder, INFERENCE, TRAIN, killing=KILL)
    for name, text in GIN_FILES.items():
        (folder.parent / name).write_text(text)
    return folder


@dataclass
class Stage:
    """A folder in which one experiment runs, dies and is run again."""

    folder: Path
    arguments: tuple[str, ...] = ()
    environment: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.entry = write_entry(self.folder / "entry")
        self.root = self.folder / "root"
        self.temporary = self.folder / "tmp"
        self.temporary.mkdir()

    def argv(self, *arguments: object) -> list[str]:
        """The command line of the experiment."""
        return command("--submission", self.entry, "--root_dir", self.root, *self.arguments, *arguments)

    def start(self, *arguments: object) -> subprocess.Popen[str]:
        """Starts the experiment."""
        environment = {
            **os.environ,
            "TMPDIR": str(self.temporary),
            "KILL_AT": "",
            "KILL_ONCE": str(self.folder / "participant"),
            "A2PERF_FAULT_ONCE": str(self.folder / "killed"),
            **self.environment,
        }
        return Child(
            self.argv(*arguments),
            cwd=self.folder,
            env=environment,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def run(self, *arguments: object) -> tuple[int, str]:
        """Runs the experiment to its end; returns its exit status and its output."""
        process = self.start(*arguments)
        output, errors = process.communicate(timeout=300)
        return process.returncode, output + errors

    def bundles(self) -> dict[str, Path]:
        """The bundles by ``<task>/seed_<n>/<mode>``, attics left out."""
        return bundles(self.root / "entry")

    def results(self) -> dict[str, object]:
        """The results of the runs by bundle: exact returns, content of the artifacts."""
        return {name: result_of(bundle) for name, bundle in self.bundles().items()}

    def task_returns(self) -> dict[str, list[str]]:
        """The returns of a generalization run, by task."""
        found = sorted(self.root.glob("entry/*/seed_0/generalization/metrics/tasks/*/rollouts.json"))
        records = [json.loads(path.read_text()) for path in found]
        assert records
        return {record["task"]: [item["episode_return"].hex() for item in record["episodes"]] for record in records}

    def wait_for(self, pattern: str) -> None:
        """Waits until a file is there."""
        until(lambda: any(self.root.glob(pattern)))
