"""Pictures of placements."""

import numpy as np
import pytest

from a2perf.domains.circuit_training.environment import CircuitEnv
from a2perf.domains.circuit_training.errors import ArgumentError
from a2perf.errors import ConfigError

PURPLE = np.array([191, 127, 191])


def toy_env(**kwargs):
    env = CircuitEnv(design="toy_macro_stdcell", render_mode="rgb_array", **kwargs)
    env.reset()
    return env


def test_a_macro_is_drawn_at_its_true_box_with_y_upwards():
    env = toy_env()
    # cell (row 7, column 3): centre (35, 75) um of a 200 x 100 um canvas
    env.step(env.translate_to_padded_canvas(7 * 20 + 3))
    picture = env.render()
    assert picture.shape == (600, 800, 3)
    purple = (np.abs(picture.astype(int) - PURPLE).max(axis=2) < 30).nonzero()
    scale = (800 - 2 * 37) / 200.0
    bottom = 300 + 50 * scale
    assert purple[1].min() == pytest.approx(37 + 20 * scale, abs=2)
    assert purple[1].max() == pytest.approx(37 + 50 * scale, abs=2)
    assert purple[0].min() == pytest.approx(bottom - 95 * scale, abs=2)
    assert purple[0].max() == pytest.approx(bottom - 55 * scale, abs=2)


def test_only_placed_macros_are_drawn_and_overlays_change_the_picture():
    pictures = {}
    for overlays in ((), ("nets",), ("congestion",), ("density",)):
        env = toy_env(overlays=overlays)
        _, info = env.reset()
        empty = env.render()
        assert not (np.abs(empty.astype(int) - PURPLE).max(axis=2) < 5).any()
        for _ in range(2):
            *_, info = env.step(int(np.flatnonzero(info["action_mask"])[-1]))
        pictures[overlays] = env.render()
    plain = pictures.pop(())
    assert all((picture != plain).any() for picture in pictures.values())


def test_without_a_render_mode_there_is_no_picture_and_a_window_needs_a_display(monkeypatch):
    env = CircuitEnv(design="toy_macro_stdcell")
    env.reset()
    assert env.render() is None
    monkeypatch.delenv("DISPLAY", raising=False)
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    with pytest.raises(ConfigError, match="display"):
        CircuitEnv(design="toy_macro_stdcell", render_mode="human")
    with pytest.raises(ArgumentError, match="overlays is 'wires'"):
        CircuitEnv(design="toy_macro_stdcell", overlays=("wires",))
