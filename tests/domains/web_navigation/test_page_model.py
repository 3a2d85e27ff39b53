"""What acting on elements does, by role; and the fast arrays against the rows."""

import numpy as np
import pytest

from a2perf.domains.web_navigation.browsers.backend import End, rows_changed
from a2perf.domains.web_navigation.observation import Encoder, Sizes, encode, new_frame
from a2perf.domains.web_navigation.page.page_model import PageModel
from a2perf.domains.web_navigation.page.vocabulary import UnlockedVocabulary
from a2perf.domains.web_navigation.sites.website import build_site, checked_design
from tests.domains.web_navigation.sample_sites import PARTS, gold_of, row_of, site_of


def shown(site, **fixed):
    model = PageModel()
    model.reset(site, gold_of(site, **fixed), dict.fromkeys(site.slots, "$7"))
    return model


def act(model, html_id, value=None, occurrence=0):
    return model.act(row_of(model.rows(), html_id, occurrence), value)


def row(model, html_id, occurrence=0):
    rows = model.rows()
    return rows[row_of(rows, html_id, occurrence)]


@pytest.mark.parametrize(
    ("name", "control", "given", "value"),
    [
        ("city", "actionable_city", "Mountain View", "Mountain View"),
        ("city", "actionable_city", True, "true"),
        ("city", "actionable_city", None, ""),
        ("numberofpeople", "actionable_numberofpeople", "4", "4"),
        ("numberofpeople", "actionable_numberofpeople", "95123", "95123"),
        ("numberofpeople", "actionable_numberofpeople", "10/02/2020", ""),
        ("numberofpeople", "actionable_numberofpeople", "0000 0000", ""),
        ("state", "actionable_state", "NY", "NY"),
        ("state", "actionable_state", "Mountain View", ""),
        ("state", "actionable_state", None, ""),
        ("rememberme", "actionable_rememberme", True, True),
        ("rememberme", "actionable_rememberme", "1", True),
        ("rememberme", "actionable_rememberme", False, False),
        ("rememberme", "actionable_rememberme", "2", False),
        ("inpgroup1", "actionable_inputgroup_p0", "x", "x"),
    ],
)
def test_a_control_takes_what_it_can(name, control, given, value):
    model = shown(site_of(name))
    act(model, control, given)
    assert row(model, control).value == value
    assert row(model, control).classes.split()[-1] == "visited"


def test_a_field_counts_once_it_is_touched_and_right():
    model = shown(site_of("rememberme", "state", "city"), rememberme=False, state="CA")
    assert model.matched == 0
    assert act(model, "actionable_rememberme", False).matched == 1
    assert act(model, "actionable_state", "CA").matched == 2
    assert act(model, "actionable_city", "Rome").matched == 2
    assert act(model, "actionable_city", "Mountain View").matched == 3
    assert act(model, "label_rememberme").matched == 2


def test_a_repeated_fill_changes_nothing_and_a_first_touch_does():
    model = shown(site_of("city"))
    assert act(model, "actionable_city", "Rome").changed
    assert not act(model, "actionable_city", "Rome").changed
    assert act(model, "group_city").changed
    assert not act(model, "group_city").changed


def test_elements_without_id_and_the_shell_do_nothing():
    model = shown(site_of("city"))
    before = model.rows()
    for number, one in enumerate(before):
        if one.html_id in ("", "wrap", "area"):
            assert not model.act(number, "Rome").changed
    assert model.rows() == before


def test_a_radio_takes_the_button_of_the_value_and_touches_the_group():
    model = shown(site_of("cc"), credit_card_type="Debit Card")
    outcome = act(model, "actionable_credit_card_type_i0", "Debit Card")
    assert outcome.matched == 1
    assert row(model, "actionable_credit_card_type_i1").value is True
    assert row(model, "actionable_credit_card_type_i0").value is False
    assert all("visited" in row(model, f"actionable_credit_card_type_i{n}").classes for n in (0, 1))
    assert act(model, "actionable_credit_card_type_i1", "Credit Card").matched == 0
    assert row(model, "actionable_credit_card_type_i0").value is True


def test_a_label_focuses_its_control_without_touching_it():
    model = shown(site_of("city", "rememberme"))
    outcome = act(model, "label_city")
    assert outcome.changed
    assert row(model, "actionable_city").focused
    assert row(model, "actionable_city").tampered
    assert "visited" not in row(model, "actionable_city").classes
    act(model, "label_rememberme")
    assert row(model, "actionable_rememberme").value is True
    assert not row(model, "actionable_city").focused


def test_the_toggler_shows_and_hides_the_menu():
    model = shown(site_of("navbar", "city"))
    count = len(model.rows())
    assert act(model, "actionable_navbar_p0_i6").changed
    assert len(model.rows()) == count + 12
    assert row(model, "actionable_navbar_p0_i0").text == "Home"
    assert [one.classes for one in model.rows() if "collapse" in one.classes] == ["collapse navbar-collapse show"]
    act(model, "actionable_navbar_p0_i6")
    assert len(model.rows()) == count


@pytest.mark.parametrize(
    ("name", "html_id"),
    [
        ("navbar", "actionable_navbar_p0_i5"),
        ("carousel", "actionable_carousel_p0_i0"),
        ("deck", "actionable_deck_p0_i0"),
        ("cart", "actionable_cart_p0_i4"),
        ("footer1", "actionable_footer_p0_i2"),
        ("forgotusername", "actionable_forgotusername"),
        ("dealmedia", "actionable_dealmedia_p0"),
    ],
)
def test_a_link_ends_the_episode(name, html_id):
    assert act(shown(site_of(name)), html_id).end is End.LINK


def test_next_shows_the_following_page_and_submit_compares():
    model = shown(site_of("city", "state", pages=[0, 1]), state="CA")
    act(model, "actionable_city", "Mountain View")
    assert act(model, "actionable_next_p0").end is End.RUNNING
    assert row(model, "page1").html_id == "page1"
    assert act(model, "actionable_submit_p1").end is End.SOLVED  # the preselected state counts, untouched
    wrong = shown(site_of("city"))
    assert act(wrong, "actionable_submit_p0").end is End.WRONG
    nothing = shown(site_of("header"))
    assert act(nothing, "actionable_submit_p0").end is End.SOLVED


def test_buttons_wait_for_their_preconditions():
    model = shown(site_of("city", "state", pages=[0, 1], preconditions={"0": ["city"]}))
    act(model, "actionable_next_p0")
    assert [one.html_id for one in model.rows()][3] == "page0"
    act(model, "actionable_city", None)
    act(model, "actionable_next_p0")
    assert [one.html_id for one in model.rows()][3] == "page1"


def test_a_field_on_two_pages_counts_on_either():
    site = site_of("city", "city", pages=[0, 1])
    model = shown(site)
    act(model, "actionable_next_p0")
    assert act(model, "actionable_city", "Mountain View").matched == 1
    assert act(model, "actionable_submit_p1").end is End.SOLVED


def test_prices_of_the_cart_are_the_drawn_ones():
    model = shown(site_of("cart"))
    assert [one.text for one in model.rows() if one.text == "$7"] == ["$7"] * 4


def random_design(random):
    count = int(random.integers(2, 14))
    names = [str(name) for name in random.choice(PARTS, count)]
    return checked_design({"action": names, "action_page": [int(page) for page in random.integers(0, 3, count)]})


@pytest.mark.parametrize("compat", [False, True])
def test_fast_arrays_and_changes_are_those_of_the_rows(compat):
    """Tokens, masks, features and the changed flag of random play, against the plain definition of each."""
    random = np.random.default_rng(7)
    encoder = Encoder(UnlockedVocabulary(), 10)
    used = set()
    for _ in range(60):
        site = build_site(random_design(random), compat)
        used |= {name for name, _ in site.design.parts}
        model, fast = PageModel(), new_frame(Sizes(), encoder.padding)
        profile = site.draw_profile(random)
        model.reset(site, profile, site.draw_texts(random))
        values = [None, *profile.values()]
        model.write_page(fast, encoder, None)
        known = None
        for _ in range(15):
            plain = new_frame(Sizes(), encoder.padding)
            before = model.rows()
            encode(plain, before, known, encoder)
            for key in ("dom_elements", "dom_attribute_mask", "dom_elements_mask", "dom_features"):
                assert np.allclose(fast.arrays[key], plain.arrays[key], atol=1e-6), key
            known = frozenset(one.node for one in before)
            view = model.view
            outcome = model.act(int(random.integers(view.count)), values[int(random.integers(len(values)))])
            after = model.rows()
            assert outcome.changed == rows_changed(before, after)
            if model.view is view:
                fast.features[: view.count, 2] = 0.0
                model.write_rows(fast, encoder, model.dirty)
            else:
                model.write_page(fast, encoder, view)
            if outcome.end is not End.RUNNING:
                break
    assert len(used) > 35
