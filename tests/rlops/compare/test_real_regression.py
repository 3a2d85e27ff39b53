"""A regression that is real: an example with a spoilt hyper-parameter, both versions run, caught by the gate."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

import a2perf as api
from tests.commands import run_a2perf
from tests.rlops.test_autotag import git

BENCHMARK = """benchmark --submission annealing_placer --gin-config train.gin
    --gin-config toy_macro_stdcell/inference.gin --env-ids toy_macro_stdcell --num-seeds 8 --workers 2
    -- --public-seeds --domain circuit_training --participant_args=max_moves=4000
    --gin_bindings Submission.num_inference_steps=2 --gin_bindings Submission.num_inference_episodes=1"""
COMPARE = "rlops --exp-name annealing_placer --tags v1.1.0 v1.0.0 --tolerance 0 --tolerance-absolute 0.003"


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_annealing_that_never_cools_is_caught(repository: Path, tmp_path: Path) -> None:
    """Cooling is what makes annealing more than a random walk; without it the wires of ToyMacro get longer."""
    example = shutil.copytree(
        repository / "examples" / "annealing_placer",
        tmp_path / "annealing_placer",
        ignore=shutil.ignore_patterns("__pycache__"),
    )
    (tmp_path / ".gitignore").write_text("runs\ncompare*\n__pycache__\n")

    def a2perf(line: str, *, tags: str = "") -> subprocess.CompletedProcess[str]:
        # git is never asked about a submission, so the caller names the version
        environment = {**os.environ, "WANDB_TAGS": tags}
        environment.pop("A2PERF_STORE", None)
        return run_a2perf(*shlex.split(line), cwd=tmp_path, env=environment, timeout=1800)

    for words in (("init", "-q"), ("add", "-A"), ("commit", "-qm", "Cool down"), ("tag", "v1.0.0")):
        git(tmp_path, *words)
    done = a2perf(BENCHMARK, tags="v1.0.0")
    assert done.returncode == 0, done.stdout + done.stderr
    code = (example / "annealing.py").read_text()
    hot = re.sub(r"(first_temperature|last_temperature): float = \S+", r"\1: float = 10.0", code)
    assert hot.count("float = 10.0") == 2
    (example / "annealing.py").write_text(hot)
    git(tmp_path, "commit", "-qam", "Stay hot")
    git(tmp_path, "tag", "v1.1.0")
    done = a2perf(BENCHMARK, tags="v1.1.0")
    assert done.returncode == 0, done.stdout + done.stderr

    judged = a2perf(f"{COMPARE} --fail-on regression")
    print(judged.stdout)
    assert judged.returncode == 1, judged.stdout + judged.stderr
    record = json.loads((tmp_path / "compare.json").read_text())
    assert record["verdict"] == "REGRESSION"
    (panel,) = record["candidates"][0]["panels"]
    assert panel["high"] < -0.003
    assert (panel["candidate_n"], panel["baseline_n"]) == (8, 8)
    # the protocol's stored scores of this environment put it on a scale
    assert record["panels"][0]["reference"]["source"] == "protocol v2, task toy_macro_stdcell"
    # and the accepted version against itself, seeds apart, is no regression
    parts = [f"annealing_placer?tag=v1.0.0&seed={a}&seed={b}" for a, b in ((1, 2), (3, 4))]
    same = api.compare(tmp_path / "runs", baseline=parts[0], candidate=parts[1])
    assert same.verdict != "REGRESSION"
