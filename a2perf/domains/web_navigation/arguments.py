"""Checks of arguments of the environment, options of a reset, and actions.

Every error names what was given, the nearest valid name, and the fix.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from a2perf.domains.arguments import integer_of_at_least, one_of, refuse_unknown
from a2perf.domains.web_navigation.observation import Sizes
from a2perf.domains.web_navigation.page.primitives import GOLD
from a2perf.domains.web_navigation.page.vocabulary import VOCABULARIES, DistributedVocabulary, read_vocabulary
from a2perf.domains.web_navigation.sites.designs import check_designs, load_designs
from a2perf.domains.web_navigation.sites.website import Site, WebsiteDesign, checked_design
from a2perf.errors import ConfigError

BACKENDS = ("model", "chromium")
_RESET_OPTIONS = ("design", "profile")
# arguments of the earlier implementation that do nothing any more
WITHOUT_EFFECT = (
    "base_url",
    "subdomain",
    "mode",
    "verbose",
    "verbose_prob",
    "raw_state",
    "use_only_profile_key",
    "step_limit_reward",
    "gminiwob_required_complexity",
    "gminiwob_unrequired_complexity",
)
# in the order of the fields of ``Sizes``
_SIZES = (
    "number_of_dom_elements",
    "number_of_fields",
    "dom_attribute_sequence_length",
    "profile_length",
    "number_of_action_types",
)


def checked_sizes(given: Mapping[str, Any]) -> Sizes:
    """Returns the sizes of the arrays, from arguments by name.

    Raises:
        ConfigError: one is not positive, or the keyboard does not fit the profile.
    """
    sizes = Sizes(*(integer_of_at_least(1, name, given[name]) for name in _SIZES))
    equal = ("keyboard_action_size", "number_of_fields"), ("dom_attribute_sequence_length", "profile_length")
    for one, other in equal:
        if given[one] != given[other]:
            raise ConfigError(f"{one} is {given[one]} and {other} is {given[other]}", hint="give equal numbers")
    return sizes


def choose_designs(
    num_websites: int | None, difficulty: int | None, designs: Any, data_dir: str | Path | None, seed: int
) -> tuple[WebsiteDesign, ...]:
    """Draws the websites of an environment.

    Args:
        num_websites: number of websites; by default the environment variable ``NUM_WEBSITES``.

    Raises:
        ConfigError: both or neither of ``difficulty`` and ``designs`` are given, or the number is out of range.
    """
    if num_websites is None:
        text = os.environ.get("NUM_WEBSITES")
        if text is None:
            raise ConfigError("num_websites is not given", hint="give num_websites, or set NUM_WEBSITES")
        if not text.isdigit():
            raise ConfigError(f"NUM_WEBSITES is {text!r}", hint="set it to a positive integer")
        num_websites = int(text)
    none_given = designs is None or (isinstance(designs, Sequence) and not isinstance(designs, str) and not designs)
    if (difficulty is None) == none_given:
        raise ConfigError(
            "neither difficulty nor designs is given" if none_given else "both difficulty and designs are given",
            hint="give difficulty=1, 2 or 3, or a list of designs",
        )
    known = check_designs(designs) if difficulty is None else load_designs(difficulty, data_dir)
    count = integer_of_at_least(1, "num_websites", num_websites)
    if count > len(known):
        raise ConfigError(f"num_websites is {count}", hint=f"there are {len(known)} designs to choose from")
    if count == len(known):
        return known
    chosen = np.random.default_rng(seed).choice(len(known), count, replace=False)
    return tuple(known[number] for number in chosen)


def checked_options(
    options: Mapping[str, Any] | None, designs: Sequence[WebsiteDesign]
) -> tuple[WebsiteDesign | None, Mapping[str, Any]]:
    """Returns the design and the gold values that a reset fixes.

    Raises:
        ConfigError: an option is unknown, or a design or its number is wrong.
    """
    refuse_unknown(options or (), _RESET_OPTIONS, "an option of reset")
    design = (options or {}).get("design")
    profile = (options or {}).get("profile") or {}
    if not isinstance(profile, Mapping):
        raise ConfigError(f"profile is {profile!r}", hint="give a mapping of profile keys to values")
    if isinstance(design, (int, np.integer)) and not isinstance(design, bool):
        if not 0 <= design < len(designs):
            raise ConfigError(f"there is no design {design}", hint=f"give a number from 0 to {len(designs) - 1}")
        return designs[int(design)], profile
    return (None if design is None else checked_design(design)), profile


def checked_profile(given: Mapping[str, Any], site: Site) -> dict[str, str | bool]:
    """Returns the gold values that a reset fixes.

    Raises:
        ConfigError: a key is not of the site, or its control cannot take the value.
    """
    refuse_unknown(given, site.fields, "a profile key of this site")
    checked: dict[str, str | bool] = {}
    for key, value in given.items():
        control = site.nodes[site.controls[site.fields.index(key)][0][0]]
        fixed = control.type in ("checkbox", "radio") or bool(control.options)
        if fixed and not any(type(value) is type(gold) and value == gold for gold in GOLD[key]):
            raise ConfigError(f"{key} is {value!r}", hint=f"choose one of: {', '.join(map(repr, GOLD[key]))}")
        if not isinstance(value, (str, bool)):
            raise ConfigError(f"{key} is {value!r}", hint="give a text")
        checked[key] = value
    return checked


def checked_action(action: Any, actions: int) -> int:
    """Returns an action as an integer.

    Raises:
        ConfigError: it is not a number in the action space.
    """
    try:
        number = action if type(action) is int else int(action)
        if number == action and 0 <= number < actions:
            return number
    except (TypeError, ValueError):
        pass
    raise ConfigError(f"{action!r} is not an action", hint=f"give an integer from 0 to {actions - 1}")


def checked_vocabulary(given: Any, kind: str, reload: bool) -> DistributedVocabulary:
    """Returns the token table: the given one, else a new one with what the run has saved.

    Raises:
        ConfigError: it is none, there is no such kind, or the saved file is corrupt.
    """
    if given is not None:
        if not isinstance(given, DistributedVocabulary):
            raise ConfigError(f"global_vocabulary is {given!r}", hint="give a vocabulary of this package")
        return given
    one_of("vocab_type", kind, tuple(VOCABULARIES))
    vocabulary = VOCABULARIES[kind]()
    root = os.environ.get("ROOT_DIR")
    files = sorted((Path(root) / "vocabulary").glob("*")) if root and reload else []
    if files:
        vocabulary.restore(read_vocabulary(files[-1]))
    return vocabulary
