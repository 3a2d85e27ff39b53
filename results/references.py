"""Measures the reference scores of the protocol: a random and an expert policy on every task, with stated seeds.

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
from protocol_v1 import PROTOCOL, TASKS, TaskSource

from a2perf.domains.fingerprint import stored_fingerprint
from a2perf.domains.registry import get_domain
from a2perf.domains.tfa.suite_gym import make_environment
from a2perf.metrics import protocol as protocols
from a2perf.metrics.bootstrap import mean_interval
from a2perf.metrics.protocol import Evaluation, Protocol, ProtocolTask, Reference
from a2perf.submission.evaluator.rollouts import rollout
from a2perf.submission.evaluator.seeds import spawn_seeds

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
EPISODES_SEED = 20_000  # root seed of the reference episodes; no training seed of the protocol


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
    parser.add_argument("--kind", choices=["random", "expert"], help="one kind only")
    given = parser.parse_args()
    sources = {source.name: source for source in TASKS}
    stored = {} if PROTOCOL.name not in protocols.names() else dict(protocols.load(PROTOCOL.name).tasks)
    differing = 0
    if given.definitions:
        renewed = {}
        for name, source in sources.items():
            references = stored[name].references if name in stored else {}
            renewed[name] = msgspec.structs.replace(empty_task(source), references=references)
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
        stored[name] = task
        if given.write:
            ordered = {source.name: stored[source.name] for source in TASKS if source.name in stored}
            write(msgspec.structs.replace(PROTOCOL, tasks=ordered))
    sys.exit(1 if differing and not given.write else 0)


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
    path.write_bytes(msgspec.json.format(msgspec.json.encode(protocol, order=None), indent=1) + b"\n")


def measure(task: ProtocolTask, recipe: Any) -> Reference:
    """Measures one reference score."""
    return recipe.measured(task, Tools)


class Tools:
    """Measures the recipes of ``protocol_v1``."""

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
