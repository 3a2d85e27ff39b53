"""The actions of the scripted solver as texts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from a2perf.domains.web_navigation.browsers.backend import Value
from a2perf.domains.web_navigation.observation import Sizes
from a2perf.domains.web_navigation.page.nodes import NodeRole
from a2perf.domains.web_navigation.page.page_model import PageModel
from a2perf.domains.web_navigation.sites.website import Site
from a2perf.domains.web_navigation.solver import solve
from a2perf_agents.websites.actions import TextAction
from a2perf_agents.websites.view import is_primary


def text_solution(
    site: Site, profile: Mapping[str, str | bool], sizes: Sizes, rows: Sequence[tuple[str, Value]]
) -> list[str]:
    """Returns the text actions of a perfect episode on one website.

    Args:
        rows: the profile as observed, with keys of other sites perhaps.

    Raises:
        ConfigError: the site has no solution.
    """
    model, texts = PageModel(sizes.elements), []
    model.reset(site, profile, {})
    for action in solve(site, profile, sizes, rows):
        field, row = divmod(action, sizes.elements)
        texts.append(str(_text_of(model, row, rows[field][1])))
        model.act(row, rows[field][1])
    return texts


def _text_of(model: PageModel, row: int, value: Value) -> TextAction:
    """Returns the text action with the effect of giving a value to a row, for an action of a solution."""
    nodes = model.site.nodes
    number = model.view.nodes[row]
    role = nodes[number].role
    if role is NodeRole.TEXT:
        return TextAction("fill", number, value if isinstance(value, str) else "")
    if role is NodeRole.SELECT:
        return TextAction("select", number, str(value))
    if role is NodeRole.CHECK:
        return TextAction("check" if value is True else "uncheck", number)
    if role is NodeRole.RADIO:
        group = next(group for groups in model.site.controls for group in groups if number in group)
        return TextAction("click", next(button for button in group if nodes[button].choice == value))
    first = next((other for other in model.view.nodes[: model.view.count] if is_primary(nodes[other])), -1)
    return TextAction("submit") if first == number else TextAction("click", number)
