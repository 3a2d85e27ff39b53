"""Environment ids of older configurations, mapped to installed ones."""

from __future__ import annotations

import contextlib
import importlib
import re

from a2perf.errors import UserError, did_you_mean

_PACKAGES = ("gymnasium_robotics", "ale_py")
_VERSIONED = re.compile(r"(.+)-v(\d+)")


def resolve_env_id(env_id: str) -> tuple[str, str]:
    """Returns an installed id for the id of a configuration.

    Imports the packages that register ids on request. If the requested version is not installed, the next newer one is
    used, or else the newest older one, because old versions often depend on packages that no longer exist.

    Returns:
        The id, and a notice if it differs from the requested one.

    Raises:
        UserError: no version of it is installed.
    """
    import gymnasium

    if env_id in gymnasium.registry:
        return env_id, ""
    for package in _PACKAGES:
        with contextlib.suppress(ImportError):
            gymnasium.register_envs(importlib.import_module(package))
    if env_id in gymnasium.registry:
        return env_id, ""
    match = _VERSIONED.fullmatch(env_id)
    name, wanted = (match[1], int(match[2])) if match else (env_id, 0)
    versions = {
        int(found[2]): known
        for known in gymnasium.registry
        if (found := _VERSIONED.fullmatch(known)) is not None and found[1] == name
    }
    if not versions:
        raise UserError(
            f"no environment {env_id!r} is registered{did_you_mean(env_id, gymnasium.registry)}",
            hint="install the package that has it (robots: pip install gymnasium-robotics), or check its spelling",
        )
    newer = [version for version in versions if version > wanted]
    found_id = versions[min(newer) if newer else max(versions)]
    return found_id, f"{env_id} is not installed; {found_id} is used, so numbers of {env_id} do not compare"
