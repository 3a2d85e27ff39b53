"""Actions as text: ``click 12``, ``fill 7 "Ann"``, ``select 3 "CA"``, ``check 5``, ``uncheck 5``, ``submit``.

An action is parsed strictly: one space between its parts, and the value as a JSON string. ``TextActionError`` is the
outcome of an invalid one; its text is the ``error:`` line of the next observation.

The spaces of texts are here, too. Shown texts are ASCII: everything else is escaped as in JSON. An action may be any
text, because invalid ones must reach the environment and cost a step there.
"""

from __future__ import annotations

import json
import re
import string
from collections.abc import Sequence
from typing import Any, NamedTuple

from gymnasium import spaces
from numpy.typing import NDArray

MOST_ACTION = 1000  # characters of an action
MOST_VALUE = 200  # characters of a value
_SHOWN_CHARACTERS = 60
_SHOWN_NUMBERS = 20
VERBS = ("click", "fill", "select", "check", "uncheck", "submit")
WITH_VALUE = ("fill", "select")
SYNTAX = 'click N, fill N "TEXT", select N "OPTION", check N, uncheck N, submit'
_FORM = re.compile(r'([a-z]+)(?: ([0-9]{1,6}))?(?: ("(?:[^"\\]|\\.)*"))?', re.DOTALL)
MOST_SHOWN = 1 << 16  # characters of an observation
MOST_RECEIVED = 1 << 16  # characters of an action; longer ones are not in the space
_PRINTABLE = "".join(map(chr, range(32, 127)))
_SHOWN = re.compile(r"[\n\x20-\x7e]*", re.ASCII)
_WORDS = ("John", "95123", "")

_Mask = tuple[int | None, NDArray[Any] | None]


class TextActionError(ValueError):
    """An action is invalid; the text names what was given and what is valid, in one line of ASCII."""


class TextAction(NamedTuple):
    """An action after parsing.

    Attributes:
        verb: one of ``VERBS``.
        number: of the element; -1 for ``submit``.
        value: text of ``fill``, option of ``select``; None for the others.
    """

    verb: str
    number: int = -1
    value: str | None = None

    def __str__(self) -> str:
        parts = [self.verb, *([str(self.number)] if self.number >= 0 else [])]
        return " ".join(parts if self.value is None else [*parts, json.dumps(self.value)])


def quoted(text: str) -> str:
    """Returns a text of a stranger as a JSON string of ASCII, cut to 60 characters."""
    cut = text if len(text) <= _SHOWN_CHARACTERS else text[: _SHOWN_CHARACTERS - 3] + "..."
    return json.dumps(cut)


def numbers(found: Sequence[int]) -> str:
    """Returns numbers of elements as a text; at most 20 of them."""
    shown = ", ".join(map(str, found[:_SHOWN_NUMBERS]))
    return (f"{shown}, ..." if len(found) > _SHOWN_NUMBERS else shown) or "none"


def parse_action(text: str) -> TextAction:
    """Returns the action that a text states; spaces and line ends around it do not count.

    Raises:
        TextActionError: the text is not an action.
    """
    if len(text) > MOST_ACTION:
        raise TextActionError(f"an action of {len(text)} characters; at most {MOST_ACTION} are valid")
    given = text.strip()
    found = _FORM.fullmatch(given)
    if found is None or found[1] not in VERBS:
        raise TextActionError(f"{quoted(given)} is not an action; valid: {SYNTAX}")
    verb, number, value = found.groups()
    if (number is None) != (verb == "submit") or (value is None) == (verb in WITH_VALUE):
        form = next(form for form in SYNTAX.split(", ") if form.split()[0] == verb)
        raise TextActionError(f"{quoted(given)} does not have the form of {verb}; valid: {form}")
    return TextAction(verb, -1 if number is None else int(number), None if value is None else _value(value))


def _value(quoted_value: str) -> str:
    try:
        value: str = json.loads(quoted_value)
    except ValueError:
        raise TextActionError(
            f"{quoted(quoted_value)} is not a JSON string; escape quotes and backslashes with a backslash"
        ) from None
    if len(value) > MOST_VALUE:
        raise TextActionError(f"a value of {len(value)} characters; at most {MOST_VALUE} are valid")
    if not value.isprintable():
        raise TextActionError(f"the value {quoted(value)} has characters that cannot be typed; leave them out")
    return value


class ShownText(spaces.Text):
    """Printable ASCII and line feeds, at most ``max_length`` characters."""

    def __init__(self, max_length: int = MOST_SHOWN) -> None:
        super().__init__(max_length, min_length=0, charset=_PRINTABLE + "\n")

    def arguments(self) -> tuple[int]:
        """See ``plain_spaces``."""
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
        """See ``plain_spaces``."""
        return self.elements, self.max_length

    def contains(self, x: Any) -> bool:
        """Returns whether ``x`` is such a text."""
        return isinstance(x, str) and len(x) <= self.max_length

    def sample(self, mask: _Mask | None = None, probability: _Mask | None = None) -> str:
        """Returns an action with valid syntax; its element need not exist."""
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
