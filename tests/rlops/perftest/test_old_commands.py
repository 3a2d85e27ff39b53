"""The command lines of the document about performance tests, as they are written there."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import ModuleType

import pytest

from a2perf.errors import UserError
from tests.commands import run_command
from tests.scripts import load_script


@pytest.fixture
def compatibility(repository: Path) -> Path:
    return (repository / "compatibility").resolve()


@pytest.fixture
def entry_point(compatibility: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    return load_script(compatibility / "src" / "main.py", monkeypatch)


def test_what_the_old_words_mean(entry_point: ModuleType, compatibility: Path):
    conf = str(compatibility / "conf" / "performance")
    assert entry_point.translate(["+performance=FetchReach/sac_her-test", "--multirun"]) == [
        "perftest",
        "run",
        "FetchReach/sac_her-test",
        "--conf",
        conf,
    ]
    assert entry_point.translate(["+performance=A/b,C/d", "--multirun", "hydra.sweeper.n_jobs=5"]) == [
        "perftest",
        "run",
        "A/b",
        "C/d",
        "--conf",
        conf,
        "--n-jobs",
        "5",
    ]
    assert entry_point.translate(["+performance=smoke_test", "--multirun", "algorithm=sac,ppo", "env=E-v0"]) == [
        "smoketest",
        "--algorithms",
        "sac",
        "ppo",
        "--env-ids",
        "E-v0",
    ]
    usual = ["+performance=A/b", "--multirun", "wandb=1", "render=none"]
    assert entry_point.translate(usual) == ["perftest", "run", "A/b", "--conf", conf]
    assert entry_point.translate(["+performance=smoke_test", "-m", "render=record", "render_freq=1", "wandb=0"]) == [
        "smoketest",
        "--algorithms",
        "sac",
        "--env-ids",
        "FetchReach-v2",
    ]
    for words in (["+performance=A/b", "render=display"], ["+performance=smoke_test", "n_epochs=9"]):
        with pytest.raises(UserError, match=f"{words[1].partition('=')[0]} cannot be overridden"):
            entry_point.translate(words)
    with pytest.raises(UserError, match="gamma cannot be overridden"):
        entry_point.translate(["+performance=smoke_test", "gamma=3"])
    with pytest.raises(UserError, match="gamma cannot be overridden"):
        entry_point.translate(["+performance=A/b", "gamma=3"])


def test_the_scripts_start(compatibility: Path, tmp_path: Path):
    main = str(compatibility / "src" / "main.py")
    ended = run_command([sys.executable, main, "+performance=FetchReach/sac_he-test", "--multirun"], tmp_path)
    assert ended.returncode == 2
    assert "did you mean 'FetchReach/sac_her-test'" in ended.stderr
    variables = {**os.environ, "PYTHON": sys.executable, "PERFORMANCE_TEST_LOG": os.devnull}
    ended = run_command(
        [str(compatibility / "run_performance_tests.sh"), "--help"], tmp_path, env=variables, check=True
    )
    assert "--skip" in ended.stdout


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        (["rlops.py", "--help"], "--exp-name"),
        (["rlops_tags.py", "--help"], "--source-tag"),
        (["-m", "cleanrl_utils.benchmark", "--help"], "--num-seeds"),
    ],
)
def test_the_old_names_are_those_of_the_new_commands(compatibility: Path, words: list[str], shown: str):
    ended = run_command([sys.executable, *words], compatibility, check=True)
    assert shown in ended.stdout
