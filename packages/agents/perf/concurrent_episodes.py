"""Wall time, processor time and memory of many episodes at the same time against one model server.

A scripted server answers every call after a delay, as a hosted model would. One run plays all episodes at once, a
second one plays a few of them in turn; its time per episode gives that of all in turn. Every action is invalid, so an
episode is always 25 calls. The command checks that each call was sent once, that each belongs to its episode, and that
both runs have the same returns. ``--json`` prints machine-readable numbers.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import multiprocessing
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import psutil

from a2perf_agents.calls import joined, read_entries
from a2perf_agents.record import CallOutcome

sys.path.insert(0, str(Path(__file__).parents[3]))

from packages.agents.examples.scripted_model import Script, ScriptRule
from packages.agents.examples.scripted_model.server import ScriptedModel, listening_socket, server_of

AGENT = Path(__file__).parents[1] / "examples" / "language_model_agent"
CALLS_PER_EPISODE = 25
_IN_TURN = "Submission.fresh_policy = 'episode'"
_POLL_S = 3.0


def serve(listener: socket.socket, delay_s: float, most_at_once: int | None) -> None:
    script = Script(rules=[ScriptRule(answer="nothing", delay_s=delay_s)], most_at_once=most_at_once)
    server_of(ScriptedModel(script)).run(sockets=[listener])


class Memory:
    """The largest proportional set size of a process and its descendants, sampled every ``_POLL_S``.

    Attributes:
        peak_bytes: the largest sum.
        processes: number of processes in that sample.
    """

    def __init__(self, pid: int) -> None:
        self.peak_bytes, self.processes = 0, 0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._poll, args=(psutil.Process(pid),), daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._ended.set()
        self._thread.join()

    def _poll(self, root: psutil.Process) -> None:
        while not self._ended.wait(_POLL_S):
            sizes = []
            with contextlib.suppress(psutil.Error):
                for process in (root, *root.children(recursive=True)):
                    with contextlib.suppress(psutil.Error):
                        sizes.append(process.memory_full_info().pss)
            if sum(sizes) > self.peak_bytes:
                self.peak_bytes, self.processes = sum(sizes), len(sizes)


def evaluate(root: Path, port: int, episodes: int, together: int) -> dict[str, Any]:
    """Runs the agent and returns what the run took."""
    root.parent.mkdir(parents=True, exist_ok=True)
    model = root.with_suffix(".toml")
    model.write_text(f'endpoint = "http://127.0.0.1:{port}/v1"\nmodels = ["scripted"]\n', encoding="utf-8")
    mode = ("--concurrent-episodes", together) if together > 1 else ("--gin-bindings", _IN_TURN)
    words = [
        sys.executable,
        "-m",
        "a2perf",
        "run",
        "--submission",
        AGENT,
        "--domain",
        "web_navigation",
        "--task",
        "text_level_1",
        "--gin-config",
        "inference.gin",
        "--root-dir",
        root,
        "--public-seeds",
        "--model",
        str(model),
        "--gin-bindings",
        "Submission.num_inference_steps = 0",
        "--gin-bindings",
        f"Submission.num_inference_episodes = {episodes}",
        *mode,
    ]
    began = time.perf_counter()
    process = subprocess.Popen(list(map(str, words)), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    memory = Memory(process.pid)
    assert process.stderr is not None
    text = process.stderr.read().decode()
    wall_s = time.perf_counter() - began
    memory.stop()
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        raise RuntimeError(text)
    bundle = root / "inference"
    calls = joined(read_entries(bundle / "model_calls.jsonl"))
    by_episode: dict[int | None, int] = {}
    for call in calls:
        assert call.outcome is CallOutcome.OK, call.outcome
        by_episode[call.call.scope.episode] = by_episode.get(call.call.scope.episode, 0) + 1
    assert by_episode == dict.fromkeys(range(episodes), CALLS_PER_EPISODE), by_episode
    tracking = json.loads((bundle / "metrics" / "tracking.json").read_text())
    rollouts = json.loads((bundle / "metrics" / "rollouts.json").read_text())
    return {
        "wall_s": wall_s,
        "calls": len(calls),
        "retries": sum(len(call.retries) for call in calls),
        "calls_per_s": len(calls) / wall_s,
        "cpu_s": usage.ru_utime + usage.ru_stime,
        "participants_cpu_s": tracking["cpu_seconds"],
        "memory_mb": memory.peak_bytes / 1e6,
        "processes": memory.processes,
        "evaluator_rss_mb": usage.ru_maxrss / 1e3,
        "returns": [episode["episode_return"] for episode in rollouts["episodes"]],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--episodes", type=int, default=64)
    parser.add_argument("--delay-s", type=float, default=1.0, help="time in which the server answers")
    parser.add_argument("--most-at-once", type=int, help="calls that the server answers at once; else HTTP 429")
    parser.add_argument("--in-turn", type=int, default=2, help="episodes of the run in turn")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    listener = listening_socket()
    port = listener.getsockname()[1]
    given = (listener, options.delay_s, options.most_at_once)
    server = multiprocessing.get_context("fork").Process(target=serve, args=given, daemon=True)
    server.start()
    with tempfile.TemporaryDirectory() as folder:
        together = evaluate(Path(folder, "together"), port, options.episodes, options.episodes)
        in_turn = evaluate(Path(folder, "in_turn"), port, options.in_turn, 1)
    server.kill()
    if together["returns"][: options.in_turn] != in_turn["returns"]:
        raise RuntimeError("the episodes differ")
    found = {
        "episodes": options.episodes,
        "delay_s": options.delay_s,
        "in_turn_s": in_turn["wall_s"] / options.in_turn * options.episodes,
        "in_turn_measured_episodes": options.in_turn,
        **{name: value for name, value in together.items() if name != "returns"},
    }
    found["ratio"] = found["in_turn_s"] / found["wall_s"]
    if options.json:
        json.dump(found, sys.stdout, indent=2)
        print()
        return
    rows = {
        "episodes at the same time": f"{options.episodes}, server answers after {options.delay_s:g} s",
        "wall time": f"{found['wall_s']:.1f} s",
        "wall time in turn": f"{found['in_turn_s']:.0f} s, from {options.in_turn} episodes",
        "ratio": f"{found['ratio']:.1f}",
        "calls": f"{found['calls']}, {found['calls_per_s']:.1f} per s, each answered once, {found['retries']} retries",
        "processor time": f"{found['cpu_s']:.1f} s, of which participants {found['participants_cpu_s']:.1f} s",
        "memory": f"{found['memory_mb']:.0f} MB (proportional set size of {found['processes']} processes)",
        "memory per episode": f"{found['memory_mb'] / options.episodes:.1f} MB",
        "largest process": f"{found['evaluator_rss_mb']:.0f} MB resident (the evaluator)",
    }
    for name, value in rows.items():
        print(f"{name:27} {value}")


if __name__ == "__main__":
    main()
