"""Words of strangers: what a submission calls itself, made safe to print, to put into a table and to name a file."""

from __future__ import annotations

import hashlib
import re

from a2perf.plain_text import plain_text


def plain(text: str, limit: int = 400) -> str:
    """Returns words on one line: no control or bidirectional characters, cut where they go on for ever."""
    line = " ".join(plain_text(text).split())
    return line if len(line) <= limit else f"{line[: limit - 1]}…"


def slug(name: str, version: str) -> str:
    """Returns a file name for a submission: readable, of letters, digits and hyphens only, and its own."""
    words = re.sub(r"[^a-z0-9]+", "-", name.lower())[:40].strip("-")
    digest = hashlib.sha256(f"{name}\0{version}".encode(errors="surrogatepass")).hexdigest()[:8]
    return f"{words or 'submission'}-{digest}"
