"""A training run that is killed and continues, and one that finds another's artifacts in its folder."""

from __future__ import annotations

import os
import pickle
import random
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import gymnasium
import numpy as np
import pytest

from a2perf.errors import ConfigError, UserError
from a2perf_baselines import learning
from tests.event_logs import event_files_below, read_event_file


@dataclass(frozen=True)
class Settings:
    total_steps: int = learning.may_change(60)
    rate: float = 0.5
    layers: tuple[int, ...] = (8, 8)


WALK = textwrap.dedent(
    """
    from dataclasses import dataclass
    from pathlib import Path
    import numpy as np
    from a2perf_baselines import learning

    @dataclass(frozen=True)
    class Settings:
        total_steps: int = learning.may_change(60)
        rate: float = 0.5

    def train(**given):
        settings = learning.read_settings(Settings, given, Path("."))
        with learning.begin(settings) as run:
            rng, place, step = np.random.default_rng(run.seed), np.zeros(2), 0
            if (found := run.latest()) is not None:
                learning.restore_rng(rng, found.state["rng"])
                place, step = found.state["place"], found.step
                assert (found.path / "place.txt").read_text() == str(place.tolist())
            while step < run.total_steps:
                place = place + settings.rate * rng.standard_normal(2)
                step += 1
                run.average_return(float(place.sum()), step)
                if step % 20 == 0:
                    write = lambda folder: (folder / "place.txt").write_text(str(place.tolist()))
                    run.save(step, write, {"rng": learning.rng_state(rng), "place": place})

    if __name__ == "__main__":
        learning.main(train)
    """
)


def walk(script: Path, output: Path, *given: str, fault_once: Path | None = None) -> subprocess.CompletedProcess[str]:
    script.write_text(WALK)
    environment = dict(os.environ)
    if fault_once is not None:
        environment |= {"A2PERF_FAULT_POINT": "training checkpoint", "A2PERF_FAULT_ONCE": str(fault_once)}
    command = [sys.executable, str(script), "--env-id", "CartPole-v1", "--output", str(output), "--seed", "3", *given]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, cwd=script.parent)


def curve(folder: Path) -> list[tuple[int, float]]:
    files = [read_event_file(path).scalars["Metrics/AverageReturn"] for path in event_files_below(folder)]
    return sorted(
        (int(step), float(value)) for file in files for step, value in zip(file.steps, file.values, strict=True)
    )


def test_a_killed_training_goes_on_as_if_nothing_had_happened(tmp_path: Path) -> None:
    whole = walk(tmp_path / "walk.py", tmp_path / "whole")
    assert whole.returncode == 0, whole.stderr
    # killed while its first checkpoint is being written: nothing is left but the curve, which begins again
    killed = walk(tmp_path / "walk.py", tmp_path / "killed", fault_once=tmp_path / "once")
    assert killed.returncode == -signal.SIGKILL
    assert not list((tmp_path / "killed" / "resume").glob("step_*"))
    # trained up to a checkpoint, then on
    walk(tmp_path / "walk.py", tmp_path / "killed", "total_steps=40")
    killed = walk(tmp_path / "walk.py", tmp_path / "killed", "total_steps=55")
    assert len(curve(tmp_path / "killed")) == 55
    resumed = walk(tmp_path / "walk.py", tmp_path / "killed")
    assert "continuing after 40 steps" in resumed.stdout
    assert curve(tmp_path / "killed") == curve(tmp_path / "whole")
    assert [step for step, _ in curve(tmp_path / "whole")] == list(range(1, 61))


def test_a_resume_with_another_configuration_names_every_difference(tmp_path: Path) -> None:
    walk(tmp_path / "walk.py", tmp_path / "run", "total_steps=20")
    done = walk(tmp_path / "walk.py", tmp_path / "run", "rate=0.25", "--seed", "4", "--env-kwargs", '{"sutton": true}')
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    for words in ("settings.rate was 0.5 and is 0.25", "seed was 3 and is 4", "env_kwargs.sutton was (missing)"):
        assert words in done.stderr


def test_other_spaces_are_refused_part_by_part(a_run: Callable[..., Path]) -> None:
    a_run()
    action = gymnasium.spaces.Discrete(3)
    with learning.begin(Settings()) as run:
        run.require_spaces(gymnasium.spaces.Box(0, 1, (3,)), action)
    with learning.begin(Settings()) as run:
        run.require_spaces(gymnasium.spaces.Box(0, 1, (3,)), action)
        with pytest.raises(UserError, match=r'observation was "float32\[3\]" and is "float32\[4\]"'):
            run.require_spaces(gymnasium.spaces.Box(0, 1, (4,)), action)


def test_a_damaged_checkpoint_is_passed_over(a_run: Callable[..., Path], capsys: pytest.CaptureFixture[str]) -> None:
    folder = a_run()
    with learning.begin(Settings()) as run:
        for step in (10, 20, 30):
            run.save(step, lambda path: (path / "weights.bin").write_bytes(b"x" * 100), {"step": step})
    assert sorted(path.name[-2:] for path in (folder / "resume").iterdir()) == ["20", "30"]
    (folder / "resume" / "step_000000000030" / "weights.bin").write_bytes(b"y" * 100)
    with learning.begin(Settings(total_steps=90)) as run:
        found = run.latest()
    assert found is not None
    assert (found.step, found.state) == (20, {"step": 20})
    assert "weights.bin is damaged" in capsys.readouterr().out


def test_states_of_generators_and_arrays_survive(a_run: Callable[..., Path]) -> None:
    a_run()
    numbers, plain = np.random.default_rng(5), random.Random(5)
    arrays = {"half": np.ones((2, 0, 3), np.float16), "flags": np.array([True, False]), "huge": 2**200, "less": -5}
    with learning.begin(Settings()) as run:
        state = {"numpy": learning.rng_state(numbers), "python": learning.rng_state(plain), **arrays}
        run.save(1, None, state)
        expected = numbers.random(4).tolist(), plain.random()
        found = run.latest()
    assert found is not None
    learning.restore_rng(numbers, found.state["numpy"])
    learning.restore_rng(plain, found.state["python"])
    assert (numbers.random(4).tolist(), plain.random()) == expected
    assert (found.state["huge"], found.state["less"]) == (2**200, -5)
    for name in ("half", "flags"):
        np.testing.assert_array_equal(found.state[name], arrays[name])
        assert found.state[name].dtype == arrays[name].dtype
    with pytest.raises(UserError, match="another kind"):
        learning.restore_rng(np.random.Generator(np.random.MT19937(1)), found.state["numpy"])


def test_the_budget_of_the_protocol_is_kept(a_run: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> None:
    a_run()
    monkeypatch.setenv("A2PERF_TRAIN_STEPS", "50")
    assert learning.begin(Settings(total_steps=60)).total_steps == 50
    assert learning.begin(Settings(total_steps=40)).total_steps == 40


def test_seeds_follow_from_the_run_and_the_name(a_run: Callable[..., Path]) -> None:
    a_run(seed=1)
    run = learning.begin(Settings())
    assert run.seeds("evaluation", 3) == run.seeds("evaluation", 3)
    assert not set(run.seeds("evaluation", 3)) & set(run.seeds("actors", 3))
    assert all(0 <= seed < 2**31 for seed in run.seeds("actors", 100))


def test_a_training_outside_a_run_says_how_to_start_it() -> None:
    with pytest.raises(ConfigError, match="A2PERF_ARTIFACTS and A2PERF_ENV_ID not set"):
        learning.begin(Settings())


def test_a_replaced_folder_is_the_new_one(tmp_path: Path) -> None:
    for text in ("old", "new"):
        learning.replace(tmp_path / "policies", lambda path, text=text: (path.mkdir(), (path / text).touch()))
    assert [path.name for path in (tmp_path / "policies").iterdir()] == ["new"]
    assert [path.name for path in tmp_path.iterdir()] == ["policies"]


def test_vector_and_single_evaluations_agree() -> None:
    def act(observations: np.ndarray) -> np.ndarray:
        return (np.asarray(observations)[..., 2] > 0).astype(np.int64)

    seeds = [5, 6, 7, 8, 9]
    single = learning.evaluate(act, gymnasium.make("CartPole-v1"), seeds)
    for mode in (gymnasium.vector.AutoresetMode.DISABLED, gymnasium.vector.AutoresetMode.SAME_STEP):
        kwargs = {"autoreset_mode": mode}
        envs = gymnasium.make_vec("CartPole-v1", 2, vectorization_mode="sync", vector_kwargs=kwargs)
        np.testing.assert_array_equal(learning.evaluate_vector(act, envs, seeds), single)
    assert len(set(single)) > 1
    with pytest.raises(UserError, match="autoreset"):
        learning.evaluate_vector(act, gymnasium.make_vec("CartPole-v1", 2, vectorization_mode="sync"), seeds)


def test_maker_of_the_environment_can_be_sent_to_another_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("A2PERF_ARTIFACTS", str(tmp_path))
    monkeypatch.setenv("A2PERF_ENV_ID", "WebNavigation-Difficulty-01-v0")
    monkeypatch.setenv("A2PERF_ENV_KWARGS", '{"num_websites": 2}')
    with learning.begin(Settings()) as run:
        make = pickle.loads(pickle.dumps(run.env_maker(num_websites=1)))
    env = make()
    assert env.spec.id == "WebNavigation-Difficulty-01-v0"
    assert env.spec.kwargs["num_websites"] == 1
    env.close()
