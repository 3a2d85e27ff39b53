"""Picture strips and videos of environments."""

from __future__ import annotations

import importlib.util
import io
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from a2perf.errors import MissingDependency

_STRIP_HEIGHT = 180


def strip(pictures: Iterable[NDArray[np.uint8]]) -> bytes:
    """Returns a PNG of pictures side by side; each is RGB, of shape (height, width, 3)."""
    from PIL import Image

    scaled = [
        Image.fromarray(picture).resize((round(picture.shape[1] * _STRIP_HEIGHT / picture.shape[0]), _STRIP_HEIGHT))
        for picture in pictures
    ]
    joined, left, content = Image.new("RGB", (sum(one.width for one in scaled), _STRIP_HEIGHT)), 0, io.BytesIO()
    for one in scaled:
        joined.paste(one, (left, 0))
        left += one.width
    joined.save(content, "png", optimize=False)
    return content.getvalue()


def missing_package() -> str | None:
    """Returns the first package that videos need and that is not installed."""
    return next((name for name in ("imageio", "imageio_ffmpeg") if importlib.util.find_spec(name) is None), None)


def write_video(path: Path, pictures: Iterable[NDArray[np.uint8] | Any], pictures_per_s: float) -> None:
    """Writes pictures as an MP4 file; they are consumed one at a time.

    Args:
        pictures: RGB, shape (height, width, 3), all of one size.

    Raises:
        MissingDependency: the video writer is not installed.
    """
    if missing_package() is not None:
        raise MissingDependency("videos need imageio and imageio-ffmpeg", hint="pip install imageio imageio-ffmpeg")
    import imageio

    path.parent.mkdir(parents=True, exist_ok=True)
    with imageio.get_writer(path, fps=pictures_per_s, macro_block_size=1) as writer:  # 1 keeps the size
        for picture in pictures:
            writer.append_data(np.asarray(picture, np.uint8))
