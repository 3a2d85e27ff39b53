"""The environment's episodes: against recorded ones of the earlier environment, its errors, saving, threads, gin."""

import concurrent.futures
import gzip
import pickle

import gin
import numpy as np
import pytest

from a2perf import assets
from a2perf.domains import register_environments
from a2perf.domains.arguments import EpisodeOverError
from a2perf.domains.circuit_training import ARIANE, PlacementCost
from a2perf.domains.circuit_training.environment import CircuitEnv, create_circuit_environment
from a2perf.domains.circuit_training.errors import ArgumentError, InfeasibleActionError
from a2perf.domains.circuit_training.observation import ObservationConfig
from a2perf.errors import AssetUnavailable, ConfigError, MissingDependency
from tests.domains.circuit_training.conftest import play
from tests.golden import recorded

register_environments()
INFO_KEYS = {"wirelength", "congestion", "density", "dreamplace_runtime", "total_episode_runtime", "action_mask"}
GOLDEN_NETLISTS = ("toy_macro_stdcell", "sample_clustered", "simple_with_coords")


def toy(**kwargs):
    return CircuitEnv(design="toy_macro_stdcell", **kwargs)


# --- Recorded episodes


@pytest.mark.parametrize("name", GOLDEN_NETLISTS)
@pytest.mark.parametrize("compat", [True, False])
def test_episodes_and_fixed_features_are_the_recorded_ones(golden_netlists, name, compat):
    case, arrays = recorded.cases("circuit_env")["netlists"][name], recorded.arrays("circuit_env")
    env = CircuitEnv(golden_netlists / case["netlist"], golden_netlists / case["init_placement"], compat=compat)
    assert [env.grid_cols, env.grid_rows] == case["grid_cols_rows"]
    assert list(env.plc.get_congestion_grid_num_columns_rows()) == case["congestion_grid"]
    assert env.macro_names == case["macro_names"]
    assert list(env.macro_order) == case["sorted_node_indices_hard"]
    macros = case["num_macros"]
    for number, episode in enumerate(case["episodes"]):
        key = f"{name}/ep{number}"
        observation, _ = env.reset()
        masks, nodes, rewards = [observation["mask"]], [], []
        for action in episode["actions"]:
            observation, reward, terminated, truncated, info = env.step(action)
            masks.append(observation["mask"])
            nodes.append(int(observation["current_node"][0]))
            rewards.append(reward)
        assert terminated
        assert truncated == episode["truncated"]
        assert np.array_equal(np.packbits(np.array(masks).astype(bool), axis=1), arrays[f"{key}/masks_packed"])
        assert nodes == episode["current_node"][-len(nodes) :]
        np.testing.assert_allclose(rewards, episode["rewards"], rtol=1e-12, atol=0)
        for part, value in episode["info"].items():
            assert info[part] == pytest.approx(value, rel=1e-12), part
        for axis in "xy":
            last = arrays[f"{key}/obs_locations_{axis}_last"]
            assert np.array_equal(observation[f"locations_{axis}"][:macros], last)
        assert np.array_equal(observation["is_node_placed"], arrays[f"{key}/obs_is_node_placed_last"])
    if not compat:
        return
    features = env.get_static_obs()
    wanted = {key.rpartition("/")[2]: arrays[key] for key in arrays if key.startswith(f"{name}/static/")}
    assert set(wanted) == set(features)
    for key, value in wanted.items():
        assert features[key].dtype == value.dtype, key
        np.testing.assert_allclose(features[key], value, rtol=3e-7, atol=0, err_msg=key)


# --- Episodes


def test_reward_is_minus_the_weighted_cost_at_the_end_only():
    env = toy()
    _, _, _, rewards, infos = play(env)
    assert rewards[0] == 0.0
    assert infos[0]["wirelength"] == infos[0]["congestion"] == infos[0]["density"] == -1.0
    last = infos[-1]
    assert rewards[-1] == -(last["wirelength"] + 0.5 * last["congestion"] + last["density"])
    assert last["wirelength"] == env.plc.get_cost()
    assert set(infos[0]) == set(last) == INFO_KEYS
    assert env.get_cost_info(done=True)[0] == -rewards[-1]


def test_the_mask_is_that_of_the_engine_in_the_middle_of_the_padding():
    env = toy()
    observation, info = env.reset()
    grid = observation["mask"].reshape(128, 128)
    inside = grid[59:69, 54:74]  # 10 rows and 20 columns in the middle
    assert np.array_equal(inside.reshape(-1), env.plc.get_node_mask(env.macro_order[0]))
    assert grid.sum() == inside.sum() > 0
    assert np.array_equal(info["action_mask"], observation["mask"])
    assert info["action_mask"].dtype == np.int8
    assert np.array_equal(env.unwrapped.action_mask(), observation["mask"])
    action = int(np.flatnonzero(observation["mask"])[0])
    cell = env.translate_to_original_canvas(action)
    assert env.translate_to_padded_canvas(cell) == action
    env.step(action)
    assert env.plc.get_grid_cell_of_node(env.macro_order[0]) == cell


def test_an_infeasible_action_is_refused_and_changes_nothing():
    env = toy()
    observation, _ = env.reset()
    wrong = int(np.flatnonzero(observation["mask"] == 0)[5])
    for action in (wrong, -1, 128 * 128):
        with pytest.raises(InfeasibleActionError, match=r"infeasible for MR") as caught:
            env.step(action)
        assert isinstance(caught.value, ValueError)
        assert caught.value.action == action
        assert np.array_equal(caught.value.mask, observation["mask"])
        assert "mask" in caught.value.hint
    copy = pickle.loads(pickle.dumps(caught.value))
    assert copy.action == caught.value.action
    after, *_ = env.step(int(np.flatnonzero(observation["mask"])[0]))
    assert after["current_node"][0] == 0


def test_steps_after_the_end_and_on_a_closed_environment_are_refused():
    env = toy()
    actions, *_ = play(env)
    with pytest.raises(EpisodeOverError, match="after the end"):
        env.step(actions[0])
    assert issubclass(EpisodeOverError, RuntimeError)
    env.close()
    env.close()
    with pytest.raises(EpisodeOverError, match="closed"):
        env.reset()


# --- A state without a feasible cell


@pytest.fixture(scope="module")
def crowded(tmp_path_factory):
    """Two macros of which the second has no place once the first lies in the middle."""
    from a2perf.domains.circuit_training.generated.design import Design

    design = Design("crowded", (), (10.0, 10.0), (5, 5))
    for name, size in (("A", 5.0), ("B", 4.0)):
        design.add(name, "MACRO", width=size, height=size, x=5.0, y=5.0)
        design.add(
            f"{name}/p", "MACRO_PIN", ["B/p"] if name == "A" else [], macro_name=name, x_offset=0.0, y_offset=0.0
        )
    return design.write(tmp_path_factory.mktemp("crowded"))


@pytest.mark.parametrize("partial", [False, True])
def test_no_feasible_cell_ends_the_episode_with_its_last_observation(crowded, tmp_path, partial):
    target = tmp_path / "out.plc"
    env = CircuitEnv(*crowded, is_eval=True, output_plc_file=target, save_partial_placement=partial)
    env.reset()
    middle = env.translate_to_padded_canvas(12)
    observation, reward, terminated, truncated, info = env.step(middle)
    assert (reward, terminated, truncated) == (-1.0, True, False)
    assert set(info) == INFO_KEYS
    assert not observation["mask"].any()
    assert observation["is_node_placed"][:2].tolist() == [1, 0]
    with pytest.raises(EpisodeOverError):
        env.step(middle)
    assert target.is_file() == partial


def test_with_compat_no_feasible_cell_starts_the_next_episode(crowded):
    env = CircuitEnv(*crowded, compat=True)
    first, info = env.reset()
    assert info == {}
    middle = env.translate_to_padded_canvas(12)
    observation, reward, terminated, truncated, info = env.step(middle)
    assert (reward, terminated, truncated) == (-1.0, True, True)
    assert "total_episode_runtime" not in info
    for key, value in first.items():
        assert np.array_equal(observation[key], value), key
    env.step(middle)  # in the next episode


# --- Orders, fixed macros, legacy interface


def test_random_orders_follow_the_seed_of_reset():
    env = CircuitEnv(design="generated", num_macros=10, node_order="random_macro_first")
    orders = []
    for seed in (1, 2, 1):
        env.reset(seed=seed)
        orders.append(env.macro_order)
    assert orders[0] == orders[2] != orders[1]
    assert sorted(orders[0]) == sorted(env.plc.hard_macro_indices.tolist())
    descending = CircuitEnv(design="generated", num_macros=10).macro_order
    areas = [np.prod(env.plc.get_node_width_height(node)) for node in descending]
    assert areas == sorted(areas, reverse=True)


def test_with_compat_a_random_order_ignores_reset_and_may_start_with_soft_macros():
    env = CircuitEnv(design="generated", num_macros=10, node_order="random", compat=True)
    before = env.macro_order
    env.reset(seed=5)
    assert env.macro_order == before
    assert any(env.plc.is_node_soft_macro(node) for node in before)
    fixed = CircuitEnv(design="generated", num_macros=10, node_order="random")
    assert not any(fixed.plc.is_node_soft_macro(node) for node in fixed.macro_order)


def _with_a_fixed_macro(netlist_file, init_placement, plc_wrapper_main):
    from a2perf.domains.circuit_training.engine.cost_model import EngineSettings, create_placement_cost

    return create_placement_cost(
        netlist_file, init_placement, plc_wrapper_main, EngineSettings(fixed_macro_names_regex=("M[L]",))
    )


def test_fixed_macros_stay_where_they_are():
    env = toy(create_placement_cost_fn=_with_a_fixed_macro)
    assert env.macro_names == ["MR"]
    observation, _ = env.reset()
    assert observation["is_node_placed"][:2].tolist() == [1, 0]
    assert observation["locations_x"][0] == np.float32(50.0 / 300.0)
    play(env)
    assert env.plc.get_node_location("ML") == (50.0, 50.0)
    with pytest.raises(ValueError, match="fixed"):
        toy(create_placement_cost_fn=_with_a_fixed_macro, compat=True)


def test_the_old_interface_returns_what_it_did():
    env = toy(use_legacy_reset=True, use_legacy_step=True)
    observation = env.reset()
    assert set(observation) == set(env.observation_space.spaces)
    observation, reward, done, info = env.step(int(np.flatnonzero(observation["mask"])[0]))
    assert (reward, done) == (0.0, False)
    assert "wirelength" in info


def test_all_features_are_observed_on_request():
    env = toy(output_all_features=True)
    observation, _ = env.reset()
    assert env.observation_space.contains(observation)
    fixed = env.get_static_obs()
    assert {"macros_w", "sparse_adj_i", "edge_counts"} <= set(fixed)
    assert np.array_equal(observation["macros_w"], fixed["macros_w"])
    assert observation["macros_w"][:3].tolist() == [np.float32(0.1), np.float32(0.1), 0.0]
    # the vertical allocation, unless compat is asked for
    assert env.plc.get_macro_routing_allocation()[1] * 200.0 / 1000.0 == pytest.approx(
        observation["total_macro_vertical_routes_k"][0], rel=1e-6
    )


# --- Bad input


def test_unknown_arguments_and_values_are_named_with_the_nearest_valid_one():
    with pytest.raises(ArgumentError, match="did you mean 'node_order'"):
        toy(node_ordr="random")
    with pytest.raises(ArgumentError, match=r"std_cell_placer_mode is 'df'"):
        toy(std_cell_placer_mode="df")
    with pytest.raises(MissingDependency, match="DREAMPlace"):
        toy(std_cell_placer_mode="dreamplace")
    with pytest.raises(ArgumentError, match="node_order is 'rnd'"):
        toy(node_order="rnd")
    with pytest.raises(ArgumentError, match="'ariana' is not a design; did you mean 'ariane'"):
        CircuitEnv(design="ariana")
    with pytest.raises(ArgumentError, match="no netlist_file"):
        CircuitEnv()
    with pytest.raises(ArgumentError, match="fixed design"):
        toy(num_macros=20)
    with pytest.raises(ConfigError, match=r"num_macros is 5, out of its range"):
        CircuitEnv(design="generated", num_macros=5)
    assert issubclass(ArgumentError, ValueError)


@pytest.mark.parametrize(
    ("config", "what"),
    [
        (ObservationConfig(max_num_nodes=8), r"nodes .*observations hold 8"),
        (ObservationConfig(max_num_edges=3), r"edges; observations hold 3"),
        (ObservationConfig(max_grid_size=16), r"grid columns; observations hold 16"),
    ],
)
def test_a_design_beyond_the_observation_is_refused(config, what):
    with pytest.raises(ArgumentError, match=what) as caught:
        CircuitEnv(design="generated", num_macros=10, observation_config=config)
    assert "ObservationConfig" in caught.value.hint


def test_ariane_without_data_names_the_ways_to_get_it(monkeypatch, tmp_path):
    monkeypatch.delenv("A2PERF_DATA_DIR", raising=False)
    monkeypatch.setenv("A2PERF_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("A2PERF_OFFLINE", "1")
    with pytest.raises(AssetUnavailable, match="not on this host") as caught:
        CircuitEnv(design="ariane")
    for way in ("a2perf data fetch circuit_training", "A2PERF_DATA_DIR", "cache", "CircuitTraining-ArianeTwin-v0"):
        assert way in caught.value.hint


@pytest.mark.group("ariane")
def test_ariane_is_found_gzipped_in_the_data_folder(ariane, monkeypatch, tmp_path):
    folder = tmp_path / "circuit_training" / "ariane133_ng45"
    folder.mkdir(parents=True)
    for name, path in ariane.items():
        content = path.read_bytes()
        packed = content if content.startswith(b"\x1f\x8b") else gzip.compress(content)
        (folder / f"{name}.gz").write_bytes(packed)
    monkeypatch.setenv("A2PERF_DATA_DIR", str(tmp_path))
    path = assets.locate(ARIANE["netlist.pb.txt"])
    assert path == folder / "netlist.pb.txt.gz"
    env = CircuitEnv(design="ariane")
    assert (env.grid_cols, env.grid_rows, len(env.macro_order)) == (24, 21, 133)
    assert len(env.plc.soft_macro_indices) == 782


# --- Saving, gin, threads


def test_finished_placements_are_written_and_read_back(tmp_path):
    target = tmp_path / "best.plc"
    env = toy(is_eval=True, output_plc_file=target)
    play(env)
    assert target.is_file()
    assert len(list(tmp_path.glob("snapshot_ppo_opt_placement_timestamp_*_cost_*.plc"))) == 1
    where = {node: env.plc.get_node_location(node) for node in env.macro_order}
    again = PlacementCost(env.environment_name)
    again.set_canvas_size(200, 100)
    again.restore_placement(str(target))
    assert {node: again.get_node_location(node) for node in where} == where


def test_only_better_placements_are_written_on_request(tmp_path):
    target = tmp_path / "best.plc"
    env = toy(is_eval=True, output_plc_file=target, save_best_cost=True)
    costs = []
    for seed in range(12):
        costs.append(-play(env, seed)[3][-1])
    kept, best = [], float("inf")
    for cost in costs:
        if cost < best and (best - cost) / cost > 5e-3:
            best = cost
            kept.append(cost)
    written = {path.name.rpartition("_")[2] for path in tmp_path.glob("snapshot_*.plc")}
    assert written == {f"{cost:.4f}.plc" for cost in kept}
    assert 1 <= len(kept) < 12


def test_is_eval_without_a_file_uses_the_run_folder_or_says_what_is_missing(monkeypatch, tmp_path):
    with pytest.raises(ArgumentError, match="output_plc_file"):
        toy(is_eval=True)
    monkeypatch.setenv("ROOT_DIR", str(tmp_path))
    play(toy(is_eval=True, save_snapshot=False))
    assert [path.name for path in tmp_path.iterdir()] == ["output.plc"]


def test_coordinate_descent_refines_what_is_written(tmp_path):
    env = toy(is_eval=True, output_plc_file=tmp_path / "a.plc", cd_finetune=True, cd_plc_file=tmp_path / "b.plc")
    _, _, _, rewards, _ = play(env, 3)
    refined = next(tmp_path.glob("snapshot_ppo_cd_placement_*.plc"))
    cost = float(refined.stem.rpartition("_")[2])
    assert cost < -rewards[-1] - 0.005
    assert env.get_cost_info(done=True)[0] == pytest.approx(cost, abs=1e-4)
    assert (tmp_path / "b.plc").is_file()


def test_gin_sets_weights_sizes_and_arguments():
    gin.parse_config(
        "cost_info_function.congestion_weight = 0.0\n"
        "ObservationConfig.max_grid_size = 32\n"
        "CircuitEnv.output_all_features = True\n"
        "create_placement_cost.congestion_smooth_range = 1\n"
    )
    try:
        env = create_circuit_environment(design="toy_macro_stdcell")
        assert env.action_space.n == 32 * 32
        assert "macros_w" in env.observation_space.spaces
        assert env.plc.get_congestion_smooth_range() == 1
        _, _, _, rewards, infos = play(env)
        assert infos[-1]["congestion"] == -1.0
        assert rewards[-1] == -(infos[-1]["wirelength"] + infos[-1]["density"])
    finally:
        gin.clear_config()


def test_environments_in_threads_give_the_episodes_of_one_after_the_other():
    def episodes(seed):
        env = CircuitEnv(design="generated", num_macros=10, seed=seed)
        return [play(env, number)[3][-1] for number in range(3)]

    alone = [episodes(seed) for seed in range(3)]
    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        assert list(pool.map(episodes, range(3))) == alone


def test_a_heat_map_shows_where_fake_nets_draw_a_macro():
    env = toy()
    env.plc.add_fake_net(1.0, [0, 1])
    observation, _ = env.reset()
    assert not observation["fake_net_heatmap"].any()
    action = int(np.flatnonzero(observation["mask"])[0])
    observation, *_ = env.step(action)
    heat = observation["fake_net_heatmap"]
    assert heat.argmax() == action
    assert heat.max() == pytest.approx(1.0, abs=1e-6)
    assert env.observation_space.contains(observation)


def test_the_engine_is_in_the_same_state_with_a_cold_and_a_warm_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("A2PERF_CACHE_DIR", str(tmp_path))
    cold, warm = toy(), toy()
    assert len(list((tmp_path / "circuit_training").glob("*.npz"))) > 0
    cells = cold.plc.state.standard_cells
    assert len(cells) > 0
    assert cold.plc.state.x[cells].std() > 0.0  # the forces have moved them
    for name in ("x", "y", "placed", "fixed", "orientation"):
        assert np.array_equal(getattr(cold.plc.state, name), getattr(warm.plc.state, name)), name
    assert cold.plc.get_cost() == warm.plc.get_cost()
