"""The spaces of texts: what the environment shows, and what it takes.

Shown texts are ASCII: everything else is escaped as in JSON. An action may be any text, because invalid ones must reach
the environment and cost a step there.
"""

from __future__ import annotations

import re
import string
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

MOST_SHOWN = 1 << 16  # characters of an observation
MOST_RECEIVED = 1 << 16  # characters of an action; longer ones are not in the space
_PRINTABLE = "".join(map(chr, range(32, 127)))
_SHOWN = re.compile(r"[\n\x20-\x7e]*", re.ASCII)
_WORDS = ("John", "95123", "")

_Mask = tuple[int | None, NDArray[Any] | None]


class ShownText(spaces.Text):
    """Printable ASCII and line feeds, at most ``max_length`` characters."""

    def __init__(self, max_length: int = MOST_SHOWN) -> None:
        super().__init__(max_length, min_length=0, charset=_PRINTABLE + "\n")

    def arguments(self) -> tuple[int]:
        """Returns the arguments that make the space again, see ``plain_spaces``."""
        return (self.max_length,)

    def contains(self, x: Any) -> bool:
        """Returns whether ``x`` is such a text."""
        return isinstance(x, str) and len(x) <= self.max_length and _SHOWN.fullmatch(x) is not None


class ActionText(spaces.Text):
    """Any text of at most ``max_length`` characters."""

    def __init__(self, elements: int = 250, max_length: int = MOST_RECEIVED) -> None:
        super().__init__(max_length, min_length=0, charset=string.printable)
        self.elements = elements

    def arguments(self) -> tuple[int, int]:
        """Returns the arguments that make the space again, see ``plain_spaces``."""
        return self.elements, self.max_length

    def contains(self, x: Any) -> bool:
        """Returns whether ``x`` is such a text."""
        return isinstance(x, str) and len(x) <= self.max_length

    def sample(self, mask: _Mask | None = None, probability: _Mask | None = None) -> str:
        """Returns an action with valid syntax; its element need not exist.

        Args:
            mask: as in Gymnasium, then any text.
            probability: as in Gymnasium, then any text.
        """
        if mask is not None or probability is not None:
            return super().sample(mask, probability)
        random = self.np_random
        number = int(random.integers(self.elements))
        word = _WORDS[int(random.integers(len(_WORDS)))]
        forms = (f"click {number}", f'fill {number} "{word}"', f'select {number} "CA"', f"check {number}", "submit")
        return forms[int(random.integers(len(forms)))]

    @property
    def is_np_flattenable(self) -> bool:
        """False: an action may contain any character."""
        return False

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ActionText) and self.max_length == other.max_length

    __hash__ = None  # type: ignore[assignment]


def text_space() -> spaces.Dict:
    """Returns the space of text observations: ``instruction`` and ``page``."""
    return spaces.Dict({"instruction": ShownText(), "page": ShownText()})


def screenshot_space(shape: tuple[int, int, int]) -> spaces.Dict:
    """Returns the space of observations with a picture: those of texts, and ``screenshot``, uint8 of ``shape``."""
    picture = spaces.Box(0, 255, shape, np.uint8)
    return spaces.Dict({"instruction": ShownText(), "page": ShownText(), "screenshot": picture})
