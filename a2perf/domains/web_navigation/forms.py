"""Controls and buttons that stand in the form of a page."""

from __future__ import annotations

from collections.abc import Callable

from a2perf.domains.web_navigation.nodes import (
    CONTROL_HEIGHT,
    FORM_WIDTH,
    LARGE,
    NORMAL,
    NodeRole,
    PageNode,
    control,
    flow,
    link,
    placed,
    placed_text,
    text_box,
)


def _group(name: str, height: float, *children: PageNode, classes: str = "form-group") -> PageNode:
    return flow("div", *children, id=f"group_{name}", classes=classes, h=height)


def _mark(kind: str, **rest: object) -> PageNode:
    """A checkbox or a radio button."""
    return placed("input", 0, 5, 14.0, 14.0, type=kind, **rest)


def text_input(concept: str, label: str, placeholder: str = "", kind: str = "text") -> Callable[[int], PageNode]:
    """An input, with a label if there is a caption for it."""

    def build(page: int) -> PageNode:
        html_id, top = f"actionable_{concept}", 32.0 if label else 0.0
        above = []
        if label:
            above.append(placed_text("label", 0, 0, label, id=f"label_{concept}", control=html_id, role=NodeRole.LABEL))
        box = text_box(top, html_id, placeholder, kind=kind, field=concept)
        return _group(concept, top + CONTROL_HEIGHT + 16.0, *above, box)

    return build


def checkbox(concept: str, label: str) -> Callable[[int], PageNode]:
    """A checkbox with its label to the right."""

    def build(page: int) -> PageNode:
        html_id = f"actionable_{concept}"
        box = _mark("checkbox", id=html_id, classes="form-check-input", field=concept, role=NodeRole.CHECK)
        beside = placed_text(
            "label",
            20,
            0,
            label,
            id=f"label_{concept}",
            classes="form-check-label",
            control=html_id,
            role=NodeRole.LABEL,
        )
        return _group(concept, 32.0, box, beside, classes="form-check")

    return build


def selection(concept: str, options: tuple[str, ...]) -> Callable[[int], PageNode]:
    """A select without a label."""

    def build(page: int) -> PageNode:
        chosen = control(
            "select",
            id=f"actionable_{concept}",
            classes="custom-select d-block",
            options=options,
            field=concept,
            role=NodeRole.SELECT,
        )
        return _group(concept, CONTROL_HEIGHT + 16.0, chosen)

    return build


def radios(concept: str, heading: str, choices: tuple[str, ...]) -> Callable[[int], PageNode]:
    """Radio buttons below a heading, each with a label that does nothing."""

    def build(page: int) -> PageNode:
        items = []
        for number, choice in enumerate(choices):
            button = _mark(
                "radio",
                id=f"actionable_{concept}_i{number}",
                classes="custom-control-input",
                choice=choice,
                field=concept,
                role=NodeRole.RADIO,
            )
            label = placed_text("label", 24, 0, choice, classes="custom-control-label")
            name = f"{concept}_p{page}_i{number}"
            items.append(_group(name, 26.0, button, label, classes="custom-control custom-radio"))
        # a heading without text has no height and is therefore not listed
        title = flow("h6", classes="mb-3", text=heading, h=32.0 if heading else 0.0, font=NORMAL)
        rows = flow("div", *items, classes=f"d-block my-3 {concept}root")
        return flow("div", title, rows, id=f"group_{concept}_p{page}", classes="d-block my-3")

    return build


def page_button(concept: str, caption: str, role: NodeRole) -> Callable[[int], PageNode]:
    """The button that leads to the next page or submits."""

    def build(page: int) -> PageNode:
        button = placed(
            "button",
            0,
            0,
            FORM_WIDTH,
            48.0,
            id=f"actionable_{concept}_p{page}",
            text=caption,
            font=LARGE,
            classes="btn btn-primary btn-lg btn-block",
            role=role,
        )
        return _group(f"{concept}_p{page}", 64.0, button)

    return build


def forgotten_link(concept: str, caption: str) -> Callable[[int], PageNode]:
    """A link that ends the episode."""
    return lambda page: _group(f"{concept}_p{page}", 40.0, link(0, 0, caption, f"actionable_{concept}"))


def search_box(page: int) -> PageNode:
    """An input that belongs to no profile key."""
    box = text_box(0, f"actionable_inputgroup_p{page}", "Search")
    return _group(f"inputgroup_p{page}", CONTROL_HEIGHT + 16.0, box, classes="input-group")
