"""The text actions that equal actions on the arrays, and those of a perfect episode."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from a2perf.domains.web_navigation.backend import Value
from a2perf.domains.web_navigation.nodes import NodeRole
from a2perf.domains.web_navigation.observation import Sizes, profile_rows
from a2perf.domains.web_navigation.page_model import PageModel
from a2perf.domains.web_navigation.solver import solve
from a2perf.domains.web_navigation.text.actions import TextAction
from a2perf.domains.web_navigation.text.view import is_primary
from a2perf.domains.web_navigation.website import Site


def text_solution(
    site: Site,
    profile: Mapping[str, str | bool],
    sizes: Sizes | None = None,
    rows: Sequence[tuple[str, Value]] | None = None,
) -> list[str]:
    """Returns the text actions of a perfect episode on one website.

    Args:
        sizes: of the arrays; elements beyond them are not listed.
        rows: the profile as observed; by default sorted by key.

    Raises:
        ConfigError: the site has no solution.
    """
    sizes = sizes or Sizes()
    rows = profile_rows(profile) if rows is None else rows
    return list(_texts(site, profile, sizes, rows, solve(site, profile, sizes, rows)))


def _texts(
    site: Site,
    profile: Mapping[str, str | bool],
    sizes: Sizes,
    rows: Sequence[tuple[str, Value]],
    actions: Sequence[int],
) -> Iterator[str]:
    model = PageModel(sizes.elements)
    model.reset(site, profile, {})
    for action in actions:
        field, row = divmod(action, sizes.elements)
        yield str(_text_of(model, row, rows[field][1]))
        model.act(row, rows[field][1])


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
