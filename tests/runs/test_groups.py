"""One group never spans two environments: every layout, read by every command, gives the groups that were written."""

from __future__ import annotations

import json
import shlex
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies

import a2perf
from a2perf.errors import UserError
from a2perf.records import RunState
from tests.commands import call_a2perf
from tests.metrics import made_bundles
from tests.rlops.made_runs import METRIC, events, write_run

SCRIPTS = ("ppo", "sac")
ENVIRONMENTS = ("CartPole-v1", "Acrobot-v1", "MountainCar-v0")
SEEDS = (1, 2, 3)
Cell = tuple[str, str, int]
Written = Mapping[Cell, float]
Groups = dict[tuple[str, str], dict[int, float]]


def _events(folder: Path, value: float, steps: range = range(5), wall: float = 1.6e9) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    name = f"events.out.tfevents.{int(wall)}.host.1.0"
    (folder / name).write_bytes(events({METRIC: [(step, value) for step in steps]}, wall=wall))


def _progress(folder: Path, value: float) -> None:
    folder.mkdir(parents=True)
    rows = "".join(f"{step},{value}\n" for step in range(5))
    (folder / "progress.csv").write_text(f"time/total_timesteps,rollout/ep_rew_mean\n{rows}")


def single_file_trainers(top: Path, cells: Written) -> None:
    for (script, env, seed), value in cells.items():
        _events(top / f"{env}__{script}__{seed}__1700000000", value)


def resumed_event_files(top: Path, cells: Written) -> None:
    for (script, env, seed), value in cells.items():
        _events(top / env / f"{script}_{seed}", value, range(4))
        _events(top / env / f"{script}_{seed}", value, range(2, 5), wall=1.7e9)


def writer_with_children(top: Path, cells: Written) -> None:
    for (script, env, seed), value in cells.items():
        run = top / script / env / f"seed_{seed}"
        _events(run, value)
        for child in ("policy", "value"):
            (run / f"losses_{child}").mkdir()
            (run / f"losses_{child}" / "events.out.tfevents.1.host.1.1").write_bytes(events({"losses": [(0, 1.0)]}))
        (run / "1700000000.1234567").mkdir()
        (run / "1700000000.1234567" / "events.out.tfevents.1.host.1.2").write_bytes(events({"return": [(0, 99.0)]}))


def progress_tables(top: Path, cells: Written) -> None:
    for (script, env, seed), value in cells.items():
        _progress(top / script / env / f"seed_{seed}" / "logs", value)


def monitors(top: Path, cells: Written) -> None:
    """The environment stands in the head of the files only; two environments run side by side."""
    for number, ((script, env, seed), value) in enumerate(cells.items()):
        folder = top / str(number) / f"{script}_{seed}"
        folder.mkdir(parents=True)
        head = json.dumps({"t_start": 1.7e9, "env_id": env})
        for place in (0, 1):
            rows = "".join(f"{value},10,{step + place / 2}\n" for step in range(3))
            (folder / f"{place}.monitor.csv").write_text(f"#{head}\nr,l,t\n{rows}")


def programs(top: Path, cells: Written) -> None:
    for (script, env, seed), value in cells.items():
        write_run(
            top,
            f"{script}/{env}/v1/seed_{seed}",
            experiment=script,
            env_id=env,
            seed=seed,
            tags=[script],
            curves={METRIC: [(step, value) for step in range(5)]},
        )


def submissions(top: Path, cells: Written) -> None:
    for (script, env, seed), value in cells.items():
        folder = made_bundles.write_train(top / script / env / f"seed_{seed}", seed, task=env, name=script)
        for log in (folder / "artifacts").iterdir():
            log.unlink()
        _events(folder / "artifacts", value)
        made_bundles.seal(folder)


def imported(top: Path, *paths: Path) -> None:
    call_a2perf("rlops", "import", "--store", top, *paths, check=True)


def resumed_histories(top: Path, cells: Written) -> None:
    with tempfile.TemporaryDirectory() as logs:
        for (script, env, seed), value in cells.items():
            config = {"env": {"id": env, "max_steps": 5}, "seed": seed, "exp_name": script}
            rows = [
                {METRIC: value, "global_step": step, "_step": place, "_timestamp": 1.7e9 + 100 * piece + step}
                for piece, steps in enumerate((range(4), range(2, 5)))
                for place, step in enumerate(steps)
            ]
            folder = Path(logs) / f"{script}{env}{seed}"
            folder.mkdir()
            (folder / "history.jsonl").write_text("\n".join(map(json.dumps, rows)))
            (folder / "config.json").write_text(json.dumps(config))
        imported(top, Path(logs))


def tables_in_parts(top: Path, cells: Written) -> None:
    with tempfile.TemporaryDirectory() as logs:
        for part, steps in (("b", range(4)), ("a", range(2, 5))):
            lines = [
                f"{env},{script},{seed},{step},{value}"
                for (script, env, seed), value in cells.items()
                for step in steps
            ]
            (Path(logs) / f"{part}.csv").write_text("env_id,exp_name,seed,step,return\n" + "\n".join(lines) + "\n")
        imported(top, Path(logs))


LAYOUTS: tuple[Callable[[Path, Written], None], ...] = (
    single_file_trainers,
    resumed_event_files,
    writer_with_children,
    progress_tables,
    monitors,
    programs,
    submissions,
    resumed_histories,
    tables_in_parts,
)
STORES = (programs, resumed_histories, tables_in_parts)

CELLS = strategies.dictionaries(
    strategies.sampled_from([(script, env, seed) for script in SCRIPTS for env in ENVIRONMENTS for seed in SEEDS]),
    strategies.integers(-500, 500).map(float),
    min_size=9,
)


def written(cells: Written) -> Groups:
    groups: Groups = {}
    for (script, env, seed), value in sorted(cells.items()):
        groups.setdefault((script, env), {})[seed] = value
    return groups


@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda layout: layout.__name__)
@hypothesis.settings(max_examples=5)
@hypothesis.given(cells=CELLS)
def test_every_reader_gives_the_groups_that_were_written(layout: Callable[[Path, Written], None], cells: Written):
    with tempfile.TemporaryDirectory() as folder:
        top = Path(folder) / "runs"
        top.mkdir()
        layout(top, cells)
        expected = written(cells)
        runs = a2perf.read_runs(top)
        read: Groups = {}
        for run in runs:
            assert run.run.curve is not None
            assert run.run.curve.steps.size == len(set(run.run.curve.steps))
            assert run.seed is not None
            read.setdefault((run.name, run.task), {})[run.seed] = run.run.curve.values[-1]
        assert len(runs) == len(cells)
        assert read == expected
        scores = a2perf.score(top, cached=False)
        assert {(g.algorithm, g.task): sorted(g.seeds) for g in scores.groups} == {
            key: sorted(group) for key, group in expected.items()
        }
        medians = {(g.algorithm, g.task): g["MedianPerfDuringTraining"].value for g in scores.groups}
        assert medians == {key: pytest.approx(np.mean(list(group.values()))) for key, group in expected.items()}
        compared = {
            env: {script: sorted(expected[script, env]) for script in SCRIPTS}
            for env in ENVIRONMENTS
            if all((script, env) in expected for script in SCRIPTS)
        }
        if compared:
            record = a2perf.compare(runs, baseline="ppo", candidate="sac").record()
            assert {
                panel.name: {name: sorted(run.seed or 0 for run in cell.runs) for name, cell in panel.groups.items()}
                for panel in record.panels
            } == compared
            if layout in STORES:
                stored = a2perf.compare(top, baseline="ppo", candidate="sac", tasks=list(compared)).record()
                assert {
                    one.name: {name: sorted(run.seed or 0 for run in cell.runs) for name, cell in one.groups.items()}
                    for one in stored.panels
                } == compared


EVERY = {
    (script, env, seed): float(100 * place + seed)
    for place, (script, env) in enumerate((script, env) for script in SCRIPTS for env in ENVIRONMENTS)
    for seed in SEEDS
}


@pytest.mark.parametrize("layout", [single_file_trainers, programs], ids=lambda layout: layout.__name__)
def test_a_report_has_one_section_per_environment(layout: Callable[[Path, Written], None], tmp_path: Path):
    layout(tmp_path / "runs", EVERY)
    call_a2perf("report", tmp_path / "runs", "-o", tmp_path / "report", check=True)
    settings = json.loads((tmp_path / "report" / "report.json").read_text())["settings"]
    assert {setting["task"]: setting["seeds"] for setting in settings} == {
        env: {f"{script}/train": list(SEEDS) for script in SCRIPTS} for env in ENVIRONMENTS
    }


def test_runs_of_an_unknown_environment_are_never_averaged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    for number in SEEDS:
        _progress(tmp_path / "tb" / f"PPO_{number}", float(number))
        _progress(tmp_path / "other" / f"SAC_{number}", float(number))
    monkeypatch.chdir(tmp_path)
    said = " ".join(call_a2perf("score", "tb").out.split())
    for number in SEEDS:
        assert f"PPO, training: 1 run (PPO_{number}) ! unknown environment, therefore not averaged" in said
    assert "`a2perf rlops import --env-id ENV`" in said
    assert "3 runs, 3 groups" in said
    with pytest.raises(UserError, match="unknown environment") as caught:
        a2perf.compare(["tb", "other"], baseline="PPO", candidate="SAC")
    assert "--env-id ENV" in (caught.value.hint or "")
    imported(tmp_path / "store", *(tmp_path / "tb").iterdir(), Path("--env-id"), Path("CartPole-v1"))
    (group,) = a2perf.score(tmp_path / "store").groups
    assert (group.algorithm, group.task, group.seeds) == ("PPO", "CartPole-v1", (1, 2, 3))


def test_environments_with_other_arguments_are_other_environments(tmp_path: Path):
    for difficulty in (1, 2):
        for script in SCRIPTS:
            for seed in SEEDS:
                made_bundles.write_train(
                    tmp_path / script / str(difficulty) / str(seed),
                    seed,
                    task="level",
                    name=script,
                    env_kwargs={"difficulty": difficulty},
                )
    scores = a2perf.score(tmp_path)
    assert len(scores.groups) == 4
    assert all(group.seeds == SEEDS for group in scores.groups)
    assert '({"difficulty": 2})' in str(scores)
    compared = a2perf.compare(tmp_path, baseline="ppo", candidate="sac", tasks="level").record()
    assert {(panel.name, *(cell.n for cell in panel.groups.values())) for panel in compared.panels} == {
        ('level {"difficulty": 1}', 3, 3),
        ('level {"difficulty": 2}', 3, 3),
    }


def test_a_log_beside_the_bundle_that_holds_its_copy_is_one_run(tmp_path: Path):
    cells = {("ppo", "CartPole-v1", seed): float(seed) for seed in SEEDS}
    programs(tmp_path, cells)
    for seed in SEEDS:  # as a script that logs into the folder of the store
        (copy,) = (tmp_path / f"ppo/CartPole-v1/v1/seed_{seed}").rglob("events.out.tfevents.*")
        own = tmp_path / f"CartPole-v1__ppo__{seed}__1" / copy.name
        own.parent.mkdir()
        own.write_bytes(copy.read_bytes())
    (group,) = a2perf.score(tmp_path).groups
    assert group.seeds == SEEDS
    assert group.version


def test_a_failed_program_has_its_state_costs_and_names(tmp_path: Path):
    write_run(tmp_path, "ppo/Acrobot-v1/v1/seed_4", env_id="Acrobot-v1", seed=4, state=RunState.FAILED)
    made_bundles.write_json(
        tmp_path / "ppo/Acrobot-v1/v1/seed_4/command/metrics/tracking.json", {"rss_peak_bytes": 2**28}
    )
    run = a2perf.read_run(tmp_path)
    assert (run.name, run.task, run.seed, run.state) == ("ppo", "Acrobot-v1", 4, "failed")
    assert run.run.modes() == ["train"]
    assert run.run.tracking.rss_peak_bytes == 2**28
    (group,) = a2perf.score(tmp_path).groups
    assert group["memory_rss_peak"].value == 2**28
    assert "1 of 1 run(s) did not finish; what they had measured is scored" in group.conditions


def test_other_arguments_of_a_script_are_another_algorithm(tmp_path: Path):
    for seed, rate in ((1, "0.1"), (2, "0.1"), (3, "0.2")):
        path = write_run(tmp_path, f"ppo/E-v1/{rate}/seed_{seed}", env_id="E-v1", seed=seed) / "command"
        command = shlex.split(f"python ppo.py --rate {rate} --env-id E-v1 --seed {seed}")
        made_bundles.seal(path, command=command)
    assert sorted(group.seeds for group in a2perf.score(tmp_path).groups) == [(1, 2), (3,)]
