"""Quadruped locomotion: a Laikago robot imitates the gaits of a dog (Peng et al. 2020, "Learning Agile Robotic
Locomotion Skills by Imitating Animals").

This file only describes the domain: its ids, tasks and data files. Importing it loads neither PyBullet nor Numba.
"""

from __future__ import annotations

import functools
import sys

from a2perf.assets import Asset, SourceArchiveMember
from a2perf.domains.host_support import with_wheels
from a2perf.domains.registry import Domain, Environment, Perturbation, Task
from a2perf.errors import install_hint

_ARCHIVE_SHA256 = "117da3105cb1d3fe39f5bc2ef257bd12f57bb93b0206d3ee3f2241fe1f6d4d9f"
_MOTION_TERMS = "derived from motion capture labelled CC BY-NC 4.0; fetched by the user, never shipped"
_POLICY_TERMS = "Apache-2.0; trained on motion capture labelled CC BY-NC 4.0; fetched by the user, never shipped"
_CHECKSUMS = {
    "motions/dog_pace.txt": "2ebff49cc4991eae4ddd9f8b37514956ffcb7dc194a16dba15c5240857e6ed66",
    "motions/dog_trot.txt": "ec304dbbc4e5bfbfc4955074e27a7e0b3038485952ea9847e9ca42594c9e87a6",
    "motions/dog_spin.txt": "fce7b861b34103ddffccd0fc31bd078d58ad0240a2740f56780d46a93308fe1f",
    "policies/dog_pace.zip": "5efb1a764ddc6d38225070e39599c25c91aa47bd3ce4e166f1c5a02685571678",
    "policies/dog_trot.zip": "e130d1393079a7d4bea426e1326cabf5c6f09fa35a3c750579315dfa975238e5",
    "policies/dog_spin.zip": "763f4cc7bc379199702a24ac40d1dc212265ae3830a0d26e6698e6dc1142bbb7",
}
_LONGEST_EPISODE = 600  # control steps; rules.py defines the shorter ones of a training run
_GAITS = ("pace", "trot", "spin")
_EXTRA = "quadruped-locomotion"
MUJOCO_HINT = install_hint(_EXTRA, "mujoco")
# of pybullet on Linux x86-64; the same sources are built for macOS as pybullet-arm64
_HAS_WHEEL = sys.version_info < ((3, 13) if sys.platform == "darwin" else (3, 12))
PICTURES_HINT = install_hint(_EXTRA) if _HAS_WHEEL else "use CPython 3.11, or build it: pip install pybullet"
PYBULLET_HINT = PICTURES_HINT if _HAS_WHEEL else f"{PICTURES_HINT}, or a MuJoCo task such as mujoco_dog_pace"
_BULLET_INSTALL = "" if _HAS_WHEEL else PYBULLET_HINT


def _asset(member: str) -> Asset:
    motion = member.startswith("motions/")
    name = member.rpartition("/")[2].partition(".")[0]
    return Asset(
        name=f"quadruped_locomotion/{member}",
        sha256=_CHECKSUMS[member],
        source=SourceArchiveMember(
            project="motion-imitation",
            version="0.0.6",
            archive_sha256=_ARCHIVE_SHA256,
            member=f"motion_imitation/data/{member}",
        ),
        licence=_MOTION_TERMS if motion else _POLICY_TERMS,
        summary=f"reference motion {name}" if motion else f"pre-trained policy for {name}",
    )


ASSETS: dict[str, Asset] = {member: _asset(member) for member in _CHECKSUMS}

_PICTURES = "a2perf.domains.quadruped_locomotion.rendering:pictures_of"
_in_pybullet = functools.partial(
    Environment,
    entry_point="a2perf.domains.quadruped_locomotion.environment:build_imitation_env",
    requires=("pybullet",),
    install=_BULLET_INSTALL,
    ranking="pybullet",
    engine="pybullet 3.2.7",
    vector_entry_point="a2perf.domains.quadruped_locomotion.vector:ThreadedVectorEnv",
    max_episode_steps=_LONGEST_EPISODE,
    pictures=_PICTURES,
)
_DOG = tuple(
    _in_pybullet(
        id=f"QuadrupedLocomotion-Dog{gait.capitalize()}-v0",
        kwargs={"clip": f"dog_{gait}"},
        title=f"Dog, {gait}",
        summary=f"imitate a dog's {gait} from motion capture (PyBullet)",
        assets=(f"quadruped_locomotion/motions/dog_{gait}.txt",),
    )
    for gait in _GAITS
)
_GENERATED_GAITS = (*_GAITS, "bound")
_NO_WHEEL = "the MuJoCo ids, unless PyBullet is built; its wheels are for CPython 3.11 on Linux x86-64, and macOS"
_PHRASES = {"spin": "turn in place"}


def _generated(gait: str, family: str, version: int) -> Environment:
    """Returns an environment of a generated gait; version 0 pays a robot that stands still about half of an expert."""
    drawn = " with random speed, heading and rhythm" if family == "varied" else ""
    pays = ", paid for progress" if version else "; standing still pays too"
    return _in_pybullet(
        id=f"QuadrupedLocomotion-{family.capitalize()}{gait.capitalize()}-v{version}",
        kwargs={"clip": f"{family}_{gait}", **({"paid_progress": True} if version else {})},
        title=f"{family.capitalize()} {gait}" + (f", v{version}" if version else ""),
        summary=f"imitate a generated {_PHRASES.get(gait, gait)}{drawn}{pays} (PyBullet, no data file)",
    )


_GENERATED = tuple(
    _generated(gait, family, version)
    for version in (1, 0)
    for family in ("synthetic", "varied")
    for gait in _GENERATED_GAITS
)
_MUJOCO = tuple(
    Environment(
        id=f"QuadrupedLocomotionMuJoCo-Dog{gait.capitalize()}-v0",
        entry_point="a2perf.domains.quadruped_locomotion.physics.mujoco_twin:build_mujoco_env",
        kwargs={"clip": f"dog_{gait}"},
        title=f"Dog, {gait} (MuJoCo)",
        summary=f"imitate a dog's {gait} from motion capture (MuJoCo instead of PyBullet)",
        requires=("mujoco",),
        install=MUJOCO_HINT,
        assets=(f"quadruped_locomotion/motions/dog_{gait}.txt",),
        ranking="mujoco",
        vector_entry_point="a2perf.domains.quadruped_locomotion.vector:make_mujoco_vector_env",
        max_episode_steps=_LONGEST_EPISODE,
        pictures=_PICTURES,
    )
    for gait in _GAITS
)


def _task(environment: Environment, prefix: str) -> Task:
    version = "_v1" if environment.id.endswith("-v1") else ""
    name = f"{prefix}{environment.kwargs['clip']}{version}"
    return Task(name=name, env_id=environment.id, title=environment.title, summary=environment.summary)


_PERTURBATIONS = tuple(
    Perturbation(name, f"a2perf.domains.quadruped_locomotion.perturbations:{wrapper}", summary)
    for name, wrapper, summary in (
        ("sensor_noise", "NoisySensors", "uniform noise: tilt 0.05 rad, its rate 0.2 rad/s, motor angles 0.03 rad"),
        ("sensor_delay", "late_sensors", "measurements are 20 to 40 ms old instead of 2 ms"),
        ("friction", "other_friction", "friction of the feet from 0.5 to 1.25"),
        ("mass", "other_masses", "masses of chassis and legs times 0.8 to 1.2, with their inertias"),
    )
)

DOMAIN = Domain(
    name="quadruped_locomotion",
    title="Quadruped locomotion",
    summary="A simulated Laikago robot imitates a reference motion; a fall ends the episode.",
    extra=_EXTRA,
    environments=(*_DOG, *_GENERATED, *_MUJOCO),
    tasks=(
        *(
            _task(environment, prefix)
            for prefix, group in (("", (*_DOG, *_GENERATED)), ("mujoco_", _MUJOCO))
            for environment in group
        ),
    ),
    generalization_tasks=tuple(f"dog_{gait}" for gait in _GAITS),
    assets=tuple(ASSETS.values()),
    held_out="a2perf.domains.quadruped_locomotion.motion.gaits:held_out_tasks",
    support=with_wheels("quadruped_locomotion", _NO_WHEEL),
    demonstration="a2perf.domains.quadruped_locomotion.demonstration:demonstration_runs",
    data_commands={"clips": "a2perf.domains.quadruped_locomotion.commands:clips"},
    perturbations=_PERTURBATIONS,
    settable={"mode": ("train", "test"), "num_parallel_envs": (1,)},
)
