"""The catalogue of page parts by name: what stands for which profile key, and where on a page it goes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from a2perf.domains.web_navigation.page import parts
from a2perf.domains.web_navigation.page.nodes import NodeRole, PageNode
from a2perf.errors import ConfigError, did_you_mean


@dataclass(frozen=True)
class Primitive:
    """One entry of the catalogue.

    Attributes:
        concept: what it stands for; the profile key of a core primitive.
    """

    name: str
    concept: str
    build: Callable[[int], PageNode]
    in_form: bool = False
    gold: tuple[str | bool, ...] = ()

    @property
    def core(self) -> bool:
        """Whether it has a profile field."""
        return bool(self.gold)


_TEXT_FIELDS = (
    ("username", "username", "", "Email or user name", "text", ("john@email.com",)),
    ("password", "password", "", "Password", "password", ("pass",)),
    ("captcha", "captcha", "Enter Captcha", "", "text", ("CaPtChA",)),
    ("firstname", "name_first", "First Name", "", "text", ("John",)),
    ("lastname", "name_last", "Last Name", "", "text", ("Wick",)),
    ("fullname", "name_full", "Full Name", "", "text", ("John Wick",)),
    ("addressline1", "address_line1", "Address", "", "text", ("413 E Mountain View",)),
    ("addressline2", "address_line2", "", "Apt #", "text", ("2042",)),
    ("city", "city", "City", "", "text", ("Mountain View",)),
    ("zipcode", "postal_code", "ZIP Code", "", "text", ("95123",)),
    ("ccnumber", "credit_card_number", "Credit card number", "", "text", ("0000 0000 0000 0000",)),
    ("ccexpdate", "credit_card_expiration", "Expiration date", "", "text", ("2025",)),
    ("cccvv", "credit_card_verification_code", "CVV", "", "text", ("123",)),
    ("departureairport", "departureairport", "From", "", "text", ("San Francisco Airport (SFO)",)),
    ("destinationairport", "destinationairport", "To", "", "text", ("Los Angeles Airport (LAX)",)),
    ("departuredate", "departuredate", "Depart", "", "text", ("10/02/2020",)),
    ("destinationdate", "destinationdate", "Return", "", "text", ("10/03/2020",)),
    ("numberofpeople", "numberofpeople", "Number of passengers", "", "number", ("1", "2", "3", "4", "5")),
)
_RADIO_FIELDS = (
    ("cc", "credit_card_type", "Payment", ("Credit Card", "Debit Card")),
    ("cabin", "cabin", "Cabin", ("Economy", "First")),
    ("flighttype", "flighttype", "", ("Oneway", "Roundtrip")),
)
_PASSIVE_TOP = (
    ("navbar", "navbar", parts.navbar),
    ("carousel", "carousel", parts.carousel),
    ("dealmedia", "dealmedia", parts.dealmedia),
    ("deck", "deck", parts.deck),
    ("cart", "cart", parts.cart),
    ("header", "header", parts.header("Shipping Information")),
    ("header_login", "header", parts.header("Login")),
    ("header_select_items", "header", parts.header("Select items")),
    ("footer1", "footer", parts.footer),
)
_PASSIVE_FORM = (
    ("inpgroup1", "inputgroup", parts.search_box),
    ("forgotusername", "forgotusername", parts.forgotten_link("forgotusername", "Forgot user name.")),
    ("forgotpassowrd", "forgotpassword", parts.forgotten_link("forgotpassword", "Forgot password.")),
    ("next_login_page", "next", parts.page_button("next", "Login", NodeRole.NEXT)),
    ("next_login", "next", parts.page_button("next", "Login and Checkout", NodeRole.NEXT)),
    ("next_checkout", "next", parts.page_button("next", "Checkout", NodeRole.NEXT)),
    ("submit", "submit", parts.page_button("submit", "Place Order", NodeRole.SUBMIT)),
)
NO_PRIMITIVE = "#none#"


def _nothing(page: int) -> PageNode:
    raise ConfigError(f"{NO_PRIMITIVE!r} stands for no element")


def _catalogue() -> dict[str, Primitive]:
    entries = [
        *(
            Primitive(name, concept, parts.text_input(concept, label, placeholder, kind), True, gold)
            for name, concept, label, placeholder, kind, gold in _TEXT_FIELDS
        ),
        Primitive("rememberme", "rememberme", parts.checkbox("rememberme", "Remember me"), True, (True, False)),
        Primitive(
            "stayloggedin", "stayloggedin", parts.checkbox("stayloggedin", "Stay logged in"), True, (True, False)
        ),
        Primitive("state", "state", parts.selection("state", ("CA", "NY")), True, ("CA", "NY")),
        *(
            Primitive(name, concept, parts.radios(concept, heading, choices), True, choices)
            for name, concept, heading, choices in _RADIO_FIELDS
        ),
        *(Primitive(name, concept, build) for name, concept, build in _PASSIVE_TOP),
        *(Primitive(name, concept, build, True) for name, concept, build in _PASSIVE_FORM),
        Primitive(NO_PRIMITIVE, "", _nothing),
    ]
    return {entry.name: entry for entry in entries}


CATALOGUE: dict[str, Primitive] = _catalogue()
CONCEPTS: tuple[str, ...] = tuple(sorted(CATALOGUE))
CORE: tuple[str, ...] = tuple(name for name in CONCEPTS if CATALOGUE[name].core)
GOLD: dict[str, tuple[str | bool, ...]] = {entry.concept: entry.gold for entry in CATALOGUE.values() if entry.core}


def default_button(page: int, *, last: bool) -> PageNode:
    """Returns the default button of a page without one."""
    return parts.page_button("submit" if last else "next", "Click", NodeRole.SUBMIT if last else NodeRole.NEXT)(page)


def primitive(given: str | int) -> Primitive:
    """Returns a primitive by name, or by its position in the sorted names.

    Raises:
        ConfigError: there is none; the message names the nearest one.
    """
    if isinstance(given, int) and not isinstance(given, bool):
        if not 0 <= given < len(CONCEPTS):
            raise ConfigError(
                f"primitive {given} does not exist", hint=f"use a name, or a number from 0 to {len(CONCEPTS) - 1}"
            )
        return CATALOGUE[CONCEPTS[given]]
    if given not in CATALOGUE:
        near = did_you_mean(str(given), CATALOGUE)
        raise ConfigError(f"primitive {given!r} does not exist{near}", hint=f"choose among: {', '.join(CONCEPTS)}")
    return CATALOGUE[str(given)]


def fields_of(names: Sequence[str]) -> tuple[str, ...]:
    """Profile keys of the core primitives among some names, sorted, each once."""
    return tuple(sorted({CATALOGUE[name].concept for name in names if CATALOGUE[name].core}))
