"""Hand-made websites of growing difficulty (0 to 3), as before: log-in, address, shopping, flight, payment.

Each function returns the primitives of each page; ``as_design`` makes a design of that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import gin

from a2perf.domains.web_navigation.primitives import CONCEPTS, NO_PRIMITIVE
from a2perf.errors import ConfigError

__test__ = False  # the name begins like that of a test file
Pages = dict[int, list[str]]
_configurable = gin.configurable(module="a2perf.web_navigation.test_websites")
# what each step of difficulty adds
_LOGIN = (("username", "password"), ("rememberme",), ("stayloggedin", "forgotusername"), ("captcha", "forgotpassowrd"))
_ADDRESS = (("firstname", "lastname"), ("addressline1",), ("addressline2", "city"), ("zipcode", "state"))
_HOME = (("navbar",), ("carousel",), ("dealmedia",))
_FULL_HOME = ("navbar", "inpgroup1", "carousel", "dealmedia", "deck", "footer1")
_FLIGHT = (
    ("departureairport", "destinationairport"),
    ("departuredate", "destinationdate"),
    ("numberofpeople", "cabin"),
    ("flighttype",),
)
_PAYMENT = (("cc", "fullname"), ("ccnumber",), ("ccexpdate",), ("cccvv",))


def as_design(pages: Mapping[int, Sequence[str]]) -> dict[str, Any]:
    """Returns a design of the primitives of each page."""
    parts = [(name, page) for page in sorted(pages) for name in pages[page]]
    return {
        "number_of_pages": max(pages) + 1,
        "action": [name for name, _ in parts],
        "action_page": [page for _, page in parts],
    }


def _up_to(steps: Sequence[Sequence[str]], difficulty: int) -> list[str]:
    if isinstance(difficulty, bool) or difficulty not in range(4):
        raise ConfigError(f"difficulty is {difficulty!r}", hint="choose one of: 0, 1, 2, 3")
    return [name for step in steps[: difficulty + 1] for name in step]


def _home(difficulty: int) -> list[str]:
    names = list(_FULL_HOME) if difficulty == 3 else _up_to(_HOME, difficulty)
    return [*names, "next_login_page"]


def _form(steps: Sequence[Sequence[str]], difficulty: int, button: str) -> list[str]:
    return [*(["navbar"] if difficulty > 0 else []), *_up_to(steps, difficulty), button]


@_configurable
def create_login_pages(difficulty: int = 0) -> Pages:
    """One page with a log-in."""
    return {0: _form(_LOGIN, difficulty, "submit")}


@_configurable
def create_address_pages(difficulty: int = 0) -> Pages:
    """One page with an address."""
    return {0: _form(_ADDRESS, difficulty, "submit")}


@_configurable
def create_home_page_and_login(difficulty: int = 0) -> Pages:
    """A home page, then a log-in."""
    return {0: _home(difficulty), 1: _form(_LOGIN, difficulty, "submit")}


@_configurable
def create_home_page_and_address(difficulty: int = 0) -> Pages:
    """A home page, then an address."""
    return {0: _home(difficulty), 1: _form(_ADDRESS, difficulty, "submit")}


@_configurable
def create_shopping_website(difficulty: int = 0) -> Pages:
    """A home page, a log-in and an address."""
    return {
        0: _home(difficulty),
        1: _form(_LOGIN, difficulty, "next_login"),
        2: _form(_ADDRESS, difficulty, "submit"),
    }


@_configurable
def create_flight_website(difficulty: int = 0) -> Pages:
    """One page that books a flight."""
    return {0: ["navbar", *_up_to(_FLIGHT, difficulty), "footer1", "submit"]}


@_configurable
def create_payment_website(difficulty: int = 0) -> Pages:
    """One page that pays."""
    return {0: ["navbar", *_up_to(_PAYMENT, difficulty), "footer1", "submit"]}


@_configurable
def create_global_website() -> Pages:
    """One page with the whole catalogue."""
    return {0: [name for name in CONCEPTS if name != NO_PRIMITIVE]}
