"""Any environment of Gymnasium by its id: run, scored, reproduced, and its own failures never blamed on a policy."""

from __future__ import annotations

import json
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium
import msgspec
import pytest

import a2perf
from a2perf.cli import main
from a2perf.errors import ConfigError, RunFailed
from a2perf.runs.bundles.bundle import write_manifest
from a2perf.runs.bundles.inventory import read_manifest
from tests.commands import bindings
from tests.installed_package import environment_package
from tests.metrics.made_bundles import seal

LANDER = '''
import time
import gymnasium
import numpy as np


class Lander(gymnasium.Env):
    """Falls from a height of ten; fault names what goes wrong in it."""

    observation_space = gymnasium.spaces.Dict(
        height=gymnasium.spaces.Box(-100, 100, (1,)), wind=gymnasium.spaces.Tuple([gymnasium.spaces.Discrete(3)])
    )
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, fault="", gravity=1.0):
        self.fault, self.gravity = fault, gravity

    def _observation(self):
        return {"height": np.array([self.height], np.float32), "wind": (np.int64(self.wind),)}

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.late = seed is not None and seed > 1000  # the seeds of scored episodes are large
        self.height, self.wind, self.steps = 10.0, int(self.np_random.integers(3)), 0
        return self._observation(), {}

    def step(self, action):
        self.steps += 1
        self.height -= self.gravity * (1 + self.wind) * (1 if action else 2)
        if self.fault == "raises" and self.late and self.steps == 2:
            raise RuntimeError("the engine stalled")
        if self.fault == "hangs" and self.late and self.steps == 2 or self.fault == "hangs at once":
            time.sleep(1e6)
        if self.fault == "display":
            raise gymnasium.error.DependencyNotInstalled("pygame is not installed")
        if self.fault == "stalls" and self.steps == 3:
            raise RuntimeError("no fuel")
        reward = float("nan") if self.fault == "nan" and self.late and self.steps == 2 else float(action)
        return self._observation(), reward, self.height <= 0, False, {"height": np.float64(self.height)}


gymnasium.register("Lander-v0", Lander, max_episode_steps=50)
gymnasium.register("Lander-v3", Lander, max_episode_steps=50)
gymnasium.register("Short-v0", "gymnasium.envs.classic_control.cartpole:CartPoleEnv", max_episode_steps=7)
gymnasium.register("OnlyMany-v0", vector_entry_point=Lander)
'''
FEW = ["Submission.num_inference_steps = 5", "Submission.num_warmup_steps = 0"]
PATIENCE = ["Submission.load_timeout_s = 20.0", "Submission.call_timeout_s = 5.0"]


@pytest.fixture(autouse=True)
def _package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    yield from environment_package(tmp_path, monkeypatch, "planted_envs", LANDER)


def brake(observation: Any) -> int:
    assert set(observation) == {"height", "wind"}
    return 1


def status(*words: str) -> int:
    """Runs a command in this process and returns its exit status."""
    with pytest.raises(SystemExit) as ended:
        main([*words])
    return int(ended.value.code or 0)


def evaluate(policy: Any, root: Path, env_id: str, **settings: Any) -> Any:
    how: Any = {"bindings": [*FEW, *(PATIENCE if settings.get("fault") == "hangs" else [])], "progress": False}
    return a2perf.evaluate(policy, env=env_id, env_kwargs=settings, episodes=3, root_dir=root, allow_weaker=True, **how)


def test_python_refuses_what_is_no_environment(tmp_path: Path) -> None:
    for given, text in [
        ({"env": "CartPol-v1"}, "Did you mean: `CartPole`?"),
        ({"env": "CartPole-v1", "task": "dog_pace"}, "task='dog_pace' and env='CartPole-v1'"),
        ({}, "task=None and env=None"),
        ({"env": "CartPole-v1", "env_kwargs": [1]}, "env_kwargs is not a JSON object: [1]"),
    ]:
        with pytest.raises(ConfigError, match=re.escape(text)):
            a2perf.evaluate(brake, root_dir=tmp_path / "run", **given)  # type: ignore[call-overload]
    assert not (tmp_path / "run").exists()


def test_an_id_is_evaluated_recorded_and_reproduced(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    result = evaluate(lambda observation: int(observation[2] > 0), tmp_path / "run", "CartPole-v1")
    assert len(result.returns) == 3
    assert all(8 <= value <= 500 for value in result.returns)
    manifest = json.loads((tmp_path / "run" / "inference" / "manifest.json").read_text())
    assert (manifest["domain"], manifest["task"]) == ("gymnasium", "CartPole-v1")
    assert manifest["environment"]["name"] == "gymnasium"
    assert manifest["environment"]["version"] == gymnasium.__version__
    assert len(manifest["environment"]["sha256"]) == len(manifest["env_fingerprint"]) == 64
    assert status("reproduce", str(tmp_path / "run"), "--output", str(tmp_path / "reproduced")) == 0
    assert "CONFIRMED (bit-equal)" in capsys.readouterr().out


def test_an_episode_without_a_registered_limit_is_truncated(tmp_path: Path) -> None:
    assert evaluate(lambda observation: 0, tmp_path / "run", "CliffWalking-v1").returns.tolist() == [-10_000.0] * 3


def test_an_environment_of_a_package_is_named_with_it(tmp_path: Path) -> None:
    slow = evaluate(brake, tmp_path / "slow", "planted_envs:Lander-v0", gravity=0.5)
    fast = evaluate(brake, tmp_path / "fast", "planted_envs:Lander-v0")
    assert min(slow.returns) > max(fast.returns) / 2 > 0
    played = json.loads((tmp_path / "fast" / "inference" / "metrics" / "rollouts.json").read_text())["episodes"]
    assert all(episode["final_info"]["height"] <= 0 for episode in played)
    assert evaluate(lambda o: 0, tmp_path / "short", "planted_envs:Short-v0").returns.tolist() == [7.0] * 3
    files = [tmp_path / name / "inference" / "manifest.json" for name in ("slow", "fast", "short")]
    manifests = [json.loads(file.read_text()) for file in files]
    assert [manifest["env_id"] for manifest in manifests] == ["Lander-v0", "Lander-v0", "Short-v0"]
    assert len({manifest["env_fingerprint"] for manifest in manifests}) == 3
    assert {manifest["environment"]["module"] for manifest in manifests} == {"planted_envs"}


def forget(package: str, before: dict[str, Any]) -> None:
    """Undoes the import of a package, as in a new process."""
    del sys.modules[package]
    gymnasium.registry.clear()
    gymnasium.registry.update(before)


def test_a_package_is_imported_again_only_for_a_trusted_bundle(tmp_path: Path, capsys: Any) -> None:
    before = dict(gymnasium.registry)
    # its class is Gymnasium's: only the record names the module that registers the id
    evaluate(lambda observation: 0, tmp_path / "run", "planted_envs:Short-v0")
    forget("planted_envs", before)
    words = ["reproduce", str(tmp_path / "run"), "--output", str(tmp_path / "reproduced")]
    assert status(*words, "--fail-on", "unchecked") == 1
    assert "planted_envs:Short-v0 would be imported (accept: --trust-bundle)" in capsys.readouterr().out
    assert "planted_envs" not in sys.modules
    for module in ("", "gymnasium"):  # written by hand: the id itself has the package
        forged = tmp_path / f"forged{module}"
        shutil.copytree(tmp_path / "run", forged)
        (bundle,) = (file.parent for file in forged.rglob("manifest.json"))
        manifest = read_manifest(bundle)
        manifest.env_id = "planted_envs:Short-v0"
        assert manifest.environment is not None
        manifest.environment = msgspec.structs.replace(manifest.environment, module=module)
        write_manifest(bundle, manifest)
        rollouts = bundle / "metrics" / "rollouts.json"
        rollouts.write_text(json.dumps({**json.loads(rollouts.read_text()), "env_id": "planted_envs:Short-v0"}))
        seal(bundle)
        assert status("reproduce", str(forged), "--output", f"{forged}-again", "--fail-on", "unchecked") == 1
        assert "planted_envs:Short-v0 would be imported (accept: --trust-bundle)" in capsys.readouterr().out
        assert "planted_envs" not in sys.modules
    (tmp_path / "packages" / "planted_envs.py").write_text(f"{LANDER}# changed\n")
    assert status(*words, "--trust-bundle", "--force") == 0
    said = capsys.readouterr().out
    assert "CONFIRMED (bit-equal)" in said
    assert "changed: files of the environment" in said


@pytest.mark.parametrize(
    ("fault", "text"),
    [
        ("raises", "in step 2 of the episode with seed"),
        ("nan", "the sum of the rewards is nan"),
        pytest.param("hangs", "StallError: it has not returned for 25 s", marks=pytest.mark.slow),
    ],
)
def test_a_failure_of_the_environment_is_not_the_participants(fault: str, text: str, tmp_path: Path) -> None:
    with pytest.raises(RunFailed) as caught:
        evaluate(brake, tmp_path / "run", "planted_envs:Lander-v0", fault=fault)
    assert text in str(caught.value)
    assert "the submission failed" not in str(caught.value)
    manifest = json.loads((tmp_path / "run" / "inference" / "manifest.json").read_text())
    assert (manifest["failure"]["where"], manifest["exit_reason"], manifest["exit_code"]) == (
        "environment",
        "environment",
        3,
    )


@pytest.mark.parametrize(("task", "env_id"), [("Pendulum-v1", "Pendulum-v1"), ("dog_pace", "DogPace-v0")])
def test_a_new_submission_is_of_the_task_that_was_named(task: str, env_id: str, tmp_path: Path, capsys: Any) -> None:
    assert status("init", "mine", "--task", task) == 0
    for name in ("training.gin", "inference.gin"):
        (chosen,) = re.findall(r"create_domain\.(.*)", (tmp_path / "mine" / name).read_text())
        assert chosen.endswith(f"{env_id}'")
    if task == env_id:
        assert status("check", "mine", "--sandbox", "process", "--allow-weaker") == 0
        assert "trained and stepped 20 times on Pendulum-v1" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--env-id", "CartPole-v9"], "versioned environments: `v0`, `v1`"),
        (["--env-id", "Cartpole-v1"], "Did you mean: `CartPole`"),
        (["--env-id", "ALE/Pong-v5"], "Have you installed the proper package for ALE"),
        (["--env-id", "no_such_package:Foo-v0"], "the package no_such_package cannot be imported"),
        (["--env-id", "planted_envs:OnlyMany-v0"], "only registered as a vector environment"),
        (["--env-id", "planted_envs:Lander-v1"], "Please use `Lander-v3`"),
        (["--env-id", "CartPole-v1", "--env-kwargs", '{"gravty": 1}'], "unexpected keyword argument 'gravty'"),
        (["--env-id", "CartPole-v1", "--env-kwargs", "[1]"], "--env-kwargs is not a JSON object"),
        (["--env-id", "planted_envs:Lander-v0", "--env-kwargs", '{"fault": "stalls"}'], "in step 3 of the episode"),
        (["--env-id", "planted_envs:Lander-v0", "--env-kwargs", '{"fault": "display"}'], "needs a package that is not"),
        (["--env-id", "phys2d/CartPole-v1"], "needs a package that is not installed"),
        (["--env-id", "planted_envs:Lander-v0", "--env-kwargs", '{"fault": "stalls"}'], "RuntimeError: no fuel"),
        (["--domain", "gymnasium"], "neither --gin-config nor --task was given"),
        (["--domain", "gymnasium", "--gin-config", "inference.gin"], "no environment of gymnasium was chosen"),
    ],
)
def test_what_cannot_run_is_one_sentence(words: list[str], text: str, minimal: Path, capfd: Any) -> None:
    assert status("run", "--submission", str(minimal), "--root-dir", "run", *words) == 2
    said = capfd.readouterr().err
    assert text in said
    assert "Traceback" not in said
    assert "configurable" not in said  # a note of gin, with an address
    assert len(said.splitlines()) <= 5


@pytest.mark.slow
def test_an_environment_that_hangs_before_the_run_is_named(minimal: Path, capfd: Any) -> None:
    hangs = ["--env-id", "planted_envs:Lander-v0", "--env-kwargs", '{"fault": "hangs at once"}', *bindings(*PATIENCE)]
    assert status("run", "--submission", str(minimal), "--root-dir", "run", *hangs) == 2
    assert "Lander-v0 hangs: it has not returned for 25 s" in capfd.readouterr().err


def test_a_submissions_gin_file_chooses_an_id_but_imports_nothing(minimal: Path, capfd: Any) -> None:
    (minimal / "mine.gin").write_text("create_domain.env_name = 'planted_envs:Lander-v0'\n")
    assert status("run", "--submission", str(minimal), "--gin-config", "mine.gin", "--domain", "gymnasium") == 2
    assert "'planted_envs:Lander-v0' is not a known environment" in capfd.readouterr().err
    with pytest.raises(ConfigError, match="is not a task of any domain"):
        a2perf.make("planted_envs.Lander")


def test_an_argument_that_create_domain_has_itself_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ConfigError, match="env_kwargs: env_name is an argument of create_domain"):
        a2perf.evaluate(len, env="CartPole-v1", env_kwargs={"env_name": "reach-v3"})
    words = ["run", "--submission", ".", "--env-id", "CartPole-v1", "--env-kwargs", '{"env_name": "reach-v3"}']
    assert status(*words) == 2
    assert "gymnasium.register('Own-v0', 'own_envs:make')" in capsys.readouterr().err
