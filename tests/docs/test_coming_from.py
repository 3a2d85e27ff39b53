"""What former users type: every old command has its row, and every new one is run as it stands on the page."""

from __future__ import annotations

import importlib.util
import re
import shutil
from pathlib import Path

import pytest

from tests.docs import documents

OLD = (
    # the read-me of A2Perf
    "git clone https://github.com/Farama-Foundation/A2Perf.git",
    "git submodule sync --recursive",
    "git submodule update --init --recursive",
    "pip install -e .[all]",
    "pip install -e .[web_navigation]",
    "pip install -e .[quadruped_locomotion]",
    "pip install -e .[circuit_training]",
    "from a2perf.domains import web_navigation",
    'gym.make("WebNavigation-DifficultyLevel-01-v0", num_websites=10, seed=0)',
    "https://github.com/Farama-Foundation/a2perf-benchmark-submission",
    "from a2perf.domains.tfa.utils import load_policy, preprocess_observation",
    # RLops
    "poetry install",
    "OMP_NUM_THREADS=1 xvfb-run -a poetry run python -m cleanrl_utils.benchmark",
    "--env-ids CartPole-v1 Acrobot-v1 MountainCar-v0",
    '--command "poetry run python cleanrl/ppo.py --cuda False --track --capture-video"',
    "--num-seeds 3 --workers 9",
    "python rlops.py --exp-name ddpg_continuous_action_jax",
    "--wandb-project-name cleanrl",
    "--wandb-entity openrlbenchmark",
    "--tags v1.0.0b2-9-g4605546 rlops-pilot",
    "--env-ids Hopper-v2 Walker2d-v2 HalfCheetah-v2",
    "--output-filename compare.png --report",
    "python rlops_tags.py --add latest --source-tag v1.0.0b2-9-g4605546",
    "python rlops_tags.py --remove latest --source-tag rlops-pilot",
    # performance tests
    "python src/main.py +performance=FetchReach/sac_her-test --multirun",
    "run_performance_tests.sh",
    "conf/performance/FetchReach/sac_her-test.yaml",
    # benchmarks of plain scripts
    "cd benchmarks",
    "pip install -r requirements.txt",
    "wandb login YOUR_WANDB_KEY",
    "./run_tabular.sh",
    "./run_spinup.sh",
    "./run_pybullet.sh",
    "./run_atari.sh",
    "BENCH_SCRIPT=path/to/myscript.py BENCH_ENV=EnvironmentName-v0 BENCH_SEED=42 python benchmark.py --myarg=1234",
    # the zoo, and the earlier platform's command line
    "python train.py --algo ppo --env",
    "python enjoy.py --algo ppo --env",
    "--submission-gin-config-path",
    "--root-dir",
    "--participant-args",
    "--participant-module-path",
    "xmanager launch xm_launch.py",
)
INSTALLED = ("make setup", "a2perf data fetch quadruped_locomotion")
"""What other tests and `make setup` itself run: it needs a network, or minutes."""


@pytest.fixture
def page(repository: Path) -> Path:
    return repository / "docs" / "how_to" / "coming_from.md"


def _rows(page: Path) -> list[tuple[str, str]]:
    lines = [line for line in page.read_text(encoding="utf-8").splitlines() if line.startswith("| ")]
    cells = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]
    assert all(len(row) == 2 for row in cells), [row for row in cells if len(row) != 2]
    return [(row[0], row[1]) for row in cells if row[0] not in ("before", "---")]


def test_every_old_command_has_a_row(page: Path) -> None:
    before = "\n".join(row[0] for row in _rows(page))
    assert [words for words in OLD if words not in before] == []


def test_every_new_command_stands_in_a_block(page: Path) -> None:
    run = " ".join(" ".join(block.text.replace("\\\n", " ").split()) for block in documents.blocks_of(page))
    found = 0
    for _, now in _rows(page):
        for code in re.findall(r"`([^`]+)`", now):
            if re.match(r"(a2perf|python|\./|--num|--comm|--tags|make )", code) and code not in INSTALLED:
                if code.startswith("a2perf") and any(word.isupper() for word in code.split()):
                    code = code.split()[1]  # with words that stand for others: the command itself
                assert " ".join(code.split()) in run, code
                found += 1
    assert found >= 20


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_every_block_runs(page: Path, repository: Path, tmp_path: Path) -> None:
    folder = tmp_path / "compatibility"
    # without the performance tests of the examples, which train for minutes
    left_out = shutil.ignore_patterns("runs", "__pycache__", "conf")
    shutil.copytree(repository / "compatibility", folder, ignore=left_out)
    shutil.copytree(repository / "examples", folder / "examples", ignore=left_out, dirs_exist_ok=True)
    having = {"sb3"} if importlib.util.find_spec("stable_baselines3") else set()
    having |= {"suites"} if importlib.util.find_spec("ale_py") else set()
    having |= {"datasets"} if importlib.util.find_spec("a2perf_datasets") else set()
    variables = documents.installation(tmp_path)
    assert documents.run(page, folder, variables, having=having) >= 10
