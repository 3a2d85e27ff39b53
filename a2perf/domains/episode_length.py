"""Gymnasium specs that state how long episodes are, for environments that end their episodes themselves."""

from __future__ import annotations

import dataclasses
import sys

from gymnasium.envs.registration import EnvSpec, make, make_vec

_MAKERS = (make.__code__, make_vec.__code__)


class OwnLengthSpec(EnvSpec):
    """A spec with ``max_episode_steps`` for readers, which ``gymnasium.make`` does not see.

    ``make`` would add a ``TimeLimit`` of that many steps. It would cut episodes that an argument makes longer, set
    ``truncated`` together with ``terminated`` at the last step, and refuse the four values of ``use_legacy_step``.
    An explicit ``make(id, max_episode_steps=...)`` adds it as usual.
    """

    @property
    def max_episode_steps(self) -> int | None:
        """Largest number of steps of an episode with the registered arguments."""
        return None if sys._getframe(1).f_code in _MAKERS else self._length

    @max_episode_steps.setter
    def max_episode_steps(self, length: int | None) -> None:
        self._length = length

    def to_json(self) -> str:
        """Returns the spec as JSON without the length: read again, it is a plain spec, and ``make`` would see it."""
        fields = {entry.name: getattr(self, entry.name) for entry in dataclasses.fields(EnvSpec) if entry.init}
        return EnvSpec(**{**fields, "max_episode_steps": None}).to_json()
