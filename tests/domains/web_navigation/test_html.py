"""Pages for a browser: the same elements as in the page model, and nothing that is loaded from a network."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import numpy as np
import pytest

from a2perf.domains.web_navigation.html import body_of, element, empty_page, style_sheet
from a2perf.domains.web_navigation.nodes import PageNode
from a2perf.domains.web_navigation.primitives import CONCEPTS
from a2perf.domains.web_navigation.website import build_site, checked_design


class _Elements(HTMLParser):
    """Collects tag, depth, text and attributes of each element in document order."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, int, dict[str, str | None]]] = []
        self.texts: dict[int, str] = {}
        self._open: list[int] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "option":
            return
        self.found.append((tag, len(self._open), dict(attrs)))
        if tag not in ("img", "input"):
            self._open.append(len(self.found) - 1)

    def handle_endtag(self, tag: str) -> None:
        if tag != "option":
            assert self.found[self._open.pop()][0] == tag

    def handle_data(self, data: str) -> None:
        if self.lasttag != "option":
            self.texts[self._open[-1]] = data


@pytest.mark.parametrize("name", [name for name in CONCEPTS if name != "#none#"])
def test_a_page_has_the_elements_of_the_model_in_the_same_order(name: str) -> None:
    site = build_site(checked_design({"action": [name, name], "action_page": [0, 1]}))
    parser = _Elements()
    parser.feed(body_of(site)[1])
    depth = {-1: -2}
    for node in site.nodes:
        depth[node.index] = depth[node.parent] + 1
    assert len(parser.found) == len(site.nodes) - 1
    for number, ((tag, level, attributes), node) in enumerate(zip(parser.found, site.nodes[1:], strict=True)):
        assert (tag, level, attributes["data-n"]) == (node.tag, depth[node.index], str(node.index))
        assert (attributes.get("id", ""), attributes.get("class", "")) == (node.id, node.classes)
        assert ("display:none" in attributes.get("style", "")) == node.hidden  # type: ignore[operator]
        assert parser.texts.get(number, "") == node.text


def test_texts_and_attributes_are_escaped() -> None:
    written = element(PageNode("label", id='a"b', text="<script>&", font=16.0, h=24.0))
    assert written.endswith(">&lt;script&gt;&amp;</label>")
    assert 'id="a&quot;b"' in written


def test_texts_of_an_episode_stand_in_their_slots() -> None:
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
