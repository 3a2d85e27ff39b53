"""64 episodes of one run at the same time against one model server: exact records and budgets, also after SIGKILL."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from a2perf.records import Manifest, RolloutResults
from a2perf.runs.bundles.bundle import validate
from a2perf.storage import read_record
from a2perf_agents.calls import ModelCall, joined, read_entries
from a2perf_agents.record import ModelUsage
from packages.agents.examples.scripted_model import RunningServer, Script, ScriptRule, running_server
from tests.commands import command

EPISODES, STEPS = 64, 3
AGENT = Path(__file__).parents[1] / "examples" / "language_model_agent"


@pytest.fixture
def model() -> Iterator[RunningServer]:
    with running_server(Script(rules=[ScriptRule(answer="nothing", delay_s=0.2)])) as running:
        yield running


def run(root: Path, *options: object, **variables: str) -> subprocess.CompletedProcess[str]:
    words = command(
        "--submission",
        AGENT,
        "--domain",
        "web_navigation",
        "--task",
        "text_level_1",
        "--gin_config",
        "inference.gin",
        "--root_dir",
        root,
        "--public-seeds",
        "--gin_bindings",
        "Submission.num_inference_steps = 0",
        "--gin_bindings",
        f"Submission.num_inference_episodes = {EPISODES}",
        "--gin_bindings",
        f"create_domain.step_limit = {STEPS}",
        "--concurrent-episodes",
        EPISODES,
        *options,
    )
    return subprocess.run(words, capture_output=True, text=True, timeout=300, env={**os.environ, **variables})


def asking(model: RunningServer, folder: Path, more: str = "") -> tuple[str, ...]:
    place = folder / "model.toml"
    place.write_text(f'endpoint = "{model.endpoint}"\nmodels = ["scripted"]\n{more}')
    return ("--model", str(place))


def by_episode(calls: list[ModelCall]) -> dict[int | None, list[ModelCall]]:
    found: dict[int | None, list[ModelCall]] = {}
    for call in calls:
        found.setdefault(call.call.scope.episode, []).append(call)
    return found


@pytest.mark.slow
def test_64_episodes_at_once_have_exact_records_and_share_their_budget(model: RunningServer, tmp_path: Path) -> None:
    done = run(tmp_path / "root", *asking(model, tmp_path, f"[budget]\ncalls = {EPISODES * STEPS}\n"))
    assert done.returncode == 0, done.stdout + done.stderr
    bundle = tmp_path / "root" / "inference"
    assert validate(bundle) == []
    usage = read_record(bundle / "metrics" / "model_usage.json", ModelUsage)
    assert len(model.model.requests) == usage.total.answered == usage.total.calls == EPISODES * STEPS
    assert (usage.budgets["calls"].used, usage.budgets["calls"].refused) == (EPISODES * STEPS, 0)
    assert {scope.episode: scope.usage.calls for scope in usage.scopes} == dict.fromkeys(range(EPISODES), STEPS)
    calls = joined(read_entries(bundle / "model_calls.jsonl"))
    assert sorted(call.call.call for call in calls) == list(range(1, EPISODES * STEPS + 1))
    for found in by_episode(
        calls
    ).values():  # an episode has one instruction: no call of another one is among its calls
        texts = [json.loads(call.call.request or "")["messages"][1]["content"] for call in found]
        assert len({text.partition("\n")[0] for text in texts}) == 1
    rollouts = read_record(bundle / "metrics" / "rollouts.json", RolloutResults)
    manifest = read_record(bundle / "manifest.json", Manifest)
    assert [(one.index, one.seed, one.length) for one in rollouts.episodes] == [
        (index, seed, STEPS) for index, seed in enumerate(manifest.seeds["episodes"])
    ]
    assert rollouts.costs is not None
    assert rollouts.costs.steps == EPISODES * STEPS
    again = run(tmp_path / "again", "--model", bundle)
    assert again.returncode == 0, again.stdout + again.stderr
    repeated = tmp_path / "again" / "inference" / "metrics"
    assert read_record(repeated / "model_usage.json", ModelUsage).total.served == EPISODES * STEPS
    assert len(model.model.requests) == EPISODES * STEPS
    assert [one.episode_return for one in read_record(repeated / "rollouts.json", RolloutResults).episodes] == [
        one.episode_return for one in rollouts.episodes
    ]


@pytest.mark.slow
def test_64_episodes_at_once_resume_after_a_kill_and_pay_no_answer_twice(model: RunningServer, tmp_path: Path) -> None:
    once = {"A2PERF_FAULT_POINT": "evaluator: episode recorded", "A2PERF_FAULT_ONCE": str(tmp_path / "once")}
    killed = run(tmp_path / "root", *asking(model, tmp_path), **once)
    assert (tmp_path / "once").exists()
    assert killed.returncode == 3, killed.stdout + killed.stderr
    resumed = run(tmp_path / "root", *asking(model, tmp_path), **once)
    assert resumed.returncode == 0, resumed.stdout + resumed.stderr
    bundle = tmp_path / "root" / "inference"
    calls = joined(read_entries(bundle / "model_calls.jsonl"))
    answered = [call for call in calls if call.answer is not None]
    assert len(answered) == EPISODES * STEPS  # each answer once, although two attempts asked for many of them
    assert {episode: len(found) for episode, found in by_episode(answered).items()} == dict.fromkeys(
        range(EPISODES), STEPS
    )
    assert len(model.model.requests) <= len(calls)
    assert len(read_record(bundle / "metrics" / "rollouts.json", RolloutResults).episodes) == EPISODES
