"""Pictures of a website from both backends."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from a2perf.domains.web_navigation.environment import WebNavigationEnv
from a2perf.domains.web_navigation.solver import solve
from a2perf.domains.web_navigation.website import checked_design

SITE = {"number_of_pages": 2, "action": ["navbar", "city", "cabin", "cart"], "action_page": [0, 0, 1, 1]}


def _picture(backend: str) -> NDArray[np.float64]:
    """Returns the first page with its field filled in, in shades of grey."""
    design = checked_design(SITE)
    with WebNavigationEnv(designs=[design], num_websites=1, backend=backend, render_mode="rgb_array") as env:
        env.reset(seed=0, options={"design": design})
        env.step(solve(env.site, env.profile)[0])
        picture = env.render()
        assert picture is not None
        return picture.mean(axis=2)


def test_picture_of_the_page_model_shows_a_site_half_filled_in() -> None:
    picture = _picture("model")
    assert picture.shape == (667, 375)
    assert (picture[100:140, 20:150] < 128).sum() > 50  # "Mountain View" in the field of the city


@pytest.mark.group("chromium")
@pytest.mark.usefixtures("keeper")
def test_pictures_of_both_backends_show_the_same_site() -> None:
    ours, theirs = _picture("model"), _picture("chromium")
    assert theirs.shape == (667, 375)
    # colours and corners may differ; where something dark stands may not
    dark = [image < 140 for image in (ours, theirs)]
    assert (dark[0] & dark[1]).sum() > 0.7 * max(dark[0].sum(), dark[1].sum())
