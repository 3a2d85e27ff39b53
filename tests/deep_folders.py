"""Folders in folders, deeper than a path can name."""

from __future__ import annotations

import os
from pathlib import Path


def nest(folder: Path, name: str, depth: int, content: bytes = b"") -> None:
    """Makes so many folders of a name below each other, and in the deepest a file with the content."""
    folder.mkdir(exist_ok=True)
    here = os.open(folder, os.O_RDONLY)
    for _ in range(depth):
        os.mkdir(name, dir_fd=here)
        below = os.open(name, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    if content:
        with open(os.open("file", os.O_CREAT | os.O_WRONLY, dir_fd=here), "wb") as file:
            file.write(content)
    os.close(here)
