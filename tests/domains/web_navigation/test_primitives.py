"""The catalogue: 41 names, how many elements each adds, ids, gold values."""

import pytest

from a2perf.domains.web_navigation.page.layout import listed_boxes
from a2perf.domains.web_navigation.page.nodes import PAGE_WIDTH, NodeRole
from a2perf.domains.web_navigation.page.primitives import CATALOGUE, CONCEPTS, CORE, primitive
from a2perf.errors import ConfigError
from tests.domains.web_navigation.sample_sites import PARTS, site_of

# elements at first view, as observed in the earlier implementation (the cart: those that can be indexed)
ELEMENTS = {
    "navbar": 7,
    "carousel": 10,
    "dealmedia": 6,
    "deck": 57,
    "cart": 34,
    "footer1": 11,
    "header": 2,
    "cc": 9,
    "cabin": 9,
    "flighttype": 8,
    "state": 2,
    "username": 2,
    "password": 2,
    "addressline2": 2,
    "inpgroup1": 2,
    "forgotusername": 2,
    "forgotpassowrd": 2,
    "header_login": 2,
    "header_select_items": 2,
    "next_login_page": 2,
    "next_login": 2,
    "next_checkout": 2,
    "submit": 2,
}
SHELL = 8  # body, wrap, area, page, container, row, column, form
BUTTON = 2


def test_there_are_41_names_of_which_24_have_a_profile_field():
    assert len(CONCEPTS) == 41
    assert len(CORE) == len({CATALOGUE[name].concept for name in CORE}) == 24
    assert len(listed_boxes(site_of("#none#"), 0, ())) == SHELL + BUTTON


@pytest.mark.parametrize("name", PARTS)
def test_each_part_adds_the_elements_that_it_should_on_the_page(name):
    listed = listed_boxes(site_of(name), 0, ())
    assert len(listed) - SHELL - (0 if name == "submit" else BUTTON) == ELEMENTS.get(name, 3)
    height = listed[0][1].height
    for node, box in listed:
        assert 0.0 <= box.left <= box.left + box.width <= PAGE_WIDTH, node.id
        assert 0.0 <= box.top <= box.top + box.height <= height, node.id


@pytest.mark.parametrize("name", CORE)
def test_a_core_part_has_a_control_that_takes_each_gold_value(name):
    entry = CATALOGUE[name]
    site = site_of(name)
    assert site.fields == (entry.concept,)
    group = [site.nodes[node] for node in site.controls[0][0]]
    if group[0].type == "radio":
        assert [node.choice for node in group] == list(entry.gold)
        assert [node.id for node in group] == [f"actionable_{entry.concept}_i{n}" for n in range(len(group))]
    else:
        assert group[0].id == f"actionable_{entry.concept}"
        if group[0].options:
            assert group[0].options == entry.gold
        if group[0].type == "checkbox":
            assert set(entry.gold) == {True, False}


def test_links_end_the_episode():
    for name, links in (("navbar", 6), ("deck", 8), ("cart", 4), ("footer1", 4), ("dealmedia", 1)):
        assert sum(node.role is NodeRole.END for node in site_of(name).nodes) == links


def test_a_primitive_is_a_name_or_a_position_in_the_sorted_names():
    assert primitive(CONCEPTS.index("cc")).name == "cc"
    with pytest.raises(ConfigError, match="primitive 41 does not exist"):
        primitive(41)
    with pytest.raises(ConfigError, match="did you mean 'username'"):
        primitive("usernam")
