"""Every perturbation of every domain keeps the contract of environments; a new one is covered without a new test."""

import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from a2perf import assets
from a2perf.domains import domains
from a2perf.domains.circuit_training.perturbations import MIRROR, QUARTER_TURN, RESCALING, image_of
from a2perf.domains.perturbation import make_perturbed
from a2perf.domains.quadruped_locomotion.perturbations import ANGLE_NOISE
from a2perf.domains.quadruped_locomotion.sensors import IMU, LAST_ACTION, MOTOR_ANGLES, TARGETS
from a2perf.domains.tfa.suite_gym import make_environment
from a2perf.domains.web_navigation.page.vocabulary import built_in_words, tokenize
from a2perf.domains.web_navigation.perturbations import WORDINGS
from a2perf.errors import ConfigError
from tests.domains.circuit_training.conftest import play
from tests.domains.test_conformance import equal, rollout

STEPS = 15
GAITS = (
    pytest.param(
        ("QuadrupedLocomotion-SyntheticTrot-v0", {"mode": "test"}), id="PyBullet", marks=pytest.mark.group("pybullet")
    ),
    pytest.param(
        ("QuadrupedLocomotionMuJoCo-DogPace-v0", {"mode": "test", "clip": "synthetic_trot"}),
        id="MuJoCo",
        marks=pytest.mark.group("mujoco"),
    ),
)
SITES = ("WebNavigation-Difficulty-02-v0", {"num_websites": 5})


def first_environment(domain):
    """Returns the first environment without data files; its id and example arguments."""
    plain = [one for one in domain.environments if not one.assets]
    return plain[0].id, dict(plain[0].example)


def cases():
    for domain in domains().values():
        gaits = GAITS if domain.name == "quadruped_locomotion" else ()
        for one in domain.perturbations:
            for gait in gaits or [pytest.param(first_environment(domain), id=domain.name)]:
                yield pytest.param((*gait.values[0], one.name), id=f"{gait.id}-{one.name}", marks=gait.marks)


@pytest.fixture(autouse=True)
def no_fetching(monkeypatch):
    monkeypatch.setenv(assets.OFFLINE_VARIABLE, "1")


@pytest.mark.filterwarnings("ignore:.*is different from the unwrapped version.*")
@pytest.mark.parametrize("case", list(cases()))
def test_perturbed_environments_keep_the_api_and_depend_on_the_seed_only(case):
    first, second = make_perturbed(*case), make_perturbed(*case)
    check_env(first, skip_render_check=True, skip_close_check=True)
    plain = make_environment(*case[:2])
    assert first.observation_space == plain.observation_space
    assert first.action_space == plain.action_space
    once = rollout(first, 3, STEPS)
    assert equal(once, rollout(second, 3, STEPS))  # although the first one has had episodes before
    rollout(second, 4, STEPS)
    assert equal(once, rollout(second, 3, STEPS))
    for env in (first, second, plain):
        env.close()


def test_unknown_perturbations_are_refused_with_the_known_ones():
    with pytest.raises(ConfigError, match="did you mean 'wording'") as caught:
        make_perturbed(SITES[0], SITES[1], "wordings")
    assert "wording, order, layout" in str(caught.value.hint)


# --- Websites


@pytest.mark.parametrize("name", ["wording", "order", "layout"])
def test_perturbed_pages_are_solvable_with_the_same_profile(name):
    plain, changed = make_environment(*SITES), make_perturbed(*SITES, name)
    different = 0
    for seed in range(8):
        (before, _), (after, _) = plain.reset(seed=seed), changed.reset(seed=seed)
        assert plain.unwrapped.profile == changed.unwrapped.profile
        assert plain.unwrapped.site.design == changed.unwrapped.site.design
        different += any(not np.array_equal(before[key], after[key]) for key in before)
        for action in changed.unwrapped.solution():
            *_, info = changed.step(action)
        assert info["is_success"]
    assert different >= 3
    plain.close()
    changed.close()


def test_wordings_use_words_that_a_policy_can_read_and_stay_distinct():
    known = set(built_in_words())
    texts = [text for others in WORDINGS.values() for text in others]
    assert [text for text in texts if not set(tokenize(text)) <= known] == []
    assert len(set(texts)) == len(texts)
    assert not set(texts) & set(WORDINGS)


# --- The quadruped


@pytest.mark.parametrize("gait", GAITS)
def test_noise_is_bounded_hits_measurements_only_and_moves_with_them_through_the_stack(gait):
    plain, noisy = make_environment(*gait), make_perturbed(*gait, "sensor_noise")
    differences = []
    for env in (plain, noisy):
        rows = [env.reset(seed=1)[0]]
        rows += [env.step(np.full(12, 0.1, np.float32))[0] for _ in range(3)]
        differences.append(np.array(rows, np.float64))
        env.close()
    noise = differences[1] - differences[0]
    assert np.abs(noise[:, MOTOR_ANGLES]).max() <= ANGLE_NOISE + 1e-6
    assert (np.abs(noise[:, MOTOR_ANGLES]) > 0).mean() > 0.9
    assert (noise[:, LAST_ACTION] == 0).all()
    assert (noise[:, TARGETS] == 0).all()
    for block, width in ((IMU, 4), (MOTOR_ANGLES, 12)):
        shown = noise[:, block]
        np.testing.assert_allclose(shown[2:, width : 2 * width], shown[1:-1, :width], atol=1e-6)


@pytest.mark.parametrize(
    ("name", "reading", "nominal", "low", "high"),
    [
        ("friction", lambda env: env.link_dynamics(3)[2], 1.0, 0.5, 1.25),
        ("mass", lambda env: env.link_dynamics(-1)[0] / 13.715, 1.0, 0.8, 1.2),
        ("sensor_delay", lambda env: env.latency, 0.002, 0.02, 0.04),
    ],
)
@pytest.mark.parametrize("gait", GAITS)
def test_dynamics_lie_in_their_ranges_and_differ_between_episodes(gait, name, reading, nominal, low, high):
    env = make_perturbed(*gait, name)
    found = []
    for seed in range(4):
        env.reset(seed=seed)
        found.append(reading(env.unwrapped))
        others = {"friction": 1.0, "mass": 1.0, "sensor_delay": 0.002} | {name: found[-1]}
        assert env.unwrapped.latency == pytest.approx(others["sensor_delay"])
        assert env.unwrapped.link_dynamics(3)[2] == pytest.approx(others["friction"])
        assert env.unwrapped.link_dynamics(-1)[0] == pytest.approx(13.715 * others["mass"])
    env.close()
    assert all(low <= value <= high for value in found)
    assert len(set(found)) == 4
    assert nominal not in found


# --- Designs


@pytest.mark.parametrize("similarity", [QUARTER_TURN, MIRROR, RESCALING], ids=["rotated", "mirrored", "rescaled"])
def test_the_image_of_a_placement_costs_the_same(similarity):
    env = make_environment("CircuitTraining-Generated-v0", {"num_macros": 10, "seed": 3})
    play(env)
    plc = env.unwrapped.plc
    image = image_of(plc, similarity)
    assert image.get_cost() == pytest.approx(plc.get_cost(), rel=1e-12)
    assert image.get_density_cost() == pytest.approx(plc.get_density_cost(), rel=1e-9)
    # Nets are routed along one of several shortest ways, and the engine's choice among them is not symmetric.
    assert image.get_congestion_cost() == pytest.approx(plc.get_congestion_cost(), rel=2e-2)
    assert image.get_wirelength() == pytest.approx(similarity.scale * plc.get_wirelength(), rel=1e-12)
    assert image.get_overlap_cost() == pytest.approx(plc.get_overlap_cost(), abs=1e-9)
    masks = [engine.get_node_mask(engine.hard_macro_indices[0]).sum() for engine in (plc, image)]
    assert masks[0] == masks[1]
    env.close()


def test_four_quarter_turns_give_the_design_back():
    env = make_environment("CircuitTraining-ToyMacro-v0", {})
    env.reset(seed=0)
    plc = turned = env.unwrapped.plc
    for _ in range(4):
        turned = image_of(turned, QUARTER_TURN)
    for name in ("x_offset", "y_offset", "width", "height", "side", "orientation"):
        np.testing.assert_allclose(getattr(turned.netlist, name), getattr(plc.netlist, name), atol=1e-9)
    assert turned.get_canvas_width_height() == plc.get_canvas_width_height()
    assert turned.get_routes_per_micron() == plc.get_routes_per_micron()
    env.close()
