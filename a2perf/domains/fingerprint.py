"""Fingerprints of environments: a change that alters one needs a new version of the environment.

A fingerprint hashes the spaces of an id and short traces; ``tests/fingerprints`` computes and compares them. Each
domain ships the recorded ones (``<domain>/data/fingerprints.json``); a bundle records that of its environment.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from a2perf.domains.registry import find_environment, get_domain


def stored_fingerprint(env_id: str) -> str | None:
    """Returns the recorded hash of an id, or None if none is shipped; reads one small file."""
    domain, environment = find_environment(env_id)
    recorded = recorded_fingerprints(domain.name).get(environment.id)
    return None if recorded is None else str(recorded["sha256"])


def recorded_fingerprints(domain: str) -> Mapping[str, Any]:
    """Returns the recorded fingerprints of a domain by id; empty if none are shipped."""
    try:
        text = (get_domain(domain).home / "data" / "fingerprints.json").read_text("utf-8")
    except (FileNotFoundError, NotADirectoryError):
        return {}
    recorded: Mapping[str, Any] = json.loads(text)
    return recorded
