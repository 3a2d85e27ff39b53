"""A model of Stable-Baselines3 on CartPole: ``evaluate_policy``, and ``a2perf.evaluate``, which confines it.

    python perf/peers/sb3_evaluate_policy.py [EPISODES]

Wall time of a new Python process with its imports, 10 episodes by default, with equal seeds and returns.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from stable_baselines3 import PPO
from turns import in_turns

OF_PEER = """
import json, sys
import gymnasium
from stable_baselines3 import PPO
from stable_baselines3.common.evaluation import evaluate_policy

class Seeded(gymnasium.Wrapper):
    def reset(self, **options):
        return self.env.reset(seed=seeds.pop(0) if seeds else None)

model, seeds = PPO.load(sys.argv[1], device="cpu"), json.loads(sys.argv[2])
env = Seeded(gymnasium.make("CartPole-v1"))
print(json.dumps(evaluate_policy(model, env, len(seeds), return_episode_rewards=True, warn=False)[0]))
"""
OWN = """
import json, sys
import a2perf
from stable_baselines3 import PPO

model = PPO.load(sys.argv[1], device="cpu")
result = a2perf.evaluate(
    model, env="CartPole-v1", episodes=int(sys.argv[2]), root_dir=sys.argv[3], force=True, progress=False
)
print(json.dumps([result.episodes()["episode_seed"].tolist(), list(result.returns)]))
"""


def output(code: str, *words: str) -> list:
    done = subprocess.run([sys.executable, "-c", code, *words], check=True, capture_output=True, text=True)
    return json.loads(done.stdout.splitlines()[-1])


def main(episodes: str = "10") -> None:
    with tempfile.TemporaryDirectory() as folder:
        model, run = str(Path(folder, "model.zip")), str(Path(folder, "run"))
        PPO("MlpPolicy", "CartPole-v1", seed=0, device="cpu").learn(4096).save(model)
        seeds, returns = output(OWN, model, episodes, run)
        assert output(OF_PEER, model, json.dumps(seeds)) == returns
        in_turns(
            {
                "evaluate_policy": lambda: len(output(OF_PEER, model, json.dumps(seeds))),
                "a2perf.evaluate": lambda: len(output(OWN, model, episodes, run)[0]),
            },
            clock=time.perf_counter,
        )


if __name__ == "__main__":
    main(*sys.argv[1:])
