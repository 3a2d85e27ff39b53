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
    placed,
    placed_text,
)


def _form_group(concept: str, height: float, children: list[PageNode], classes: str = "form-group") -> PageNode:
    return PageNode("div", f"group_{concept}", classes, h=height, children=children)


def text_input(concept: str, label: str, placeholder: str = "", kind: str = "text") -> Callable[[int], PageNode]:
    """An input, with a label if there is a caption for it."""

    def build(page: int) -> PageNode:
        top = 0.0
        children = []
        if label:
            children.append(
                placed_text(
                    "label", 0, 0, label, id=f"label_{concept}", control=f"actionable_{concept}", role=NodeRole.LABEL
                )
            )
            top = 32.0
        children.append(
            placed(
                "input",
                0,
                top,
                FORM_WIDTH,
                CONTROL_HEIGHT,
                id=f"actionable_{concept}",
                classes="form-control",
                type=kind,
                placeholder=placeholder,
                field=concept,
                role=NodeRole.TEXT,
                font=NORMAL,
                pad=12.0,
            )
        )
        return _form_group(concept, top + CONTROL_HEIGHT + 16.0, children)

    return build


def checkbox(concept: str, label: str) -> Callable[[int], PageNode]:
    """A checkbox with its label to the right."""

    def build(page: int) -> PageNode:
        control = f"actionable_{concept}"
        return _form_group(
            concept,
            32.0,
            [
                placed(
                    "input",
                    0,
                    5,
                    14.0,
                    14.0,
                    id=control,
                    classes="form-check-input",
                    type="checkbox",
                    field=concept,
                    role=NodeRole.CHECK,
                ),
                placed_text(
                    "label",
                    20,
                    0,
                    label,
                    id=f"label_{concept}",
                    classes="form-check-label",
                    control=control,
                    role=NodeRole.LABEL,
                ),
            ],
            "form-check",
        )

    return build


def selection(concept: str, options: tuple[str, ...]) -> Callable[[int], PageNode]:
    """A select without a label."""

    def build(page: int) -> PageNode:
        control = placed(
            "select",
            0,
            0,
            FORM_WIDTH,
            CONTROL_HEIGHT,
            id=f"actionable_{concept}",
            classes="custom-select d-block",
            options=options,
            field=concept,
            role=NodeRole.SELECT,
            font=NORMAL,
            pad=12.0,
        )
        return _form_group(concept, CONTROL_HEIGHT + 16.0, [control])

    return build


def radios(concept: str, heading: str, choices: tuple[str, ...]) -> Callable[[int], PageNode]:
    """Radio buttons below a heading, each with a label that does nothing."""

    def build(page: int) -> PageNode:
        items = []
        for number, choice in enumerate(choices):
            button = placed(
                "input",
                0,
                5,
                14.0,
                14.0,
                id=f"actionable_{concept}_i{number}",
                classes="custom-control-input",
                type="radio",
                choice=choice,
                field=concept,
                role=NodeRole.RADIO,
            )
            label = placed_text("label", 24, 0, choice, classes="custom-control-label")
            group = f"group_{concept}_p{page}_i{number}"
            items.append(PageNode("div", group, "custom-control custom-radio", h=26.0, children=[button, label]))
        # a heading without text has no height and is therefore not listed
        title = PageNode("h6", classes="mb-3", text=heading, h=32.0 if heading else 0.0, font=NORMAL)
        rows = PageNode("div", classes=f"d-block my-3 {concept}root", children=items)
        return PageNode("div", f"group_{concept}_p{page}", "d-block my-3", children=[title, rows])

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
        return PageNode("div", f"group_{concept}_p{page}", "form-group", h=64.0, children=[button])

    return build


def forgotten_link(concept: str, caption: str) -> Callable[[int], PageNode]:
    """A link that ends the episode."""

    def build(page: int) -> PageNode:
        link = placed_text("a", 0, 0, caption, id=f"actionable_{concept}", role=NodeRole.END)
        return PageNode("div", f"group_{concept}_p{page}", "form-group", h=40.0, children=[link])

    return build


def search_box(page: int) -> PageNode:
    """An input that belongs to no profile key."""
    box = placed(
        "input",
        0,
        0,
        FORM_WIDTH,
        CONTROL_HEIGHT,
        id=f"actionable_inputgroup_p{page}",
        classes="form-control",
        type="text",
        placeholder="Search",
        role=NodeRole.TEXT,
        font=NORMAL,
        pad=12.0,
    )
    return PageNode("div", f"group_inputgroup_p{page}", "input-group", h=CONTROL_HEIGHT + 16.0, children=[box])
