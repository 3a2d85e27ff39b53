"""Actors: what they hand to the learner, in one process and in several."""

from __future__ import annotations

import signal
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

from tests.waiting import Child, until

pytestmark = [pytest.mark.group("tf_agents"), pytest.mark.slow, pytest.mark.timeout(1800)]


class Leftwards:
    """Always the same action, except every eighth one, which depends on the generator."""

    def __call__(self, observations: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, dict[str, Any]]:
        return rng.integers(0, 8, len(observations)) // 7, {"norm": np.abs(observations).sum(axis=1)}


def make_env() -> gymnasium.Env[Any, Any]:
    return gymnasium.make("CartPole-v1")


@pytest.fixture
def collection() -> Any:
    from a2perf_baselines.learning.tf_agents import collection

    return collection


@pytest.mark.parametrize("count", [1, 2])
def test_rows_are_the_stream_of_transitions(collection: Any, count: int) -> None:
    with collection.Actors(make_env, count, seed=3, members=2) as actors:
        actors.restart(5)
        rollout = actors.collect(Leftwards(), 60)
        assert rollout.reward.shape == (60, 2 * count)
        assert rollout.observation.shape == (60, 2 * count, 4)
        boundary = rollout.step_type == collection.LAST
        assert boundary.any()
        # the row after an end is a boundary without a step, and the one after that begins an episode
        ends = rollout.next_step_type[:-1] == collection.LAST
        np.testing.assert_array_equal(boundary[1:], ends)
        np.testing.assert_array_equal(rollout.step_type[1:][boundary[:-1]], collection.FIRST)
        assert (rollout.reward[boundary] == 0.0).all()
        assert (rollout.discount[rollout.next_step_type == collection.LAST] == 0.0).all()
        assert rollout.env_steps == np.count_nonzero(~boundary) == rollout.reward.sum()
        np.testing.assert_allclose(rollout.extras["norm"], np.abs(rollout.observation).sum(axis=-1), rtol=1e-6)
        # a member's first episode counts in full, whatever came after it
        firsts = [int(np.flatnonzero(boundary[:, member])[0]) for member in range(2 * count)]
        np.testing.assert_array_equal(rollout.first_returns(), firsts)
        assert len(set(map(tuple, rollout.observation[0]))) == 2 * count
        actors.restart(5)
        again = actors.collect(Leftwards(), 60)
        np.testing.assert_array_equal(again.observation, rollout.observation)
        np.testing.assert_array_equal(again.action, rollout.action)
        actors.restart(6)
        assert not np.array_equal(actors.collect(Leftwards(), 60).observation, rollout.observation)


def test_a_rollout_is_a_trajectory_of_tf_agents(collection: Any) -> None:
    with collection.Actors(make_env, 1, seed=0, members=3) as actors:
        rollout = actors.collect(Leftwards(), 40)
        whole = rollout.trajectory({"norm": rollout.extras["norm"]})
    assert whole.observation.shape == (3, 40, 4)
    np.testing.assert_array_equal(whole.reward.numpy().T, rollout.reward)
    np.testing.assert_array_equal(whole.is_boundary().numpy().T, rollout.step_type == collection.LAST)
    np.testing.assert_array_equal(whole.policy_info["norm"].numpy().T, rollout.extras["norm"])


def test_actors_end_with_a_learner_that_is_killed(tmp_path: Path) -> None:
    script = tmp_path / "learner.py"
    script.write_text(
        textwrap.dedent(
            """
            import gymnasium, multiprocessing, time
            from a2perf_baselines.learning.tf_agents.collection import Actors

            with Actors(lambda: gymnasium.make("CartPole-v1"), 2, 0) as actors:
                print(*(child.pid for child in multiprocessing.active_children()), flush=True)
                time.sleep(600)
            """
        )
    )
    learner = Child([sys.executable, str(script)], stdout=subprocess.PIPE, text=True)
    assert learner.stdout is not None
    pids = [int(word) for word in learner.stdout.readline().split()]
    assert len(pids) == 2
    learner.send_signal(signal.SIGKILL)
    learner.wait(300)
    until(lambda: not any(_alive(pid) for pid in pids))


def _alive(pid: int) -> bool:
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except FileNotFoundError:
        return False


def test_networks_in_numpy_compute_what_keras_computes() -> None:
    from a2perf_baselines.learning.tf_agents.frameworks import tf
    from a2perf_baselines.learning.tf_agents.networks import Affine, NumpyNetwork

    rng = np.random.default_rng(0)
    layers = [
        Affine(limit=2.0),
        tf.keras.layers.Dense(7, "tanh"),
        tf.keras.layers.Dense(3, "relu"),
        Affine(inverse=True),
    ]
    inputs = rng.normal(0, 5, (11, 4)).astype(np.float32)
    model = tf.keras.Sequential(layers)
    model(inputs)
    layers[0].set_moments(np.arange(4), np.arange(1, 5))
    layers[-1].set_moments([1, 2, 3], [0.1, 10, 100])
    np.testing.assert_allclose(NumpyNetwork.of(layers)(inputs), model(inputs).numpy(), rtol=1e-5, atol=1e-6)
    with pytest.raises(TypeError, match="Dropout"):
        NumpyNetwork.of([tf.keras.layers.Dropout(0.5)])


def test_a_checkpoint_of_other_networks_is_refused(tmp_path: Path) -> None:
    from a2perf.errors import UserError
    from a2perf_baselines.learning.tf_agents import checkpoint
    from a2perf_baselines.learning.tf_agents.frameworks import tf

    def network(width: int) -> Any:
        layer = tf.keras.layers.Dense(width)
        layer(np.zeros((1, 2), np.float32))
        return layer

    saved = network(3)
    checkpoint.write(tmp_path, network=saved)
    same = network(3)
    checkpoint.read(tmp_path, network=same)
    np.testing.assert_array_equal(same.kernel.numpy(), saved.kernel.numpy())
    with pytest.raises(UserError, match="not of these networks"):
        checkpoint.read(tmp_path, network=network(4))
    with pytest.raises(UserError, match="not of these networks"):
        checkpoint.read(tmp_path, critic=network(3))


def test_a_missing_framework_says_how_to_install_it() -> None:
    program = (
        "import sys; sys.modules['tf_agents'] = None\n"
        "from a2perf.errors import MissingDependency\n"
        "try:\n    import a2perf_baselines.learning.tf_agents.collection\n"
        "except MissingDependency as error:\n    print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert "pip install" in done.stdout
    assert "tf-agents==0.19.0" in done.stdout
