"""What an environment still needs on this machine: packages to install or files to fetch. Imports none of them."""

from __future__ import annotations

import importlib.util

from a2perf import assets
from a2perf.domains.registry import Domain, Environment
from a2perf.errors import AssetUnavailable, install_hint


def missing_modules(domain: Domain) -> list[str]:
    """Returns the modules that a domain needs and that are not installed; imports none of them."""
    return [name for name in domain.requires if importlib.util.find_spec(name) is None]


def needed_command(domain: Domain, environment: Environment) -> str:
    """Returns the command that installs or fetches what an environment is missing; "" if it can be made."""
    if missing_modules(domain):
        return install_hint(domain.extra)
    if missing := [name for name in environment.requires if importlib.util.find_spec(name) is None]:
        return f"pip install {' '.join(missing)}"
    try:
        here = assets.available(one for one in domain.assets if one.name in environment.assets)
    except AssetUnavailable:  # a damaged file in the data folder; the fetch command explains it
        here = {}
    return "" if len(here) == len(environment.assets) else f"a2perf data fetch {domain.name}"
