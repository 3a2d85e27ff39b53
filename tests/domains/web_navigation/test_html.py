"""Pages for a browser: escaped texts, and nothing that is loaded from a network; ``test_conformance`` compares them."""

from __future__ import annotations

import re

import numpy as np

from a2perf.domains.web_navigation.page.html import body_of, element, empty_page, style_sheet
from a2perf.domains.web_navigation.page.nodes import PageNode
from a2perf.domains.web_navigation.page.primitives import CONCEPTS
from a2perf.domains.web_navigation.sites.website import build_site, checked_design


def test_texts_are_escaped_and_those_of_an_episode_stand_in_their_slots() -> None:
    written = element(PageNode("label", id='a"b', text="<script>&", font=16.0, h=24.0))
    assert written.endswith(">&lt;script&gt;&amp;</label>")
    assert 'id="a&quot;b"' in written
    site = build_site(checked_design({"action": ["cart"], "action_page": [0]}))
    texts = site.draw_texts(np.random.default_rng(3))
    written = element(site.root, texts)
    for text in texts.values():
        assert f">{text}<" in written
    assert f">{next(iter(texts.values()))}<" not in body_of(site)[1]


def test_nothing_is_loaded_from_a_network() -> None:
    site = build_site(checked_design({"action": list(CONCEPTS), "action_page": [0] * len(CONCEPTS)}))
    everything = empty_page() + body_of(site)[1]
    addresses = re.findall(r"""(?:src=|href=|url\()["']?([^"'\s)]*)""", everything)
    assert len(addresses) > 5
    assert all(address.startswith(("data:image/svg+xml,", "file:///")) for address in addresses)
    assert len(re.findall("file:", everything)) == style_sheet().count("file:") == 1
