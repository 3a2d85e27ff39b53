"""Who is imitated on four legs: the pre-trained policy of the dog's gait (Peng et al. 2020), its mean action."""

from __future__ import annotations

from a2perf.assets import fetch
from a2perf.domains.quadruped_locomotion import ASSETS
from a2perf.domains.quadruped_locomotion.pretrained import Actor, load_actor
from a2perf.errors import UserError

GAITS = ("pace", "trot", "spin")


def expert_for(env_id: str) -> Actor:
    """Returns the policy that was trained on the clip of an environment.

    Raises:
        UserError: there is none for this clip.
        AssetUnavailable: it was not fetched, and cannot be.
    """
    for gait in GAITS:
        if f"Dog{gait.capitalize()}-" in env_id:
            return load_actor(fetch(ASSETS[f"policies/dog_{gait}.zip"]))
    raise UserError(
        f"there is no pre-trained policy for {env_id}; there are some for the dog's {', '.join(GAITS)}",
        hint="give demonstrations: dataset=ID_OR_PATH, made by `a2perf datasets generate`",
    )
