"""Elements of pages as data: tag, ids, classes, text, size in CSS px, and a role that defines the effect of an action.

The browser's page and the page model are both built from such trees. Sizes are explicit: no text wraps, and no box
depends on the style sheet of a browser.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from enum import IntEnum

PAGE_WIDTH = 375.0  # px, of the simulated phone
PAGE_MIN_HEIGHT = 667.0
FORM_WIDTH = 345.0
CONTROL_HEIGHT = 38.0
SMALL = 14.0  # px, font sizes
NORMAL = 16.0
LARGE = 20.0


class NodeRole(IntEnum):
    """Effect of an action on a node; every role but NONE first marks the node as visited."""

    NONE = 0
    CLICK = 1
    TEXT = 2
    SELECT = 3
    CHECK = 4
    RADIO = 5
    LABEL = 6
    TOGGLE = 7
    NEXT = 8
    SUBMIT = 9
    END = 10


@dataclass(eq=False, slots=True)
class PageNode:
    """One element of a page.

    Attributes:
        w: width, px; None is the parent's width in the flow, the width of the text elsewhere.
        h: height, px; None is the sum of the visible children, in the flow only.
        x, y: left and upper edge in the parent's box, px, outside the flow.
        flow: a block in the normal flow, else absolutely positioned.
        options: of a select; the first one is preselected.
        slot: name of a text that is drawn again for each episode.
        preconditions: ids that must be visited before a next or submit button works.
        index: position in document order over the whole site.
        page: number of its page, -1 for the shell.
        target: page of a next button, node of a toggler, 0 for a working submit button; -1 for no effect.
    """

    tag: str
    id: str = ""
    classes: str = ""
    text: str = ""
    role: NodeRole = NodeRole.NONE
    w: float | None = None
    h: float | None = None
    x: float = 0.0
    y: float = 0.0
    pad: float = 0.0
    font: float = 0.0
    min_h: float = 0.0
    flow: bool = True
    hidden: bool = False
    type: str = ""
    placeholder: str = ""
    options: tuple[str, ...] = ()
    choice: str = ""
    field: str = ""
    control: str = ""
    slot: str = ""
    preconditions: tuple[str, ...] = ()
    children: list[PageNode] = dataclasses.field(default_factory=list, repr=False)
    index: int = -1
    page: int = -1
    parent: int = -1
    target: int = -1

    def __post_init__(self) -> None:
        if self.id and self.role is NodeRole.NONE and self.id not in ("wrap", "area"):
            self.role = NodeRole.CLICK

    @property
    def listed_tag(self) -> str:
        """The tag as observed: inputs carry their type."""
        return f"input_{self.type}" if self.tag == "input" else self.tag


def flow(tag: str, *children: PageNode, **rest: object) -> PageNode:
    """A node in the flow of its parent, with its children."""
    return PageNode(tag, children=list(children), **rest)  # type: ignore[arg-type]


def placed(tag: str, x: float, y: float, w: float | None, h: float, *children: PageNode, **rest: object) -> PageNode:
    """A node at a stated offset in its parent, with its children."""
    return flow(tag, *children, x=x, y=y, w=w, h=h, flow=False, **rest)


def placed_text(tag: str, x: float, y: float, text: str, font: float = NORMAL, **rest: object) -> PageNode:
    """A line of text at a stated offset, as wide as the text."""
    return placed(tag, x, y, None, font * 1.5, text=text, font=font, **rest)


def link(x: float, y: float, caption: str, id: str, font: float = NORMAL, classes: str = "") -> PageNode:
    """A link that ends the episode."""
    return placed_text("a", x, y, caption, font, id=id, classes=classes, role=NodeRole.END)


def text_box(
    y: float, id: str, placeholder: str = "", w: float = FORM_WIDTH, kind: str = "text", field: str = ""
) -> PageNode:
    """An input for a text."""
    role = NodeRole.TEXT
    return control(
        "input", y, w, id=id, classes="form-control", type=kind, placeholder=placeholder, field=field, role=role
    )


def control(tag: str, y: float = 0.0, w: float = FORM_WIDTH, **rest: object) -> PageNode:
    """A control of the usual height."""
    return placed(tag, 0, y, w, CONTROL_HEIGHT, font=NORMAL, pad=12.0, **rest)
