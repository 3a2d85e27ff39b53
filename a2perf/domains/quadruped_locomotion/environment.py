"""The Gymnasium environment of one robot that imitates a motion clip.

It only sequences the other modules: action path and physics, sensors, reference, reward, termination, randomisation.
The order of the calls in ``reset`` and ``step`` is part of the task's definition.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import gymnasium
import numpy as np
from gymnasium.utils import EzPickle
from numpy.typing import NDArray

from a2perf.domains.arguments import RENDER_MODES, EpisodeOverError, argument_names, completed_by_gin, refuse_unknown
from a2perf.domains.quadruped_locomotion.arguments import (
    check_arguments,
    checked_action,
    checked_dtype,
    checked_options,
    resolve_clips,
)
from a2perf.domains.quadruped_locomotion.motion.gaits import FAMILIES, VARIANTS, varied_clip
from a2perf.domains.quadruped_locomotion.motion.imitation import (
    MAX_ROOT_ANGLE,
    MAX_ROOT_DISTANCE_SQUARED,
    TERMS,
    root_progress,
)
from a2perf.domains.quadruped_locomotion.motion.reference import (
    REFERENCE_STATE_PROBABILITY,
    WARM_UP_TIME,
    ReferenceMotion,
)
from a2perf.domains.quadruped_locomotion.motion.rotations import heading
from a2perf.domains.quadruped_locomotion.physics import randomization
from a2perf.domains.quadruped_locomotion.physics.backends import PhysicsBackend, make_physics, return_memory
from a2perf.domains.quadruped_locomotion.physics.robot import (
    CONTROL_STEP,
    DEFAULT_MOTOR_POSE,
    DEFAULT_ORIENTATION,
    DEFAULT_POSITION,
    FloatArray,
)
from a2perf.domains.quadruped_locomotion.rendering import Camera
from a2perf.domains.quadruped_locomotion.rules import CompatLocomotionRules, LocomotionRules, observation_bounds
from a2perf.domains.quadruped_locomotion.sensors import DEFAULT_LATENCY, fill_sensors
from a2perf.domains.quadruped_locomotion.task import (
    OUTCOME_ANGLE,
    OUTCOME_DISTANCE,
    OUTCOME_REWARD,
    OUTCOME_TOUCH,
    new_task,
    write_targets,
)

ACTION_BOUND = 6.28318548203  # rad, of an offset from the default motor pose


class QuadrupedLocomotionEnv(gymnasium.Env[NDArray[Any], NDArray[Any]], EzPickle):
    """A Laikago robot follows a reference motion.

    Actions are 12 offsets (rad) from the default motor pose; observations are 160 numbers (see ``sensors``); rewards
    lie in (0, 1] (see ``imitation``).

    Args:
        motion_files: clip files; each episode draws one of them. Overrides ``clip``.
        clip: a dog's clip (``dog_pace``, fetched on first use), a generated gait (``synthetic_trot``), or a family of
            gaits from which each episode draws one (``varied_trot``; test mode draws other gaits than training).
        mode: ``"train"``: episodes grow from 20 to 600 steps over 30 million steps and the dynamics are randomised;
            ``"test"``: 600 steps and the nominal robot.
        enable_rendering: the same as ``render_mode="human"``.
        num_parallel_envs: number of environments in the training run; the curriculum runs that many times faster.
        enable_randomizer: randomise the dynamics at each reset. None: in training mode only.
        render_mode: ``"rgb_array"`` (480 x 360), ``"human"`` or None.
        compat: restore the behaviour of the earlier implementation, see "Version history".
        observation_dtype: dtype of observations. None: float32; ``"float64"`` is for numerical checks.
        physics_loop: ``"native"`` (compiled), ``"python"``, or ``"auto"``: native if the machine supports it, otherwise
            Python with a notice. Both give bit-identical results.
        gait_seed: seed of the parameters of the ``varied_*`` gaits.
        paid_progress: multiply the reward by the share of the reference's root motion that the robot makes
            (``imitation.root_progress``); version 1 of the generated gaits.
        **unknown: refused with the nearest valid name.

    Attributes:
        reference: the reference motion of the episode.
        latency: of measurements in this episode, s.

    Raises:
        ConfigError: an argument is unknown or out of its range, or a clip is broken.
        AssetUnavailable: the clip is not on this host and could not be fetched.
        MissingDependency: PyBullet is not installed.
    """

    metadata: ClassVar[dict[str, Any]] = {"render_modes": list(RENDER_MODES), "render_fps": 30}  # type: ignore[misc]

    def __init__(
        self,
        motion_files: Sequence[str | Path] | str | Path | None = None,
        clip: str = "dog_pace",
        mode: str = "train",
        enable_rendering: bool = False,
        num_parallel_envs: int = 1,
        enable_randomizer: bool | None = None,
        render_mode: str | None = None,
        compat: bool = False,
        observation_dtype: Any = None,
        physics_loop: str = "auto",
        gait_seed: int = 0,
        paid_progress: bool = False,
        **unknown: Any,
    ) -> None:
        given = {name: value for name, value in locals().items() if name in ARGUMENTS}
        EzPickle.__init__(self, **given, **unknown)
        self._physics: PhysicsBackend | None = None
        self._camera: Camera | None = None
        self._ready = False
        self.render_mode = "human" if enable_rendering else render_mode
        refuse_unknown(unknown, ARGUMENTS, "an argument of the quadruped environment")
        check_arguments(mode, self.render_mode, num_parallel_envs, physics_loop, gait_seed)
        self.rules: LocomotionRules = CompatLocomotionRules() if compat else LocomotionRules()
        self.clips = resolve_clips(motion_files, clip)
        self._family = clip if motion_files is None and clip in FAMILIES else None
        self._gait_seed = gait_seed
        self._paid_progress = bool(paid_progress)
        self._training = mode == "train"
        self._parallel = int(num_parallel_envs)
        self._randomize = self._training if enable_randomizer is None else bool(enable_randomizer)
        self._dtype = checked_dtype(
            self.rules.default_observation_dtype if observation_dtype is None else observation_dtype
        )

        low, high = observation_bounds(
            self.rules, self.clips, np.dtype(self.rules.space_dtype or self._dtype), any_gait=self._family is not None
        )
        self.observation_space = gymnasium.spaces.Box(low, high, dtype=low.dtype.type)
        self.action_space = gymnasium.spaces.Box(-ACTION_BOUND, ACTION_BOUND, (12,), np.float32)

        self._physics = self._make_physics(physics_loop)
        self._nominal = randomization.nominal_dynamics(self._physics)
        self._dynamics_changed = False
        self.latency = DEFAULT_LATENCY
        self.reference = ReferenceMotion(self.clips[0])
        self._task = new_task(self.reference)
        self._steps = 0
        self.total_steps = 0
        self.episode_limit = self.rules.episode_limit(self._training, 0, self._parallel)

    # --- Gymnasium API

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[Any], dict[str, Any]]:
        """Starts an episode.

        Args:
            options: ``clip`` (name of one of the loaded clips), ``phase`` (start phase in [0, 1); no warm-up then),
                ``randomize`` (a bool, or a mapping of dynamics parameters to values in [-1, 1]).

        Raises:
            ConfigError: an option is unknown or out of its range.
            EpisodeOverError: the environment is closed.
        """
        physics = self._open_physics()
        chosen = checked_options(options, self.clips)
        super().reset(seed=seed)
        self._steps = 0
        self.episode_limit = self.rules.episode_limit(self._training, self.total_steps, self._parallel)
        self.latency = self.rules.latency_at_reset(self.latency)

        task = self._task
        task.action[:] = 0.0
        physics.reset_robot(task.actuation)
        fill_sensors(task.actuation.history, self.latency, task.action, task.scratch, task.observation)
        self._begin_motion(physics, chosen)
        task = self._task
        write_targets(task, self.latency, self.reference.warm_up)
        # astype copies even to the same dtype; the array itself is overwritten by the next step.
        observation = task.observation.astype(self._dtype)
        self._set_dynamics(physics, chosen.get("randomize", self._randomize))
        self._ready = True
        physics.read_state(task.state, task.feet)
        if self.render_mode == "human":
            self._show()
        return observation, self._info(None)

    def step(self, action: NDArray[Any]) -> tuple[NDArray[Any], float, bool, bool, dict[str, Any]]:
        """Runs one control step of 0.033 s.

        Args:
            action: offsets from the default motor pose, rad, shape (12,); not clipped.

        Raises:
            ConfigError: the action has another shape or is not finite.
            EpisodeOverError: the environment is closed or was not reset.
        """
        physics = self._open_physics()
        if not self._ready:
            raise EpisodeOverError("step() before the first reset()", hint="call env.reset(seed=...) first")
        task = self._task
        np.add(checked_action(action), DEFAULT_MOTOR_POSE, out=task.action)
        physics.run(task, self.latency, self._steps, self.reference.warm_up)
        reason = self._task_end()

        self._steps += 1
        limit_reached = self._steps >= self.episode_limit
        if reason is None and not limit_reached:
            self.total_steps += 1
        terminated, truncated = self.rules.end_flags(reason is not None, limit_reached)
        info = self._info(reason or ("time_limit" if limit_reached else None))
        info["reward_terms"] = dict(zip(TERMS, task.terms.tolist(), strict=True))
        info.update(self.rules.extra_info(reason is not None))
        if self.render_mode == "human":
            self._show()
        reward = float(task.outcome[OUTCOME_REWARD])
        if self._paid_progress:
            reward *= root_progress(task.state, task.velocity)
        return task.observation.astype(self._dtype), reward, terminated, truncated, info

    def render(self) -> NDArray[np.uint8] | None:
        """Returns a picture, RGB, uint8, shape (360, 480, 3), in render mode ``"rgb_array"``.

        Raises:
            EpisodeOverError: the environment is closed or was not reset.
        """
        self._open_physics()
        if not self._ready:
            raise EpisodeOverError("render() before the first reset()", hint="call env.reset(seed=...) first")
        return self.picture_of(self.robot_pose) if self.render_mode == "rgb_array" else None

    @property
    def picture_state(self) -> FloatArray:
        """What ``picture_of`` needs to show this step later, without the simulation: the pose of the robot."""
        return self.robot_pose

    def picture_of(self, state: FloatArray) -> NDArray[np.uint8]:
        """Returns the picture that ``render`` gave when ``picture_state`` was this one."""
        if self._camera is None:
            self._camera = Camera()
        self._camera.show(state)
        return self._camera.picture(state[:3])

    def close(self) -> None:
        """Frees physics and pictures; calling it again changes nothing."""
        for part in (self._physics, self._camera):
            if part is not None:
                part.close()
        if self._physics is not None:
            return_memory()
        self._physics = self._camera = None

    # --- For reports and tools

    @property
    def robot_pose(self) -> FloatArray:
        """Pose of the robot: base position (m), quaternion, URDF joint angles (rad), shape (19,)."""
        return np.concatenate([self._task.state[0:7], self._task.state[13:25]])

    @property
    def robot_state(self) -> FloatArray:
        """True state of the robot, shape (37,), layout of ``robot``."""
        return self._task.state.copy()

    @property
    def reference_pose(self) -> FloatArray:
        """Pose of the reference now, shape (19,)."""
        return self.reference.pose.copy()

    def link_dynamics(self, link: int) -> tuple[float, FloatArray, float]:
        """Mass (kg), principal inertia (kg m^2, shape (3,)) and lateral friction of a link (-1: the chassis)."""
        return self._open_physics().get_dynamics(link)

    # --- Parts of reset and step

    def _make_physics(self, physics_loop: str) -> PhysicsBackend:
        physics = make_physics(physics_loop)
        return_memory()
        return physics

    def _open_physics(self) -> PhysicsBackend:
        if self._physics is None:
            raise EpisodeOverError("the environment is closed", hint="make a new one with gymnasium.make")
        return self._physics

    def _begin_motion(self, physics: PhysicsBackend, chosen: Mapping[str, Any]) -> None:
        generator = self.np_random
        warm_up = not generator.uniform(0.0, 1.0) < REFERENCE_STATE_PROBABILITY
        clip = self.clips[int(generator.integers(0, len(self.clips)))] if len(self.clips) > 1 else self.clips[0]
        if self._family is not None:
            variant = int(generator.integers(0, VARIANTS))
            clip = varied_clip(self._family, variant, not self._training, self._gait_seed)
        # Drawn even where an option replaces the result: later draws of the generator then stay the same.
        clip = chosen.get("clip", clip)
        offset = float(generator.uniform(0.0, WARM_UP_TIME if warm_up else clip.duration))
        if "phase" in chosen:
            warm_up, offset = False, chosen["phase"] * clip.duration
        reference = self.reference
        reference.begin(clip, offset, warm_up, DEFAULT_POSITION, float(heading(*DEFAULT_ORIENTATION)))
        self._task = self._task._replace(clip=clip.data)
        physics.place_robot(reference.pose, reference.velocity, self._task.actuation)

    def _set_dynamics(self, physics: PhysicsBackend, choice: bool | Mapping[str, FloatArray]) -> None:
        if choice is True:
            values = randomization.draw(self.rules.randomization_generator(self.np_random))
        elif choice is False:
            values = {}
        else:
            values = dict(choice)
        # Setting nominal values takes some forty commands, which a robot that was never changed does not need.
        if not values and not self._dynamics_changed:
            self.latency = DEFAULT_LATENCY
            self._task.actuation.strength[:] = 1.0
            return
        self._dynamics_changed = True
        self.latency, self._task.actuation.strength[:] = randomization.apply(
            physics, self._nominal, randomization.scaled(values), inertia_from_shape=self.rules.inertia_from_shape
        )

    def _task_end(self) -> str | None:
        outcome = self._task.outcome
        # Contacts count from the second step on: the start state may lie slightly in the ground.
        if self._steps > 0 and outcome[OUTCOME_TOUCH] != 0.0:
            return "fall"
        if outcome[OUTCOME_DISTANCE] > MAX_ROOT_DISTANCE_SQUARED:
            return "root_position"
        if outcome[OUTCOME_ANGLE] > MAX_ROOT_ANGLE:
            return "root_rotation"
        return "motion_over" if self.reference.is_over else None

    def _info(self, termination: str | None) -> dict[str, Any]:
        return {
            "termination": termination,
            "motion_time": self.reference.time,
            "phase": self.reference.phase,
            "base_position": self._task.state[0:3].copy(),
            "base_orientation": self._task.state[3:7].copy(),
        }

    def _show(self) -> None:
        if self._camera is None:
            self._camera = Camera(window=True)
        self._camera.show(self.robot_pose, self.reference.pose)
        self._camera.follow(self._task.state[:3])
        self._camera.wait(CONTROL_STEP)


ARGUMENTS = argument_names(QuadrupedLocomotionEnv.__init__)
_with_gin_bindings = completed_by_gin("build_imitation_env", module="a2perf.quadruped_locomotion", home=__name__)


def build_imitation_env(**kwargs: Any) -> QuadrupedLocomotionEnv:
    """Makes the environment; gin bindings of ``build_imitation_env`` supply arguments that are not given."""
    return QuadrupedLocomotionEnv(**_with_gin_bindings(**kwargs))
