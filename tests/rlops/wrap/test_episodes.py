"""Which episodes of a script are its training: every way to make environments, in one process and in several."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest

from tests.rlops.wrap.wrapped import Wrapped, wrap_text

PLAY = """
import gymnasium as gym
import numpy as np


def play(world, episodes, action=0):
    returns = []
    for _ in range(episodes):
        world.reset(seed=1)
        total, ended = 0.0, False
        while not ended:
            result = world.step(action)
            total += float(result[1])
            ended = any(result[2:-1])
        returns.append(total)
    return returns


class Countdown(gym.Env):
    "Ends after `length` steps, each worth `reward`."

    observation_space = gym.spaces.Box(-1.0, 1.0, (1,))
    action_space = gym.spaces.Discrete(2)

    def __init__(self, length=10, reward=1.0):
        self.length, self.reward = length, reward

    def reset(self, *, seed=None, options=None):
        self.left = self.length
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self.left -= 1
        return np.zeros(1, np.float32), self.reward, self.left == 0, False, {}


def make(length=10, reward=1.0):
    return Countdown(length, reward)
"""


def curve(done: Wrapped, tag: str = "charts/episodic_return") -> tuple[list[int], list[float]]:
    assert done.status == 0, done.err
    assert done.scalars, done.out
    return done.scalars[tag]


TWO = {
    "named env and eval_env": (
        "    env = Countdown(10)\n    eval_env = Countdown(99)\n"
        "    for _ in range(4):\n        play(env, 1)\n        play(eval_env, 2)\n",
        "its line names it",
    ),
    "other names, the training takes more steps": (
        "    a = Countdown(10)\n    b = Countdown(3)\n    for _ in range(4):\n        play(b, 1)\n        play(a, 1)\n",
        "it took the most steps",
    ),
    "an evaluation of the beginner comes first": (
        "    def evaluate():\n        play(Countdown(99), 3)\n    evaluate()\n    world = Countdown(10)\n"
        "    for _ in range(4):\n        play(world, 1)\n        evaluate()\n",
        "the lines of the others name evaluation",
    ),
    "one helper makes both": (
        "    train, test = make(10), make(99)\n    for _ in range(4):\n        play(train, 1)\n        play(test, 1)\n",
        "its line names it",
    ),
    "one line makes both": (
        "    first, second = [make(length) for length in (10, 3)]\n"
        "    for _ in range(4):\n        play(first, 1)\n        play(second, 2)\n",
        "it took the most steps",
    ),
    "the same name later": (
        "    env = Countdown(10)\n    play(env, 4)\n    env = Countdown(3)\n    play(env, 2)\n",
        "it took the most steps",
    ),
}


@pytest.mark.parametrize("case", TWO)
def test_an_environment_for_evaluation_is_no_part_of_the_curve(tmp_path: Path, case: str):
    body, reason = TWO[case]
    done = wrap_text(tmp_path, f"{PLAY}\n\ndef main(env):\n{body}")
    assert curve(done) == ([10, 20, 30, 40], [10.0] * 4)
    assert f"4 of the training, in environment {'2' if 'beginner' in case else ''}" in done.said("episodes")
    assert reason in done.said("episodes")
    assert "kept apart as environments/" in done.said("episodes")
    assert (done.report["episodes"], done.report["steps"]) == (4, 40)


def test_two_environments_of_one_package_are_two_curves(tmp_path: Path):
    done = wrap_text(
        tmp_path,
        f"{PLAY}\n\ndef main(env):\n    name = env\n    env = gym.make(name)\n    second = gym.make(name)\n"
        "    print('train', play(env, 5))\n    print('other', play(second, 3, action=1))\n",
    )
    steps, returns = curve(done)
    assert str(returns) in done.out.partition("train ")[2]
    assert steps == np.cumsum(returns).tolist()
    other = done.scalars["environments/2/episodic_return"][1]
    assert str(other) in done.out.partition("other ")[2]


def test_an_environment_that_is_made_again_for_every_episode_is_one_curve(tmp_path: Path):
    body = "    for length in (5, 6, 7):\n        play(Countdown(length), 1)\n"
    assert curve(wrap_text(tmp_path, f"{PLAY}\n\ndef main(env):\n{body}")) == ([5, 11, 18], [5.0, 6.0, 7.0])


ENVIRONMENTS = {
    "a class of its own": "world = Countdown(10)",
    "a class of Gymnasium": "world = gym.wrappers.TimeLimit(Still(), 10)",
    "four values and no base class": "world = Four()",
    "four values in the file beside": "world = beside.Five()",
    "slots": "world = Slots()",
    "rewards that a wrapper changes": (
        "world = gym.wrappers.TransformReward(gym.wrappers.NormalizeReward(Countdown(10)), lambda r: -r)"
    ),
    "a time limit of the script": "world = gym.wrappers.TimeLimit(Countdown(50), 10)",
    "a plain wrapper": "world = Plain(Countdown(10))",
    "an environment inside another": "world = Composite()",
    "a class made in main": "world = type('Local', (Countdown,), {})(10)",
}
CLASSES = """
import beside


class Still(gym.Env):
    observation_space, action_space = Countdown.observation_space, Countdown.action_space

    def reset(self, **given):
        return np.zeros(1, np.float32), {}

    def step(self, action):
        return np.zeros(1, np.float32), 1.0, False, False, {}


class Four:
    def reset(self, seed=None):
        self.left = 10
        return 0

    def step(self, action):
        self.left -= 1
        return 0, 1.0, self.left == 0, {}


class Slots:
    __slots__ = ("left",)
    reset, step = Four.reset, Four.step

    def reset(self, seed=None):
        self.left = 10

    def step(self, action):
        self.left -= 1
        return 0, 1.0, self.left == 0, {}


class Plain:
    def __init__(self, env):
        self.env = env

    def reset(self, seed=None):
        return self.env.reset(seed=seed)

    def step(self, action):
        observation, reward, terminated, truncated, info = self.env.step(action)
        return observation, 100 * reward, terminated or truncated, info


class Composite(Countdown):
    def __init__(self):
        super().__init__(10)
        self.parts = [Countdown(3, 50.0), Countdown(4, 70.0)]

    def reset(self, **given):
        for part in self.parts:
            part.reset()
        return super().reset(**given)

    def step(self, action):
        for part in self.parts:
            part.step(action)
        return super().step(action)
"""
BESIDE = """
class Five:
    def reset(self, seed=None):
        self.left = 10

    def step(self, action):
        self.left -= 1
        return 0, 1.0, self.left == 0, {}
"""


@pytest.mark.parametrize("made", ENVIRONMENTS)
def test_an_environment_is_counted_however_it_is_made(tmp_path: Path, made: str):
    body = f"    {ENVIRONMENTS[made]}\n    play(world, 3)\n"
    done = wrap_text(tmp_path, f"{PLAY}{CLASSES}\n\ndef main(env):\n{body}", beside=BESIDE)
    if made == "a time limit of the script":
        body += "    world.reset()\n"
    assert curve(done) == ([10, 20, 30], [10.0] * 3), done.out
    assert done.said("episodes").count("\n") == 0, "no other environment"


VECTOR = """

def main(env):
    envs = {made}
    envs.reset(seed=1)
    totals, returns = np.zeros(envs.num_envs), []
    fresh = np.zeros(envs.num_envs, bool)
    taken = []
    for step in range(120):
        _, rewards, terminated, truncated, _ = envs.step(np.zeros(envs.num_envs, int))
        totals += np.where(fresh, 0.0, rewards)
        fresh = terminated | truncated
        returns += totals[fresh].tolist()
        totals[fresh] = 0.0
    print("returns", sorted(returns))
    envs.close()


def thunk(length, reward=1.0):
    def construct():
        return gym.wrappers.NormalizeReward(Countdown(length, reward)) if reward == 1.0 else Countdown(length, reward)
    return construct
"""
VECTORS = {
    "make_vec": "gym.make_vec(env, num_envs=3)",
    "make_vec sync": "gym.make_vec(env, num_envs=3, vectorization_mode='sync')",
    "make_vec async": "gym.make_vec(env, num_envs=3, vectorization_mode='async')",
    "AsyncVectorEnv spawned": ("gym.vector.AsyncVectorEnv([lambda: gym.make('CartPole-v1')] * 3, context='spawn')"),
    "statistics": "gym.wrappers.vector.RecordEpisodeStatistics(gym.make_vec(env, num_envs=3))",
}


@pytest.mark.parametrize("made", VECTORS)
def test_vector_environments_are_one_curve_with_the_right_steps(tmp_path: Path, made: str):
    done = wrap_text(tmp_path, PLAY + VECTOR.format(made=VECTORS[made]))
    steps, returns = curve(done)
    own = np.array(eval(done.out.partition("returns ")[2].splitlines()[0]))
    # the script's own account, episode by episode; CartPole pays one for each step
    assert sorted(returns) == pytest.approx(own)
    assert steps == sorted(steps)
    lengths = done.scalars["charts/episodic_length"][1]
    assert lengths == returns
    # three environments in step: at the end of an episode all have moved, less the steps that only reset
    assert sum(lengths) - max(lengths) <= steps[-1] <= 3 * 120
    assert all(step >= 3 * length - 3 for step, length in itertools.islice(zip(steps, lengths, strict=True), 1))
    assert done.said("episodes").count("\n") == 0


@pytest.mark.parametrize("vector", ["SyncVectorEnv", "AsyncVectorEnv"])
def test_members_are_counted_in_their_own_rewards(tmp_path: Path, vector: str):
    done = wrap_text(tmp_path, PLAY + VECTOR.format(made=f"gym.vector.{vector}([thunk(10), thunk(10)])"))
    steps, returns = curve(done)
    assert returns == [10.0] * 22  # 120 steps hold eleven episodes and ten steps that reset, twice
    assert steps[-1] == 220
    assert max(np.diff(steps)) <= 20


WORKERS = """
import multiprocessing


def work(seed, episodes):
    world = gym.make("CartPole-v1")
    return play(world, episodes)


def main(env):
    with multiprocessing.get_context("{method}").Pool(2) as pool:
        returns = sum(pool.starmap(work, [(seed, 3) for seed in range(4)]), [])
    print("returns", returns)
"""


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_workers_report_their_episodes(tmp_path: Path, method: str):
    done = wrap_text(tmp_path, PLAY + WORKERS.format(method=method))
    steps, returns = curve(done)
    own = eval(done.out.partition("returns ")[2].splitlines()[0])
    assert len(own) == 12
    assert sorted(returns) == sorted(own)
    assert steps == sorted(steps)
    assert steps[-1] == sum(own)
    assert "in worker processes" in done.said("episodes")
    assert not list((tmp_path / "run" / "command" / "artifacts").glob(".steps*"))


def test_a_seed_reaches_defaults_modules_and_workers(tmp_path: Path):
    done = wrap_text(
        tmp_path,
        "import multiprocessing\nimport random\n\nimport beside\n\nSEED = 0\nSOURCE = random.Random(SEED)\n\n\n"
        "def work(_):\n    return SEED\n\n\ndef main(env, seed=SEED):\n"
        "    context = multiprocessing.get_context('spawn')\n"
        "    with context.Pool(1) as pool:\n        print('seen', seed, SEED, SOURCE.random(), pool.map(work, [0]))\n",
        beside="SEED = 3\n",
    )
    import random

    assert done.status == 0, done.err
    assert f"seen 7 7 {random.Random(7).random()} [7]" in done.out
    assert "SEED" in done.said("seeded")
    assert "note: SEED of the module beside is not replaced" in done.said("note")


def test_a_seed_that_the_script_changes_is_said(tmp_path: Path):
    done = wrap_text(tmp_path, "SEED = 0\n\ndef main(env):\n    global SEED\n    SEED = 5\n")
    assert "SEED" not in done.said("seeded")
    assert "SEED is 5 at the end" in done.said("note")


@pytest.mark.parametrize(
    "body",
    [
        "    world = Countdown(10)\n    world.reset()\n    world.step(0)\n",
        "    pass\n",
        "    import subprocess, sys\n    subprocess.run([sys.executable, '-c', 'pass'], check=True)\n",
    ],
)
def test_nothing_to_record_is_said(tmp_path: Path, body: str):
    done = wrap_text(tmp_path, f"{PLAY}\n\ndef main(env):\n{body}")
    assert done.status == 0, done.err
    assert "no episode ended in this process or in one started with multiprocessing" in done.said("episodes")
    assert "charts/episodic_return" not in done.scalars


def test_a_step_that_cannot_be_counted_is_said_and_does_what_it_did(tmp_path: Path):
    done = wrap_text(
        tmp_path,
        f"{PLAY}\n\nclass Odd(Countdown):\n    def step(self, action):\n"
        "        return 0, {'a': 1.0}, False, False, {}\n\n\n"
        "def main(env):\n    world = Odd()\n    world.reset()\n    assert world.step(0)[1] == {'a': 1.0}\n",
    )
    assert done.status == 0, done.err
    assert "steps of Odd cannot be counted: TypeError" in done.said("note")


MODELS = """
import numpy as np


class Network:
    def __init__(self, answer):
        self.answer = answer

    def __call__(self, observation):
        return self.answer


class Keras:
    def __init__(self, answer):
        self.answer = answer

    def predict(self, observation):
        return self.answer


def main(env):
    {}
"""


@pytest.mark.parametrize(
    ("env", "left", "said"),
    [
        ("CartPole-v1", "model = Network(np.array([[0.0]]))", "not found: model returns a float64 array"),
        ("CartPole-v1", "model = Keras(np.array([[0.3]], np.float32))", "not found: model.predict returns a float32"),
        ("CartPole-v1", "policy = Network(np.array([0.2, 0.8]))", "which is not an action of Discrete(2)"),
        ("Pendulum-v1", "model = Network(np.array([[0.4]]))", "not found: model returns one number, an action or a"),
        ("Pendulum-v1", "model = Keras(np.array([[0.4]]))", "not found: model.predict returns one number, an action"),
        ("Pendulum-v1", "model = Keras((np.array([[0.4]]), None))", "found: 2 episodes of model.predict"),
        ("Pendulum-v1", "policy = Network(np.array([0.4]))", "found: 2 episodes of policy"),
        ("CartPole-v1", "model = Network(np.int64(1))", "found: 2 episodes of model"),
        ("CartPole-v1", "model, agent = Network(np.array([[9.0]])), Keras(1)", "found: 2 episodes of agent.predict"),
    ],
)
def test_a_value_network_plays_no_test_episodes(tmp_path: Path, env: str, left: str, said: str):
    done = wrap_text(tmp_path, MODELS.format(left), "--test-episodes", "2", env=env)
    assert done.status == 0, done.err
    assert said in done.said("test_episodes")
    assert ("test_time_rewards" in done.scalars) == said.startswith("found")


def test_test_episodes_are_in_the_rewards_of_the_environment(tmp_path: Path):
    done = wrap_text(
        tmp_path,
        f"{PLAY}\n\ndef main(env):\n    env = gym.wrappers.NormalizeReward(Countdown(10, 5.0))\n    play(env, 3)\n"
        "    get_action = lambda observation: 0\n",
        "--test-episodes", "2",
    )  # fmt: skip
    assert curve(done)[1] == [50.0] * 3
    assert done.scalars["test_time_rewards"][1] == [50.0, 50.0]
    assert "rewards of the environment itself; a wrapper of the script changes them" in done.said("test_episodes")
