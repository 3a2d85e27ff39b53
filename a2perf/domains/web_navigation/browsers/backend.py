"""The interface of a page: the page model or a browser."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple, Protocol

from a2perf.errors import InfrastructureError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from a2perf.domains.web_navigation.sites.website import Site

Value = str | bool | None


class PageRow(NamedTuple):
    """One listed element of the current page.

    Attributes:
        tag: lower-case tag; inputs carry their type (``"input_text"``).
        value: checked state, typed string or selected option; None for everything else.
        text: text of a leaf; None if it contains elements.
    """

    node: int
    tag: str
    value: Value
    text: str | None
    placeholder: str | None
    classes: str
    html_id: str
    focused: bool
    tampered: bool
    left: float
    top: float
    width: float
    height: float

    @property
    def box(self) -> tuple[float, float, float, float]:
        """Left, top, width and height, px."""
        return self.left, self.top, self.width, self.height


class End(IntEnum):
    """How a page ended an episode."""

    RUNNING = 0
    LINK = 1
    SOLVED = 2
    WRONG = 3


class ActionOutcome(NamedTuple):
    """What an action did.

    Attributes:
        changed: the listed elements differ (see ``rows_changed``).
        matched: number of fields that are visited and equal to the gold value.
    """

    changed: bool
    matched: int
    end: End


class BackendLost(InfrastructureError):
    """The browser of the page ended; the next reset starts another one."""


class Backend(Protocol):
    """A page on which an environment acts."""

    def reset(self, site: Site, profile: Mapping[str, str | bool], texts: Mapping[str, str]) -> None:
        """Shows the first page of a site with untouched controls."""

    def act(self, row: int, value: Value) -> ActionOutcome:
        """Acts on a row of the page as it is now.

        Raises:
            BackendLost: what shows the page is gone.
        """

    def rows(self) -> Sequence[PageRow]:
        """Returns the listed elements in document order."""

    def picture(self) -> NDArray[np.uint8]:
        """Returns what is seen, RGB, shape (height, width, 3)."""

    def close(self) -> None:
        """Frees all resources."""


def rows_changed(before: Sequence[PageRow], after: Sequence[PageRow]) -> bool:
    """Whether a page changed: other elements, or another tag, text, value, class, size or click mark of one.

    Position and focus do not count.
    """
    if len(before) != len(after):
        return True
    return any(
        (old.node, old.tag, old.text, old.value, old.classes, old.width, old.height, old.tampered)
        != (new.node, new.tag, new.text, new.value, new.classes, new.width, new.height, new.tampered)
        for old, new in zip(before, after, strict=True)
    )
