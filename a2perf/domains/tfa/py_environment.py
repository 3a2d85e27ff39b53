"""A Gymnasium environment as a TF-Agents ``PyEnvironment``.

A terminated episode ends with a discount of 0, a truncated one keeps the discount: the value of its last state still
counts. Importing this needs TensorFlow and TF-Agents; ``suite_gym.wrap_env`` imports it when it is called.
"""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np

from a2perf.domains.tfa import legacy_keras
from a2perf.domains.tfa.spaces import DtypeMap, SpecNest, action_writer, map_specs, reader, specs_of
from a2perf.errors import UserError

legacy_keras.tf_agents_module("environments")

import tensorflow as tf  # noqa: E402  Keras has to be chosen first
from tf_agents.environments import py_environment, wrappers  # noqa: E402
from tf_agents.specs import BoundedArraySpec  # noqa: E402
from tf_agents.trajectories import time_step as ts  # noqa: E402

# TimeSteps are built here: the functions of TF-Agents for that take many times as long as a step of a fast environment.
_ZERO, _ONE = np.asarray(0, np.float32), np.asarray(1, np.float32)


def array_specs(nest: SpecNest) -> Any:
    """Returns a nest of specs as TF-Agents' own."""
    return map_specs(lambda spec: BoundedArraySpec(spec.shape, spec.dtype, spec.minimum, spec.maximum, spec.name), nest)


class GymnasiumEnvironment(py_environment.PyEnvironment):  # type: ignore[misc]
    """Steps a Gymnasium environment.

    Args:
        gym_env: the environment. It belongs to this object, which closes it.
        discount: that of every step but a terminal one, in [0, 1].

    Raises:
        SpaceMismatch: a space that is not an array of fixed shape.
    """

    def __init__(
        self,
        gym_env: gymnasium.Env[Any, Any],
        discount: float = 1.0,
        spec_dtype_map: DtypeMap | None = None,
        auto_reset: bool = True,
        render_kwargs: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(handle_auto_reset=auto_reset)
        self._gym_env = gym_env
        self._discount = np.asarray(discount, np.float32)
        self._render_kwargs = dict(render_kwargs or {})
        self._auto_reset = auto_reset
        observation = specs_of(gym_env.observation_space, spec_dtype_map, "observation")
        self._observation_spec = array_specs(observation)
        self._action_spec = array_specs(specs_of(gym_env.action_space, spec_dtype_map, "action"))
        self._read = reader(observation)
        self._write = action_writer(gym_env.action_space)
        self._seed: int | None = None
        self._info: dict[str, Any] | None = None
        self._done = True

    @property
    def gym(self) -> gymnasium.Env[Any, Any]:
        """The Gymnasium environment."""
        return self._gym_env

    @property
    def done(self) -> bool:
        """Whether the episode is over, or none has begun."""
        return self._done

    def __getattr__(self, name: str) -> Any:
        """Looks up attributes that TF-Agents does not have in the Gymnasium environment."""
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._gym_env, name)

    def observation_spec(self) -> Any:
        """Returns the nest of specs of observations."""
        return self._observation_spec

    def action_spec(self) -> Any:
        """Returns the nest of specs of actions."""
        return self._action_spec

    def get_info(self) -> Any:
        """Returns the ``info`` of the last step or reset."""
        return self._info

    def seed(self, seed: Any) -> Any:
        """Seeds the next episode; those after it follow from its generator, as in Gymnasium."""
        self._seed = int(seed)
        return self._seed

    def close(self) -> None:
        """Closes the Gymnasium environment."""
        self._gym_env.close()

    def render(self, mode: str = "rgb_array") -> Any:
        """Returns an image as ``uint8[height, width, 3]``, or shows it for the mode ``"human"``.

        Raises:
            UserError: the environment was made with another render mode.
        """
        made_with = self._gym_env.render_mode
        if made_with != mode:
            raise UserError(
                f"the environment was made with render_mode={made_with!r}, not {mode!r}",
                hint=f"give render_mode={mode!r} to create_domain, or gym_kwargs={{'render_mode': {mode!r}}} to load",
            )
        if not self._render_kwargs:
            return self._gym_env.render()
        render: Any = self._gym_env.unwrapped.render  # wrappers take no arguments
        return render(**self._render_kwargs)

    def _reset(self) -> Any:
        seed, self._seed = self._seed, None
        observation, self._info = self._gym_env.reset(seed=seed)
        self._done = False
        return ts.TimeStep(ts.StepType.FIRST, _ZERO, _ONE, self._read(observation))

    def _step(self, action: Any) -> Any:
        if self._done and not self._auto_reset:
            raise UserError("the episode is over", hint="call reset(), or make the environment with auto_reset=True")
        observation, reward, terminated, truncated, self._info = self._gym_env.step(self._write(action))
        self._done = bool(terminated or truncated)
        return ts.TimeStep(
            ts.StepType.LAST if self._done else ts.StepType.MID,
            np.asarray(reward, np.float32),
            _ZERO if terminated else self._discount,
            self._read(observation),
        )


def clip_actions(env: Any) -> Any:
    """Wraps an environment to clip continuous actions to their range, as on the earlier platform.

    An environment with discrete actions is returned unchanged: an index out of range is an error, not a near miss.
    """
    fractional = all(np.dtype(spec.dtype).kind == "f" for spec in tf.nest.flatten(env.action_spec()))
    return wrappers.ActionClipWrapper(env) if fractional else env
