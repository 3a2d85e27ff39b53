"""Submissions written on the spot, and the real commands run on them."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from a2perf.submission.evaluator.python_env import installer
from tests.commands import launch as run_launch
from tests.made_submissions import STANDS, TROT, gin, policy
from tests.submission import wheels

TRAIN = """
def train():
    import os, pathlib
    pathlib.Path(os.environ["A2PERF_ARTIFACTS"], "weights.txt").write_text(os.environ["SEED"])
"""

INFERENCE = policy(load=STANDS)
TRAIN_GIN = gin(TROT, "train")
INFERENCE_GIN = gin(
    TROT,
    num_inference_steps=20,
    num_inference_episodes=2,
    record_frames=0,
    call_timeout_s=300,
    kwargs={"mode": "train"},
)


@dataclass(frozen=True)
class Outcome:
    """What a command did."""

    status: int
    output: str
    root: Path

    def manifest(self, mode: str) -> dict:
        return json.loads((self.root / mode / "manifest.json").read_text())


@pytest.fixture
def submission(tmp_path: Path) -> Callable[..., Path]:
    """Writes a submission folder, and beside it the organizer's gin files; a file given as None is left out."""

    def write(folder: str = "entry", **files: str | None) -> Path:
        path = tmp_path / folder
        path.mkdir(exist_ok=True)
        content: Mapping[str, str | None] = {
            "train": TRAIN,
            "inference": INFERENCE,
            "training_gin": TRAIN_GIN,
            "inference_gin": INFERENCE_GIN,
            "requirements_txt": "",
            "__init__": "",
            **files,
        }
        for name, text in content.items():
            stem, _, suffix = name.rpartition("_") if name.endswith(("_gin", "_txt")) else (name, "", "py")
            if text is not None:
                place = path.parent if suffix == "gin" else path
                (place / f"{stem}.{suffix}").write_text(textwrap.dedent(text))
        return path

    return write


@pytest.fixture
def launch(tmp_path: Path) -> Callable[..., Outcome]:
    """Runs ``a2perf-launch`` as a user would and returns what it did."""

    def run(path: Path, gin: str, *arguments: object, root: Path | None = None, timeout: float = 300) -> Outcome:
        folder = root or tmp_path / "root"
        given = ("--submission", path, "--gin_config", gin, "--root_dir", folder)
        done = run_launch(*given, *arguments, cwd=tmp_path, timeout=timeout)
        return Outcome(done.returncode, done.stdout + done.stderr, folder)

    return run


@pytest.fixture
def wheelhouse(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = wheels.toy_wheelhouse(tmp_path / "wheels")
    monkeypatch.setenv("UV_FIND_LINKS", str(folder))
    return folder


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A2PERF_CACHE_DIR", str(tmp_path / "cache"))


@pytest.fixture
def without_byte_code(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leaves out the byte code, which takes most of a small build."""
    monkeypatch.setattr(installer.Installer, "compile", lambda self, final: None)
