"""Measures the reference scores of the protocol: trivial policies and an expert on every task, with stated seeds.

    python results/references.py [TASK ...]          measures and compares with the stored scores
    python results/references.py --write             measures everything and writes the protocol's file

The policies are those of ``examples/``, executed in this process; episodes, seeds and rewards are the evaluator's. The
numbers depend only on the seeds and are reproducible on one machine. `make references` runs the first form.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import importlib.util
import itertools
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import msgspec
import numpy as np
from protocol_v2 import PROTOCOL, TASKS, TaskSource, Trivials

from a2perf.domains.registry import get_domain, stored_fingerprint
from a2perf.domains.tfa.suite_gym import make_environment
from a2perf.metrics import protocol as protocols
from a2perf.metrics.bootstrap import mean_interval
from a2perf.metrics.protocol import Evaluation, Protocol, ProtocolTask, Reference, Trivial
from a2perf.submission.evaluator.playing.rollouts import rollout
from a2perf.submission.evaluator.playing.seeds import spawn_seeds

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
EPISODES_SEED = 20_000  # root seed of the reference episodes; no training seed of the protocol
MOST_STORED = 12  # trivial policies per task


class Answering:
    """A policy with the interface that rollouts need."""

    def __init__(self, answer: Callable[[Any], Any]) -> None:
        self._answer = answer

    def infer(self, observation: Any) -> Any:
        """Returns a record with the ``action`` for an observation."""
        return SimpleNamespace(action=self._answer(observation))


def main() -> None:
    """Measures, prints, and writes or compares."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tasks", nargs="*", metavar="TASK", help="all by default")
    parser.add_argument("--write", action="store_true", help="write the protocol's file; refused for a published one")
    parser.add_argument(
        "--definitions", action="store_true", help="write everything except the references; measures nothing"
    )
    parser.add_argument("--kind", choices=["random", "trivial", "expert"], help="one kind only")
    given = parser.parse_args()
    sources = {source.name: source for source in TASKS}
    # references of unchanged tasks are those of v1
    published = protocols.load(PROTOCOL.name if PROTOCOL.name in protocols.names() else "v1")
    stored = {name: task for name, task in published.tasks.items() if name in sources}
    differing = 0
    if given.definitions:
        renewed = {}
        for name, source in sources.items():
            references = stored[name].references if name in stored else {}
            trivial = stored[name].trivial if name in stored else {}
            renewed[name] = msgspec.structs.replace(empty_task(source), references=references, trivial=trivial)
        write(msgspec.structs.replace(PROTOCOL, tasks=renewed))
        return
    for name in given.tasks or sources:
        source = sources[name]
        task = empty_task(source)
        for kind, recipe in (("random", source.random), ("expert", source.expert)):
            known = stored[name].references.get(kind) if name in stored else None
            if recipe is None or given.kind not in (None, kind):
                if known is not None:
                    task.references[kind] = known
                continue
            task.references[kind] = reference = measure(task, recipe)
            same = known is not None and alike(known, reference)
            differing += not same
            print(
                f"{name:34s} {kind:7s} {reference.mean:10.4f} [{reference.low:.4f}, {reference.high:.4f}] "
                f"n={reference.n} {reference.of}  {'as stored' if same else 'NOT as stored'}",
                flush=True,
            )
        task.trivial.update(stored[name].trivial if name in stored else {})
        if given.kind in (None, "trivial"):
            differing += add_trivial(task, source)
        set_floor(task)
        stored[name] = task
        if given.write:
            # other processes may measure other tasks, or another kind, at the same time
            stored |= msgspec.json.decode(protocols.content(PROTOCOL.name), type=Protocol).tasks
            task = msgspec.structs.replace(
                task,
                references={**stored[name].references, **task.references},
                trivial={**stored[name].trivial, **task.trivial},
            )
            set_floor(task)
            stored[name] = task
            ordered = {source.name: stored[source.name] for source in TASKS if source.name in stored}
            write(msgspec.structs.replace(PROTOCOL, tasks=ordered))
    sys.exit(1 if differing and not given.write else 0)


def add_trivial(task: ProtocolTask, source: TaskSource) -> int:
    """Measures and prints the trivial policies of a task; returns how many differ from the stored scores."""
    differing = 0
    for policy, returns in Tools.trivial_returns(task, source.trivial_episodes, source.trivial_side).items():
        found = Tools.reference(returns, of="episodes", policy=policy, command="", seeds=[])
        known, measured = task.trivial.get(policy), Trivial(found.mean, found.low, found.high, found.n)
        same = known is not None and known.n == measured.n and np.isclose(known.mean, measured.mean, 1e-6, 1e-6)
        task.trivial[policy] = measured
        differing += not same and known is not None
        print(
            f"{task.name:34s} trivial {found.mean:10.4f} [{found.low:.4f}, {found.high:.4f}] n={found.n} {policy}  "
            f"{'as stored' if same else 'not stored' if known is None else 'NOT as stored'}",
            flush=True,
        )
    return differing


def set_floor(task: ProtocolTask) -> None:
    """Names the best trivial policy, the random one included, as the floor."""
    random = task.references.get("random")
    if random is None:
        return
    task.trivial["random"] = Trivial(random.mean, random.low, random.high, random.n)
    ordered = sorted(task.trivial, key=lambda name: -task.trivial[name].mean)
    for name in ordered[MOST_STORED:]:
        if name not in ("random", "zero action"):
            del task.trivial[name]
    best = ordered[0]
    score = task.trivial[best]
    task.references["floor"] = Reference(
        mean=score.mean,
        low=score.low,
        high=score.high,
        spread=random.spread if best == "random" else 0.0,
        n=score.n,
        of="episodes",
        policy=best,
        command=f"python results/references.py {task.name} --kind trivial",
        seeds=[EPISODES_SEED],
    )


def alike(known: Reference, measured: Reference) -> bool:
    """Returns whether two measurements agree, except in the last bits that depend on the processor."""
    near = np.allclose([known.mean, known.spread], [measured.mean, measured.spread], rtol=1e-6, atol=1e-6)
    return bool(near) and known.n == measured.n


def empty_task(source: TaskSource) -> ProtocolTask:
    """Returns a task of the protocol without references."""
    task = get_domain(source.domain).task(source.name)
    seeds = [seed for root in source.training_seeds for seed in spawn_seeds(root, "episodes", source.episodes)]
    return ProtocolTask(
        name=source.name,
        domain=source.domain,
        env_id=task.env_id,
        env_kwargs={**task.kwargs, **source.env_kwargs},
        train_kwargs=dict(source.train_kwargs),
        fingerprint=str(stored_fingerprint(task.env_id)),
        core=source.core,
        training_seeds=list(source.training_seeds),
        budget=source.budget,
        evaluation=Evaluation(
            episodes=source.episodes,
            # text of version 1, which the protocol's hash covers; the function is now in `evaluator`
            seeds="a2perf.submission.seeds.spawn_seeds(training seed, 'episodes', episodes)",
            seeds_sha256=hashlib.sha256("".join(f"{seed}\n" for seed in seeds).encode()).hexdigest(),
            warmup_calls=100,
            timed_calls=1000,
        ),
        thresholds=[0.5, 0.9],
        references={},
    )


def write(protocol: Protocol) -> None:
    """Writes the protocol's file, keys in a fixed order."""
    path = Path(protocols.__file__).parent / "protocols" / f"{protocol.name}.json"
    path.parent.mkdir(exist_ok=True)
    text = msgspec.json.format(msgspec.json.encode(protocol, order=None), indent=1).decode()
    # a score of a trivial policy on one line
    text = re.sub(r"\[\s+([-+.\deE]+,\s+[-+.\deE,\s]+?)\s+\]", lambda found: f"[{' '.join(found[1].split())}]", text)
    path.write_text(text + "\n")


def measure(task: ProtocolTask, recipe: Any) -> Reference:
    """Measures one reference score."""
    return recipe.measured(task, Tools)


class Tools:
    """Measures the recipes of ``protocol_v2``."""

    @staticmethod
    def environment(task: ProtocolTask) -> Any:
        """Makes the task's environment."""
        return make_environment(task.env_id, dict(task.env_kwargs))

    @staticmethod
    def returns(task: ProtocolTask, policy: Callable[[Any], Callable[[Any], Any]], episodes: int) -> list[float]:
        """Runs the reference episodes with the policy that ``policy(env)`` returns; returns the episode returns."""
        with contextlib.closing(Tools.environment(task)) as env:
            answering = Answering(policy(env))
            seeds = spawn_seeds(EPISODES_SEED, "episodes", episodes)
            return [rollout(env, answering, index=i, seed=seed).episode_return for i, seed in enumerate(seeds)]

    @staticmethod
    def trivial_returns(task: ProtocolTask, episodes: int, side: int) -> dict[str, list[float]]:
        """Runs the trivial policies of a task; returns the episode returns by policy."""
        found = {}
        with contextlib.closing(Tools.environment(task)) as env:
            _, info = env.reset(seed=EPISODES_SEED)
            allowed = np.flatnonzero(info.get("action_mask", ())).tolist()
            masked = task.domain == "circuit_training"
            motion = task.domain == "quadruped_locomotion"
            for name, policy in (
                Trivials(env.action_space, motion=motion, masked=masked, side=side, allowed=allowed).named().items()
            ):
                env.action_space.seed(EPISODES_SEED)
                found[name] = [
                    rollout(env, Answering(policy(env)), index=i, seed=seed).episode_return
                    for i, seed in enumerate(spawn_seeds(EPISODES_SEED, "episodes", episodes))
                ]
        return found

    @staticmethod
    def example(
        name: str, task: ProtocolTask, *, root: Path | None = None, seed: int = 0, **arguments: str
    ) -> Callable[[Any], Callable[[Any], Any]]:
        """Returns the policy of an example, as a function of the environment."""

        def load(env: Any) -> Callable[[Any], Any]:
            with _imported(name, "inference") as module:
                os.environ |= {"A2PERF_ENV_ID": task.env_id, "ROOT_DIR": str(root or ""), "SEED": str(seed)}
                policy = module.load_policy(env, **arguments)
            return lambda observation: module.infer_once(policy, module.preprocess_observation(observation))

        return load

    @staticmethod
    def train(name: str, task: ProtocolTask, seed: int, folder: Path, **arguments: str) -> None:
        """Trains an example in a separate process without output."""
        environment = {
            **os.environ,
            "A2PERF_ENV_ID": task.env_id,
            "A2PERF_ENV_KWARGS": msgspec.json.encode(task.env_kwargs).decode(),
            "A2PERF_ARTIFACTS": str(folder),
            "SEED": str(seed),
        }
        code = f"import train; train.train(**{arguments!r})"
        subprocess.run(
            [sys.executable, "-c", code], cwd=EXAMPLES / name, env=environment, check=True, stdout=subprocess.DEVNULL
        )

    @staticmethod
    def folder() -> Any:
        """Returns a temporary folder as a context."""
        return tempfile.TemporaryDirectory(prefix="a2perf-reference-")

    @staticmethod
    def reference(values: Sequence[float], **words: Any) -> Reference:
        """Returns the record of measured values."""
        array = np.asarray(values, dtype=np.float64)
        mean = float(array.mean())
        alike = array.size < 2 or float(np.ptp(array)) == 0.0
        low, high = (mean, mean) if alike else mean_interval(array)
        spread = 0.0 if alike else float(array.std(ddof=1))
        return Reference(mean=mean, low=low, high=high, spread=spread, n=array.size, **words)

    @staticmethod
    def enumerated(task: ProtocolTask) -> list[float]:
        """Executes every sequence of allowed actions of a deterministic task; returns all episode returns."""
        with contextlib.closing(Tools.environment(task)) as env:
            found: list[float] = []
            prefixes: Iterator[tuple[int, ...]] = iter([()])
            while True:
                following: list[tuple[int, ...]] = []
                for prefix in prefixes:
                    _, info = env.reset(seed=0)
                    total, ended = 0.0, False
                    for action in prefix:
                        _, reward, terminated, truncated, info = env.step(action)
                        total, ended = total + float(reward), terminated or truncated
                    if ended:
                        found.append(total)
                    else:
                        following += [(*prefix, int(action)) for action in np.flatnonzero(info["action_mask"])]
                if not following:
                    return found
                prefixes = itertools.chain(following)


@contextlib.contextmanager
def _imported(example: str, module_name: str) -> Iterator[Any]:
    """Imports a module of an example together with its siblings, and removes them from ``sys.modules`` afterwards."""
    folder = EXAMPLES / example
    before = set(sys.modules)
    sys.path.insert(0, str(folder))
    try:
        spec = importlib.util.spec_from_file_location(f"reference_{example}", folder / f"{module_name}.py")
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        yield module
    finally:
        sys.path.remove(str(folder))
        for name in set(sys.modules) - before:
            if str(folder) in str(getattr(sys.modules[name], "__file__", "")):
                del sys.modules[name]


if __name__ == "__main__":
    main()
