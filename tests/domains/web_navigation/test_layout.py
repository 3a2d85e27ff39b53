"""Boxes: stacking, text widths from the font, menus."""

import pytest

from a2perf.domains.web_navigation.layout import listed_boxes, text_width
from tests.domains.web_navigation.sample_sites import site_of


def boxes_of(site, page=0, open_menus=()):
    return {node.id: box for node, box in listed_boxes(site, page, open_menus) if node.id}


def test_advance_widths_are_those_of_the_font():
    # DejaVu Sans: a = 1255 and W = 2025 of 2048 units per em
    assert text_width("a", 2048.0) == 1255.0
    assert text_width("W", 16.0) == pytest.approx(16.0 * 2025 / 2048)
    assert text_width("aW", 16.0) == pytest.approx(text_width("a", 16.0) + text_width("W", 16.0))


def test_form_groups_stack_without_gaps():
    boxes = boxes_of(site_of("firstname", "password", "submit"))
    assert boxes["group_name_first"] == (15.0, 0.0, 345.0, 86.0)
    assert boxes["actionable_name_first"] == (15.0, 32.0, 345.0, 38.0)
    assert boxes["group_password"] == (15.0, 86.0, 345.0, 54.0)
    assert boxes["group_submit_p0"].top == 140.0


def test_a_label_is_as_wide_as_its_text():
    box = boxes_of(site_of("firstname"))["label_name_first"]
    assert box.width == pytest.approx(text_width("First Name", 16.0))


def test_an_open_menu_moves_what_is_below():
    site = site_of("navbar", "city")
    menu = next(node.index for node in site.nodes if node.hidden)
    closed, opened = boxes_of(site), boxes_of(site, 0, (menu,))
    assert set(opened) - set(closed) == {f"actionable_navbar_p0_i{number}" for number in range(5)}
    assert opened["actionable_city"].top - closed["actionable_city"].top == 200.0
    assert len(listed_boxes(site, 0, (menu,))) - len(listed_boxes(site, 0, ())) == 12


def test_only_the_shown_page_is_listed():
    site = site_of("city", "state", pages=[0, 1])
    assert "actionable_city" not in boxes_of(site, 1)
    assert boxes_of(site, 1)["page1"].top == 0.0


def test_a_short_page_fills_the_window_and_a_long_one_grows():
    assert boxes_of(site_of("city"))["wrap"].height == 667.0
    assert boxes_of(site_of("deck", "cart"))["wrap"].height > 667.0
