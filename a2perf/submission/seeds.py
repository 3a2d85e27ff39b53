"""One root seed, spawned per purpose.

Each purpose has a fixed key, so that adding one never moves the seeds of another
(``numpy.random.SeedSequence`` with a ``spawn_key``; O'Neill's seed_seq mixing keeps the streams independent).
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from a2perf.errors import ConfigError

_PURPOSE_KEYS = {"participant": 1, "latency": 2, "episodes": 3, "sampled_observations": 4}
_MAX_SEED = 2**31 - 1


def spawn_seeds(root_seed: int, purpose: str, count: int, *, stream: int = 0) -> list[int]:
    """Returns ``count`` seeds in [0, 2^31) of one purpose; a longer list starts with the shorter one.

    Args:
        root_seed: the run's root seed, not negative.
        purpose: ``"participant"``, ``"latency"``, ``"episodes"`` or ``"sampled_observations"``.
        count: how many.
        stream: tells apart the tasks of a generalization run.
    """
    sequence = np.random.SeedSequence(root_seed, spawn_key=(_PURPOSE_KEYS[purpose], stream))
    generator = np.random.Generator(np.random.PCG64(sequence))
    return [int(seed) for seed in generator.integers(0, _MAX_SEED, size=count)]


def read_seed_file(path: Path, count: int) -> list[int]:
    """Reads evaluation seeds from a file that only the evaluator opens: one integer a line, ``#`` starts a comment.

    Raises:
        ConfigError: no such file, a line that is no integer in [0, 2^31), a repeated seed, or fewer than ``count``.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise ConfigError(
            f"the seed file {path} cannot be read: {error.strerror}", mend="give a text file with one integer a line"
        ) from error
    seeds: list[int] = []
    for number, line in enumerate(lines, start=1):
        text = line.partition("#")[0].strip()
        if not text:
            continue
        if not text.isdecimal() or int(text) > _MAX_SEED:
            raise ConfigError(f"{path}, line {number}: {text!r} is no seed", mend=f"use integers from 0 to {_MAX_SEED}")
        if int(text) in seeds:
            raise ConfigError(f"{path}, line {number}: seed {text} stands there twice", mend="use each seed once")
        seeds.append(int(text))
    if len(seeds) < count:
        raise ConfigError(
            f"{path} holds {len(seeds)} seeds, the run needs {count}", mend="add seeds or ask for fewer episodes"
        )
    return seeds[:count]
