"""Whole runs of wrapped scripts: real child processes, what they leave in the bundle, and how they fail."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
from pathlib import Path

import numpy as np
import pytest

import a2perf
from a2perf.records import FailureKind, Manifest, RunState
from a2perf.rlops.store import Store
from a2perf.runs.bundles import bundle as bundles
from a2perf.storage import read_record
from tests.commands import run_a2perf
from tests.rlops.wrap.wrapped import Scalars, scalars_below

LOGGING = """
import argparse
import random

import gymnasium as gym
import numpy as np

SEED = 0


def seed_seen_by_functions():
    return SEED


class Logger(gym.Wrapper):
    def __init__(self, env):
        super().__init__(env)
        self.num_steps, self.all_rewards, self.all_dones = 0, [], []

    def log(self, key, value):
        if key == "broken":
            raise OSError("disk")

    def step(self, action):
        result = self.env.step(action)
        self.num_steps += 1
        self.all_rewards.append(result[1])
        self.all_dones.append(result[2] or result[3])
        return result

    def _episodes_stats(self):
        return {"episode_rewards": [1.0, 2.0], "episode_lengths": [3, 5]}


class Louder(Logger):
    def log(self, key, value):
        super().log(key, value)


def main(env="FrozenLake-v1"):
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--myarg", type=int)
    print("given", arguments.parse_args().myarg, seed_seen_by_functions())
    env = Louder(gym.make(env))
    policy = np.ones((16, 4))
    for episode in range(6):
        env.reset(seed=SEED + episode)
        ended = False
        while not ended:
            _, _, terminated, truncated, _ = env.step(int(np.random.randint(4)))
            ended = terminated or truncated
        env.log("loss", random.random())
    env.log("note", "text")
    env._episodes_stats()

    def get_action(observation):
        return 2, {}
"""


def wrap(*words: str, cwd: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    return run_a2perf("wrap", *words, cwd=cwd, env={**os.environ, "A2PERF_STORE": str(cwd / "store"), **variables})


def only_bundle(folder: Path) -> Path:
    (manifest,) = folder.rglob("manifest.json")
    return manifest.parent


def scalars(bundle: Path) -> Scalars:
    return scalars_below(bundle / "artifacts")


@pytest.fixture(scope="module")
def logged(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, subprocess.CompletedProcess[str]]:
    """A run through the environment variables of the document, with an argument of the script's own."""
    folder = tmp_path_factory.mktemp("logged")
    (folder / "myscript.py").write_text(LOGGING)
    done = wrap("--myarg=1234", cwd=folder, BENCH_SCRIPT="myscript.py", BENCH_ENV="FrozenLake-v1", BENCH_SEED="42")
    return folder, done


def test_the_command_of_the_document(logged: tuple[Path, subprocess.CompletedProcess[str]]):
    folder, done = logged
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert "given 1234 42" in lines
    for line in ("Started training.", "Computing rewards.", "Saving weights.", "Computing test rewards."):
        assert f"Benchmarks: {line}" in lines
    bundle = only_bundle(folder)
    manifest = read_record(bundle / "manifest.json", Manifest)
    assert (manifest.state, manifest.root_seed, manifest.env_id) == (RunState.FINISHED, 42, "FrozenLake-v1")
    assert manifest.tracking["rss_peak_bytes"] > 1e6
    assert bundles.validate(bundle) == []
    (run,) = Store(folder / "store").runs()
    # a command that repeats the run, though the run was started through variables
    assert manifest.command[:3] == ["a2perf", "wrap", "myscript.py"]
    assert manifest.command[-2:] == ["--", "--myarg=1234"]
    assert (run.record.experiment, run.record.env_id, run.record.seed, run.record.config["myarg"]) == (
        "myscript",
        "FrozenLake-v1",
        42,
        1234,
    )


def test_every_value_is_recorded_once_at_its_step(logged: tuple[Path, subprocess.CompletedProcess[str]]):
    found = scalars(only_bundle(logged[0]))
    steps, losses = found["loss"]
    import random

    random.seed(42)
    assert losses == [np.float32(random.random()) for _ in range(6)]
    # at the step the environment had reached when it was logged
    assert steps == found["charts/episodic_return"][0] == found["episode_rewards"][0]
    assert found["10_ep_mean_reward"][1] == [1.5]
    assert found["10_ep_mean_length"][1] == [4.0]
    assert len(found["test_time_rewards"][0]) == 25
    assert found["charts/episodic_length"][1] == np.diff([0, *steps]).tolist()


def test_what_was_found_and_what_was_not_is_said(logged: tuple[Path, subprocess.CompletedProcess[str]]):
    folder, done = logged
    report = json.loads((only_bundle(folder) / "artifacts" / "wrap.json").read_text())
    assert report["seeded"] == ["SEED", "numpy", "random"]
    assert report["collected"]["weights"] == "found: policy.npz (1 array)"
    assert report["collected"]["test_episodes"].startswith("found: 25 episodes of get_action")
    assert "found: " in report["collected"]["rollout_video"]  # a video, or what is missing for one
    assert report["refused"] == {"note": 1}
    assert "Benchmarks: logger: myscript.Logger, myscript.Louder" in done.stdout
    with np.load(only_bundle(folder) / "artifacts" / "policy.npz") as saved:
        assert saved["value"].tolist() == np.ones((16, 4)).tolist()


def test_the_same_seed_gives_the_same_run_and_the_same_command_is_done(
    logged: tuple[Path, subprocess.CompletedProcess[str]], tmp_path: Path
):
    folder, _ = logged
    words = ["myscript.py", "--env", "FrozenLake-v1", "--test-episodes", "2", "--videos", "0"]
    again = wrap(*words, "--seed", "42", "--root-dir", str(tmp_path / "again"), "--", "--myarg=1", cwd=folder)
    assert again.returncode == 0, again.stderr
    other = wrap(*words, "--seed", "43", "--root-dir", str(tmp_path / "other"), cwd=folder)
    first, second = scalars(only_bundle(folder)), scalars(tmp_path / "again" / "command")
    assert first["loss"] == second["loss"]
    assert first["charts/episodic_return"] == second["charts/episodic_return"]
    assert scalars(tmp_path / "other" / "command")["loss"] != first["loss"]
    assert other.returncode == 0
    repeated = wrap(*words, "--seed", "43", "--root-dir", str(tmp_path / "other"), cwd=folder)
    assert repeated.returncode == 0
    assert "already done" in repeated.stderr


@pytest.mark.parametrize(
    ("ending", "kind", "words"),
    [
        ("raise KeyError('lost')", FailureKind.EXCEPTION, "KeyError: 'lost'"),
        ("raise SystemExit(4)", FailureKind.EXIT, "status 4"),
        ("import os; os._exit(0)", FailureKind.EXIT, "status 0 before it answered"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", FailureKind.SIGNAL, "SIGSEGV"),
        pytest.param("import time; time.sleep(600)", FailureKind.TIMEOUT, "the limit is 20 s", marks=pytest.mark.slow),
    ],
)
def test_a_script_that_fails_keeps_what_it_had(tmp_path: Path, ending: str, kind: FailureKind, words: str):
    script = LOGGING.replace("    def get_action", f"    {ending}\n\n    def get_action")
    (tmp_path / "failing.py").write_text(script)
    limit = ["--run-time-limit-s", "20"] if kind is FailureKind.TIMEOUT else []
    done = wrap("failing.py", "--env", "FrozenLake-v1", "--seed", "1", *limit, cwd=tmp_path)
    assert done.returncode == 1
    bundle = only_bundle(tmp_path)
    manifest = read_record(bundle / "manifest.json", Manifest)
    assert manifest.failure is not None
    assert (manifest.state, manifest.failure.kind) == (RunState.FAILED, kind)
    assert words in manifest.failure.message
    assert len(scalars(bundle)["loss"][0]) == len(scalars(bundle)["charts/episodic_return"][0]) == 6
    if kind is FailureKind.EXCEPTION:
        assert 'failing.py", line' in (manifest.failure.traceback or "")
        assert "child.py" not in (manifest.failure.traceback or "")


SCRIPTS = {
    "good": "def main(env): pass\n",
    "bad": "def main(env\n",
    "other": "def train(): pass\n",
    "guarded": "import x\nif __name__ == '__main__':\n    x.run()\n",
    "renamed": "def main(name='X'): pass\n",
    "steps": "def main(env, steps): pass\n",
}
GIVEN = ["--env", "FrozenLake-v1", "--seed", "1"]


@pytest.mark.parametrize(
    ("words", "variables", "said"),
    [
        (GIVEN, {}, ["no script was given"]),
        (["good.py"], {}, ["missing option '--env' (env var: 'BENCH_ENV')"]),
        (["good.py", "--env", "E"], {}, ["missing option '--seed' (env var: 'BENCH_SEED')"]),
        ([], {"BENCH_SCRIPT": "good.py", "BENCH_ENV": "E", "BENCH_SEED": "many"}, ["BENCH_SEED", "'many' is not"]),
        (["none.py", *GIVEN], {}, ["none.py does not exist"]),
        ([".", *GIVEN], {}, [". is a folder"]),
        (["bad.py", *GIVEN], {}, ["bad.py:1: "]),
        (["other.py", *GIVEN], {}, ["it defines train"]),
        (["good.py", *GIVEN, "--sandbox", "proces"], {}, ["did you mean 'process'"]),
        (["guarded.py", *GIVEN], {}, ["under `if __name__` in line 2", "a2perf benchmark"]),
        (["renamed.py", *GIVEN], {}, ["does not take `env` by name", "rename its parameter `name` to `env`"]),
        (["steps.py", *GIVEN], {}, ["requires steps", "give every parameter except `env` a default"]),
    ],
)
def test_a_refusal_names_the_smallest_change_and_nothing_is_made(
    tmp_path: Path, words: list[str], variables: dict[str, str], said: list[str]
):
    for name, text in SCRIPTS.items():
        (tmp_path / f"{name}.py").write_text(text)
    done = wrap(*words, cwd=tmp_path, **variables)
    assert done.returncode == 2
    assert all(words in done.stderr for words in said), done.stderr
    assert "Traceback" not in done.stderr
    assert not list(tmp_path.rglob("manifest.json"))


@pytest.mark.group("wandb")
def test_values_are_mirrored_to_weights_and_biases_offline(tmp_path: Path):
    (tmp_path / "myscript.py").write_text(LOGGING)
    words = ["myscript.py", "--env", "FrozenLake-v1", "--seed", "3", "--test-episodes", "1", "--videos", "0"]
    done = wrap(*words, "--wandb-project-name", "p", "--wandb-entity", "e", cwd=tmp_path, WANDB_MODE="offline")
    assert done.returncode == 0, done.stderr
    (log,) = tmp_path.rglob("run-*.wandb")
    assert b"charts/episodic_return" in log.read_bytes()


@pytest.mark.skipif(importlib.util.find_spec("wandb") is not None, reason="wandb is installed")
def test_a_missing_mirror_is_a_note_and_no_failure(tmp_path: Path):
    (tmp_path / "script.py").write_text("def main(env):\n    policy = {'a': 1.0, 'b': 2.0}\n")
    done = wrap("script.py", "--env", "E", "--seed", "3", "--wandb-project-name", "p", cwd=tmp_path)
    assert done.returncode == 0
    assert "not mirrored to Weights & Biases: MissingDependency" in done.stdout
    with np.load(only_bundle(tmp_path) / "artifacts" / "policy.npz") as saved:
        assert {name: float(saved[name]) for name in saved} == {"a": 1.0, "b": 2.0}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("def main(env, /):\n    print('got', env)\n", "got FrozenLake-v1"),
        ("def main(env):\n    print('got', env)\n    raise SystemExit(0)\n", "got FrozenLake-v1"),
        (
            "import click\n\n@click.command()\n@click.option('--env')\n@click.option('--lr', type=float, default=1.0)\n"
            "def main(env, lr):\n    print('got', env, lr)\n    policy = {'a': lr}\n",
            "got FrozenLake-v1 0.5",
        ),
        ("import click\n\n@click.command()\n@click.argument('env')\ndef main(env):\n    print('got', env)\n", "got Fr"),
    ],
)
def test_ways_to_take_the_environment(tmp_path: Path, text: str, said: str):
    (tmp_path / "script.py").write_text(text)
    own = ["--", "--lr", "0.5"] if "--lr" in text else []
    done = wrap("script.py", "--env", "FrozenLake-v1", "--seed", "1", "--videos", "0", *own, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert said in done.stdout
    if own:
        assert "weights: found: policy.npz" in done.stdout


def test_a_main_that_leaves_its_work_to_a_thread_has_failed(tmp_path: Path):
    (tmp_path / "script.py").write_text("import threading\n\ndef main(env):\n    return threading.Thread()\n")
    done = wrap("script.py", "--env", "FrozenLake-v1", "--seed", "1", cwd=tmp_path)
    assert done.returncode == 1
    assert "main() returned a Thread, its work is not done" in done.stdout + done.stderr


@pytest.mark.parametrize(
    ("state", "saved"),
    [
        (
            "{'w': np.ones((2, 3)), 'layers': [{'b': np.zeros(2)}], 'step': 7}",
            {"w": 6.0, "layers.0.b": 0.0, "step": 7.0},
        ),
        ("{'w': np.ones(2), 'activation': object()}", None),
    ],
)
def test_a_state_dict_without_pytorch_is_saved_or_its_loss_is_said(
    tmp_path: Path, state: str, saved: dict[str, float] | None
):
    (tmp_path / "torch.py").write_text("raise ImportError('not installed here')\n")
    (tmp_path / "script.py").write_text(
        "import numpy as np\n\nclass Model:\n    def state_dict(self):\n"
        f"        return {state}\n\ndef main(env='E'):\n    model = Model()\n"
    )
    done = wrap("script.py", "--env", "FrozenLake-v1", "--seed", "1", "--videos", "0", cwd=tmp_path)
    bundle = only_bundle(tmp_path)
    warnings = read_record(bundle / "manifest.json", Manifest).warnings
    if saved is None:
        assert done.stderr.count("warning: weights: lost: model not saved (OutputLost: its state_dict holds more") == 1
        assert any(text.startswith("weights: lost: model") for text in warnings)
        return
    with np.load(bundle / "artifacts" / "model.npz") as found:
        assert {name: float(found[name].sum()) for name in found} == saved
    assert not any("weights" in text for text in warnings)


OWN_LOGS = """
import os
from pathlib import Path

import gymnasium as gym

SEED = 0


def main(env="FrozenLake-v1"):
    folder = Path("runs") / f"{env}__own__{SEED}__1700000000"
    folder.mkdir(parents=True)
    (folder / "progress.csv").write_text("time/total_timesteps,rollout/ep_rew_mean\\n10,0.5\\n20,0.75\\n")
    world = gym.make(env)
    world.reset(seed=SEED)
    ended = False
    while not ended:
        _, _, terminated, truncated, _ = world.step(0)
        ended = terminated or truncated
    if SEED == 8:
        raise RuntimeError("boom")

    def get_action(observation):
        return 2
"""


def test_readers_count_a_wrapped_script_once_with_its_state_costs_and_test_episodes(tmp_path: Path):
    (tmp_path / "own.py").write_text(OWN_LOGS)
    for seed in (7, 8):
        words = ["own.py", "--env", "FrozenLake-v1", "--seed", str(seed), "--test-episodes=3", "--videos=0"]
        done = wrap(*words, cwd=tmp_path, A2PERF_STORE="runs")
        assert done.returncode == int(seed == 8), done.stderr
    assert len(list((tmp_path / "runs").rglob("progress.csv"))) == 2  # where the script wrote them
    finished, failed = sorted(a2perf.read_runs(tmp_path), key=lambda run: run.seed or 0)
    for run, seed, state in ((finished, 7, "finished"), (failed, 8, "failed")):
        assert (run.name, run.task, run.seed, run.state) == ("own", "FrozenLake-v1", seed, state)
        assert run.run.tracking.rss_peak_bytes > 1 << 20
        assert run.run.wall_clock_s is not None
        assert run.curve is not None
        assert run.run.identity.version
    assert finished.run.returns["inference"]["FrozenLake-v1"].shape == (3,)
    groups = {(group.mode, group.seeds) for group in a2perf.score(tmp_path).groups}
    assert groups == {("train", (7, 8)), ("inference", (7,))}
