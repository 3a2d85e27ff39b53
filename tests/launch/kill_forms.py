"""The commands that are killed at random, with submissions that resume and results that can be compared to the bit."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from a2perf.sandbox import strongest_level
from tests.commands import flags, run_a2perf
from tests.made_submissions import IDLE, TOY, WEB, gin, policy, write_submission

STEPS = 20

TRAIN = f"""
import os, pathlib, time

def train(**arguments):
    folder = pathlib.Path(os.environ["A2PERF_ARTIFACTS"])
    curve = folder / "progress.csv"
    rows = curve.read_text().splitlines() if curve.exists() else ["env_steps,mean_return"]
    for step in range(len(rows) - 1, {STEPS}):
        time.sleep(0.05)
        rows.append(f"{{step}},{{int(os.environ['SEED']) * (step + 1) % 9973}}")
        (folder / "half.csv").write_text("\\n".join(rows))
        os.replace(folder / "half.csv", curve)
"""
INFERENCE = policy(
    top="import os, subprocess, sys, time, zlib",
    load="""
    code = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"
    subprocess.Popen([sys.executable, "-S", "-c", code, os.path.abspath(__file__)], start_new_session=True)
    return env.action_space
    """,
    infer="""
    time.sleep(0.005)
    drawn = zlib.crc32(b"".join(np.ascontiguousarray(observation[name]).tobytes() for name in sorted(observation)))
    allowed = np.flatnonzero(observation["mask"]) if "mask" in observation else range(policy.n)
    return int(allowed[drawn % len(allowed)])
    """,
)
_SETTINGS = {"num_inference_steps": 5, "num_warmup_steps": 1, "record_frames": 0}
GIN_FILES = {
    "train.gin": gin(TOY, "train", num_inference_episodes=30, **_SETTINGS),
    "toy.gin": gin(TOY, num_inference_episodes=30, **_SETTINGS),
    "web.gin": gin(WEB, num_inference_episodes=20, **_SETTINGS),
}


@dataclass(frozen=True)
class Form:
    """One way to give one of the documented commands.

    Attributes:
        kind: of the command: train, inference, submit or competition.
        name: what distinguishes it from other forms of this kind.
        arguments: of the command, ``{place}`` is the folder of the round.
        root: folder below the place where the bundles lie.
        single: one run in the foreground; the same command repeats its failures.
        takes_level: whether ``--sandbox`` may change from round to round.
        retry_failed: the flag that repeats a participant's failure; empty if the same command does, ``None`` if the
            failure is final.
    """

    kind: str
    name: str
    arguments: tuple[str, ...]
    root: str = "root"
    single: bool = False
    takes_level: bool = True
    retry_failed: str | None = "--retry=failed"

    def argv(self, place: Path, level: str) -> list[str]:
        """Returns the command line of this form in a folder."""
        words = [word.format(place=place) for word in self.arguments]
        return [sys.executable, "-m", "a2perf", *words, *(("--sandbox", level) if self.takes_level else ())]

    def results(self, place: Path) -> dict[str, Any]:
        """Returns what the runs came to by bundle, to the bit: seeds and returns, or what a training run left."""
        return {name: result_of(bundle) for name, bundle in bundles(place / self.root).items()}


_LAUNCH = ("run", "--submission", "{place}/entry", "--root_dir", "{place}/root", "--gin_config")
_QUICKLY = flags(protocol="v1-small", task="toy_macro_stdcell", quick=True, no_generalization=True)
_SUBMIT = ("submit", "{place}/entry", "-o", "{place}/root", *_QUICKLY)
_ENTRANTS = ("--submission", "{place}/entry", "--submission", "{place}/second")

FORMS = (
    Form("train", "run", (*_LAUNCH, "{place}/train.gin"), single=True, retry_failed=""),
    Form("train", "experiment", (*_LAUNCH, "{place}/train.gin", "--num-seeds", "3", "--workers", "2")),
    Form("inference", "run", (*_LAUNCH, "{place}/toy.gin"), single=True, retry_failed=""),
    Form("inference", "web", (*_LAUNCH, "{place}/web.gin", "--num-seeds", "2", "--workers", "1")),
    Form("inference", "both", (*_LAUNCH, "{place}/train.gin", "{place}/toy.gin", "--num-seeds", "2", "--workers", "2")),
    Form("submit", "evaluated", _SUBMIT, retry_failed=None),
    Form("submit", "trained", (*_SUBMIT, "--workers", "2"), retry_failed=None),
    Form(
        "competition",
        "two entrants",
        ("competition", "run", "{place}/cup", *_ENTRANTS, "--allow-weaker", "--workers", "2"),
        root="cup/runs",
        takes_level=False,
    ),
)
KINDS = tuple(dict.fromkeys(form.kind for form in FORMS))


def found_competition(folder: Path, environment: Mapping[str, str]) -> None:
    """Creates a competition, a copy of which each round runs: its secrets are random."""
    given = flags(domain="circuit_training", held_out=1, episodes=5, seed=0, no_train=True, set="latency_steps=5")
    sandbox = flags(set=f"sandbox={strongest_level()}")
    run_a2perf("competition", "init", folder, *given, *sandbox, check=True, env=environment)


def write_place(place: Path, form: Form, cup: Path) -> None:
    """Writes everything that a form needs into the folder of a round."""
    place.mkdir(parents=True)
    (place / "tmp").mkdir()
    names = ("entry", "second") if form.kind == "competition" else ("entry",)
    for name in names:
        write_submission(place / name, INFERENCE, IDLE if form.name == "evaluated" else TRAIN)
    for name, text in GIN_FILES.items():
        (place / name).write_text(text)
    if form.kind == "competition":
        shutil.copytree(cup, place / "cup")


def bundles(root: Path) -> dict[str, Path]:
    """Returns the bundles below a folder by relative path, without those in attics."""
    found = [path.parent for path in root.rglob("manifest.json") if "attic" not in path.relative_to(root).parts]
    return {str(path.relative_to(root)): path for path in sorted(found)}


def result_of(bundle: Path) -> dict[str, Any]:
    """Returns what a run came to: its state, its seeds, its episodes to the bit, or its artifacts."""
    manifest = json.loads((bundle / "manifest.json").read_text())
    seeds = {name: value for name, value in (manifest["seeds"] or {}).items() if name != "keys"}
    result: dict[str, Any] = {"state": manifest["state"], "seeds": seeds}
    if manifest["mode"] == "train":
        artifacts = sorted(path for path in (bundle / "artifacts").rglob("*") if path.is_file())
        result["artifacts"] = {path.name: path.read_text() for path in artifacts}
    elif (rollouts := bundle / "metrics" / "rollouts.json").exists():
        episodes = json.loads(rollouts.read_text())["episodes"]
        result["episodes"] = [
            (item["index"], item["seed"], float(item["episode_return"]).hex(), item["length"]) for item in episodes
        ]
    return result
