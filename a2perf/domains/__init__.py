"""The benchmark's domains: one folder (or one installed package) each.

``from a2perf.domains import web_navigation`` registers every environment id with Gymnasium, and so does
``register_environments``; ``gymnasium.make`` needs neither, since it finds a2perf through a plug-in entry point.
"""

from a2perf.domains.registry import (
    Domain,
    Environment,
    Task,
    all_environments,
    domains,
    find_environment,
    get_domain,
    load_attribute,
    register_environments,
)

__all__ = [
    "Domain",
    "Environment",
    "Task",
    "all_environments",
    "domains",
    "find_environment",
    "get_domain",
    "load_attribute",
    "register_environments",
]
