"""Designs and walks that several tests share."""

import numpy as np

from a2perf.domains.web_navigation.page.primitives import CATALOGUE, CONCEPTS, NO_PRIMITIVE
from a2perf.domains.web_navigation.sites.website import build_site, checked_design

LOGIN = {"number_of_pages": 1, "action": ["username", "password", "submit"], "action_page": [0, 0, 0]}
SHOP = {
    "number_of_pages": 2,
    "action": ["navbar", "cart", "username", "rememberme", "next_login", "state", "cc", "cabin", "numberofpeople"],
    "action_page": [0, 0, 0, 0, 0, 1, 1, 1, 1],
}
PARTS = tuple(name for name in CONCEPTS if name != NO_PRIMITIVE)


def site_of(*names, pages=None, **rest):
    """The site of some primitives, all on the first page by default."""
    design = {"action": list(names), "action_page": list(pages or [0] * len(names)), **rest}
    return build_site(checked_design(design))


def gold_of(site, **fixed):
    """The first gold value of every field of a site, some fixed."""
    return {key: fixed.get(key, CATALOGUE_GOLD[key]) for key in site.fields}


CATALOGUE_GOLD = {entry.concept: entry.gold[0] for entry in CATALOGUE.values() if entry.core}


def row_of(rows, html_id, occurrence=0):
    """The position of the n-th listed element with an id."""
    return [number for number, row in enumerate(rows) if row.html_id == html_id][occurrence]


def random_action(random: np.random.Generator, mask):
    """A valid action."""
    return int(random.choice(np.flatnonzero(mask)))
