"""Draws the pictures of ``circuit_training.md``: ``python docs/environments/circuit_pictures.py``.

A random, a greedy and an annealed placement of the Ariane twin, and of Ariane if its data is present; prints the costs.
"""

import sys
from pathlib import Path

import gymnasium
import numpy as np
from PIL import Image

import a2perf
from a2perf.domains.circuit_training.rendering import PlacementPicture
from a2perf.errors import AssetUnavailable

HERE = Path(__file__).parent
EXAMPLES = HERE.parent.parent / "examples"
SIZE = (560, 420)
ANNEALING_S = 15.0


def play(env, choose):
    """Plays an episode; returns its last info and its cost."""
    observation, info = env.reset(seed=0)
    ended = False
    while not ended:
        observation, reward, ended, _, info = env.step(choose(observation, info))
    return info, -reward


def draw(env, name, overlays, info, cost):
    """Writes a picture of the placement and prints its cost."""
    picture = PlacementPicture(overlays, SIZE).draw(env.unwrapped.plc)
    path = HERE / "pictures" / f"{name}.png"
    Image.fromarray(picture).quantize(48, dither=Image.Dither.NONE).save(path, optimize=True)
    parts = ", ".join(f"{part} {info[part]:.4f}" for part in ("wirelength", "congestion", "density"))
    print(f"{path.name:36s} cost {cost:.4f}: {parts}", flush=True)


def main():
    """Draws all pictures."""
    sys.path[:0] = [str(EXAMPLES / "greedy_placer"), str(EXAMPLES / "annealing_placer")]
    from annealing import Annealing, Schedule
    from greedy import GreedyPlacer

    print(f"a2perf {a2perf.__version__}")
    for design, env_id in (("twin", "CircuitTraining-ArianeTwin-v0"), ("ariane", "CircuitTraining-Ariane-v0")):
        try:
            env = gymnasium.make(env_id)
        except AssetUnavailable as error:
            print(f"without {env_id}: {error.message}")
            continue
        generator = np.random.default_rng(0)

        def at_random(observation, info, generator=generator):
            return int(generator.choice(np.flatnonzero(info["action_mask"])))

        greedy = GreedyPlacer(env)
        ends = play(env, at_random)
        draw(env, f"{design}_random", (), *ends)
        if design == "twin":
            draw(env, f"{design}_random_density", ("density",), *ends)
        ends = play(env, lambda observation, info, greedy=greedy: greedy.choose(observation))
        draw(env, f"{design}_greedy", (), *ends)
        if design == "twin":
            draw(env, f"{design}_greedy_density", ("density",), *ends)
            draw(env, f"{design}_greedy_congestion", ("congestion",), *ends)
        cells = Annealing(env, Schedule(time_budget_s=ANNEALING_S), 0).run()
        core = env.unwrapped
        position = dict(enumerate(core.plc.get_macro_indices()))

        def annealed(observation, info, cells=cells, core=core, position=position):
            return core.translate_to_padded_canvas(cells[position[int(observation["current_node"][0])]])

        draw(env, f"{design}_annealed", (), *play(env, annealed))
        env.close()


if __name__ == "__main__":
    main()
