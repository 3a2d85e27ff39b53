"""The rules of version 0 that the earlier implementation had otherwise; ``compat`` overrides them."""

from __future__ import annotations


class WebRules:
    """The rules of version 0."""

    compat = False
    # the observation of the last step shows the page after the action
    stale_last_observation = False

    def invalid_reward(self, before: float, own: float) -> float:
        """Reward of an action on no element.

        Args:
            before: reward of the step before, 0 after a reset.
            own: what a step without effect gets.
        """
        return own

    def end_flags(self, ended: bool, limit_reached: bool) -> tuple[bool, bool]:
        """Returns (terminated, truncated)."""
        return ended, limit_reached and not ended
