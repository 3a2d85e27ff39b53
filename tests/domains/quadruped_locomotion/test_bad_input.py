"""Wrong arguments, broken clips and closed environments give an error with the problem and the fix."""

import json
import zipfile

import numpy as np
import pytest

from a2perf.domains.quadruped_locomotion.motion.gaits import synthetic_clip
from a2perf.domains.quadruped_locomotion.motion.motion_clip import load_clip
from a2perf.domains.quadruped_locomotion.pretrained import load_actor
from a2perf.errors import ConfigError, UserError

REST = np.zeros(12)


@pytest.fixture
def clip_file(tmp_path):
    """Writes a good clip after a change of its content."""

    def write(change=lambda content: content):
        content = json.loads(synthetic_clip("synthetic_trot").to_json())
        path = tmp_path / "clip.txt"
        path.write_text(json.dumps(change(content)))
        return path

    return write


def with_value(key, value):
    return lambda content: {**content, key: value}


def with_frame(number, column, value):
    """``column`` may be a slice."""

    def change(content):
        content["Frames"][number][column] = value
        return content

    return change


BROKEN = [
    *((lambda content, key=key: content.pop(key) and content, key) for key in ("LoopMode", "FrameDuration", "Frames")),
    (with_value("LoopMode", "Loop"), "LoopMode is 'Loop'"),
    (with_value("FrameDuration", 0.0), "FrameDuration is 0.0"),
    (with_value("FrameDuration", "fast"), "FrameDuration is 'fast'"),
    (with_value("EnableCycleOffsetPosition", 1), "EnableCycleOffsetPosition is 1"),
    (with_value("Frames", []), "at least two frames, found 0"),
    (lambda content: with_value("Frames", content["Frames"][:1])(content), "at least two frames, found 1"),
    (with_frame(7, slice(18, 19), []), "frame 7: expected 19 numbers, found 18"),
    (with_frame(5, slice(3, 7), [1.0, 1.0, 0.0, 0.0]), "frame 5, root quaternion: its length is 1.4142"),
    (with_frame(4, 9, float("nan")), "frame 4, joint FR knee: nan"),
    (with_frame(3, 0, float("inf")), "frame 3, root position x: inf"),
    (with_frame(2, 6, "zero"), "frame 2, root quaternion w: 'zero'"),
    (lambda content: content["Frames"], "expected a JSON object"),
]


@pytest.mark.parametrize(("change", "message"), BROKEN)
def test_broken_clip_names_file_frame_and_field(clip_file, change, message):
    path = clip_file(change)
    with pytest.raises(ConfigError) as error:
        load_clip(path)
    assert message in str(error.value)
    assert str(path) in str(error.value)


def test_clip_that_is_no_json_or_missing(tmp_path, make):
    path = tmp_path / "clip.txt"
    path.write_text("{ not json")
    with pytest.raises(ConfigError, match=r"clip\.txt is not a JSON text"):
        load_clip(path)
    with pytest.raises(ConfigError, match=r"absent\.txt cannot be read"):
        make(motion_files=[tmp_path / "absent.txt"])
    with pytest.raises(ConfigError, match="motion_files is empty"):
        make(motion_files=[])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"num_parallel_env": 2}, "did you mean 'num_parallel_envs'"),
        ({"robot_class": object}, "'robot_class' is not an argument"),
        ({"mode": "tset"}, "did you mean 'test'"),
        ({"render_mode": "rgb_arry"}, "did you mean 'rgb_array'"),
        ({"num_parallel_envs": 0}, "must be a positive integer"),
        ({"num_parallel_envs": 1.5}, "must be a positive integer"),
        ({"clip": "synthetic_trott"}, "did you mean 'synthetic_trot'"),
        ({"observation_dtype": "int8"}, "observation_dtype"),
        ({"gait_seed": -1}, "gait_seed is -1"),
        ({"gait_seed": 0.5}, "gait_seed is 0.5"),
        ({"physics_loop": "nativ"}, "did you mean 'native'"),
    ],
)
def test_wrong_argument_is_named(make, arguments, message):
    with pytest.raises(ConfigError, match=message):
        make(**arguments)


@pytest.mark.parametrize("display", [None, ":97", "nowhere"])
def test_window_without_a_display_is_an_error_and_the_process_lives(make, monkeypatch, display):
    monkeypatch.setattr("sys.platform", "linux")
    if display is None:
        monkeypatch.delenv("DISPLAY", raising=False)
    else:
        monkeypatch.setenv("DISPLAY", display)
    for arguments in ({"render_mode": "human"}, {"enable_rendering": True}):
        with pytest.raises(ConfigError, match="display") as error:
            make(**arguments)
        assert "rgb_array" in str(error.value)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"phas": 0.5}, "did you mean 'phase'"),
        ({"phase": 1.0}, r"must be a number in \[0, 1\)"),
        ({"phase": "start"}, r"must be a number in \[0, 1\)"),
        ({"clip": "synthetic_pace"}, "is not loaded"),
        ({"randomize": {"masss": 0.0}}, "did you mean 'mass'"),
        ({"randomize": {"mass": [0.0, 0.0, 0.0]}}, "takes 2 values"),
        ({"randomize": {"mass": 1.5}}, r"must lie in \[-1, 1\]"),
        ({"randomize": {"mass": float("nan")}}, r"must lie in \[-1, 1\]"),
        ({"randomize": {"mass": "heavy"}}, "must be numbers"),
        ({"randomize": 1}, "must be a bool or a mapping"),
    ],
)
def test_wrong_reset_option_is_named_and_leaves_the_environment_usable(make, options, message):
    env = make()
    env.reset(seed=0)
    with pytest.raises(ConfigError, match=message):
        env.reset(options=options)
    env.step(REST)


@pytest.mark.parametrize(
    ("action", "message"),
    [
        (None, r"got \(\)"),
        ("left", "12 numbers"),
        (np.zeros(11), r"shape \(12,\), got \(11,\)"),
        (np.zeros((1, 12)), r"got \(1, 12\)"),
        (np.full(12, np.nan), "finite"),
        (np.full(12, np.inf), "finite"),
    ],
)
def test_wrong_action_is_an_error(make, action, message):
    env = make()
    env.reset(seed=0)
    with pytest.raises(ConfigError, match=message):
        env.step(action)


def test_use_before_reset_and_after_close(make):
    env = make(render_mode="rgb_array")
    for use in (lambda: env.step(REST), env.render):
        with pytest.raises(UserError, match="before the first reset"):
            use()
    other = make()
    for one in (env, other):
        one.reset(seed=0)
    env.close()
    env.close()
    for use in (lambda: env.step(REST), env.render, env.reset):
        with pytest.raises(UserError, match="is closed"):
            use()
    assert other.step(REST)[1] > 0.0  # in PyBullet closing one leaves the other alone


def test_file_that_is_no_policy(tmp_path):
    path = tmp_path / "policy.zip"
    path.write_bytes(b"not a zip")
    with pytest.raises(ConfigError, match="is not a policy file"):
        load_actor(path)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("data", "{}")
    with pytest.raises(ConfigError, match="is not a policy file"):
        load_actor(path)
    np.savez(tmp_path / "parameters.npz", **{"model/pi/w:0": np.zeros((3, 3))})
    with zipfile.ZipFile(path, "w") as archive:
        archive.write(tmp_path / "parameters.npz", "parameters")
    with pytest.raises(ConfigError, match="layer model/pi_fc0"):
        load_actor(path)
