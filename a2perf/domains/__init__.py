"""The benchmark's domains: one folder (or one installed package) each, and what they share.

``import a2perf`` registers every environment id with Gymnasium, and so does ``register_environments``.
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
from a2perf.domains.titles import domain_title, environment_title, task_summary, task_title, view_title

__all__ = [
    "Domain",
    "Environment",
    "Task",
    "all_environments",
    "domain_title",
    "domains",
    "environment_title",
    "find_environment",
    "get_domain",
    "load_attribute",
    "register_environments",
    "task_summary",
    "task_title",
    "view_title",
]
