"""Designs and sites: checks, page chains, buttons, preconditions, drawn texts."""

import numpy as np
import pytest

from a2perf.domains.web_navigation.page.nodes import NodeRole
from a2perf.domains.web_navigation.sites.website import checked_design
from a2perf.errors import ConfigError
from tests.domains.web_navigation.sample_sites import SHOP, site_of


def buttons(site, page):
    return [
        (node.role, node.text, node.target)
        for node in site.nodes
        if node.page == page and node.text and node.role in (NodeRole.NEXT, NodeRole.SUBMIT)
    ]


def test_repetitions_and_nothing_are_dropped_and_order_is_kept():
    design = checked_design({"action": ["city", "#none#", "cc", "city"], "action_page": [0, 0, 0, 0]})
    assert design.parts == (("city", 0), ("cc", 0))
    design = checked_design({"number_of_pages": 6, "action": ["city", "cc"], "action_page": [0, 2]})
    assert design.pages == 3


def test_numbers_and_the_older_keys_give_the_same_design():
    from a2perf.domains.web_navigation.page.primitives import CONCEPTS

    older = {
        "number_of_nodes": 2,
        "primitive_assignments": [CONCEPTS.index(name) for name in SHOP["action"]],
        "node_assignments": SHOP["action_page"],
    }
    assert checked_design(older) == checked_design(SHOP)
    assert checked_design(checked_design(SHOP).as_record()) == checked_design(SHOP)


@pytest.mark.parametrize(
    ("design", "message"),
    [
        ({"action": ["city"], "action_page": [-1]}, "page -1 of 'city' is out of range"),
        ({"number_of_pages": 1, "action": ["city"], "action_page": [1]}, "page 1 of 'city' is out of range"),
        ({"action": ["citty"], "action_page": [0]}, "did you mean 'city'"),
        ({"action": ["city"], "action_page": []}, "1 primitives and 0 pages"),
        ({"action": ["city"], "pages": [0]}, "'pages' is not a key of a design"),
        ({"action": "city", "action_page": [0]}, "action of a design is 'city'"),
        ({"number_of_pages": "2", "action": ["city"], "action_page": [0]}, "number_of_pages of a design is '2'"),
        (["city"], "must be a mapping"),
        ({"action": ["city"], "action_page": [0], "preconditions": {"0": ["cc"]}}, "'cc' of page 0 cannot be met"),
        ({"action": ["city"], "action_page": [0], "preconditions": {"4": ["city"]}}, "preconditions of page '4'"),
    ],
)
def test_a_wrong_design_is_refused_with_its_value(design, message):
    with pytest.raises(ConfigError, match=message):
        checked_design(design)


def test_pages_form_a_chain_and_get_a_button_where_they_have_none():
    site = site_of("city", "state", "cc", pages=[0, 1, 2])
    assert [buttons(site, page) for page in range(3)] == [
        [(NodeRole.NEXT, "Click", 1)],
        [(NodeRole.NEXT, "Click", 2)],
        [(NodeRole.SUBMIT, "Click", 0)],
    ]


def test_own_buttons_lead_on_in_order_and_misplaced_ones_do_nothing():
    site = site_of("submit", "next_login", "next_checkout", "next_login", "city", pages=[0, 0, 0, 1, 1])
    assert buttons(site, 0) == [
        (NodeRole.SUBMIT, "Place Order", -1),
        (NodeRole.NEXT, "Login and Checkout", 1),
        (NodeRole.NEXT, "Checkout", 1),
    ]
    assert buttons(site, 1) == [(NodeRole.NEXT, "Login and Checkout", -1), (NodeRole.SUBMIT, "Click", 0)]


def test_nodes_are_numbered_in_document_order_with_the_form_last():
    ids = [node.id for node in site_of("city", "footer1", "header").nodes if node.id.startswith(("group", "mainform"))]
    assert ids == ["group_footer_p0", "group_header", "mainform", "group_city", "group_submit_p0"]
    site = site_of(*SHOP["action"], pages=SHOP["action_page"])
    assert [node.index for node in site.nodes] == list(range(len(site.nodes)))
    assert all(site.nodes[node.parent].index < node.index for node in site.nodes[1:])
    assert site.nodes[site.page_nodes[1]].hidden


def test_drawn_profiles_and_prices_keep_their_ranges():
    site = site_of(*SHOP["action"], pages=SHOP["action_page"])
    random = np.random.default_rng(0)
    seen = {key: set() for key in site.fields}
    for _ in range(200):
        for key, value in site.draw_profile(random).items():
            seen[key].add(value)
        texts = site.draw_texts(random)
        prices = [int(text[1:]) for text in texts.values()]
        assert len(prices) == 4
        assert all(1 <= price <= 50 for price in prices[:3])
        assert prices[3] == sum(prices[:3])
    assert seen["numberofpeople"] == {"1", "2", "3", "4", "5"}
    assert seen["rememberme"] == {True, False}
    assert seen["state"] == {"CA", "NY"}
    assert seen["username"] == {"john@email.com"}
