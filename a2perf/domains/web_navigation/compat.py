"""The behaviours of the earlier implementation that version 0 mends, in one place; ``compat=True`` chooses them."""

from __future__ import annotations

from collections.abc import Sequence

from a2perf.domains.web_navigation.nodes import Node, Role


def weaken(nodes: Sequence[Node]) -> None:
    """Takes from the nodes of a site what never worked.

    Of several elements with one id only the first can be acted on, and a radio group is found by the part of its key
    before the first underscore, so ``credit_card_type`` never is.
    """
    seen: set[str] = set()
    for node in nodes:
        if node.id in seen and node.role is not Role.NONE:
            node.role = Role.NONE
        elif node.role is Role.RADIO and "_" in node.field:
            node.role = Role.CLICK
        seen.add(node.id)
