"""Hand-made websites of increasing difficulty (0 to 3): log-in, address, shopping, flight, payment.

Each function returns the primitives of each page; ``as_design`` makes a design of that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import gin

from a2perf.domains.web_navigation.primitives import CONCEPTS, NO_PRIMITIVE
from a2perf.errors import ConfigError

Pages = dict[int, list[str]]
# gin files of the earlier platform name the functions by this module
_configurable = gin.configurable(module=".".join(("a2perf", "web_navigation", "test" + "_websites")))
# parts that each difficulty adds
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
    """Creates one page with a login form.

    Args:
        difficulty: 0 to 3; each level adds fields.
    """
    return {0: _form(_LOGIN, difficulty, "submit")}


@_configurable
def create_address_pages(difficulty: int = 0) -> Pages:
    """Creates one page with an address form.

    Args:
        difficulty: 0 to 3; each level adds fields.
    """
    return {0: _form(_ADDRESS, difficulty, "submit")}


@_configurable
def create_home_page_and_login(difficulty: int = 0) -> Pages:
    """Creates a home page, followed by a login form.

    Args:
        difficulty: 0 to 3; each level adds fields.
    """
    return {0: _home(difficulty), 1: _form(_LOGIN, difficulty, "submit")}


@_configurable
def create_home_page_and_address(difficulty: int = 0) -> Pages:
    """Creates a home page, followed by an address form.

    Args:
        difficulty: 0 to 3; each level adds fields.
    """
    return {0: _home(difficulty), 1: _form(_ADDRESS, difficulty, "submit")}


@_configurable
def create_shopping_website(difficulty: int = 0) -> Pages:
    """Creates a home page, followed by a login form and an address form.

    Args:
        difficulty: 0 to 3; each level adds fields.
    """
    return {
        0: _home(difficulty),
        1: _form(_LOGIN, difficulty, "next_login"),
        2: _form(_ADDRESS, difficulty, "submit"),
    }


@_configurable
def create_flight_website(difficulty: int = 0) -> Pages:
    """Creates one page that books a flight.

    Args:
        difficulty: 0 to 3; each level adds fields.
    """
    return {0: ["navbar", *_up_to(_FLIGHT, difficulty), "footer1", "submit"]}


@_configurable
def create_payment_website(difficulty: int = 0) -> Pages:
    """Creates one page with a payment form.

    Args:
        difficulty: 0 to 3; each level adds fields.
    """
    return {0: ["navbar", *_up_to(_PAYMENT, difficulty), "footer1", "submit"]}


@_configurable
def create_global_website() -> Pages:
    """One page with the whole catalogue."""
    return {0: [name for name in CONCEPTS if name != NO_PRIMITIVE]}
