"""Windows for the render mode ``"human"``."""

from __future__ import annotations

import os
import socket
from typing import Any

import numpy as np
from numpy.typing import NDArray

from a2perf.errors import ConfigError
from a2perf.system import LINUX

_HINT = "use render_mode='rgb_array', or run under a display (xvfb-run)"


def require_display(*, x11: bool = False) -> None:
    """Checks that a window can be opened.

    Args:
        x11: require an X server that answers, for libraries that end the process without one.

    Raises:
        ConfigError: there is no display.
    """
    if not LINUX:
        return
    display = os.environ.get("DISPLAY", "")
    if not display and (x11 or not os.environ.get("WAYLAND_DISPLAY")):
        raise ConfigError("render_mode 'human' needs a display, and DISPLAY is not set", hint=_HINT)
    if x11 and not _listens(display):
        raise ConfigError(f"render_mode 'human' needs a display, and nothing listens on DISPLAY={display}", hint=_HINT)


def _listens(display: str) -> bool:
    host, _, number = display.rpartition(":")
    number = number.partition(".")[0]
    if not number.isdigit():
        return False
    attempts: list[tuple[socket.AddressFamily, Any]] = [(socket.AF_INET, (host, 6000 + int(number)))]
    if host in ("", "unix"):
        name = f"/tmp/.X11-unix/X{number}"
        attempts = [(socket.AF_UNIX, name), (socket.AF_UNIX, f"\0{name}")]  # by file, and by abstract name
    for family, address in attempts:
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            # A host that drops packets would otherwise block for minutes.
            probe.settimeout(2.0)
            try:
                probe.connect(address)
            except OSError:
                continue
            return True
    return False


class PictureWindow:
    """Shows pictures in a window, one after the other.

    Args:
        pause_s: time per picture, s.

    Raises:
        ConfigError: there is no display.
    """

    def __init__(self, title: str, pause_s: float, size: tuple[float, float] | None = None) -> None:
        require_display()
        from matplotlib import pyplot

        self._plot: Any = pyplot
        self._pause_s = pause_s
        self._figure, self._axes = pyplot.subplots(figsize=size, num=title)
        self._axes.set_axis_off()
        self._figure.subplots_adjust(0, 0, 1, 1)
        self._image: Any = None

    def show(self, picture: NDArray[np.uint8]) -> None:
        """Shows a picture, RGB, shape (height, width, 3)."""
        if self._image is None:
            self._image = self._axes.imshow(picture)
        self._image.set_data(picture)
        self._plot.pause(self._pause_s)

    def close(self) -> None:
        """Closes the window."""
        self._plot.close(self._figure)
