"""Pictures, videos and plots, and the commands that make them."""

import numpy as np
import pytest
from click.testing import CliRunner
from PIL import Image

from a2perf.domains.quadruped_locomotion import gallery
from a2perf.domains.quadruped_locomotion.commands import clips
from a2perf.domains.quadruped_locomotion.motion_clip import load_clip


def test_rendered_picture_shows_the_robot_where_it_is(make):
    env = make(render_mode="rgb_array")
    env.reset(seed=0, options={"phase": 0.0})
    first = env.render()
    assert first.shape == (360, 480, 3)
    assert first.dtype == np.uint8
    dark = (first.max(axis=2) < 80).mean()
    assert 0.01 < dark < 0.5  # the black robot before the light ground
    for _ in range(10):
        env.step(np.full(12, 0.3))
    assert not np.array_equal(first, env.render())


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


def test_show_writes_strip_plot_and_video(tmp_path):
    result = CliRunner().invoke(clips, ["show", "synthetic_pace", "--out", str(tmp_path), "--steps", "12"])
    assert result.exit_code == 0, result.output
    assert "12 steps" in result.output
    strip = np.asarray(Image.open(tmp_path / "synthetic_pace_strip.png"))
    assert strip.shape == (300, 1600, 3)
    assert strip[:150].std() > 10.0
    assert strip[150:].std() > 10.0
    assert (tmp_path / "synthetic_pace_contacts.png").stat().st_size > 5000
    assert (tmp_path / "synthetic_pace.mp4").stat().st_size > 2000


def test_generate_writes_a_clip_that_show_and_environments_read(tmp_path):
    file = tmp_path / "slow.txt"
    run = CliRunner().invoke(clips, ["generate", "synthetic_trot", str(file), "--speed", "0.2", "--cycle-time", "0.6"])
    assert run.exit_code == 0, run.output
    clip = load_clip(file)
    assert clip.duration == pytest.approx(0.6, abs=1e-6)
    assert clip.data.delta_x == pytest.approx(0.12, abs=1e-4)
    arguments = ["show", str(file), "--out", str(tmp_path), "--steps", "4", "--no-video"]
    shown = CliRunner().invoke(clips, arguments)
    assert shown.exit_code == 0, shown.output
    assert not (tmp_path / "slow.mp4").exists()


def test_list_names_every_clip():
    result = CliRunner().invoke(clips, ["list"])
    assert result.exit_code == 0
    for name in ("synthetic_trot", "synthetic_bound", "dog_spin"):
        assert name in result.output


def test_unknown_clip_policy_and_option():
    runner = CliRunner()
    assert "did you mean" in str(runner.invoke(clips, ["show", "synthetic_trott", "--no-video"]).exception)
    refused = runner.invoke(clips, ["show", "synthetic_trot", "--policy", "pretrained", "--no-video"])
    assert refused.exit_code == 2
    assert "no pre-trained policy" in refused.output
    assert runner.invoke(clips, ["show", "synthetic_trot", "--steps", "0"]).exit_code == 2


def test_contacts_of_a_standing_and_a_flying_robot():
    from a2perf.domains.quadruped_locomotion.gaits import synthetic_clip

    standing = synthetic_clip("synthetic_pace").pose(0.0)
    flying = standing.copy()
    flying[2] += 0.5
    assert gallery.contacts(np.array([standing]))[0].any()
    assert not gallery.contacts(np.array([flying]))[0].any()
