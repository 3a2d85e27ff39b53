"""The example agent asks the small language model of the examples through the relay."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from a2perf.storage import read_record
from a2perf_agents.record import ModelUsage

AGENT = Path(__file__).parents[1] / "examples" / "language_model_agent"


def test_an_agent_asks_the_model_through_the_relay(repository: Path, tmp_path: Path) -> None:
    (serve,) = repository.glob("**/examples/small_language_model/serve.py")
    command = [sys.executable, str(serve), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            endpoint = server.stdout.readline().rpartition(" at ")[2].strip()
            (tmp_path / "model.toml").write_text(f'endpoint = "{endpoint}"\nmodels = ["small"]\n')
            words = [
                "run",
                "--submission",
                str(AGENT),
                "--domain",
                "web_navigation",
                "--task",
                "text_level_1",
                "--gin-config",
                "inference.gin",
                "--root-dir",
                str(tmp_path / "run"),
                "--sandbox",
                "process",
                "--gin-bindings",
                "Submission.num_inference_steps = 2",
                "--gin-bindings",
                "Submission.num_inference_episodes = 2",
                "--model",
                str(tmp_path / "model.toml"),
            ]
            done = subprocess.run(
                [sys.executable, "-m", "a2perf", *words],
                capture_output=True,
                text=True,
                timeout=600,
                cwd=tmp_path,
                env=os.environ.copy(),
            )
        finally:
            server.terminate()
    assert done.returncode == 0, done.stdout + done.stderr
    usage = read_record(next((tmp_path / "run").rglob("model_usage.json")), ModelUsage)
    assert usage.models == ["small"]
    assert usage.total.calls > 4
    assert usage.total.errors == {}
    rollouts = json.loads(next((tmp_path / "run").rglob("rollouts.json")).read_text())
    assert len(rollouts["episodes"]) == 2
