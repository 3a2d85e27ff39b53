"""Each message of the page on errors is printed by a real command."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs import documents

PAGE = Path(__file__).resolve().parents[2] / "docs" / "how_to" / "error_messages.md"
ROWS = re.findall(r"^\| `(.*?)` \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
GIN = """import a2perf.submission.submission_util
Submission.mode = %BenchmarkMode.INFERENCE
Submission.domain = %BenchmarkDomain.CIRCUIT_TRAINING
Submission.num_inference_steps = 1
Submission.num_inference_episodes = 1
create_domain.env_name = 'CircuitTraining-ToyMacro-v0'
"""
CODE = """def load_policy(env, **kwargs): return None
def preprocess_observation(observation): return observation["mask"]
def infer_once(policy, mask): return int(mask.argmax())
"""
RUN = "a2perf run --submission entry --gin-config run.gin"
WRITE = f"> entry/inference.py; {RUN} --gin-bindings Submission."
CHANGE = f"sed -i 's/{{}}/{{}}/' entry/inference.py; {RUN} --gin-bindings Submission."
COMMANDS = {
    "the submission folder": "a2perf run --submission nope --gin-config run.gin",
    "the gin file": "a2perf run --submission entry --gin-config nope.gin",
    "is not a task": f"{RUN} --task ariana",
    "no such option": f"{RUN} --sandboxx none",
    "has no parameter": f"{RUN} --gin-bindings Submission.memory=3",
    "holds another run": f"{RUN} && {RUN} --seed 7",
    "is not on this host": "A2PERF_DATA_DIR=none a2perf run --submission entry --gin-config run.gin --task dog_pace "
    "--domain quadruped_locomotion",
    "sandbox level": f"DOCKER_HOST=unix://$PWD/none {RUN} --sandbox docker",
    "processors": f"{RUN} --cpus 9999",
    "cannot be installed": f"echo nosuchpackage==1 > entry/requirements.txt; {RUN} --python-env isolated",
    "nothing recorded": "a2perf score entry",
    "holds no runs": "mkdir runs; a2perf rlops --exp-name x --tags a b --env-ids CartPole-v1",
    "no trusted keys": "a2perf verify entry",
    "no function load_policy": f"echo 'x = 1' {WRITE}call_timeout_s=9",
    "SyntaxError": f"echo 'def (' {WRITE}call_timeout_s=9",
    "ModuleNotFoundError": f"echo 'import nosuchmodule' {WRITE}call_timeout_s=9",
    "(exception): ...": CHANGE.format("return None", "raise KeyError") + "call_timeout_s=9",
    "expected": CHANGE.format("int(.*)", "mask") + "call_timeout_s=9",
    "infeasible": CHANGE.format("argmax", "argmin") + "call_timeout_s=9",
    "(timeout)": CHANGE.format("return int", "import time; time.sleep(60); return int") + "call_timeout_s=1",
    "(memory)": CHANGE.format("None", r"bytearray(900 * 2**20)") + "memory_limit_bytes=600000000",
}


def row_of(part: str) -> str:
    (row,) = [row for row in ROWS if part in row]
    return row


def test_every_message_of_the_page_is_printed_by_a_command() -> None:
    assert {row_of(part) for part in COMMANDS} == set(ROWS)
    assert len(ROWS) >= 20


@pytest.mark.parametrize(
    "part", [pytest.param(part, marks=[pytest.mark.slow] * ("inference.py" in COMMANDS[part])) for part in COMMANDS]
)
def test_message_is_printed(part: str, tmp_path: Path) -> None:
    (tmp_path / "entry").mkdir()
    files = {"__init__.py": "", "requirements.txt": "", "train.py": "def train(): pass\n", "inference.py": CODE}
    for name, text in {"../run.gin": GIN, **files}.items():
        (tmp_path / "entry" / name).write_text(text)
    places = dict.fromkeys(("A2PERF_CACHE_DIR", "HOME"), str(tmp_path / "home"))
    variables = {**os.environ, **places, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    done = subprocess.run(
        ["bash", "-c", COMMANDS[part]], cwd=tmp_path, env={**variables, "A2PERF_OFFLINE": "1"}, check=False,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    assert done.returncode in (1, 2)
    documents.expect(done.stdout, f"...{row_of(part)}...", part)
