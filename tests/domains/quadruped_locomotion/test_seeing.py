"""Pictures of the robot, and the commands of clips."""

import numpy as np
import pytest
from click.testing import CliRunner

from a2perf.domains.quadruped_locomotion.commands import clips
from a2perf.domains.quadruped_locomotion.motion.motion_clip import load_clip


def test_rendered_picture_shows_the_robot_where_it_is(make):
    env = make(render_mode="rgb_array")
    env.reset(seed=0, options={"phase": 0.0})
    first, state = env.render(), env.unwrapped.picture_state
    assert first.shape == (360, 480, 3)
    assert first.dtype == np.uint8
    dark = (first.max(axis=2) < 80).mean()
    assert 0.01 < dark < 0.5  # the black robot before the light ground
    for _ in range(10):
        env.step(np.full(12, 0.3))
    assert not np.array_equal(first, env.render())
    assert np.array_equal(first, env.unwrapped.picture_of(state))


def test_rendering_does_not_change_the_episode(make):
    runs = []
    for mode in (None, "rgb_array"):
        env = make(render_mode=mode)
        env.reset(seed=3)
        rows = []
        for _ in range(5):
            rows.append(env.step(np.full(12, 0.1))[0])
            env.render()
        runs.append(np.array(rows))
    assert np.array_equal(*runs)


def test_generate_writes_a_clip_that_environments_read(make, tmp_path):
    file = tmp_path / "slow.txt"
    run = CliRunner().invoke(clips, ["generate", "synthetic_trot", str(file), "--speed", "0.2", "--cycle-time", "0.6"])
    assert run.exit_code == 0, run.output
    clip = load_clip(file)
    assert clip.duration == pytest.approx(0.6, abs=1e-6)
    assert clip.data.delta_x == pytest.approx(0.12, abs=1e-4)
    env = make(motion_files=[str(file)])
    env.reset(seed=0)
    assert env.step(np.zeros(12))[1] > 0.0


def test_unknown_gait():
    assert "did you mean" in str(CliRunner().invoke(clips, ["generate", "synthetic_trott", "x.txt"]).exception)
