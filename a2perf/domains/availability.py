"""What an environment still needs on this machine: packages to install or files to fetch. Imports none of them."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable

from a2perf import assets
from a2perf.domains import any_environment
from a2perf.domains.registry import Domain, Environment, find_environment
from a2perf.errors import AssetUnavailable, MissingDependency, install_hint


def missing_modules(domain: Domain, environment: Environment) -> list[str]:
    """Returns the modules that an environment needs and that are not installed; imports none of them."""
    return [name for name in (*domain.requires, *environment.requires) if importlib.util.find_spec(name) is None]


def require_packages(env_ids: Iterable[str]) -> None:
    """Checks that this host has the packages of environments; only that of ``my_envs:ID`` is imported.

    Raises:
        MissingDependency: a package is not installed.
    """
    for env_id in dict.fromkeys(env_ids):
        domain, environment = find_environment(any_environment.register(env_id))
        if missing := missing_modules(domain, environment):
            raise MissingDependency(
                f"{env_id} needs packages that are not installed on this host: {', '.join(missing)}",
                hint=needed_command(domain, environment),
            )


def needed_command(domain: Domain, environment: Environment) -> str:
    """Returns what installs or fetches the missing parts of an environment; "" if it can be made."""
    if missing_modules(domain, environment):
        return environment.install or install_hint(domain.extra)
    try:
        here = assets.available(one for one in domain.assets if one.name in environment.assets)
    except AssetUnavailable:  # a damaged file in the data folder; the fetch command explains it
        here = {}
    return "" if len(here) == len(environment.assets) else f"a2perf data fetch {domain.name}"
