"""Many robots of the MuJoCo twin that step together: one compiled call per thread and batch step.

For training. A robot's numbers are those of ``MuJoCoQuadrupedEnv`` under ``ResidualControlWrapper``, bit for bit, with
the same physics and start phases; only its random numbers come from another generator.
"""

from __future__ import annotations

import itertools
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from a2perf.domains.arguments import integer_of_at_least
from a2perf.domains.compilation import NUMBA_AVAILABLE
from a2perf.domains.quadruped_locomotion.arguments import resolve_clips
from a2perf.domains.quadruped_locomotion.motion.reference import TARGET_STEPS
from a2perf.domains.quadruped_locomotion.physics import mujoco_model
from a2perf.domains.quadruped_locomotion.physics.mujoco_model import DEFAULT_PHYSICS, TwinPhysics
from a2perf.domains.quadruped_locomotion.physics.mujoco_twin import import_mujoco, step_address
from a2perf.domains.quadruped_locomotion.physics.randomization import PARAMETERS
from a2perf.domains.quadruped_locomotion.physics.robot import (
    CHASSIS_GROUP,
    CONTROL_STEP,
    FOOT_LINKS,
    LEG_GROUP,
    LOWER_LEG_LINKS,
    MOTOR_LINKS,
    FloatArray,
    kinematic_tree,
)
from a2perf.domains.quadruped_locomotion.rules import LONGEST_EPISODE
from a2perf.domains.quadruped_locomotion.sensors import OBSERVATION_SIZE
from a2perf.errors import MissingDependency
from a2perf_baselines.learning.batch import BatchStep
from a2perf_baselines.quadruped_locomotion.mujoco_batch_arrays import (
    SimulationThread,
    World,
    new_robots,
    new_step_arrays,
)
from a2perf_baselines.quadruped_locomotion.residual_control import DIFFERENCES_SIZE, ResidualControl


@dataclass(frozen=True)
class Variation:
    """What differs between the episodes of a batch.

    Attributes:
        dynamics: number of models with drawn masses, inertias and frictions, among which each episode draws one, beside
            the latency and the strength of each motor (ranges of ``randomization``); 0: the nominal robot.
        push: largest change of each component of the base velocity, m/s.
        push_interval: mean steps between two pushes.
        start_noise: largest change of each joint angle of a start state, rad.
        longest: steps after which an episode is cut off.
        mixed_ages: cut off the first episodes of the robots at different steps; otherwise they end together.
    """

    dynamics: int = 0
    push: float = 0.0
    push_interval: int = 60
    start_noise: float = 0.0
    longest: int = LONGEST_EPISODE
    mixed_ages: bool = False


@dataclass
class CompletedEpisodes:
    """Complete episodes since they were last taken."""

    returns: list[float] = field(default_factory=list)
    lengths: list[int] = field(default_factory=list)


class MuJoCoBatch:
    """Robots that step together; implements ``learning.batch.BatchEnvironment``.

    Args:
        clip: see ``QuadrupedLocomotionEnv``; one clip, not a family.
        physics: parameters of the model.
        variation: what differs between episodes.
        threads: that step them; the results do not depend on it.
        autoreset: begin the next episode of a robot in the step in which one ended.

    Observations are ``policy``, float32, shape (n, 148) or (n, 160), see ``ResidualControl.observe``, and
    ``privileged``, float32, shape (n, 20). The next step writes the arrays again.

    Attributes:
        episodes: complete episodes; the caller may clear it.

    Raises:
        ConfigError: an argument is out of its range.
        MissingDependency: MuJoCo or Numba is not installed.
    """

    def __init__(
        self,
        count: int,
        clip: str = "dog_pace",
        *,
        control: ResidualControl | None = None,
        physics: TwinPhysics = DEFAULT_PHYSICS,
        variation: Variation | None = None,
        threads: int = 1,
        autoreset: bool = True,
    ) -> None:
        if not NUMBA_AVAILABLE:
            raise MissingDependency("the batch of robots needs Numba, which is not installed", hint="pip install numba")
        from a2perf_baselines.quadruped_locomotion import mujoco_batch_loop as loop  # fails without Numba

        self._mujoco = mujoco = import_mujoco()
        integer_of_at_least(1, "count", count)
        integer_of_at_least(1, "threads", threads)
        self.count = count
        self.control = control or ResidualControl()
        self.variation = variation or Variation()
        self.episodes = CompletedEpisodes()
        self._loop, self._autoreset = loop, autoreset
        self._xml = mujoco_model.model_xml(physics)
        self._models = [mujoco.MjModel.from_xml_string(self._xml) for _ in range(max(1, self.variation.dynamics))]
        self._addresses = np.array([model._address for model in self._models], dtype=np.int64)
        points, radii = mujoco_model.body_points()
        control = self.control
        self._world = World(
            clip=resolve_clips(None, clip)[0].data,
            tree=kinematic_tree(),
            target_times=np.array([CONTROL_STEP * step for step in TARGET_STEPS]),
            body_points=points,
            body_radii=radii,
            step=step_address(),
            models=self._addresses,
            substeps=physics.substeps,
            implicit_damping=physics.implicit_damping,
            start_scale=physics.start_scale,
            latency_scale=physics.latency_scale,
            longest=self.variation.longest,
            control=(float(control.share), float(control.ahead), float(control.scale)),
            differences=bool(control.differences),
            randomize=self.variation.dynamics > 0,
            push=float(self.variation.push),
            push_probability=1.0 / self.variation.push_interval,
            start_noise=float(self.variation.start_noise),
        )
        self._robots = new_robots(count)
        seen = DIFFERENCES_SIZE if control.differences else OBSERVATION_SIZE
        self._shown = new_step_arrays(count, seen)
        threads = min(threads, count)
        self._data = [mujoco.MjData(self._models[0]) for _ in range(threads)]
        self._workers = [
            SimulationThread(data._address, data.qpos, data.qvel, data.qacc_warmstart, data.ctrl) for data in self._data
        ]
        bounds = np.linspace(0, count, threads + 1).astype(int).tolist()
        self._shares = list(zip(self._workers, itertools.pairwise(bounds), strict=True))
        self._pool = ThreadPoolExecutor(threads) if threads > 1 else None

    @property
    def observation_sizes(self) -> tuple[int, int]:
        """Numbers that the policy sees, and those that only the value sees besides."""
        return self._shown.policy.shape[1], self._shown.privileged.shape[1]

    @property
    def observations(self) -> dict[str, NDArray[np.float32]]:
        """The current observations."""
        return {"policy": self._shown.policy, "privileged": self._shown.privileged}

    @property
    def states(self) -> FloatArray:
        """True states of the robots, shape (n, 37), layout of ``robot``."""
        return self._robots.state.copy()

    @property
    def full_observations(self) -> FloatArray:
        """The observations of the task before ``ResidualControl``, shape (n, 160)."""
        return self._robots.observation.copy()

    def reset(self, seed: int, phases: FloatArray | None = None) -> dict[str, NDArray[np.float32]]:
        """Begins an episode of each robot.

        Args:
            phases: start phases in [0, 1), shape (n,); by default random, with warm-ups.
        """
        sequence = np.random.SeedSequence(seed)
        generator = np.random.default_rng(sequence)
        self._robots.random[:] = generator.integers(0, 2**63, self.count, dtype=np.uint64)
        if self.variation.dynamics:
            self._draw_models(generator)
        given = np.empty(0) if phases is None else np.asarray(phases, dtype=np.float64)
        self._each(
            lambda worker, first, last: self._loop.begin_all(
                self._robots, self._world, worker, self._shown, first, last, given
            )
        )
        if self.variation.mixed_ages:
            self._robots.limit[:] = generator.integers(1, self.variation.longest + 1, self.count)
        self.episodes = CompletedEpisodes()
        return self.observations

    def step(self, actions: NDArray[Any]) -> BatchStep:
        """Steps each robot.

        Args:
            actions: of the policy, see ``ResidualControl``, float32, shape (n, 12).
        """
        actions = np.ascontiguousarray(actions, dtype=np.float32)
        shown = self._shown
        self._each(
            lambda worker, first, last: self._loop.step_all(
                self._robots, self._world, worker, shown, first, last, actions, self._autoreset
            )
        )
        ended = np.flatnonzero(shown.terminated | shown.truncated)
        self.episodes.returns += shown.returns[ended].tolist()
        self.episodes.lengths += shown.lengths[ended].tolist()
        cut_off = shown.truncated & ~shown.terminated
        rows = np.flatnonzero(cut_off)
        final = None
        if len(rows):
            final = {"policy": shown.final_policy[rows], "privileged": shown.final_privileged[rows]}
        return BatchStep(self.observations, shown.rewards, shown.terminated, cut_off, final, rows)

    def close(self) -> None:
        """Ends the threads."""
        if self._pool is not None:
            self._pool.shutdown()

    def _each(self, work: Any) -> None:
        """Does the work for each share of the robots, in threads."""
        futures = [
            self._pool.submit(work, worker, *bounds) for worker, bounds in self._shares[1:] if self._pool is not None
        ]
        worker, bounds = self._shares[0]
        work(worker, *bounds)
        for future in futures:
            future.result()

    def _draw_models(self, generator: np.random.Generator) -> None:
        """Draws the dynamics of each model, as ``randomization`` does for a single robot."""
        nominal = self._mujoco.MjModel.from_xml_string(self._xml)

        def drawn(name: str) -> FloatArray:
            parameter = PARAMETERS[name]
            return generator.uniform(parameter.low, parameter.high, parameter.draws)

        names = {nominal.body(body).name: body for body in range(1, nominal.nbody)}
        for model, data in ((model, self._data[0]) for model in self._models):
            mass, inertia, friction, loss = map(drawn, ("mass", "inertia", "lateral_friction", "joint_friction"))
            for group, links in enumerate((CHASSIS_GROUP, LEG_GROUP)):
                for link in links:
                    body = names.get(f"link{link}" if link >= 0 else "chassis")
                    if body is not None:  # a fused toe is part of its lower leg
                        model.body_mass[body] = nominal.body_mass[body] * mass[group]
                        model.body_inertia[body] = nominal.body_inertia[body] * inertia[group]
            for number, link in enumerate(FOOT_LINKS):
                body = names.get(f"link{link}")
                if body is not None:
                    first, geoms = int(model.body_geomadr[body]), int(model.body_geomnum[body])
                    model.geom_friction[first : first + geoms, 0] = (
                        nominal.geom_friction[first : first + geoms, 0] * friction[0]
                    )
                if link in LOWER_LEG_LINKS:
                    model.dof_frictionloss[6 + MOTOR_LINKS.index(link)] = loss[number]
            self._mujoco.mj_setConst(model, data)
