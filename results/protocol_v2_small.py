"""Derives protocol v2-small from v2: the same tasks, budgets and references, for one evening on a small machine.

    python results/protocol_v2_small.py      writes a2perf/metrics/protocols/v2-small.json

It has three training seeds instead of five, fewer episodes of slow tasks, and no generalization. Each level of web
navigation has ten websites instead of one, which reveals a policy that has memorised a single page.
"""

from __future__ import annotations

import hashlib

import msgspec

from a2perf.metrics import protocol as protocols
from a2perf.metrics.protocol import Protocol, ProtocolTask, Quick
from a2perf.submission.evaluator.playing.seeds import spawn_seeds

TRAINING_SEEDS = [1, 2, 3]
EPISODES = {
    **{f"dog_{gait}": 20 for gait in ("pace", "trot", "spin")},
    **{f"difficulty_level_{level}_num_websites_10": 100 for level in (1, 2, 3)},
    "toy_macro_stdcell": 20,
    "ariane": 10,
    "ariane_twin": 10,
}
OUTSIDE_CORE = ("ariane_twin",)


def small(whole: Protocol) -> Protocol:
    """Returns the small protocol of v2."""
    return msgspec.structs.replace(
        whole,
        name=f"{whole.name}-small",
        summary=f"{whole.summary} The small form of {whole.name}: three seeds, fewer episodes, ten websites.",
        quick=Quick(seeds=3, episodes=5, timed_calls=100, warmup_calls=10, train_time_limit_s=60.0),
        tasks={name: _reduced(whole.task(name), episodes) for name, episodes in EPISODES.items()},
        generalization={},
    )


def _reduced(task: ProtocolTask, episodes: int) -> ProtocolTask:
    seeds = [seed for root in TRAINING_SEEDS for seed in spawn_seeds(root, "episodes", episodes)]
    digest = hashlib.sha256("".join(f"{seed}\n" for seed in seeds).encode()).hexdigest()
    evaluation = msgspec.structs.replace(
        task.evaluation, episodes=episodes, seeds_sha256=digest, warmup_calls=50, timed_calls=500
    )
    return msgspec.structs.replace(
        task, training_seeds=TRAINING_SEEDS, evaluation=evaluation, core=task.name not in OUTSIDE_CORE
    )


if __name__ == "__main__":
    from references import write

    write(small(protocols.load("v2")))
