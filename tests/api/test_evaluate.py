"""A run from Python gives the bundle and the numbers of the command, and the same call never runs twice."""

from __future__ import annotations

import json
import re
import tempfile
import threading
from pathlib import Path
from typing import Any

import pytest

import a2perf
from a2perf.errors import ConfigError, RunFailed
from a2perf.submission.run_options import OPTIONS
from tests.api.evaluate_runs import BINDINGS, TASK, command, evaluate, write_submission

_TIMES = ("timings_s", "attempts", "files", "checksum", "command", "python_env", "warnings")
"""Fields of a manifest that hold times, process ids, hashes of files with times, paths, or how busy the host was."""

_SIZES = ("tracking", "inventory")
"""Fields with measurements by name, and sizes of files that hold times."""


def first(observation: Any) -> int:
    return 0


def _same_but_for_times(one: Path, other: Path) -> None:
    manifests = [json.loads((path / "manifest.json").read_text()) for path in (one, other)]
    assert manifests[0].keys() == manifests[1].keys()
    for name in manifests[0].keys() - {*_TIMES, *_SIZES}:
        assert manifests[0][name] == manifests[1][name], name
    for name in _SIZES:
        assert manifests[0][name].keys() == manifests[1][name].keys(), name
    assert manifests[0]["files"].keys() == manifests[1]["files"].keys()
    assert (one / "operative_config.gin").read_text() == (other / "operative_config.gin").read_text()
    rollouts = [json.loads((path / "metrics" / "rollouts.json").read_text())["episodes"] for path in (one, other)]
    kept = [
        [{k: v for k, v in episode.items() if not k.endswith(("_s", "_ns"))} for episode in run] for run in rollouts
    ]
    assert kept[0] == kept[1]


def test_a_function_gives_the_bundle_of_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "temporary").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "temporary"))
    monkeypatch.setattr(tempfile, "tempdir", None)
    result = evaluate(first, tmp_path / "python")
    assert (result.name, result.task, result.mode, result.seed, result.state) == (
        "first",
        TASK,
        "inference",
        0,
        "finished",
    )
    assert len(result.returns) == 2
    assert result.bundle == tmp_path / "python" / "inference"
    (folder,) = tmp_path.glob("python/submission-*/first")
    assert sorted(path.name for path in folder.iterdir()) == [
        "__init__.py",
        "a2perf.toml",
        "inference.py",
        "policy.pkl",
        "requirements.txt",
        "train.py",
    ]
    assert not list((tmp_path / "temporary").iterdir())

    episodes = ("--gin-bindings", "Submission.num_inference_episodes = 2", "--seed", "0", "--domain", "web_navigation")
    done = command(folder, tmp_path / "command", *episodes)
    assert done.returncode == 0, done.stderr
    _same_but_for_times(result.bundle, tmp_path / "command" / "inference")
    assert a2perf.read_run(tmp_path / "command" / "inference").returns.tolist() == result.returns.tolist()


def test_the_same_policy_is_recorded_once_and_another_one_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)

    def policy(action: int) -> Any:
        return lambda observation: action

    one = evaluate(policy(0), None, name="fixed", progress=True)
    shown = capsys.readouterr().err
    assert "rollouts on difficulty_level_1_num_websites_1: 0/2\n2 episodes, mean return -13.75" in shown
    again = evaluate(policy(0), None, name="fixed", progress=True)
    assert "is already finished (finished); force=True runs it again" in capsys.readouterr().err
    assert (again.bundle, again.run.manifest.attempts) == (one.bundle, one.run.manifest.attempts)
    other = evaluate(policy(1), None, name="fixed")
    assert other.bundle != one.bundle
    assert {path.name.rpartition("-")[0] for path in (tmp_path / "runs").iterdir()} == {"fixed"}
    assert one.bundle.parts[-4:] == (one.bundle.parts[-4], TASK, "seed_0", "inference")
    assert capsys.readouterr() == ("", "")


def test_runs_of_several_seeds_are_those_of_single_calls(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runs = evaluate(first, tmp_path / "many", seeds=range(3, 6))
    assert isinstance(runs, a2perf.Runs)
    assert [run.bundle for run in runs] == [tmp_path / "many" / f"seed_{seed}" / "inference" for seed in (3, 4, 5)]
    assert [run.seed for run in runs] == [3, 4, 5]
    (folder,) = tmp_path.glob("many/submission-*/first")
    _same_but_for_times(runs[2].bundle, evaluate(folder, tmp_path / "one", seed=5).bundle)  # it was forked
    attempts = [run.run.manifest.attempts for run in runs]
    again = evaluate(first, tmp_path / "many", seeds=iter((5, 4, 3)), progress=True)
    assert [run.run.manifest.attempts for run in again] == attempts[::-1]
    assert capsys.readouterr().err.count("is already finished") == 3


def test_a_seed_that_fails_leaves_the_others(tmp_path: Path) -> None:
    folder = write_submission(
        tmp_path / "mine",
        inference="""
        import os

        def load_policy(env):
            assert int(os.environ["SEED"]) >= 0
            if "seed_2" in os.environ["A2PERF_ARTIFACTS"] + os.environ["ROOT_DIR"]:
                raise RuntimeError("not this one")
            return 0

        def preprocess_observation(observation):
            return observation

        def infer_once(policy, observation):
            return policy
    """,
    )
    with pytest.raises(RunFailed, match="not this one") as failed:
        evaluate(folder, tmp_path / "runs", seeds=range(4))
    assert failed.value.bundle == tmp_path / "runs" / "seed_2" / "inference"
    assert [run.state for run in a2perf.read_runs(tmp_path / "runs")] == ["finished", "finished", "failed"]


def test_a_folder_is_trained_and_evaluated_at_one_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    folder = write_submission(tmp_path / "mine")
    options: dict[str, Any] = {"bindings": BINDINGS, "progress": False, "sandbox": "process"}
    trained = a2perf.train(folder, TASK, participant_args={"steps": 7}, **options)
    assert trained.bundle == tmp_path / "runs" / "mine" / TASK / "seed_0" / "train"
    assert (trained.bundle / "artifacts" / "weights.txt").read_text() == "7"
    result = a2perf.evaluate("mine", TASK, episodes=1, participant_args={"action": 1}, **options)
    assert result.bundle == trained.bundle.with_name("inference")
    assert result.run.manifest.participant_args == {"action": "1"}


def test_threads_evaluate_at_the_same_time(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    results: dict[int, a2perf.Result] = {}

    def run(seed: int) -> None:
        results[seed] = evaluate(first, tmp_path / str(seed), seed=seed, episodes=1, progress=None)

    threads = [threading.Thread(target=run, args=(seed,)) for seed in (1, 2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(300)
    assert {seed: result.seed for seed, result in results.items()} == {1: 1, 2: 2}
    assert f"{TASK}, seed 2: 1 episodes" in capsys.readouterr().err


def test_the_typed_options_are_those_of_every_run() -> None:
    from typing import get_type_hints

    from a2perf.api.arguments import RunSettings

    hints = get_type_hints(RunSettings)
    assert list(hints) == list(OPTIONS)
    documented = RunSettings.__doc__ or ""
    for name, option in OPTIONS.items():
        assert f"{name}:" in documented, name
        assert option.kind.partition("[")[0].removesuffix(" | None") in str(hints[name]), name
        assert ("None" in option.kind) == ("None" in str(hints[name])), name


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"sandbx": "none"}, "evaluate has no option 'sandbx'; did you mean 'sandbox'?"),
        ({"memory_limit_bytes": "2G"}, "memory_limit_bytes = '2G' is not valid"),
        ({"sandbox": 3}, "sandbox = 3 is not valid"),
        ({"sandbox": "bubble"}, "bubble"),
        ({"episodes": 0}, "episodes=0 is not valid"),
        ({"episodes": 2.5}, "episodes=2.5 is not valid"),
        ({"seed": -1}, "seed=-1 is not valid"),
        ({"seeds": [0, -1]}, "seeds=-1 is not valid"),
        ({"seeds": [1, 1]}, "seeds=[1, 1] is not valid"),
        ({"seeds": 3}, "seeds=3 is not valid"),
        ({"participant_args": {"a": "1,2"}}, "participant_args: 'a': '1,2' is not valid"),
        ({"name": "…"}, "has no letter or digit"),
        ({"gin_config": "nothing.gin"}, "'nothing.gin' does not exist"),
        ({"bindings": ["Submission.nothing = 1"]}, "nothing"),
    ],
)
def test_a_wrong_argument_is_refused_before_the_policy_starts(tmp_path: Path, given: dict, message: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(message)):
        evaluate(first, tmp_path / "root", **given)
    assert not list(tmp_path.glob("root/inference/logs/*"))


def test_an_unknown_task_names_the_nearest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match="did you mean 'dog_pace'"):
        a2perf.evaluate(first, "dog_pase")
    with pytest.raises(ConfigError, match="that of several tasks"):
        a2perf.evaluate(first, "WebNavigation-Difficulty-01-v0")
    with pytest.raises(ConfigError, match="the submission folder nowhere does not exist"):
        a2perf.evaluate("nowhere", TASK)
    with pytest.raises(ConfigError, match="train needs the folder of a submission, not a function"):
        a2perf.train(first, TASK)  # type: ignore[arg-type]
    assert not list(tmp_path.iterdir())
