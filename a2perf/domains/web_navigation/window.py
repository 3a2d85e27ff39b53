"""A window that shows pictures of a page to a person."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from numpy.typing import NDArray

from a2perf.errors import ConfigError

_PAUSE = 0.1  # s, so that a person can follow


def require_display() -> None:
    """Refuses a window on a host without a display.

    Raises:
        ConfigError: neither DISPLAY nor WAYLAND_DISPLAY is set.
    """
    if not os.environ.get("DISPLAY") and not os.environ.get("WAYLAND_DISPLAY"):
        raise ConfigError("render_mode 'human' needs a display, and there is none", hint="use render_mode='rgb_array'")


class Window:
    """One window."""

    def __init__(self) -> None:
        from matplotlib import pyplot

        self._plot: Any = pyplot
        self._figure, self._axes = pyplot.subplots(figsize=(3.75, 6.67), num="web navigation")
        self._axes.set_axis_off()
        self._figure.subplots_adjust(0, 0, 1, 1)
        self._image: Any = None

    def show(self, picture: NDArray[np.uint8]) -> None:
        """Shows a picture, RGB, shape (height, width, 3)."""
        if self._image is None:
            self._image = self._axes.imshow(picture)
        self._image.set_data(picture)
        self._plot.pause(_PAUSE)

    def close(self) -> None:
        """Closes the window."""
        self._plot.close(self._figure)
