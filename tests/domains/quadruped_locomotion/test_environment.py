"""Episodes: resets, options, ends, rules of version 0 and of the earlier implementation, reproducibility."""

import numpy as np
import pytest

from a2perf.domains.quadruped_locomotion import DOMAIN
from a2perf.domains.quadruped_locomotion.motion.gaits import synthetic_clip
from a2perf.domains.quadruped_locomotion.motion.imitation import WEIGHTS
from a2perf.domains.quadruped_locomotion.physics.randomization import PARAMETERS
from a2perf.domains.quadruped_locomotion.physics.robot import DEFAULT_MOTOR_POSE
from a2perf.domains.quadruped_locomotion.rules import CompatLocomotionRules, LocomotionRules

REST = np.zeros(12, dtype=np.float32)


def episode(env, seed, steps, **options):
    """Observations and rewards of a seeded episode with random actions."""
    generator = np.random.default_rng(seed)
    observation, _ = env.reset(seed=seed, options=options)
    rows, rewards = [observation], []
    for _ in range(steps):
        observation, reward, *_ = env.step(generator.uniform(-0.3, 0.3, 12))
        rows.append(observation)
        rewards.append(reward)
    return np.array(rows), np.array(rewards)


def test_first_observation_shows_the_default_pose_whatever_the_start(make):
    env = make()
    for phase in (0.0, 0.3, 0.8):
        observation, _ = env.reset(seed=1, options={"phase": phase})
        assert np.allclose(observation[:48], 0.0, atol=1e-7)
        assert np.allclose(observation[48:84].reshape(3, 12), DEFAULT_MOTOR_POSE, atol=1e-6)


def test_reference_does_not_move_during_the_first_step(make):
    env = make()
    _, info = env.reset(seed=1, options={"phase": 0.5})
    start = info["motion_time"]
    for step in range(4):
        *_, info = env.step(REST)
        assert info["motion_time"] == pytest.approx(start + 0.033 * step, abs=1e-12)


def test_reward_is_the_weighted_sum_of_its_terms_in_info(make):
    env = make()
    env.reset(seed=2)
    _, reward, _, _, info = env.step(REST)
    terms = np.array(list(info.pop("reward_terms").values()))
    assert ((terms > 0.0) & (terms <= 1.0)).all()
    assert reward == pytest.approx(float(WEIGHTS @ terms), abs=1e-15)
    assert set(info) == {"termination", "motion_time", "phase", "base_position", "base_orientation"}
    assert info["termination"] is None


def test_warm_up_stands_then_puts_the_motion_under_the_robot(make):
    env = make()
    seed = next(s for s in range(100) if np.random.Generator(np.random.PCG64(s)).uniform() >= 0.9)
    _, info = env.reset(seed=seed)
    assert env.reference.warm_up
    assert -0.25 <= info["motion_time"] < 0.0
    assert env.reference_pose[2] == pytest.approx(0.48)
    while info["motion_time"] < 0.0:
        *_, info = env.step(REST)
    assert np.abs(env.reference_pose[:2] - info["base_position"][:2]).max() < 0.05
    assert env.reference_pose[2] != pytest.approx(0.48)


@pytest.mark.parametrize(("compat", "flags"), [(False, (False, True)), (True, (True, False))])
def test_time_outs_truncate_and_were_terminations(make, compat, flags):
    env = make(mode="train", compat=compat)
    observation, _ = env.reset(seed=0, options={"phase": 0.0, "randomize": False})
    assert observation.dtype == (np.float64 if compat else np.float32)
    for _ in range(20):
        _, _, terminated, truncated, info = env.step(REST)
    assert (terminated, truncated, info["termination"]) == (*flags, "time_limit")
    assert info.get("terminated") is (False if compat else None)


def test_task_ends_terminate(either):
    env = either()
    env.reset(seed=0, options={"phase": 0.0})
    for _ in range(200):
        _, _, terminated, truncated, info = env.step(np.full(12, 1.5))
        if terminated:
            break
    assert (terminated, truncated) == (True, False)
    assert info["termination"] in ("fall", "root_position", "root_rotation")


def test_limit_of_test_mode_is_600_and_was_sometimes_599():
    totals = range(0, 30_000_000, 100_003)
    assert {LocomotionRules().episode_limit(False, total, 1) for total in totals} == {600}
    assert {CompatLocomotionRules().episode_limit(False, total, 1) for total in totals} == {599, 600}


def test_stepping_after_the_end_continues_the_simulation(make):
    env = make(mode="train")
    env.reset(seed=0)
    positions = [env.step(REST)[4]["base_position"] for _ in range(25)]
    assert not np.array_equal(positions[22], positions[24])


def test_curriculum_counts_the_steps_that_end_no_episode(make):
    env = make(mode="train", num_parallel_envs=8)
    assert env.episode_limit == 20
    for _ in range(2):
        env.reset(seed=0, options={"phase": 0.0, "randomize": False})
        for _ in range(20):
            env.step(REST)
    assert env.total_steps == 38


def test_randomisation_comes_from_the_seed_and_changes_the_inertia(make):
    env = make(mode="train")
    env.reset(seed=4)
    first = [env.link_dynamics(link) for link in (-1, 2)]
    env.reset(seed=5)
    assert env.link_dynamics(-1)[0] != first[0][0]
    env.reset(seed=4)
    again = [env.link_dynamics(link) for link in (-1, 2)]
    for (mass, inertia, friction), (mass_again, inertia_again, friction_again) in zip(first, again, strict=True):
        assert (mass, friction) == (mass_again, friction_again)
        assert np.array_equal(inertia, inertia_again)
    env.reset(seed=4, options={"randomize": {"mass": [1.0, -1.0], "inertia": [-1.0, 1.0]}})
    nominal = make().link_dynamics
    mass, inertia, _ = env.link_dynamics(-1)
    assert mass == pytest.approx(1.2 * nominal(-1)[0])
    assert np.allclose(inertia, 0.5 * nominal(-1)[1])
    mass, inertia, _ = env.link_dynamics(2)
    assert mass == pytest.approx(0.8 * nominal(2)[0])
    assert np.allclose(inertia, 1.5 * nominal(2)[1])
    assert sum(parameter.draws for parameter in PARAMETERS.values()) == 28
    earlier = make(mode="train", compat=True)
    masses = [earlier.reset(seed=4) and earlier.link_dynamics(-1)[0] for _ in range(2)]
    assert masses[0] != masses[1]  # drawn without the seed


def test_an_episode_without_randomisation_has_the_nominal_robot_again(make):
    env = make(mode="train")
    calm = episode(env, 9, 20, randomize=False)
    episode(env, 9, 20)
    again = episode(env, 9, 20, randomize=False)
    assert np.array_equal(calm[0], again[0])
    assert env.latency == 0.002


def test_latency_delays_what_the_motors_show(make):
    env = make()
    late, early = {"latency": 1.0}, {"latency": -1.0}
    slow = episode(env, 1, 8, phase=0.0, randomize=late)[0]
    fast = episode(env, 1, 8, phase=0.0, randomize=early)[0]
    # 40 ms are more than a control step: after the first one the default pose is still what the motors show
    assert np.allclose(slow[1, 48:60], DEFAULT_MOTOR_POSE, atol=1e-6)
    assert np.abs(fast[1, 48:60] - DEFAULT_MOTOR_POSE).max() > 0.05


def test_options_choose_clip_and_phase(make, tmp_path):
    files = []
    for name in ("synthetic_trot", "synthetic_pace"):
        files.append(tmp_path / f"{name}.txt")
        files[-1].write_text(synthetic_clip(name).to_json())
    env = make(motion_files=files)
    drawn = {env.reset(seed=seed) and env.reference.clip.name for seed in range(12)}
    assert drawn == {str(file) for file in files}
    for _ in range(3):
        _, info = env.reset(options={"clip": "synthetic_pace", "phase": 0.25})
        assert env.reference.clip.name == str(files[1])
        assert info["phase"] == pytest.approx(0.25)


def test_clip_that_does_not_repeat_ends_the_episode(make, tmp_path):
    clip = synthetic_clip("synthetic_trot")
    file = tmp_path / "once.txt"
    file.write_text(clip.to_json().replace('"Wrap"', '"Clamp"'))
    env = make(motion_files=file)
    env.reset(seed=0, options={"phase": 0.9})
    for _ in range(6):
        _, _, terminated, _, info = env.step(REST)
    assert terminated
    assert info["termination"] == "motion_over"


def test_varied_gaits_are_drawn_by_the_seed_and_held_out_from_training(make):
    def drawn(env):
        names, clips = set(), []
        for seed in range(6):
            env.reset(seed=seed)
            names.add(env.reference.clip.name)
            clips.append(env.reference.clip.data.frames)
        return names, clips

    test, train = make(clip="varied_trot"), make(clip="varied_trot", mode="train")
    names, clips = drawn(test)
    assert len(names) > 3
    again = drawn(test)[1]
    assert all(np.array_equal(a, b) for a, b in zip(clips, again, strict=True))
    other = drawn(train)[1]
    hidden = drawn(make(clip="varied_trot", gait_seed=1234))[1]
    for mine in clips:
        for theirs in (*other, *hidden):
            assert mine.shape != theirs.shape or not np.allclose(mine, theirs)


def test_task_names_lead_to_ids_and_the_generalization_set_has_no_generated_gaits():
    assert DOMAIN.generalization_tasks == ("dog_pace", "dog_trot", "dog_spin")
    assert DOMAIN.task("varied_bound").env_id == "QuadrupedLocomotion-VariedBound-v0"
    assert DOMAIN.task("mujoco_dog_spin").env_id == "QuadrupedLocomotionMuJoCo-DogSpin-v0"
