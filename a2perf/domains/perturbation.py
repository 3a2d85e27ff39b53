"""Perturbed environments: what the perturbations of all domains share.

A domain lists its ``Perturbation`` records and has one wrapper per record. Nothing outside of a domain's folder knows
what a perturbation does.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from typing import Any

import gymnasium
import numpy as np

from a2perf.domains.registry import find_environment, load_attribute
from a2perf.domains.tfa.suite_gym import create_domain


class SeededWrapper(gymnasium.Wrapper[Any, Any, Any, Any]):
    """A wrapper with a separate generator.

    ``reset(seed=...)`` seeds it together with the environment, but the environment draws nothing from it: with one
    seed, the perturbed episode starts like the unperturbed one except for the perturbation.

    Args:
        name: name of the perturbation; perturbations with different names draw different numbers.
    """

    def __init__(self, env: gymnasium.Env[Any, Any], name: str) -> None:
        super().__init__(env)
        self._stream = zlib.crc32(name.encode())
        self.random = np.random.default_rng(self._stream)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """See ``gymnasium.Env.reset``."""
        if seed is not None:
            self.random = np.random.default_rng([self._stream, seed])
        return super().reset(seed=seed, options=self.begin(options))

    def begin(self, options: dict[str, Any] | None) -> dict[str, Any] | None:
        """Draws what changes in the episode that begins; returns the options of the environment's reset."""
        return options


def make_perturbed(env_id: str, env_kwargs: Mapping[str, Any], name: str) -> gymnasium.Env[Any, Any]:
    """Makes an environment with a perturbation.

    Raises:
        ConfigError: unknown id or perturbation, or a wrong argument.
        MissingDependency: the domain's extra is not installed.
    """
    domain, _ = find_environment(env_id)
    change = load_attribute(domain.perturbation(name).wrapper)
    env = create_domain(env_name=env_id, framework="gymnasium", **env_kwargs)
    try:
        perturbed: gymnasium.Env[Any, Any] = change(env)
    except BaseException:
        env.close()
        raise
    return perturbed
