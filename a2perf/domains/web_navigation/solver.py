"""The scripted solver: the shortest episode that fills every field and submits, read off the page model's own state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from a2perf.domains.web_navigation.browsers.backend import End, Value
from a2perf.domains.web_navigation.observation import Sizes, profile_rows
from a2perf.domains.web_navigation.page.nodes import NodeRole
from a2perf.domains.web_navigation.page.page_model import PageModel
from a2perf.domains.web_navigation.page.primitives import GOLD
from a2perf.domains.web_navigation.sites.website import Site, WebsiteDesign, build_site
from a2perf.errors import ConfigError

_FILLS = (NodeRole.TEXT, NodeRole.SELECT, NodeRole.CHECK, NodeRole.RADIO)


def solve(
    site: Site,
    profile: Mapping[str, str | bool],
    sizes: Sizes | None = None,
    rows: Sequence[tuple[str, Value]] | None = None,
) -> list[int]:
    """Returns the actions of a perfect episode: each field once, where it stands first, and the buttons.

    Args:
        rows: the profile as observed, with keys of other sites perhaps; by default sorted by key.

    Raises:
        ConfigError: the site has no solution; the message names the element that cannot be reached.
    """
    sizes = sizes or Sizes()
    model = PageModel(sizes.elements)
    model.reset(site, profile, {})
    if rows is None:
        rows = profile_rows(profile)
    row_of_key = {key: number for number, (key, _) in enumerate(rows)}
    values: dict[str, Value] = dict(rows)
    actions: list[int] = []
    filled: set[str] = set()
    for page in range(site.pages):
        for row in range(model.view.count):
            node = site.nodes[model.view.nodes[row]]
            if node.field in filled or node.field not in values or node.role not in _FILLS:
                continue
            if row_of_key[node.field] >= sizes.fields:
                raise ConfigError(f"the profile key {node.field!r} has no row", hint=f"at most {sizes.fields} rows")
            model.act(row, values[node.field])
            actions.append(row_of_key[node.field] * sizes.elements + row)
            filled.add(node.field)
        end, row = _press(model, site, page)
        actions.append(row)
        if end is End.SOLVED:
            return actions
        if end is not End.RUNNING:
            break
    missing = [key for key in site.fields if key not in filled or not model.matches[site.fields.index(key)]]
    raise ConfigError(
        f"the design has no solution: {', '.join(missing) or 'the submit button'} cannot be filled or reached",
        hint=f"at most {sizes.elements} elements are observed on a page; see the page on web navigation",
    )


def _press(model: PageModel, site: Site, page: int) -> tuple[End, int]:
    """Presses the button that leads on; returns how the page ended and the row."""
    wanted = NodeRole.SUBMIT if page == site.pages - 1 else NodeRole.NEXT
    for row in range(model.view.count):
        node = site.nodes[model.view.nodes[row]]
        if node.role is wanted and node.target >= 0:
            before = model.view
            end = model.act(row, None).end
            if end is not End.RUNNING or model.view is not before:
                return end, row
    return End.WRONG, 0


def solution_length(design: WebsiteDesign) -> int:
    """Actions of a perfect episode: one for each field and one for each page."""
    return len(design.fields) + design.pages


def check_solvable(design: WebsiteDesign, step_limit: int, sizes: Sizes) -> None:
    """Refuses a design without a solution.

    Raises:
        ConfigError: it needs more steps than an episode has, or something lies outside the observed rows.
    """
    needed = solution_length(design)
    if needed > step_limit:
        raise ConfigError(
            f"the design {design.as_record()} has no solution: it needs {needed} steps, an episode has {step_limit}",
            hint="raise step_limit, or give a smaller design",
        )
    site = build_site(design)
    solve(site, {key: GOLD[key][0] for key in site.fields}, sizes)
