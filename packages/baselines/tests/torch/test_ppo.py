"""The batched PPO solves a small problem, repeats itself, and resumes."""

import copy

import numpy as np
import pytest
import torch

from a2perf_baselines.learning.batch import BatchStep
from a2perf_baselines.learning.torch.ppo import (
    PPO,
    ActorCritic,
    PPOSettings,
    RunningNormalization,
)

pytestmark = pytest.mark.group("sb3")


@pytest.fixture(autouse=True)
def _one_thread():
    """Threads cost more than they save on tensors of this size."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


class Corridor:
    """Walk right from 0 to 4 within 8 steps: reward 1 there; every other episode ends by the limit."""

    count = 16

    def __init__(self):
        self.place, self.age = np.zeros(self.count, np.int64), np.zeros(self.count, np.int64)

    def _seen(self):
        return {"place": np.eye(5, dtype=np.float32)[self.place]}

    def reset(self, seed):
        self.place[:], self.age[:] = 0, 0
        return self._seen()

    def step(self, actions):
        self.place = np.clip(self.place + np.where(actions > 0, 1, -1), 0, 4)
        self.age += 1
        terminated = self.place == 4
        truncated = (self.age >= 8) & ~terminated
        rewards = terminated.astype(np.float32)
        rows = np.flatnonzero(truncated)
        final = {"place": self._seen()["place"][rows]}
        over = terminated | truncated
        self.place[over], self.age[over] = 0, 0
        return BatchStep(self._seen(), rewards, terminated, truncated, final, rows)


class Table(ActorCritic):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.layer = torch.nn.Linear(5, 3)

    def _parts(self, observations):
        out = self.layer(observations["place"])
        return torch.distributions.Categorical(logits=out[:, :2]), out[:, 2]

    def value(self, observations):
        return self._parts(observations)[1]

    def act(self, observations, generator):
        policy, value = self._parts(observations)
        actions = torch.multinomial(policy.probs, 1, generator=generator)[:, 0]
        return actions, policy.log_prob(actions), value

    def evaluate(self, observations, actions):
        policy, value = self._parts(observations)
        return policy.log_prob(actions), policy.entropy(), value


def learner(**settings):
    return PPO(Corridor(), Table(), PPOSettings(**{"horizon": 16, "learning_rate": 0.03, **settings}), seed=1)


def trained(ppo, updates):
    for _ in range(updates):
        ppo.collect()
        last = ppo.update()
    return last


@pytest.mark.parametrize("per_update", [False, True])
def test_learns_to_walk_right(per_update):
    ppo = learner(target_divergence=0.05, max_learning_rate=0.1, rate_per_update=per_update)
    trained(ppo, 30)
    with torch.no_grad():
        policy, values = ppo.model._parts({"place": torch.eye(5)})
    assert (policy.probs[:4, 1] > 0.9).all()
    assert values[3] > values[0] > 0.5
    assert ppo.steps == 30 * ppo.batch_size


def test_same_seed_gives_the_same_weights():
    first, second = learner(), learner()
    trained(first, 3)
    trained(second, 3)
    assert torch.equal(first.model.layer.weight, second.model.layer.weight)


def test_resumes_from_its_state():
    whole = learner()
    trained(whole, 2)
    resumed = learner()
    resumed.restore(copy.deepcopy(whole.state()))
    for ppo in (whole, resumed):
        ppo.begin_episodes(5)
        trained(ppo, 2)
    assert resumed.steps == whole.steps
    assert torch.equal(whole.model.layer.weight, resumed.model.layer.weight)


def test_rate_falls_where_updates_diverge_and_rises_where_they_hardly_move():
    fast = learner(learning_rate=0.5, max_learning_rate=1.0, target_divergence=0.001)
    trained(fast, 2)
    assert fast.learning_rate < 0.5
    slow = learner(learning_rate=1e-5, target_divergence=0.01)
    trained(slow, 2)
    assert slow.learning_rate > 1e-5


def test_a_cut_off_episode_counts_the_value_of_its_last_state():
    ppo = learner(horizon=8, gamma=0.5)
    with torch.no_grad():
        ppo.model.layer.weight.zero_()
        ppo.model.layer.bias.copy_(torch.tensor([50.0, 0.0, 2.0]))  # always left, every value is 2
    ppo.collect()
    assert torch.allclose(ppo._rewards[:7], torch.zeros(7, 16))
    assert torch.allclose(ppo._rewards[7], torch.full((16,), 0.5 * 2.0))


def test_normalization_of_parts_is_that_of_the_whole():
    rows = torch.randn(100, 3, generator=torch.Generator().manual_seed(0)) * 4.0 + 2.0
    normalize = RunningNormalization(3)
    for part in rows.split(30):
        normalize.see(part)
    assert torch.allclose(normalize.mean, rows.mean(0), atol=1e-3)
    assert torch.allclose(normalize.variance, rows.var(0, unbiased=False), rtol=1e-3)
    assert normalize(rows).abs().max() <= 5.0
