"""Every command line of the practice's own document about benchmarks and tags, with the names of our programs."""

from __future__ import annotations

import io
import os
import shlex
import sys
from pathlib import Path

import pytest

from a2perf.rlops.store import Store
from a2perf.runs.stores.store import read_curves
from tests.commands import run_command
from tests.rlops.conftest import Host, Run
from tests.rlops.made_runs import METRIC, events, write_run
from tests.rlops.test_autotag import git
from tests.rlops.test_matrix import SCRIPT


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with one commit after its tag, a trainer, and a ``poetry`` that only runs what it is given."""
    folder = tmp_path / "project"
    (folder / "cleanrl").mkdir(parents=True)
    script = SCRIPT.replace(
        "options = parser",
        'parser.add_argument("--cuda")\n'
        'parser.add_argument("--track", action="store_true")\n'
        'parser.add_argument("--capture-video", action="store_true")\noptions = parser',
    ).replace("0.15", "0.0")
    (folder / "cleanrl" / "ppo.py").write_text(script.replace("__train__", "__ppo__"))
    (folder / ".gitignore").write_text("runs\nmarks\n")
    for env in ("CartPole-v1", "Acrobot-v1", "MountainCar-v0"):
        for seed in range(1, 4):
            points = [(step, float(seed)) for step in range(5)]
            (folder / f"points-{env}-{seed}").write_bytes(events({METRIC: points}))
    for words in (("init", "-q"), ("add", "-A"), ("commit", "-qm", "one"), ("tag", "v1.0.0b2")):
        git(folder, *words)
    (folder / "cleanrl" / "README.md").write_text("two")
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "two")
    programs = tmp_path / "bin"
    programs.mkdir()
    for name, text in (("poetry", 'shift; exec "$@"'), ("python", f'exec {shlex.quote(sys.executable)} "$@"')):
        (programs / name).write_text(f"#!/bin/sh\n{text}\n")
        (programs / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
    for variable in ("WANDB_TAGS", "A2PERF_STORE", "GITHUB_REF", "CI_MERGE_REQUEST_IID", "WANDB_MODE"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.chdir(folder)
    return folder


BENCHMARK = """benchmark --env-ids CartPole-v1 Acrobot-v1 MountainCar-v0 \
    --command "poetry run python cleanrl/ppo.py --cuda False --track --capture-video" --num-seeds 3 --workers 9"""


def test_step_one_runs_the_benchmark(run: Run, project: Path) -> None:
    status, out, _ = run(BENCHMARK)
    tag = f"v1.0.0b2-1-g{git(project, 'rev-parse', '--short', 'HEAD')}"
    assert status == 0, out
    lines = out.splitlines()
    assert lines[:4] == [
        "autotag feature is enabled",
        f"identified git tag: {tag}",
        f"WANDB_TAGS: {tag}",
        "======= commands to run:",
    ]
    begin = "poetry run python cleanrl/ppo.py --cuda False --track --capture-video"
    assert lines[13] == "W&B: runs log offline (WANDB_MODE=offline); set WANDB_MODE=online to send them"
    assert lines[4:13] == [
        f"{begin} --env-id {env} --seed {seed}"
        for seed in (1, 2, 3)
        for env in ("CartPole-v1", "Acrobot-v1", "MountainCar-v0")
    ]
    assert "9 of 9 runs finished, 0 failed" in out
    store = Store(project / "runs")
    runs = store.runs()
    assert len(runs) == 9
    assert {run.record.experiment for run in runs} == {"ppo"}
    assert all(run.record.tags == [tag] and run.record.config["track"] is True for run in runs)
    assert {run_id: curve.values[0] for run_id, curve in read_curves(runs).items()} == {
        run.name: run.record.seed for run in runs
    }
    status, out, _ = run(BENCHMARK)
    assert status == 0
    assert "9 of 9 runs are already finished" in out


def test_module_form_and_workers_zero_only_print(project: Path) -> None:
    words = shlex.split(BENCHMARK.replace("--workers 9", "").replace("benchmark", "", 1))
    environment = {**os.environ, "WANDB_TAGS": "mine", "GITHUB_REF": "refs/pull/308/merge"}
    ended = run_command([sys.executable, "-m", "a2perf.rlops.benchmark", *words], project, env=environment, check=True)
    assert "identified github pull request: pr-308" in ended.stdout
    tag = f"v1.0.0b2-1-g{git(project, 'rev-parse', '--short', 'HEAD')}"
    assert f"WANDB_TAGS: mine,{tag},pr-308" in ended.stdout
    assert "workers is set to 0" in ended.stdout
    assert ended.stdout.count("--seed") == 9
    assert not (project / "runs").exists()


def test_printed_commands_and_no_auto_tag(run: Run, project: Path) -> None:
    one = BENCHMARK.replace("--num-seeds 3 --workers 9", "--num-seeds 1")
    status, out, _ = run(f"{one} --no-auto-tag --start-seed 5")
    assert status == 0
    assert out.splitlines()[0] == "======= commands to run:"
    assert out.count("--seed 5") == 3
    assert "nothing was run" in out
    assert not (project / "runs").exists()


def test_failed_run_makes_the_exit_status_one(run: Run, project: Path) -> None:
    status, out, error = run(
        'benchmark --env-ids Broken-v0 CartPole-v1 --command "python cleanrl/ppo.py" --num-seeds 1 --workers 2'
    )
    assert status == 1
    assert "1 of 2 runs finished, 1 failed" in out
    (failed,) = [line for line in error.splitlines() if "FAILED" in line]
    assert "/Broken-v0/" in failed
    (log,) = (word for word in failed.split() if word.endswith("output.log"))
    assert "about to break" in Path(project, log).read_text()


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("benchmark --env-ids A", "give either --command or --submission"),
        ("benchmark --env-ids A --command x --submission y", "give either --command or --submission"),
        ("benchmark --env-ids A --command x --gin-config y", "belong to --submission"),
        ("benchmark --env-ids A --submission y", "needs --gin-config"),
        ("benchmark --env-ids A --submission nowhere --gin_config y", "does not exist"),
        ("benchmark --command x", "missing option '--env-ids'"),
        ("benchmark --env-ids --command x", "at least one word"),
        ("benchmark --env-ids A --command nothing-here --workers 1", "not a program on PATH"),
        ("rlops-tags", "give one of --add"),
        ("rlops-tags --add a --remove b", "give one of --add"),
        ("rlops-tags --add a", "of which runs"),
        ("rlops-tags --add 'a b' --source-tag v1", "cannot be a tag"),
        ("rlops-tags --add a --source-tag latst", "did you mean 'latest'"),
        ("rlops tags add a", "of which runs"),
        ("rlops tags remove a --filters ''", "a filter is empty"),
        ("rlops tags list unknown", "no run has the tag 'unknown'"),
        ("rlops import nowhere", "does not exist"),
        ("rlops-import nowhere", "does not exist"),
        ("rlops", "nothing to compare was named"),
        ("rlops compare", "nothing to compare was named"),
        ("rlops-import . --format excel", "is not a format"),
    ],
)
def test_wrong_words_end_with_status_two_and_say_what_is_valid(run: Run, tags: Path, line: str, said: str) -> None:
    status, out, errors = run(line)
    assert status == 2, out
    assert said in errors


@pytest.fixture
def tags(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A store with the runs of document 002: the new version, and the baseline ``rlops-pilot``, which is ``latest``."""
    store = tmp_path / "store"
    for env in ("Hopper-v2", "Walker2d-v2"):
        for version, names in (("v1.0.0b2-9-g4605546", ()), ("rlops-pilot", ("latest",))):
            write_run(
                store,
                f"ddpg/{env}/{version}/seed_1",
                experiment="ddpg_continuous_action_jax",
                env_id=env,
                tags=[version, *names],
            )
    monkeypatch.setenv("A2PERF_STORE", str(store))
    monkeypatch.chdir(tmp_path)
    return store


def latest(store: Path) -> set[str]:
    return {run.folder.path.parent.name for run in Store(store).runs() if "latest" in run.record.tags}


def answer(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(text))


@pytest.mark.parametrize("words", ["rlops tags ", "rlops-tags --"])
def test_step_three_moves_latest(run: Run, tags: Path, monkeypatch: pytest.MonkeyPatch, words: str) -> None:
    answer(monkeypatch, "y\n")
    status, out, _ = run(f"{words}add latest --source-tag v1.0.0b2-9-g4605546")
    assert status == 0
    assert out.startswith("add latest to 2 of 2 run(s):\n")
    assert (
        "  ddpg/Hopper-v2/v1.0.0b2-9-g4605546/seed_1 (finished): v1.0.0b2-9-g4605546 -> latest, v1.0.0b2-9-g4605546\n"
        in out
    )
    assert "Are you sure you want to proceed? (y/n): " in out
    answer(monkeypatch, "y\n")
    assert run(f"{words}remove latest --source-tag rlops-pilot")[0] == 0
    assert latest(tags) == {"v1.0.0b2-9-g4605546"}
    status, out, _ = run(f"{words}{'list' if words.startswith('rlops tags') else 'history'} latest")
    assert status == 0
    assert "2 run(s) were born with latest" in out
    assert "added to 2 run(s) by source tag v1.0.0b2-9-g4605546" in out
    assert "removed from 2 run(s) by source tag rlops-pilot" in out


@pytest.mark.parametrize("text", ["n\n", "", "no\n"])
def test_without_a_yes_nothing_changes(run: Run, tags: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    answer(monkeypatch, text)
    status, out, _ = run("rlops-tags --remove latest --source-tag latest")
    assert status == 1
    assert "nothing was changed" in out
    assert latest(tags) == {"rlops-pilot"}
    assert not (tags / "tags.jsonl").exists()


def test_flags_of_the_hosted_service_and_filters(run: Run, tags: Path) -> None:
    line = (
        "rlops-tags --wandb-project-name cleanrl --wandb_entity openrlbenchmark --add latest --yes --reason 'pr-308' "
        "--source-tag v1.0.0b2-9-g4605546 --filters "
        "'ddpg_continuous_action_jax?tag=v1.0.0b2-9-g4605546' --env-ids Hopper-v2"
    )
    status, _, err = run(line)
    assert status == 0
    assert "--wandb-project-name has no effect" in err
    added = [
        run_.record.env_id for run_ in Store(tags).runs() if {"latest", "v1.0.0b2-9-g4605546"} <= {*run_.record.tags}
    ]
    assert added == ["Hopper-v2"]
    (change,) = Store(tags).tags.history("latest")
    assert change.reason == "pr-308"
    status, out, _ = run(line)
    assert status == 0
    assert "nothing to change" in out
    assert len(Store(tags).tags.history("latest")) == 1


def test_list_shows_tags(run: Run, tags: Path) -> None:
    assert run("rlops-tags --remove latest --source-tag latest --yes")[0] == 0
    _, now, _ = run("rlops-tags --list")
    assert now.splitlines() == [
        "rlops-pilot              2 run(s)  ddpg_continuous_action_jax",
        "v1.0.0b2-9-g4605546      2 run(s)  ddpg_continuous_action_jax",
    ]


def test_import_from_the_command_line(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("A2PERF_STORE", raising=False)
    folder = tmp_path / "tb" / "CartPole-v1__ppo__1__17"
    folder.mkdir(parents=True)
    (folder / "events.out.tfevents.17.h.1.0").write_bytes(events({METRIC: [(0, 1.0)]}))
    line = f"rlops-import {tmp_path / 'tb'} --tag old --store {tmp_path / 'store'}"
    assert "imported (tensorboard, 1 metrics): ppo/CartPole-v1/" in run(line)[1]
    assert "already there" in run(line)[1]
    (found,) = Store(tmp_path / "store").runs()
    assert found.record.tags == ["old"]


def test_the_mode_of_weights_and_biases_is_the_users(run: Run, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (project / "cleanrl" / "ppo.py").write_text("import os\nprint('mode', os.environ['WANDB_MODE'])\n")
    monkeypatch.setenv("WANDB_MODE", "online")
    status, out, _ = run('benchmark --env-ids A --command "python cleanrl/ppo.py --track" --num-seeds 1 --workers 1')
    assert status == 0, out
    assert "W&B" not in out
    (log,) = (project / "runs").rglob("output.log")
    assert log.read_text() == "mode online\n"


def test_the_pull_request_is_looked_up_quietly_where_a_network_is_at_hand(
    run: Run, project: Path, host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    git(project, "remote", "add", "origin", "https://example.org/team/code")
    line = 'benchmark --env-ids A --command "python cleanrl/ppo.py" '
    monkeypatch.setenv("GITHUB_API_URL", host.address)
    assert "pull request" not in run(line)[1]  # A2PERF_OFFLINE is set for all tests
    monkeypatch.delenv("A2PERF_OFFLINE")
    assert "identified github pull request: pr-308" in run(line)[1]
    assert len(host.asked) == 1
    monkeypatch.setenv("GITHUB_API_URL", "http://127.0.0.1:9")
    status, out, errors = run(line)
    assert (status, errors) == (0, "")
    assert "pull request" not in out


def test_removed_options_name_their_replacement(run: Run, project: Path) -> None:
    line = 'benchmark --env-ids A --command "python cleanrl/ppo.py" --slurm-template-path template'
    status, _, errors = run(line)
    assert status == 2
    assert errors.splitlines() == [
        "a2perf: a2perf benchmark does not take --slurm-template-path",
        "  Hint: --launcher slurm places the runs on a Slurm cluster",
    ]
