"""Times of creating and reading offline datasets.

Making: the same episodes by one and by two processes, start of the processes included, wall time. Reading: all
transitions of a dataset into arrays, by ``open_dataset(...).transitions()`` and by iterating over Minari's episodes
and joining them, of the file that a2perf writes and of the same episodes written by Minari; processor time, files in
the page cache. In turns, in one run; ``--json`` prints numbers. Target: two processes at least 1.6 times one on two
idle cores; reading at least as fast as Minari.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium import spaces

from a2perf.domains.registry import get_domain
from a2perf.runs.dataset_notes import Energy
from a2perf.submission.evaluator.progress import RunProgress
from a2perf_datasets import hdf5_file, naming, open_dataset
from a2perf_datasets.assembly import assemble
from a2perf_datasets.generate import generate, random_policy, submission_policy
from a2perf_datasets.hdf5_file import EpisodeArrays
from a2perf_datasets.naming import DatasetId
from a2perf_datasets.plan import dataset_plan

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"
BOX = spaces.Box(-1, 1, (160,), np.float32)
PAGE = spaces.Dict(
    {"elements": spaces.Box(0, 30000, (250, 5, 10), np.int32), "mask": spaces.Box(0, 1, (250, 5, 10), np.float32)}
)
LAYOUTS: dict[str, tuple[spaces.Space[Any], spaces.Space[Any], int, int]] = {
    "quadruped, 100 x 600 steps": (BOX, spaces.Box(-1, 1, (12,), np.float32), 100, 600),
    "web pages, 300 x 6 steps": (PAGE, spaces.Discrete(12500), 300, 6),
}


def making(episodes: int, rounds: int) -> dict[str, Any]:
    """Seconds for the same episodes by one and by two processes."""
    task = get_domain("web_navigation").task("difficulty_level_1_num_websites_1")
    trot = get_domain("quadruped_locomotion").task("synthetic_trot")
    players = {
        "websites, scripted solver": (task, "web_navigation", submission_policy(EXAMPLES / "web_solver", {}), 8),
        "PyBullet trot, random actions": (trot, "quadruped_locomotion", random_policy(), 4),
    }
    found = {}
    for label, (played, domain, player, factor) in players.items():
        times: dict[int, list[float]] = {1: [], 2: []}
        steps = 0
        for _ in range(rounds):
            for processes in (1, 2):
                with tempfile.TemporaryDirectory() as folder:
                    plan = dataset_plan(
                        "perf/made-v0",
                        player,
                        episodes=episodes * factor,
                        seed=0,
                        domain=domain,
                        task=played.name,
                        env_id=played.env_id,
                        env_kwargs=dict(played.kwargs),
                    )
                    started = time.perf_counter()
                    made = generate(plan, Path(folder), processes=processes, progress=RunProgress(quiet=True))
                    times[processes].append(time.perf_counter() - started)
                    steps = made.record.steps
        one, two = statistics.median(times[1]), statistics.median(times[2])
        found[label] = {"steps": steps, "one_s": one, "two_s": two, "ratio": one / two, "steps_per_s": steps / one}
    return found


def reading(rounds: int) -> dict[str, Any]:
    """Processor seconds for all transitions of a dataset."""
    found = {}
    for label, (observation, action, episodes, steps) in LAYOUTS.items():
        with tempfile.TemporaryDirectory() as folder:
            ours = _written(Path(folder), observation, action, episodes, steps)
            ways: dict[str, Callable[[], Any]] = {"a2perf": lambda: open_dataset(ours).transitions()}  # noqa: B023
            sizes = {"a2perf_bytes": (ours / "data" / naming.DATA_FILE).stat().st_size}
            theirs = _written_by_minari(Path(folder), ours, observation, action)
            sizes["minari_bytes"] = (theirs / naming.DATA_FILE).stat().st_size
            ways["minari, our file"] = lambda: _by_minari(ours / "data")  # noqa: B023
            ways["minari, its file"] = lambda: _by_minari(theirs)  # noqa: B023
            ways["a2perf, its file"] = lambda: open_dataset(theirs).transitions()  # noqa: B023
            times: dict[str, list[float]] = {way: [] for way in ways}
            for _ in range(rounds):
                for way, read in ways.items():
                    started = time.process_time()
                    read()
                    times[way].append(time.process_time() - started)
            medians = {way: statistics.median(taken) for way, taken in times.items()}
            found[label] = {"steps": episodes * steps, **sizes, "seconds": medians}
            found[label]["ratio"] = medians["minari, its file"] / medians["a2perf"]
    return found


def _written(root: Path, observation: spaces.Space[Any], action: spaces.Space[Any], count: int, steps: int) -> Path:
    """Writes artificial episodes; the pages are mostly empty, as in the environment."""
    generator = np.random.default_rng(0)
    with hdf5_file.create(root / "episodes.hdf5") as stream:
        for index in range(count):
            arrays = {"rewards": generator.random(steps), "truncations": np.zeros(steps, bool)}
            arrays["terminations"] = np.arange(steps) == steps - 1
            if isinstance(observation, spaces.Box):
                arrays["observations"] = generator.random((steps + 1, 160), np.float32)
                arrays["actions"] = generator.random((steps, 12), np.float32)
            else:
                arrays["observations/elements"] = np.zeros((steps + 1, 250, 5, 10), np.int32)
                arrays["observations/elements"][:, :20, :, 0] = generator.integers(0, 30000, (steps + 1, 20, 5))
                arrays["observations/mask"] = (arrays["observations/elements"] > 0).astype(np.float32)
                arrays["actions"] = generator.integers(0, 12500, steps)
            hdf5_file.write_episode(stream, index, EpisodeArrays(index, arrays, {"policy": 0}))
    return assemble(
        root,
        DatasetId.parse("perf/made-v0"),
        [(root / "episodes.hdf5", None)],
        (observation, action),
        {},
        policies=[],
        generation=Energy(),
        domain="",
        task="",
        env_id="",
        env_kwargs={},
    ).folder


def _written_by_minari(root: Path, ours: Path, observation: spaces.Space[Any], action: spaces.Space[Any]) -> Path:
    from minari.data_collector import EpisodeBuffer
    from minari.dataset.minari_storage import MinariStorage

    target = root / "theirs-v0" / "data"
    target.mkdir(parents=True)
    storage = MinariStorage.new(target, observation, action, data_format="hdf5")
    storage.update_metadata({"dataset_id": "theirs-v0", "minari_version": "0.5.4"})
    storage.update_episodes(
        EpisodeBuffer(
            id=episode.index,
            observations=_rows(episode.observations),
            actions=list(episode.actions),
            rewards=list(episode.rewards),
            terminations=list(episode.terminations),
            truncations=list(episode.truncations),
            infos={},
        )
        for episode in open_dataset(ours).episodes()
    )
    return target


def _rows(value: Any) -> Any:
    return {name: list(rows) for name, rows in value.items()} if isinstance(value, dict) else list(value)


def _by_minari(data: Path) -> Any:
    """Joins the episodes like a training script that needs arrays of all transitions."""
    from minari import MinariDataset

    episodes = list(MinariDataset(data).iterate_episodes())
    first = episodes[0].observations
    if isinstance(first, dict):
        seen: Any = {name: np.concatenate([e.observations[name][:-1] for e in episodes]) for name in first}
    else:
        seen = np.concatenate([episode.observations[:-1] for episode in episodes])
    joined = [np.concatenate([getattr(e, name) for e in episodes]) for name in ("actions", "rewards", "terminations")]
    return seen, joined


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--episodes", type=int, default=100, help="episodes of the smallest case of making")
    parser.add_argument("--rounds", type=int, default=3, help="of which the median counts")
    options = parser.parse_args()
    results = {
        "cores": len(os.sched_getaffinity(0)),
        "load_1m": os.getloadavg()[0],
        "making": making(options.episodes, options.rounds),
        "reading": reading(options.rounds),
    }
    if options.json:
        json.dump(results, sys.stdout, indent=2)
        print()
        return
    print(f"{results['cores']} cores, load {results['load_1m']:.1f}\n")
    print(f"{'making':32}{'steps':>8}{'one s':>8}{'two s':>8}{'ratio':>7}   (target 1.6)")
    for label, row in results["making"].items():
        print(f"{label:32}{row['steps']:>8}{row['one_s']:>8.1f}{row['two_s']:>8.1f}{row['ratio']:>7.2f}")
    print(
        f"\n{'reading, processor seconds':32}{'a2perf':>10}{'minari, its file':>18}{'minari, our file':>18}{'ratio':>7}"
    )
    for label, row in results["reading"].items():
        taken = row["seconds"]
        cells = [f"{taken.get(way, float('nan')):.3f}" for way in ("a2perf", "minari, its file", "minari, our file")]
        print(f"{label:32}{cells[0]:>10}{cells[1]:>18}{cells[2]:>18}{row.get('ratio', float('nan')):>7.1f}")


if __name__ == "__main__":
    main()
