"""Protocol v2 as data, and the recipes of its reference scores (``references.py`` executes them).

Against v1: the score 0 is the best trivial policy instead of the random one, and ``synthetic_trot_v1``, which pays
nothing for standing still, replaces ``synthetic_trot``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from a2perf.domains.quadruped_locomotion.physics.robot import DEFAULT_MOTOR_POSE, MOTOR_DIRECTION, MOTOR_OFFSET
from a2perf.metrics.protocol import Budget, Generalization, Protocol, Quick, Reference, load

TRAINING_SEEDS = (1, 2, 3, 4, 5)
REFERENCE_TRAINING_SEEDS = (101, 102, 103, 104, 105)
NEXT_TARGET = slice(91, 103)  # in the observation: joint angles of the next target frame, rad
ANNEALING = {"max_moves": "100000", "time_budget_s": "1000000"}


def _command(name: str, kind: str) -> str:
    return f"python results/references.py {name} --kind {kind}"


@dataclass(frozen=True)
class Played:
    """A policy of an example, without training.

    Attributes:
        kind: ``"random"`` or ``"expert"``.
        example: folder below ``examples/``.
        episodes: how many.
        policy: in words.
    """

    kind: str
    example: str
    episodes: int
    policy: str

    def measured(self, task: Any, tools: Any) -> Reference:
        """Returns the reference; ``n`` counts episodes."""
        returns = tools.returns(task, tools.example(self.example, task), self.episodes)
        return tools.reference(
            returns, of="episodes", policy=self.policy, command=_command(task.name, self.kind), seeds=[20_000]
        )


@dataclass(frozen=True)
class Trained:
    """A policy that an example's ``train`` produces, once per seed; ``n`` counts seeds.

    Attributes:
        example: folder below ``examples/``.
        arguments: arguments of ``train``.
        seeds: seeds of the training runs.
        episodes: number of episodes per trained policy.
        policy: in words.
    """

    example: str
    arguments: Mapping[str, str]
    seeds: tuple[int, ...]
    episodes: int
    policy: str

    def measured(self, task: Any, tools: Any) -> Reference:
        """Trains and evaluates each seed."""
        means = []
        for seed in self.seeds:
            with tools.folder() as folder:
                tools.train(self.example, task, seed, Path(folder), **self.arguments)
                policy = tools.example(self.example, task, root=Path(folder), seed=seed)
                returns = tools.returns(task, policy, self.episodes)
            means.append(sum(returns) / len(returns))
        return tools.reference(
            means, of="seeds", policy=self.policy, command=_command(task.name, "expert"), seeds=list(self.seeds)
        )


@dataclass(frozen=True)
class Followed:
    """A script that maps the joint angles of the next target frame to motor targets, without learning or feedback.

    Attributes:
        gain: share of the way from the standing pose to the target; 0 stands still.
        episodes: how many.
        policy: in words.
    """

    gain: float
    episodes: int
    policy: str

    def measured(self, task: Any, tools: Any) -> Reference:
        """Returns the reference; ``n`` counts episodes."""
        returns = tools.returns(task, lambda env: follower(self.gain), self.episodes)
        return tools.reference(
            returns, of="episodes", policy=self.policy, command=_command(task.name, "expert"), seeds=[20_000]
        )


@dataclass(frozen=True)
class Enumerated:
    """The best of all sequences of actions."""

    policy: str

    def measured(self, task: Any, tools: Any) -> Reference:
        """Evaluates all of them."""
        best = max(tools.enumerated(task))
        return tools.reference(
            [best], of="episodes", exact=True, policy=self.policy, command=_command(task.name, "expert"), seeds=[0]
        )


class Trivials:
    """Policies that ignore what they observe, except for a mask of allowed actions and the first target of a motion.

    Args:
        space: the action space.
        motion: whether the first observation has a target pose to hold.
        masked: whether the actions are cells of a square grid and the observation has a mask of the allowed ones.
        side: number of constants per side of the grid.
        allowed: actions that a mask allows at first.
    """

    CONSTANTS = 11  # of a discrete space without a grid
    MOST_ALLOWED = 100

    OFFSETS = (-1.0, -0.3, -0.1, 0.1, 0.3, 1.0)  # in units of the action

    def __init__(self, space: Any, *, motion: bool, masked: bool, side: int, allowed: Sequence[int] = ()) -> None:
        self.space, self.motion, self.masked, self.side = space, motion, masked, side
        # a constant that the first state allows has an effect at least once
        self.allowed = list(allowed[:: 1 + len(allowed) // self.MOST_ALLOWED])

    def named(self) -> dict[str, Callable[[Any], Callable[[Any], Any]]]:
        """Returns the policies by name, each a function of the environment that is called once per episode."""
        if self.masked:
            return self._of_a_grid()
        if not isinstance(self.space, spaces.Discrete):
            return self._of_a_box()
        count = int(self.space.n)
        numbers = [*np.linspace(0, count - 1, self.CONSTANTS).astype(int).tolist(), *self.allowed]
        found = {f"constant action {number}": _constant(number) for number in numbers}
        found["zero action"] = found.pop("constant action 0")
        return {**found, "repeat of a random action": _repeated}

    def _of_a_grid(self) -> dict[str, Callable[[Any], Callable[[Any], Any]]]:
        """Returns the policies of a grid of cells of which a mask allows some."""
        side = round(float(self.space.n) ** 0.5)
        found = {"first allowed cell": _ranked(0), "last allowed cell": _ranked(-1)}
        step = 1 + len(self.allowed) // self.side**2
        found |= {f"allowed cell nearest to number {cell}": _numbered(cell) for cell in self.allowed[::step]}
        for row in np.linspace(0.0, 1.0, self.side):
            for column in np.linspace(0.0, 1.0, self.side):
                found[f"allowed cell nearest to row {row:g}, column {column:g}"] = _nearest(side, row, column)
        return {**found, "allowed cell nearest to the last": _near_the_last(side)}

    def _of_a_box(self) -> dict[str, Callable[[Any], Callable[[Any], Any]]]:
        low, high, shape = self.space.low, self.space.high, self.space.shape
        found = {"zero action": _constant(np.zeros(shape, np.float32))}
        for value in self.OFFSETS:
            found[f"constant action {value:g}"] = _constant(np.full(shape, value, np.float32))
        found |= {"lowest action": _constant(low), "highest action": _constant(high)}
        found["repeat of a random action"] = _repeated
        if self.motion:
            found["hold of the first target pose"] = _held
            found["hold of the mean target pose"] = _held_mean
        return found


def _constant(action: Any) -> Callable[[Any], Callable[[Any], Any]]:
    return lambda env: lambda observation: action


def _repeated(env: Any) -> Callable[[Any], Any]:
    """Draws one action per episode and repeats it."""
    return _constant(env.action_space.sample())(env)


def _held(env: Any) -> Callable[[Any], Any]:
    """Holds the first target pose of each episode."""
    held: list[Any] = []

    def answer(observation: Any) -> Any:
        if not held:
            held.append(_to_motors(observation[NEXT_TARGET]))
        return held[0]

    return answer


def _held_mean(env: Any) -> Callable[[Any], Any]:
    """Holds the mean joint angles of the clip."""
    return lambda observation: _to_motors(env.unwrapped.reference.clip.data.frames[:, 7:].mean(axis=0))


def follower(gain: float) -> Callable[[Any], Any]:
    """Returns the script of ``Followed``."""
    return lambda observation: _to_motors(observation[NEXT_TARGET], gain)


def _to_motors(joints: Any, gain: float = 1.0) -> NDArray[np.float32]:
    return (gain * ((joints - MOTOR_OFFSET) * MOTOR_DIRECTION - DEFAULT_MOTOR_POSE)).astype(np.float32)


def _ranked(rank: int) -> Callable[[Any], Callable[[Any], Any]]:
    return lambda env: lambda observation: int(np.flatnonzero(observation["mask"])[rank])


def _numbered(cell: int) -> Callable[[Any], Callable[[Any], Any]]:
    """Chooses the allowed cell with the nearest number."""

    def answer(observation: Any) -> int:
        cells = np.flatnonzero(observation["mask"])
        return int(cells[np.argmin(np.abs(cells - cell))])

    return lambda env: answer


def _nearest(side: int, row: float, column: float) -> Callable[[Any], Callable[[Any], Any]]:
    """Chooses the allowed cell nearest to a place, given as shares of the extent of the cells allowed at first."""

    def policy(env: Any) -> Callable[[Any], Any]:
        place: list[Any] = []

        def answer(observation: Any) -> int:
            cells = np.flatnonzero(observation["mask"])
            at = np.stack(np.divmod(cells, side), axis=1)
            if not place:
                low, high = at.min(axis=0), at.max(axis=0)
                place.append(low + np.array([row, column]) * (high - low))
            return int(cells[np.argmin(((at - place[0]) ** 2).sum(axis=1))])

        return answer

    return policy


def _near_the_last(side: int) -> Callable[[Any], Callable[[Any], Any]]:
    def policy(env: Any) -> Callable[[Any], Any]:
        last = [0]

        def answer(observation: Any) -> int:
            cells = np.flatnonzero(observation["mask"])
            at = np.stack(np.divmod(cells, side), axis=1)
            last[0] = int(cells[np.argmin(((at - np.array(divmod(last[0], side))) ** 2).sum(axis=1))])
            return last[0]

        return answer

    return policy


@dataclass(frozen=True)
class TaskSource:
    """A task of the protocol without its measured references; the fields are those of ``ProtocolTask``."""

    name: str
    domain: str
    budget: Budget
    random: Any
    expert: Any
    episodes: int = 100
    core: bool = True
    env_kwargs: Mapping[str, Any] = field(default_factory=dict)
    train_kwargs: Mapping[str, Any] = field(default_factory=dict)
    trivial_episodes: int = 20
    trivial_side: int = 3
    training_seeds: tuple[int, ...] = TRAINING_SEEDS


_UNIFORM = "uniform over the action space (examples/minimal)"
_MASKED = "uniform over the allowed cells (examples/minimal)"

_DOG = Budget(
    steps=200_000_000,
    energy_kwh=1.0,
    reason="steps of the published baselines; energy: 100 W above idle for ten hours",
)
_SYNTHETIC = Budget(steps=10_000_000, energy_kwh=0.05, reason="small on purpose: 100 W above idle for half an hour")
_WEB = Budget(
    steps=100_000_000,
    energy_kwh=1.0,
    reason="the published PPO baseline: 8,000 iterations of 512 episodes of 25 steps; energy as for locomotion",
)
_TOY = Budget(
    steps=320_000,
    energy_kwh=0.05,
    reason="the published PPO baseline: 5,000 iterations of 32 episodes of 2 steps; energy: 100 W for half an hour",
)
_ARIANE = Budget(
    steps=34_000_000,
    energy_kwh=1.0,
    reason="the published PPO baseline: 250 iterations of 1,024 episodes of 133 steps; energy as for locomotion",
)
_TEST = {"mode": "test", "num_parallel_envs": 1}
_TRAIN = {"mode": "train"}


def _quadruped(name: str, budget: Budget, expert: Any, *, core: bool, episodes: int = 100) -> TaskSource:
    random = Played("random", "minimal", 1000 if core else 300, _UNIFORM)
    return TaskSource(
        name,
        "quadruped_locomotion",
        budget,
        random,
        expert,
        episodes,
        core,
        env_kwargs=_TEST,
        train_kwargs=_TRAIN,
        trivial_episodes=20 if core else 10,
    )


def _web(level: int, websites: int) -> TaskSource:
    return TaskSource(
        f"difficulty_level_{level}_num_websites_{websites}",
        "web_navigation",
        _WEB,
        Played("random", "minimal", 1000, _UNIFORM),
        Played("expert", "web_solver", 1000, "scripted solver that reads the observation alone (examples/web_solver)"),
        core=websites == 1,
    )


def _circuit(name: str, *, core: bool) -> TaskSource:
    words = "simulated annealing, 100,000 moves (examples/annealing_placer); the best one found, not the best there is"
    return TaskSource(
        name,
        "circuit_training",
        _ARIANE,
        Played("random", "minimal", 200, _MASKED),
        Trained("annealing_placer", ANNEALING, REFERENCE_TRAINING_SEEDS, 1, words),
        trivial_episodes=1,
        episodes=10,
        core=core,
        env_kwargs={"is_eval": False},
    )


_PRETRAINED = "the policy published with Peng et al. 2020 for this gait, mean action (examples/motion_imitation)"
FOLLOWER_GAIN = 0.8
_FOLLOWER = "a scripted follower: 0.8 of the way from the standing pose to the joint angles of the next target frame"

TASKS = (
    *(
        _quadruped(f"dog_{gait}", _DOG, Played("expert", "motion_imitation", 50, _PRETRAINED), core=True)
        for gait in ("pace", "trot", "spin")
    ),
    *(_web(level, 1) for level in (1, 2, 3)),
    TaskSource(
        "toy_macro_stdcell",
        "circuit_training",
        _TOY,
        Played("random", "minimal", 1000, _MASKED),
        Enumerated("the best of all placements, by complete enumeration"),
        trivial_episodes=1,
        trivial_side=10,
        env_kwargs={"is_eval": False},
    ),
    _circuit("ariane", core=True),
    _circuit("ariane_twin", core=False),
    *(_web(level, websites) for level in (1, 2, 3) for websites in (5, 10)),
    _quadruped("synthetic_trot_v1", _SYNTHETIC, Followed(FOLLOWER_GAIN, 30, _FOLLOWER), core=False, episodes=10),
)

_PUBLISHED = load("v1")

PROTOCOL = Protocol(
    schema=1,
    name="v2",
    summary=f"{_PUBLISHED.summary} The best trivial policy has the score 0, the expert 1.",
    tracks={**_PUBLISHED.tracks, "fixed_energy": _PUBLISHED.tracks["fixed_energy"].replace("artef", "artif")},
    quick=Quick(seeds=3, episodes=10, timed_calls=200, warmup_calls=20, train_time_limit_s=60.0),
    tasks={},
    generalization={
        "quadruped_locomotion": Generalization(
            trained_on="dog_pace", tasks=["dog_pace", "dog_trot", "dog_spin"], episodes=20
        ),
        "web_navigation": Generalization(
            trained_on="difficulty_level_1_num_websites_1",
            tasks=[f"difficulty_level_1_num_websites_{websites}" for websites in (1, 5, 10)],
            episodes=100,
        ),
        "circuit_training": Generalization(
            trained_on="toy_macro_stdcell", tasks=["toy_macro_stdcell", "ariane"], episodes=5
        ),
    },
)
