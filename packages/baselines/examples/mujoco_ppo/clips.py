"""The clip that an environment follows."""

from __future__ import annotations

from a2perf.domains.registry import all_environments
from a2perf.errors import UserError


def clip_of(env_id: str) -> str:
    """Returns the clip of an environment.

    Raises:
        UserError: the environment is none of quadruped locomotion with a single clip.
    """
    found = all_environments().get(env_id)
    if found is None or found[0].name != "quadruped_locomotion" or found[1].kwargs["clip"].startswith("varied"):
        raise UserError(f"{env_id} does not follow one clip of quadruped_locomotion", hint="`a2perf envs list`")
    return str(found[1].kwargs["clip"])
