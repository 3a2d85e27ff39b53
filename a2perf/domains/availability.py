"""What an environment still needs on this machine: packages to install or files to fetch. Imports none of them."""

from __future__ import annotations

import importlib.util

from a2perf import assets
from a2perf.domains.registry import Domain, Environment
from a2perf.errors import AssetUnavailable, install_hint


def missing_modules(domain: Domain, environment: Environment) -> list[str]:
    """Returns the modules that an environment needs and that are not installed; imports none of them."""
    return [name for name in (*domain.requires, *environment.requires) if importlib.util.find_spec(name) is None]


def needed_command(domain: Domain, environment: Environment) -> str:
    """Returns what installs or fetches the missing parts of an environment; "" if it can be made."""
    if missing_modules(domain, environment):
        return environment.install or install_hint(domain.extra)
    try:
        here = assets.available(one for one in domain.assets if one.name in environment.assets)
    except AssetUnavailable:  # a damaged file in the data folder; the fetch command explains it
        here = {}
    return "" if len(here) == len(environment.assets) else f"a2perf data fetch {domain.name}"
