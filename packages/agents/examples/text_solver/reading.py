"""Solves websites from their text: reads the instruction and the page, answers with a text action.

It knows the grammar of both texts and which label stands for which name, and nothing of the episode but its
observations. It needs the standard library only.
"""

from __future__ import annotations

import json
import re
from typing import NamedTuple

_STRING = r'"(?:[^"\\]|\\.)*"'
_LINE = re.compile(
    rf"(?P<number>\d+) (?P<role>[a-z]+)(?: (?P<name>{_STRING}))?(?: hint (?P<hint>{_STRING}))?(?P<primary> primary)?"
    rf"(?: = (?P<value>{_STRING}))?(?: (?P<checked>on|off))?(?: of (?P<options>{_STRING}(?:, {_STRING})*))?"
    r"(?P<marks>(?: visited| clicked| focused| new)*)"
)
_SITE = re.compile(r"site (\d+)/\d+ ")
_ORDINALS = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth")

# name in the instruction: role, label, placeholder
CONTROLS = {
    "address": ("textbox", "Address", ""),
    "apartment number": ("textbox", "", "Apt #"),
    "captcha": ("textbox", "Enter Captcha", ""),
    "city": ("textbox", "City", ""),
    "expiration date": ("textbox", "Expiration date", ""),
    "credit card number": ("textbox", "Credit card number", ""),
    "CVV": ("textbox", "CVV", ""),
    "departure airport": ("textbox", "From", ""),
    "departure date": ("textbox", "Depart", ""),
    "destination airport": ("textbox", "To", ""),
    "return date": ("textbox", "Return", ""),
    "first name": ("textbox", "First Name", ""),
    "full name": ("textbox", "Full Name", ""),
    "last name": ("textbox", "Last Name", ""),
    "number of passengers": ("number", "Number of passengers", ""),
    "password": ("password", "", "Password"),
    "ZIP code": ("textbox", "ZIP Code", ""),
    "remember me option": ("checkbox", "Remember me", ""),
    "stay logged in option": ("checkbox", "Stay logged in", ""),
    "user name": ("textbox", "", "Email or user name"),
}
# these have no label: they offer the value
CHOICES = {"cabin": "radio", "flight type": "radio", "payment method": "radio", "state": "select"}
_NAMES = "|".join(sorted((*CONTROLS, *CHOICES), key=len, reverse=True))
_GIVEN = re.compile(rf"\b({_NAMES})(?:: | to | = | )(\x00\d+\x00|on\b|off\b)")
_GIVEN_FIRST = re.compile(rf"(\x00\d+\x00|\bon|\boff) as the ({_NAMES})\b")


class Element(NamedTuple):
    """One line of a page."""

    number: int
    role: str
    name: str
    hint: str
    primary: bool
    options: tuple[str, ...]
    marks: frozenset[str]


def elements(page: str) -> list[Element]:
    """Returns the elements of a page; other lines are skipped.

    Args:
        page: the text of a page.
    """
    found = []
    for line in page.split("\n"):
        match = _LINE.fullmatch(line)
        if match is not None:
            found.append(
                Element(
                    number=int(match["number"]),
                    role=match["role"],
                    name=json.loads(match["name"] or '""'),
                    hint=json.loads(match["hint"] or '""'),
                    primary=match["primary"] is not None,
                    options=tuple(map(json.loads, re.findall(_STRING, match["options"] or ""))),
                    marks=frozenset(match["marks"].split()),
                )
            )
    return found


def wanted(instruction: str, page: str = "") -> dict[str, str | bool]:
    """Returns the values of an instruction, by their names in it.

    Args:
        instruction: the text of an instruction.
        page: if it has the number of a website, only the values for that website count.
    """
    strings: list[str] = []

    def keep(match: re.Match[str]) -> str:
        strings.append(json.loads(match[0]))
        return f"\0{len(strings) - 1}\0"

    def value(text: str) -> str | bool:
        return strings[int(text.strip("\0"))] if text.startswith("\0") else text == "on"

    # Without its values, nothing that a value contains can look like a part of the instruction.
    text = re.sub(_STRING, keep, instruction)
    site = _SITE.match(page)
    if site is not None:
        text = text.partition(f"On the {_ORDINALS[int(site[1]) - 1]} website: ")[2].partition(" that: On the ")[0]
    turned = [(name, given) for given, name in _GIVEN_FIRST.findall(text)]
    return {name: value(given) for name, given in (*_GIVEN.findall(text), *turned)}


def choose(observation: dict[str, str]) -> str:
    """Returns the next action: the next empty field of the page, else the next button.

    Args:
        observation: ``instruction`` and ``page``.
    """
    page = observation["page"]
    listed = elements(page)
    for name, value in wanted(observation["instruction"], page).items():
        found = _control(listed, name, value)
        if found is not None and "visited" not in found.marks:
            return _action(found, value)
    buttons = [element for element in listed if element.primary]
    pressed = next((button for button in buttons if "clicked" not in button.marks), buttons[-1])
    return f"click {pressed.number}"


def _control(listed: list[Element], name: str, value: str | bool) -> Element | None:
    role = CHOICES.get(name)
    if role is not None:
        return next((one for one in listed if one.role == role and value in (one.name, *one.options)), None)
    return next((one for one in listed if (one.role, one.name, one.hint) == CONTROLS[name]), None)


def _action(element: Element, value: str | bool) -> str:
    if element.role == "checkbox":
        return f"{'check' if value else 'uncheck'} {element.number}"
    if element.role == "radio":
        return f"click {element.number}"
    return f"{'select' if element.role == 'select' else 'fill'} {element.number} {json.dumps(value)}"
