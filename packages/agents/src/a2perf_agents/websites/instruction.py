"""The instruction of an episode in English, generated from the profile and the sites.

Every profile key has one name. Values are JSON strings, and ``on`` or ``off`` for checkboxes, so an instruction is
unambiguous. How it is phrased depends on a number that the environment derives from the seed of the episode.
Compositions name the website of each value. In reversed order, the last website comes first and the text states this,
as in Furuta et al. 2023, arXiv:2311.18751.
"""

from __future__ import annotations

import functools
import json
import zlib
from collections.abc import Mapping, Sequence

FIELD_NAMES = {
    "address_line1": "address",
    "address_line2": "apartment number",
    "cabin": "cabin",
    "captcha": "captcha",
    "city": "city",
    "credit_card_expiration": "expiration date",
    "credit_card_number": "credit card number",
    "credit_card_type": "payment method",
    "credit_card_verification_code": "CVV",
    "departureairport": "departure airport",
    "departuredate": "departure date",
    "destinationairport": "destination airport",
    "destinationdate": "return date",
    "flighttype": "flight type",
    "name_first": "first name",
    "name_full": "full name",
    "name_last": "last name",
    "numberofpeople": "number of passengers",
    "password": "password",
    "postal_code": "ZIP code",
    "rememberme": "remember me option",
    "state": "state",
    "stayloggedin": "stay logged in option",
    "username": "user name",
}
"""Name of each profile key in instructions."""

_FORMS = (
    ("Fill in the form: ", "{name}: {value}", "; ", ". Then submit it."),
    ("Set ", "the {name} to {value}", ", ", ", and submit the form."),
    ("Complete the website with ", "{name} = {value}", ", ", " and place it."),
    ("Please enter ", "{value} as the {name}", ", ", ". Submit when all is filled in."),
    ("I need this form sent with ", "the {name} {value}", ", ", "."),
    ("Submit the form after you entered ", "{name} {value}", ", ", "."),
)
_EMPTY = ("Submit the form.", "Nothing has to be filled in: submit the form.", "Send the form as it is.")
_ORDINALS = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth")
PHRASINGS = len(_FORMS)


def phrasing_of(seed: int, episode: int) -> int:
    """Returns the number of the phrasing of an episode."""
    return zlib.crc32(f"{seed}:{episode}".encode())


def write_instruction(profile: Mapping[str, str | bool], phrasing: int = 0) -> str:
    """Returns the instruction for one website.

    Args:
        phrasing: selects the wording and the order of the values; any integer.

    Returns:
        One line of ASCII.
    """
    return _written(tuple(profile.items()), phrasing)


def write_composed_instruction(
    profiles: Sequence[Mapping[str, str | bool]], phrasing: int = 0, *, reversed_order: bool = False
) -> str:
    """Returns the instruction for several websites.

    Args:
        profiles: gold values per website, in the order of the visits.
    """
    ordinals = (*_ORDINALS, *(f"{number}th" for number in range(len(_ORDINALS) + 1, len(profiles) + 1)))
    tasks = [
        f"On the {ordinal} website: {write_instruction(profile, phrasing)}"
        for ordinal, profile in zip(ordinals, profiles, strict=False)
    ]
    count = f"There are {len(tasks)} websites"
    if reversed_order:
        return f"{count}; the last one comes first in this text. " + " But before that: ".join(reversed(tasks))
    return f"{count}, in this order. " + " After that: ".join(tasks)


@functools.lru_cache(maxsize=1024)
def _written(profile: tuple[tuple[str, str | bool], ...], phrasing: int) -> str:
    if not profile:
        return _EMPTY[phrasing % len(_EMPTY)]
    opening, form, joint, closing = _FORMS[phrasing % PHRASINGS]
    values = {key: json.dumps(value) if isinstance(value, str) else "on" if value else "off" for key, value in profile}
    parts = [form.format(name=FIELD_NAMES.get(key, key), value=values[key]) for key in sorted(values)]
    turn = phrasing // PHRASINGS % len(parts)
    return opening + joint.join(parts[turn:] + parts[:turn]) + closing
