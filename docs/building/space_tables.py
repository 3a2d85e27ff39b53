"""Tables of action and observation spaces: one row per number or array, with its bounds and unit.

Bounds and shapes are read from the space of an environment, names of motors and steps from the domain's constants. Only
the descriptions are written here; a test checks that they cover each space exactly. A domain without an entry gets rows
without descriptions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from docs.building.markdown import code, table

Env = gymnasium.Env[Any, Any]


@dataclass(frozen=True)
class Part:
    """A row of a table.

    Attributes:
        start: first index in the flat space.
        stop: first index after it.
        text: what it is.
        unit: of its numbers; "" for none.
    """

    start: int
    stop: int
    text: str
    unit: str = ""


def action_table(domain: str, env: Env) -> str:
    """Returns the table of an action space in Markdown."""
    space = env.action_space
    if isinstance(space, spaces.Box):
        parts = ACTIONS[domain]() if domain in ACTIONS else [Part(0, int(np.prod(space.shape)), "")]
        return _box_table(space, parts)
    if isinstance(space, spaces.Discrete) and domain in DISCRETE:
        rows = DISCRETE[domain](int(space.n))
        return table(["num", "meaning", "min", "max"], rows)
    return f"{code(space)}\n"


def observation_table(domain: str, env: Env) -> str:
    """Returns the table of an observation space in Markdown."""
    space = env.observation_space
    if isinstance(space, spaces.Dict):
        return _dict_table(space, ARRAYS.get(domain, {}))
    if isinstance(space, spaces.Box):
        parts = OBSERVATIONS[domain]() if domain in OBSERVATIONS else [Part(0, int(np.prod(space.shape)), "")]
        return _box_table(space, parts)
    return f"{code(space)}\n"


def space_text(space: spaces.Space[Any]) -> str:
    """Returns a space on one line, ``Box(160,) float32``."""
    if isinstance(space, spaces.Dict):
        return f"Dict of {len(space)} arrays"
    if isinstance(space, spaces.Box):
        return f"Box({', '.join((*bounds(space.low, space.high), str(space.shape)))}, {space.dtype})"
    return str(space)


def number(value: float) -> str:
    """Returns a bound: ``-6.283``, ``inf``, ``0``."""
    return f"{value:.4g}" if abs(value) > 1e-9 else "0"


def bounds(low: NDArray[Any], high: NDArray[Any]) -> tuple[str, str]:
    """Returns the smallest and the largest bound; empty texts for an array without numbers."""
    if not low.size:
        return "", ""
    if np.issubdtype(low.dtype, np.integer):
        return str(int(low.min())), str(int(high.max()))
    return number(float(low.min())), number(float(high.max()))


def _box_table(space: spaces.Box, parts: list[Part]) -> str:
    rows = []
    low, high = space.low.ravel(), space.high.ravel()
    for part in parts:
        name = str(part.start) if part.stop == part.start + 1 else f"{part.start}-{part.stop - 1}"
        here = slice(part.start, part.stop)
        rows.append([name, part.text, *bounds(low[here], high[here]), part.unit])
    return table(["num", "meaning", "min", "max", "unit"], rows)


def _dict_table(space: spaces.Dict, texts: Mapping[str, tuple[str, str]]) -> str:
    rows = []
    for key, part in space.items():
        text, unit = texts.get(key, ("", ""))
        shape, kind, low, high = "", "", "", ""
        if isinstance(part, spaces.Box):
            shape, kind = str(part.shape), str(part.dtype)
            low, high = bounds(part.low, part.high)
        rows.append([code(key), text, shape, kind, low, high, unit])
    return table(["key", "meaning", "shape", "dtype", "min", "max", "unit"], rows)


# --- Quadruped locomotion ---------------------------------------------------------------------------------------------


def _motors() -> list[str]:
    legs = ("front right", "front left", "rear right", "rear left")
    return [f"{leg} {joint}" for leg in legs for joint in ("abduction", "hip", "knee")]


def _quadruped_actions() -> list[Part]:
    return [
        Part(index, index + 1, f"{motor}: offset from its default angle", "rad")
        for index, motor in enumerate(_motors())
    ]


def _quadruped_observations() -> list[Part]:
    from a2perf.domains.quadruped_locomotion.motion.reference import TARGET_STEPS
    from a2perf.domains.quadruped_locomotion.sensors import IMU, LAST_ACTION, MOTOR_ANGLES, STACKED_STEPS, TARGETS

    ages = ["now", *(f"{age} step{'s' if age > 1 else ''} ago" for age in range(1, STACKED_STEPS))]
    parts = []
    for row, age in enumerate(ages):
        for column, (text, unit) in enumerate(
            (("roll", "rad"), ("pitch", "rad"), ("roll rate", "rad/s"), ("pitch rate", "rad/s"))
        ):
            start = IMU.start + 4 * row + column
            parts.append(Part(start, start + 1, f"{text}, {age}", unit))
    for block, text in ((LAST_ACTION, "last action as motor angles before the filter"), (MOTOR_ANGLES, "motor angles")):
        for row, age in enumerate(ages):
            start = block.start + 12 * row
            parts.append(Part(start, start + 12, f"{text}, {age}, in the order of the actions", "rad"))
    start = TARGETS.start
    for steps in TARGET_STEPS:
        ahead = f"reference {steps} step{'s' if steps > 1 else ''} ahead"
        for size, text, unit in (
            (3, "root position from the robot's, x y z", "m"),
            (4, "root orientation, quaternion x y z w", ""),
            (12, "joint angles", "rad"),
        ):
            parts.append(Part(start, start + size, f"{ahead}: {text}", unit))
            start += size
    return parts


# --- Web navigation ---------------------------------------------------------------------------------------------------


def _web_actions(count: int) -> list[list[str]]:
    from a2perf.domains.web_navigation.observation import Sizes

    elements = Sizes().elements
    return [
        [f"`action // {elements}`", "row of the profile; the element gets its value", "0", str(count // elements - 1)],
        [f"`action % {elements}`", "row of the element, as in `dom_elements`", "0", str(elements - 1)],
    ]


_WEB_ARRAYS = {
    "dom_elements": ("tokens of tag, value, text, placeholder and class of each element", "token"),
    "dom_attribute_mask": ("1 for a token of `dom_elements`, 0 for padding", ""),
    "dom_elements_mask": ("1 for each listed element", ""),
    "dom_features": (
        "per element: focused, clicked in this episode, new since the last observation, is a `div`; left, top, width "
        "and height as shares of the largest width and height",
        "",
    ),
    "dom_profile_joint_mask": ("1 if both the profile row and the element exist", ""),
    "profile_key": ("tokens of the profile's keys, sorted; row 0 is `_dummy`", "token"),
    "profile_key_mask": ("1 for a token of `profile_key`", ""),
    "profile_value": ("tokens of the profile's values", "token"),
    "profile_value_mask": ("1 for a token of `profile_value`", ""),
    "time_step": ("steps taken in this episode", "steps"),
}


# --- Circuit training -------------------------------------------------------------------------------------------------


def _circuit_actions(count: int) -> list[list[str]]:
    side = round(count**0.5)
    return [
        [f"`action // {side}`", "row of the padded grid, from the bottom", "0", str(side - 1)],
        [f"`action % {side}`", "column of the padded grid, from the left", "0", str(side - 1)],
    ]


_CIRCUIT_ARRAYS = {
    "locations_x": ("x of each macro and port cluster", "share of canvas width + height"),
    "locations_y": ("y of each macro and port cluster", "share of canvas width + height"),
    "is_node_placed": ("1 for each placed macro and for port clusters", ""),
    "current_node": ("index of the macro to place now", ""),
    "mask": ('1 for each cell where the current macro fits; also `info["action_mask"]`', ""),
    "fake_net_heatmap": ("attraction of each cell by extra nets of the engine; 0 without them", ""),
    "netlist_index": ("number of the netlist, for training on several designs", ""),
}

ACTIONS: Mapping[str, Callable[[], list[Part]]] = {"quadruped_locomotion": _quadruped_actions}
"""Domain -> rows of a continuous action space."""

OBSERVATIONS: Mapping[str, Callable[[], list[Part]]] = {"quadruped_locomotion": _quadruped_observations}
"""Domain -> rows of a flat observation space."""

DISCRETE: Mapping[str, Callable[[int], list[list[str]]]] = {
    "web_navigation": _web_actions,
    "circuit_training": _circuit_actions,
}
"""Domain -> rows of a discrete action space with so many actions."""

ARRAYS: Mapping[str, Mapping[str, tuple[str, str]]] = {
    "web_navigation": _WEB_ARRAYS,
    "circuit_training": _CIRCUIT_ARRAYS,
}
"""Domain -> description and unit of each array of a dictionary space."""
