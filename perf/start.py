"""What a user waits for at the start of an evaluation, and what its memory grows with.

    python perf/start.py [--json] [--rounds 3] [--episodes 16000]

Every call is made in a new process. Seconds are wall time of the call, after ``import a2perf``, the median of all
rounds. Memory is the peak resident size of the caller, and of the largest of its child processes, which is the
evaluator; growth is the difference between many episodes and a quarter of them, per episode.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys

CALLS = {
    "constant policy, 10 episodes of CartPole": "a2perf.evaluate(lambda seen: 0, env='CartPole-v1', episodes=10, {0})",
    "one episode of dog_pace": "a2perf.evaluate(lambda seen: numpy.zeros(12, 'f4'), task='dog_pace', episodes=1, {0})",
}
GROWTH = "a2perf.evaluate(lambda seen: 1, env='CartPole-v1', episodes={1}, {0})"
TIMED = """
import json, resource, tempfile, time
import numpy
import a2perf
with tempfile.TemporaryDirectory() as folder:
    began = time.perf_counter()
    {call}
    wall_s = time.perf_counter() - began
peaks = [resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
print(json.dumps([wall_s, *peaks]))
"""


def call(text: str, episodes: int = 0) -> tuple[float, int, int]:
    """Returns wall seconds, and the peaks of the caller and of its largest child in KiB."""
    code = TIMED.format(call=text.format("root_dir=folder + '/run', progress=False", episodes))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    wall_s, own, child = json.loads(done.stdout)
    return wall_s, own, child


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--episodes", type=int, default=16_000)
    options = parser.parse_args()
    for text in CALLS.values():
        call(text)  # fills caches
    rounds = [[call(text)[0] for text in CALLS.values()] for _ in range(options.rounds)]
    found = {
        f"{name}, s": statistics.median(values) for name, values in zip(CALLS, zip(*rounds, strict=True), strict=True)
    }
    few, many = (call(GROWTH, episodes) for episodes in (options.episodes // 4, options.episodes))
    for place, name in ((1, "caller"), (2, "evaluator")):
        grown = (many[place] - few[place]) / (options.episodes - options.episodes // 4)
        found[f"memory of the {name}, kB per episode"] = grown * 1.024
    if options.json:
        print(json.dumps(found, indent=2))
        return
    for name, value in found.items():
        print(f"{name:<50} {value:8.3f}")


if __name__ == "__main__":
    main()
