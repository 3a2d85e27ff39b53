"""The seeds of a run: spawned from its root seed (scheme 1, public) or keyed with the evaluator's secret (scheme 2).

The participant knows its own seed and this file. Under scheme 1 it can derive the root seed from them, and with it
every other seed. Under scheme 2 the secret and the run's identity give two run keys, one for the participant's seed and
one for the evaluation, and each key gives its seeds. Both steps use HMAC-SHA256 (RFC 2104): a seed does not reveal
other seeds, a key does not reveal the other key, and neither reveals the secret. The evaluation's key does not depend
on the submission. On hosts that share the secret, all submissions get the same episodes (common random numbers).

A manifest records the scheme and the run keys, never the secret. The bundle is enough to repeat the evaluation.
"""

from __future__ import annotations

import hashlib
import hmac
import itertools
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from a2perf.errors import ConfigError
from a2perf.records import KEYED_SEEDS, PUBLIC_SEEDS
from a2perf.stranger_files import StrangerFileError, read_file

PUBLIC, KEYED = PUBLIC_SEEDS, KEYED_SEEDS
"""The schemes. A manifest without a scheme uses the first."""

_PURPOSE_KEYS = {"participant": 1, "latency": 2, "episodes": 3, "sampled_observations": 4}
_MAX_SEED = 2**31 - 1
_SEED_DIGITS = 4000  # Python refuses to parse integers of more than 4300 digits
_SEED_FILE_BYTES = 16 * 2**20
_BATCH = 64


@dataclass(frozen=True)
class RunSeeds:
    """Source of the seeds of one run.

    Attributes:
        root_seed: not negative.
        keys: run keys by role, ``"participant"`` and ``"evaluation"``; empty under scheme 1.
    """

    root_seed: int
    keys: Mapping[str, bytes] = field(default_factory=dict, repr=False)

    @classmethod
    def keyed(cls, secret: bytes, root_seed: int, *, domain: str, env_id: str, evaluates: bool) -> RunSeeds:
        """Returns the seeds of a run under scheme 2.

        Args:
            domain: name of the domain; the participant's seed is the same in all its modes.
            env_id: the evaluated environment; empty for all tasks of a domain.
            evaluates: whether the run has scored episodes. A training run gets no key for them, so its bundle reveals
                nothing about the later evaluation.
        """
        keys = {"participant": _hmac(secret, "a2perf run key", "participant", root_seed, domain)}
        if evaluates:
            keys["evaluation"] = _hmac(secret, "a2perf run key", "evaluation", root_seed, domain, env_id)
        return cls(root_seed, keys)

    @classmethod
    def recorded(cls, root_seed: int, record: Mapping[str, Any]) -> RunSeeds:
        """Returns the seeds of a recorded run.

        Raises:
            ConfigError: the scheme is unknown, or the keys are damaged.
        """
        scheme = record.get("scheme", PUBLIC)
        if scheme == PUBLIC:
            return cls(root_seed)
        try:
            if scheme != KEYED:
                raise ValueError(f"scheme {scheme!r}")
            return cls(root_seed, {str(role): bytes.fromhex(key) for role, key in record["keys"].items()})
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise ConfigError(
                f"the recorded seeds cannot be used: {error}", hint="use another bundle, or add --public-seeds"
            ) from error

    @property
    def scheme(self) -> int:
        """``PUBLIC`` or ``KEYED``."""
        return KEYED if self.keys else PUBLIC

    def record(self) -> dict[str, Any]:
        """Returns the entry of a manifest, from which ``recorded`` restores the seeds."""
        keys = {"keys": {role: key.hex() for role, key in self.keys.items()}} if self.keys else {}
        return {"scheme": self.scheme, **keys}

    def draw(self, purpose: str, count: int, *, stream: int = 0) -> list[int]:
        """Returns ``count`` seeds in [0, 2^31) for one purpose; a longer list starts with the shorter one.

        Args:
            purpose: ``"participant"``, ``"latency"``, ``"episodes"`` or ``"sampled_observations"``.
            count: number of seeds; under scheme 2 they are distinct.

        Raises:
            ConfigError: the record has no key for that purpose.
        """
        if self.scheme == PUBLIC:
            return spawn_seeds(self.root_seed, purpose, count, stream=stream)
        return list(itertools.islice(self._keyed(purpose, stream), count))

    def unending(self, purpose: str) -> Iterator[int]:
        """Yields seeds for one purpose without end, beginning with those of ``draw``."""
        if self.scheme == KEYED:
            yield from self._keyed(purpose, 0)
        for done in itertools.count(0, _BATCH):  # each batch regenerates the list from its start, which is cheap
            yield from spawn_seeds(self.root_seed, purpose, done + _BATCH)[done:]

    def _keyed(self, purpose: str, stream: int) -> Iterator[int]:
        role = "participant" if purpose == "participant" else "evaluation"
        if role not in self.keys:
            raise ConfigError(
                f"the recorded run has no key for the {role}'s seeds",
                hint="use a bundle of an evaluation, not of a training run",
            )
        used: set[int] = set()
        for number in itertools.count():
            digest = _hmac(self.keys[role], "a2perf seed", purpose, stream, self.root_seed, number)
            seed = int.from_bytes(digest[:4], "big") & _MAX_SEED
            if seed not in used:
                used.add(seed)
                yield seed


def _hmac(key: bytes, *parts: str | int) -> bytes:
    return hmac.digest(key, json.dumps(parts).encode(), hashlib.sha256)


def spawn_seeds(root_seed: int, purpose: str, count: int, *, stream: int = 0) -> list[int]:
    """Returns ``count`` seeds in [0, 2^31) for one purpose under scheme 1; a longer list starts with the shorter one.

    Each purpose has a fixed ``spawn_key`` of ``numpy.random.SeedSequence``: a new purpose does not change other seeds.
    """
    sequence = np.random.SeedSequence(root_seed, spawn_key=(_PURPOSE_KEYS[purpose], stream))
    generator = np.random.Generator(np.random.PCG64(sequence))
    return [int(seed) for seed in generator.integers(0, _MAX_SEED, size=count)]


def read_seed_file(path: Path, count: int) -> list[int]:
    """Reads evaluation seeds from the organizer's file: one integer per line, ``#`` starts a comment.

    Raises:
        ConfigError: the file does not exist, a line is not an integer in [0, 2^31), a seed is repeated, or there are
            fewer than ``count``.
    """
    try:
        lines = read_file(path, max_bytes=_SEED_FILE_BYTES).decode("utf-8-sig").splitlines()
    except (StrangerFileError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"the seed file {path} cannot be read: {error}", hint="give a text file with one integer per line"
        ) from error
    seeds: list[int] = []
    for number, line in enumerate(lines, start=1):
        text = line.partition("#")[0].strip()
        if not text:
            continue
        if not text.isdecimal() or len(text) > _SEED_DIGITS or int(text) > _MAX_SEED:
            raise ConfigError(
                f"{path}, line {number}: {text!r} is not a seed", hint=f"use integers from 0 to {_MAX_SEED}"
            )
        if int(text) in seeds:
            raise ConfigError(f"{path}, line {number}: seed {text} is repeated", hint="use each seed once")
        seeds.append(int(text))
    if len(seeds) < count:
        raise ConfigError(
            f"{path} has {len(seeds)} seeds, but the run has {count} episodes",
            hint="add seeds, or reduce the number of episodes",
        )
    return seeds[:count]
