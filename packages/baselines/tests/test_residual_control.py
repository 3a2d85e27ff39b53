"""Actions relative to the reference motion, and observations as differences."""

from __future__ import annotations

from pathlib import Path

import gymnasium
import numpy as np
import pytest

from a2perf.domains.quadruped_locomotion.physics.robot import DEFAULT_MOTOR_POSE, MOTOR_DIRECTION, MOTOR_OFFSET
from a2perf.errors import ConfigError
from a2perf_baselines.quadruped_locomotion.residual_control import (
    DIFFERENCES_SIZE,
    ResidualControl,
    ResidualControlWrapper,
)

TROT = "QuadrupedLocomotion-SyntheticTrot-v0"


def motor_angles(env: gymnasium.Env) -> np.ndarray:
    return (env.unwrapped.reference_pose[7:] - MOTOR_OFFSET) * MOTOR_DIRECTION


@pytest.mark.parametrize("ahead", [1.0, 2.0])
def test_the_reference_is_the_motion_of_so_many_steps_later(ahead: float) -> None:
    with gymnasium.make(TROT, mode="test") as env:
        observation, _ = env.reset(seed=0, options={"phase": 0.2})
        observation, *_ = env.step(np.zeros(12, np.float32))  # the motion stands still during the first step
        asked = ResidualControl(ahead=ahead).reference(observation)
        for _ in range(int(ahead)):
            env.step(np.zeros(12, np.float32))
        np.testing.assert_allclose(asked + DEFAULT_MOTOR_POSE, motor_angles(env), atol=2e-3)


def test_further_ahead_is_on_the_line_and_a_share_is_a_share() -> None:
    observation = np.random.default_rng(0).normal(size=160)
    one, two, three = (ResidualControl(ahead=ahead).reference(observation) for ahead in (1.0, 2.0, 3.0))
    np.testing.assert_allclose(three - two, two - one)
    np.testing.assert_allclose(ResidualControl(share=0.5, ahead=1.0).reference(observation), one / 2)
    assert not ResidualControl(share=0.0).reference(observation).any()


def test_an_action_deviates_from_what_was_seen_last() -> None:
    control = ResidualControl(scale=0.25)
    plain = gymnasium.make(TROT, mode="test")
    wrapped = ResidualControlWrapper(gymnasium.make(TROT, mode="test"), control)
    observation, _ = plain.reset(seed=4)
    seen, _ = wrapped.reset(seed=4)
    action = np.linspace(-1, 1, 12, dtype=np.float32)
    for _ in range(3):
        np.testing.assert_array_equal(seen, control.observe(observation))
        observation, reward, *_ = plain.step((control.reference(observation) + 0.25 * action).astype(np.float32))
        seen, same, *_ = wrapped.step(action)
        assert reward == same
    assert seen.shape == (DIFFERENCES_SIZE,) == wrapped.observation_space.shape
    plain.close()
    wrapped.close()


def test_differences_are_speeds_and_distances() -> None:
    observation = np.zeros(160)
    observation[48], observation[60] = 0.5, 0.2  # the first motor's angle, now and one step ago
    seen = ResidualControl().observe(observation)
    assert seen[12] == pytest.approx(0.5)
    assert seen[24] == pytest.approx(0.3)
    assert seen[36] == pytest.approx(0.2)
    same = ResidualControl(differences=False).observe(observation)
    np.testing.assert_array_equal(same, observation.astype(np.float32))


def test_what_is_written_is_read_and_nonsense_refused(tmp_path: Path) -> None:
    ResidualControl(share=0.5, scale=0.1).write(tmp_path)
    assert ResidualControl.read(tmp_path) == ResidualControl(share=0.5, scale=0.1)
    (tmp_path / "control.json").write_text('{"shar": 1}')
    with pytest.raises(ConfigError, match=r"control\.json.*shar"):
        ResidualControl.read(tmp_path)
    with pytest.raises(ConfigError, match="scale is 0"):
        ResidualControl(scale=0.0)
    with gymnasium.make("CircuitTraining-ToyMacro-v0") as env, pytest.raises(ConfigError, match="no reference motion"):
        ResidualControlWrapper(env, ResidualControl())
