"""Each message of the page on errors is printed by a real command."""

import os
import re
import sys
from pathlib import Path

import pytest

from tests.commands import run_command
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
COMMANDS = (  # in the order of the page
    "a2perf run --submission nope --gin-config run.gin",
    "a2perf run --submission entry --gin-config nope.gin",
    f"{RUN} --task ariana",
    f"{RUN} --sandboxx none",
    f"{RUN} --gin-bindings Submission.memory=3",
    f"{RUN} && {RUN} --seed 7",
    "A2PERF_DATA_DIR=none a2perf run --submission entry --gin-config run.gin --task ariane --domain circuit_training",
    f"DOCKER_HOST=unix://$PWD/none {RUN} --sandbox docker",
    f"{RUN} --launcher local:cpus=9999",
    f"echo nosuchpackage==1 > entry/requirements.txt; {RUN} --python-env isolated",
    f"echo 'x = 1' {WRITE}call_timeout_s=9",
    f"echo 'def (' {WRITE}call_timeout_s=9",
    f"echo 'import nosuchmodule' {WRITE}call_timeout_s=9",
    CHANGE.format("return None", "raise KeyError") + "call_timeout_s=9",
    CHANGE.format("int(.*)", "mask") + "call_timeout_s=9",
    CHANGE.format("argmax", "argmin") + "call_timeout_s=9",
    CHANGE.format("return int", "import time; time.sleep(60); return int") + "call_timeout_s=1",
    CHANGE.format("None", r"bytearray(900 * 2**20)") + "memory_limit_bytes=600000000",
    "a2perf score entry",
    "mkdir runs; a2perf rlops --exp-name x --tags a b --env-ids CartPole-v1",
    "a2perf validate entry --signed-by trusted",
)


@pytest.mark.parametrize(
    ("message", "command"),
    [
        pytest.param(row, line, marks=[pytest.mark.slow] * ("inference.py" in line))
        for row, line in zip(ROWS, COMMANDS, strict=True)
    ],
)
def test_message_is_printed(message: str, command: str, tmp_path: Path) -> None:
    (tmp_path / "entry").mkdir()
    files = {"__init__.py": "", "requirements.txt": "", "train.py": "def train(): pass\n", "inference.py": CODE}
    for name, text in {"../run.gin": GIN, **files}.items():
        (tmp_path / "entry" / name).write_text(text)
    places = dict.fromkeys(("A2PERF_CACHE_DIR", "HOME"), str(tmp_path / "home"))
    variables = {**os.environ, **places, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    variables["A2PERF_OFFLINE"] = "1"
    words = ["bash", "-c", command]
    done = run_command(words, tmp_path, env=variables)
    assert done.returncode in (1, 2)
    documents.expect(done.stdout + done.stderr, f"...{message}...", command)
