"""Which episodes of a script are its training: the ways to make environments, in one process and in several."""

from __future__ import annotations

import random
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
            assert "a2perf_episode" not in result[-1]
            total += float(result[1])
            ended = any(result[2:4])
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


class Composite(Countdown):
    def __init__(self):
        super().__init__(10)
        self.part = gym.make("Countdown-v0", length=3)

    def reset(self, **given):
        self.part.reset()
        return super().reset(**given)

    def step(self, action):
        self.part.step(action)
        return super().step(action)


gym.register("Countdown-v0", Countdown)
gym.register("Composite-v0", Composite)
gym.register("Plain-v0", Countdown, order_enforce=False, disable_env_checker=True)


def make(length=10, reward=1.0):
    return gym.make("Countdown-v0", length=length, reward=reward)
"""


def curve(done: Wrapped, tag: str = "charts/episodic_return") -> tuple[list[int], list[float]]:
    assert done.status == 0, done.err
    assert done.scalars, done.out
    return done.scalars[tag]


TWO = {
    "named env and eval_env": (
        "    env = make(10)\n    eval_env = make(99)\n"
        "    for _ in range(4):\n        play(env, 1)\n        play(eval_env, 2)\n",
        "its line names it",
    ),
    "other names, the training takes more steps": (
        "    a = make(10)\n    b = make(3)\n    for _ in range(4):\n        play(b, 1)\n        play(a, 1)\n",
        "it took the most steps",
    ),
    "an evaluation of the beginner comes first": (
        "    def evaluate():\n        play(make(99), 3)\n    evaluate()\n    world = make(10)\n"
        "    for _ in range(4):\n        play(world, 1)\n        evaluate()\n",
        "the lines of the others name evaluation",
    ),
    "an assignment over several lines": (
        "    test = gym.wrappers.NormalizeReward(\n        make(99)\n    )\n    world = make(10)\n"
        "    for _ in range(4):\n        play(world, 1)\n        play(test, 1)\n",
        "the lines of the others name evaluation",
    ),
    "the same name later": (
        "    env = make(10)\n    play(env, 4)\n    env = make(3)\n    play(env, 2)\n",
        "it took the most steps",
    ),
    "two ids at one place": (
        "    for name in ('Countdown-v0', 'Composite-v0'):\n"
        "        play(gym.make(name), 4 if name == 'Countdown-v0' else 3)\n",
        "it took the most steps",
    ),
}


@pytest.mark.parametrize("case", TWO)
def test_an_environment_for_evaluation_is_no_part_of_the_curve(tmp_path: Path, case: str):
    body, reason = TWO[case]
    done = wrap_text(tmp_path, f"{PLAY}\n\ndef main(env):\n{body}")
    assert curve(done) == ([10, 20, 30, 40], [10.0] * 4)
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


ENVIRONMENTS = {
    "registered": "world = make()",
    "rewards that a wrapper changes": (
        "world = gym.wrappers.TransformReward(gym.wrappers.NormalizeReward(make()), lambda r: -r)"
    ),
    "a time limit": "world = gym.make('Countdown-v0', length=50, max_episode_steps=10)",
    "without wrappers of gym.make": ("world = gym.make('Plain-v0')\n    assert world.length == 10"),
    "the statistics of the script": "world = gym.wrappers.RecordEpisodeStatistics(make())",
    "an environment inside another": "world = gym.make('Composite-v0')",
    "a copy": "import copy, pickle\n    world = pickle.loads(pickle.dumps(copy.deepcopy(make())))",
    "made from its specification": "world = gym.make(make().spec)\n    assert world.spec == make().spec",
}


def test_an_environment_that_is_made_again_for_every_episode_is_one_curve(tmp_path: Path):
    done = wrap_text(
        tmp_path, f"{PLAY}\n\ndef main(env):\n    for length in (5, 6, 7):\n        play(make(length), 1)\n"
    )
    assert curve(done) == ([5, 11, 18], [5.0, 6.0, 7.0])


@pytest.mark.parametrize("made", ENVIRONMENTS)
def test_an_environment_is_counted_however_it_is_made(tmp_path: Path, made: str):
    done = wrap_text(tmp_path, f"{PLAY}\n\ndef main(env):\n    {ENVIRONMENTS[made]}\n    play(world, 3)\n")
    assert curve(done) == ([10, 20, 30], [10.0] * 3), done.out
    assert done.said("episodes").count("\n") == 0, "no other environment"


VECTOR = """

def main(env):
    envs = {made}
    envs.reset(seed=1)
    totals, returns = np.zeros(envs.num_envs), []
    fresh = np.zeros(envs.num_envs, bool)
    for step in range(120):
        _, rewards, terminated, truncated, _ = envs.step(np.zeros(envs.num_envs, int))
        totals += np.where(fresh, 0.0, rewards)
        fresh = terminated | truncated
        returns += totals[fresh].tolist()
        totals[fresh] = 0.0
    print("returns", sorted(returns), envs.spec and envs.spec.id, envs.metadata["autoreset_mode"].name)
    envs.close()


def thunk():
    return gym.wrappers.NormalizeReward(gym.make("CartPole-v1"))
"""
VECTORS = {
    "of the environment itself": "gym.make_vec(env, num_envs=3)",
    "sync": "gym.make_vec(env, num_envs=3, vectorization_mode='sync')",
    "async": "gym.make_vec(env, num_envs=3, vectorization_mode='async')",
    "spawned": "gym.vector.AsyncVectorEnv([lambda: gym.make('CartPole-v1')] * 3, context='spawn')",
    "statistics": "gym.wrappers.vector.RecordEpisodeStatistics(gym.make_vec(env, num_envs=3))",
    "members with wrappers": "gym.vector.SyncVectorEnv([thunk] * 3)",
}


@pytest.mark.parametrize("made", VECTORS)
def test_vector_environments_are_one_curve_in_their_own_rewards(tmp_path: Path, made: str):
    done = wrap_text(tmp_path, PLAY + VECTOR.format(made=VECTORS[made]))
    steps, returns = curve(done)
    lengths = done.scalars["charts/episodic_length"][1]
    assert lengths == returns, "CartPole pays one for each step"
    assert steps == np.cumsum(lengths).tolist()
    if made != "members with wrappers":  # the script's own account, episode by episode
        assert sorted(returns) == eval(done.out.partition("returns ")[2].partition("]")[0] + "]")
    assert done.said("episodes").count("\n") == 0


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
    assert steps[-1] == sum(own)


def test_a_seed_reaches_defaults_modules_and_workers(tmp_path: Path):
    done = wrap_text(
        tmp_path,
        "import multiprocessing\nimport random\n\nSEED = 0\nSOURCE = random.Random(SEED)\n\n\n"
        "def work(_):\n    return SEED\n\n\ndef main(env, seed=SEED):\n"
        "    context = multiprocessing.get_context('spawn')\n"
        "    with context.Pool(1) as pool:\n        print('seen', seed, SEED, SOURCE.random(), pool.map(work, [0]))\n",
    )
    assert done.status == 0, done.err
    assert f"seen 7 7 {random.Random(7).random()} [7]" in done.out
    assert "SEED" in done.said("seeded")


def test_a_seed_that_the_script_changes_is_said(tmp_path: Path):
    done = wrap_text(tmp_path, "SEED = 0\n\ndef main(env):\n    global SEED\n    SEED = 5\n")
    assert "SEED" not in done.said("seeded")
    assert "SEED is 5 at the end" in done.said("note")


@pytest.mark.parametrize(
    "body",
    [
        "world = make()\n    world.reset()\n    world.step(0)",
        "import subprocess, sys\n    subprocess.run([sys.executable, '-c', 'pass'], check=True)",
    ],
)
def test_nothing_to_record_is_said(tmp_path: Path, body: str):
    done = wrap_text(tmp_path, f"{PLAY}\n\ndef main(env):\n    {body}\n")
    assert done.status == 0, done.err
    assert "no episode ended in an environment of gymnasium.make" in done.said("episodes")
    assert "charts/episodic_return" not in done.scalars


MODELS = """
import numpy as np


class Network:
    def __init__(self, answer):
        self.answer = answer

    def __call__(self, observation):
        return self.answer


class Model(Network):
    def predict(self, observation, deterministic=False):
        return self.answer, None


def main(env):
    {}
"""


@pytest.mark.parametrize(
    ("env", "left", "said"),
    [
        ("CartPole-v1", "policy = Network(np.array([[0.0]]))", "not found: policy returns a float64 array of shape (1"),
        ("CartPole-v1", "policy = Network(np.array([0.2, 0.8]))", "which is not an action of Discrete(2)"),
        ("Pendulum-v1", "model = Network(np.array([[0.4]]))", "not found: no acting function"),
        ("Pendulum-v1", "model = Model(np.array([[0.4]]))", "found: 2 episodes of model.predict"),
        ("Pendulum-v1", "policy = Network(np.array([0.4]))", "found: 2 episodes of policy"),
        ("CartPole-v1", "agent = Network((np.int64(1), {}))", "found: 2 episodes of agent in"),
        ("CartPole-v1", "model, agent = Network(np.array([[9.0]])), Model(1)", "found: 2 episodes of agent.predict"),
    ],
)
def test_a_value_network_plays_no_test_episodes(tmp_path: Path, env: str, left: str, said: str):
    done = wrap_text(tmp_path, MODELS.replace("{}", left, 1), "--test-episodes", "2", env=env)
    assert done.status == 0, done.err
    assert said in done.said("test_episodes")
    assert ("test_time_rewards" in done.scalars) == said.startswith("found")


def test_test_episodes_are_in_the_rewards_of_the_environment(tmp_path: Path):
    done = wrap_text(
        tmp_path,
        f"{PLAY}\n\ndef main(env):\n    env = gym.wrappers.NormalizeReward(make(10, 5.0))\n    play(env, 3)\n"
        "    get_action = lambda observation: 0\n",
        "--test-episodes=2",
    )
    assert curve(done)[1] == [50.0] * 3
    assert done.scalars["test_time_rewards"][1] == [50.0, 50.0]
    assert "rewards of the environment itself; a wrapper of the script changes them" in done.said("test_episodes")
