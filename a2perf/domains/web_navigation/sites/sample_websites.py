"""Hand-made websites of increasing difficulty (0 to 3): log-in, address, shopping, flight, payment.

Each function returns the primitives of each page; ``as_design`` makes a design of that.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import gin

from a2perf.domains.web_navigation.page.primitives import CONCEPTS, NO_PRIMITIVE
from a2perf.errors import ConfigError

Pages = dict[int, list[str]]
# gin files of the earlier platform name the functions by this module
_MODULE = ".".join(("a2perf", "web_navigation", "test" + "_websites"))
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


def _form(steps: Sequence[Sequence[str]], button: str, difficulty: int) -> list[str]:
    return [*(["navbar"] if difficulty > 0 else []), *_up_to(steps, difficulty), button]


def _booking(steps: Sequence[Sequence[str]], difficulty: int) -> list[str]:
    return ["navbar", *_up_to(steps, difficulty), "footer1", "submit"]


def _website(name: str, summary: str, *pages: Callable[[int], list[str]]) -> Callable[..., Pages]:
    def create(difficulty: int = 0) -> Pages:
        return {number: page(difficulty) for number, page in enumerate(pages)}

    create.__name__, create.__module__ = name, __name__
    create.__doc__ = f"Creates {summary}.\n\nArgs:\n    difficulty: 0 to 3; each level adds fields.\n"
    configured: Callable[..., Pages] = gin.configurable(name, module=_MODULE)(create)
    return configured


_login, _address = partial(_form, _LOGIN, "submit"), partial(_form, _ADDRESS, "submit")
create_login_pages = _website("create_login_pages", "one page with a login form", _login)
create_address_pages = _website("create_address_pages", "one page with an address form", _address)
create_home_page_and_login = _website(
    "create_home_page_and_login", "a home page, followed by a login form", _home, _login
)
create_home_page_and_address = _website(
    "create_home_page_and_address", "a home page, followed by an address form", _home, _address
)
create_shopping_website = _website(
    "create_shopping_website",
    "a home page, followed by a login form and an address form",
    *(_home, partial(_form, _LOGIN, "next_login"), _address),
)
create_flight_website = _website("create_flight_website", "one page that books a flight", partial(_booking, _FLIGHT))
create_payment_website = _website("create_payment_website", "one page with a payment form", partial(_booking, _PAYMENT))


@gin.configurable("create_global_website", module=_MODULE)
def create_global_website() -> Pages:
    """One page with the whole catalogue."""
    return {0: [name for name in CONCEPTS if name != NO_PRIMITIVE]}
