"""The reward of a step: the page's reward at the end, progress of the form, and the cost of steps.

``CompatWebRules`` holds what the earlier implementation did otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass

from a2perf.domains.web_navigation.browsers.backend import End
from a2perf.errors import ConfigError

# by End
RAW = (0.0, -1.0, 1.0, -1.0)
REASON = (None, "link", "solved", "wrong")
_RUNNING = End.RUNNING


def potential(matched: int, fields: int) -> float:
    """Returns the share of fields that were touched and have their gold value, in [0, 1]; 0 without fields."""
    return matched / fields if fields else 0.0


@dataclass(frozen=True)
class Reward:
    """How a step is rewarded.

    Attributes:
        cyclic_action_penalty: cost of a step that changes nothing on the page, in [0, 1].
        timestep_penalty: cost of every step that does not end the episode, in [0, 1].
        exact_wob_reward: only the page's own reward at its end counts.
        final_reward_bias: added where the page ends the episode.
    """

    cyclic_action_penalty: float = 0.5
    timestep_penalty: float = 0.05
    exact_wob_reward: bool = False
    final_reward_bias: float = 0.0
    use_potential_based_reward: bool = True

    def __post_init__(self) -> None:
        for name in ("cyclic_action_penalty", "timestep_penalty"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0.0 <= value <= 1.0:
                raise ConfigError(f"{name} is {value!r}", hint="give a number from 0 to 1")

    def __call__(self, end: End, gain: float, changed: bool) -> float:
        """Returns the reward of a step.

        Args:
            gain: potential after the step less that before it.
        """
        raw = RAW[end]
        if self.exact_wob_reward:
            return raw
        reward = raw + gain if self.use_potential_based_reward else raw
        if end is not _RUNNING:
            return reward + self.final_reward_bias
        if not changed:
            reward -= self.cyclic_action_penalty
        return reward - self.timestep_penalty


class WebRules:
    """The rules of version 0."""

    compat = False
    # the observation of the last step shows the page after the action
    stale_last_observation = False

    def invalid_reward(self, before: float, own: float) -> float:
        """Reward of an action on no element.

        Args:
            before: reward of the step before, 0 after a reset.
        """
        return own

    def end_flags(self, ended: bool, limit_reached: bool) -> tuple[bool, bool]:
        """Returns (terminated, truncated)."""
        return ended, limit_reached and not ended


class CompatWebRules(WebRules):
    """``compat=True``: restores the behaviours of the earlier implementation that version 0 fixes.

    Of several elements with one id only the first works; the card type cannot be chosen; placeholders and selected
    options are not observed; rewards of invalid actions add up; the step limit terminates; the last observation of an
    episode that the page ended is that of the step before.
    """

    compat = True
    stale_last_observation = True

    def invalid_reward(self, before: float, own: float) -> float:
        """The reward of the step before is not cleared."""
        return before + own

    def end_flags(self, ended: bool, limit_reached: bool) -> tuple[bool, bool]:
        """The step limit terminates, too."""
        return ended or limit_reached, limit_reached
