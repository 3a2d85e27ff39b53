"""Text of strangers made safe: on one line for tables, and as a file name."""

from __future__ import annotations

import hashlib
import re

from a2perf.plain_text import plain_text


def plain(text: str, limit: int = 400) -> str:
    """Returns text on one line, without control or bidirectional characters, cut off at ``limit`` characters."""
    line = " ".join(plain_text(text).split())
    return line if len(line) <= limit else f"{line[: limit - 1]}…"


def slug(name: str, version: str) -> str:
    """Returns a readable file name of letters, digits and hyphens, unique for each name and version."""
    readable = re.sub(r"[^a-z0-9]+", "-", name.lower())[:40].strip("-")
    digest = hashlib.sha256(f"{name}\0{version}".encode(errors="surrogatepass")).hexdigest()[:8]
    return f"{readable or 'submission'}-{digest}"
