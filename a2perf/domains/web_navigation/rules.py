"""The rules in which version 0 and the earlier implementation differ, one class each."""

from __future__ import annotations

from collections.abc import Sequence

from a2perf.domains.web_navigation.nodes import NodeRole, PageNode


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


def weaken(nodes: Sequence[PageNode]) -> None:
    """Takes from the nodes of a site what never worked.

    Of several elements with one id only the first can be acted on, and a radio group is found by the part of its key
    before the first underscore, so ``credit_card_type`` never is.
    """
    seen: set[str] = set()
    for node in nodes:
        if node.id in seen and node.role is not NodeRole.NONE:
            node.role = NodeRole.NONE
        elif node.role is NodeRole.RADIO and "_" in node.field:
            node.role = NodeRole.CLICK
        seen.add(node.id)
