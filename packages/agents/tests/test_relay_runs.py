"""Whole runs with a model: inside sandboxes, killed with SIGKILL, over their budget, and replayed."""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from a2perf.constants import EVALUATOR
from a2perf.errors import ConfigError
from a2perf.records import Manifest
from a2perf.sandbox import why_unavailable
from a2perf.storage import Journal, read_record
from a2perf.submission.run_services import ServedRun
from a2perf_agents.calls import joined, read_entries
from a2perf_agents.errors import error_lines, explained
from a2perf_agents.record import CallOutcome, ModelUsage, ServedEntry, UsageCounts
from a2perf_agents.settings import LanguageModel
from packages.agents.examples.scripted_model import RunningServer, Script, ScriptRule, running_server
from tests.commands import command, flags, run_command
from tests.launch.docker_engine import running_engine

KEY = "sk-organizer-9876543210"

AGENT = """
import json, os, urllib.request
import numpy as np

def ask(text, **more):
    body = json.dumps({"model": "default", "messages": [{"role": "user", "content": text}], **more}).encode()
    headers = {"Authorization": "Bearer " + os.environ["OPENAI_API_KEY"]}
    request = urllib.request.Request(os.environ["OPENAI_BASE_URL"] + "/chat/completions", body, headers)
    return json.loads(urllib.request.urlopen(request, timeout=30).read())["choices"][0]["message"]["content"]

def load_policy(env, **kwargs):
    return {"env": env, "steps": 0, "says": ask("load")}

def preprocess_observation(observation):
    return observation

def infer_once(policy, observation):
    policy["steps"] += 1
    if policy["steps"] % 10 == 1:
        policy["says"] = ask("step %d" % policy["steps"])
    return np.zeros(policy["env"].action_space.shape, policy["env"].action_space.dtype)
"""

SPY = (
    AGENT
    + """
import glob, pathlib, socket, sys
SECRET = b"-".join((b"sk", b"organizer"))

def found():
    for name in glob.glob("/proc/[0-9]*/environ") + glob.glob("/proc/[0-9]*/cmdline"):
        try:
            if SECRET in open(name, "rb").read():
                yield "the key in " + name
        except OSError:
            pass
    for folder in (os.environ["KEY_FOLDER"], os.environ["HOME"], "/tmp"):
        for path in pathlib.Path(folder).rglob("*"):
            try:
                if path.is_file() and SECRET in path.read_bytes():
                    yield "the key in %s" % path
            except OSError:
                pass
    for place in (("127.0.0.1", int(os.environ["SERVER_PORT"])), ("10.0.0.1", 80), ("169.254.169.254", 80)):
        try:
            socket.create_connection(place, 1).close()
            yield "a connection to %s" % (place,)
        except OSError:
            pass

def load_policy(env, **kwargs):
    assert list(found()) == [], list(found())
    return {"env": env, "steps": 0, "says": ask("load")}
"""
)

GIN = """
import a2perf.submission.submission_util
Submission.mode = %BenchmarkMode.INFERENCE
Submission.domain = %BenchmarkDomain.WEB_NAVIGATION
Submission.num_inference_steps = 0
Submission.num_inference_episodes = 2
Submission.record_frames = 0
create_domain.env_name = 'WebNavigation-Difficulty-01-v0'
create_domain.num_websites = 1
create_domain.difficulty = 1
"""


@pytest.fixture
def model() -> Iterator[RunningServer]:
    rules = [ScriptRule(when="busy", status=429), ScriptRule(answer="yes")]
    with running_server(Script(rules=rules, key=KEY)) as running:
        yield running


class Runner:
    """Runs the same submission with the same options."""

    def __init__(self, folder: Path, endpoint: str) -> None:
        self.folder, self.root, self.endpoint = folder, folder / "root", endpoint
        self.environment: dict[str, str] = {}
        self.program = command()

    def __call__(
        self, agent: str, *options: object, level: str = "process", root: Path | None = None, gin: str = GIN
    ) -> Any:
        entry = self.folder / "entry"
        entry.mkdir(exist_ok=True)
        for name, text in {"__init__.py": "", "train.py": "", "requirements.txt": "", "inference.py": agent}.items():
            (entry / name).write_text(text)
        file = self.folder / "inference.gin"
        file.write_text(gin)
        given = flags(
            submission=entry, gin_config=self.folder / "inference.gin", root_dir=root or self.root, sandbox=level
        )
        environment = {**os.environ, "MODEL_KEY": KEY, **self.environment}
        return run_command([*self.program, *given, *options], self.folder, env=environment)

    def with_model(self, more: str = "", name: str = "scripted") -> tuple[str, ...]:
        """Returns the option with a file that holds these further lines."""
        head = f'endpoint = "{self.endpoint}"\nmodels = ["{name}"]\nkey_variable = "MODEL_KEY"\n'
        place = self.folder / f"model_{hashlib.sha256((head + more).encode()).hexdigest()[:8]}.toml"
        place.write_text(head + more)
        return ("--model", str(place))

    @property
    def bundle(self) -> Path:
        return self.root / "inference"

    @property
    def manifest(self) -> Manifest:
        return read_record(self.bundle / "manifest.json", Manifest)

    @property
    def episodes(self) -> list[tuple[int, float]]:
        found = [entry["episode"] for entry in Journal(self.bundle / "journal.jsonl").entries()]
        return [(episode["index"], episode["episode_return"]) for episode in found]


@pytest.fixture
def run(tmp_path: Path, model: RunningServer) -> Runner:
    return Runner(tmp_path, model.endpoint)


def bytes_of(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())


@pytest.mark.group("bwrap")
def test_a_cut_off_participant_reaches_the_model_and_neither_the_key_nor_the_network(
    run: Runner, model: RunningServer, tmp_path: Path
) -> None:
    if (reason := why_unavailable("bubblewrap")) is not None:
        pytest.skip(reason)
    reaches_only_the_model(run, model, tmp_path, "bubblewrap")


@pytest.mark.slow
@pytest.mark.group("docker")
def test_a_participant_in_a_container_reaches_the_model_and_neither_the_key_nor_the_network(
    run: Runner, model: RunningServer, tmp_path: Path
) -> None:
    with running_engine() as engine:
        run.environment = {"DOCKER_HOST": engine.host}
        reaches_only_the_model(run, model, tmp_path, "docker")


def reaches_only_the_model(run: Runner, model: RunningServer, tmp_path: Path, level: str) -> None:
    (tmp_path / "keys").mkdir()
    (tmp_path / "keys" / "key").write_text(f"{KEY}\n")
    run.environment |= {
        "SERVER_PORT": model.endpoint.rpartition(":")[2].removesuffix("/v1"),
        "KEY_FOLDER": str(tmp_path / "keys"),
    }
    passed = ("--gin-bindings", "Submission.pass_environment = ['SERVER_PORT', 'KEY_FOLDER']")
    done = run(SPY, *run.with_model(), *passed, level=level)
    assert done.returncode == 0, done.stdout + done.stderr
    assert KEY.encode() not in bytes_of(run.root)
    assert KEY not in done.stdout + done.stderr
    usage = read_record(run.bundle / "metrics" / "model_usage.json", ModelUsage)
    assert usage.total.answered == len(model.model.requests) > 2
    assert [(scope.phase, scope.episode) for scope in usage.scopes] == [("load", None), ("episode", 0), ("episode", 1)]
    assert run.manifest.models == ["scripted"]
    assert not any("network" in warning for warning in run.manifest.warnings)
    again = tmp_path / "again"
    assert run(SPY, "--model", run.bundle, *passed, level=level, root=again).returncode == 0
    assert usage.total.answered == len(model.model.requests)  # nothing was sent
    replayed = read_record(again / "inference" / "metrics" / "model_usage.json", ModelUsage)
    assert (replayed.total.calls, replayed.total.served) == (0, usage.total.answered)


POINTS = {
    # how often a request may reach the server: an answer that nobody recorded has to be asked for again
    "model relay: call recorded": 1,
    "model relay: answer received": 2,
    "model relay: answer recorded": 1,
    "evaluator: episode played": 1,
    "evaluator: participant started": 1,
}


@pytest.mark.slow
@pytest.mark.parametrize("point", POINTS)
def test_a_killed_run_resumes_and_pays_no_answer_twice(point: str, run: Runner, model: RunningServer) -> None:
    run.environment = {"A2PERF_FAULT_POINT": point, "A2PERF_FAULT_ONCE": str(run.folder / "once")}
    if point == "evaluator: episode played":  # a launcher that remains would record the end of the run
        run.program = [sys.executable, "-P", "-m", EVALUATOR]
    killed = run(AGENT, *run.with_model())
    assert (run.folder / "once").exists()
    assert killed.returncode in (3, -signal.SIGKILL), killed.stdout + killed.stderr
    run.program = command()
    resumed = run(AGENT, *run.with_model())
    assert resumed.returncode == 0, resumed.stdout + resumed.stderr
    assert [index for index, _ in run.episodes] == [0, 1]
    sent = Counter(request["messages"][0]["content"] for request in model.model.requests)
    assert max(sent.values()) <= POINTS[point]
    entries = read_entries(run.bundle / "model_calls.jsonl")
    calls = joined(entries)
    unknown = [call for call in calls if call.answer is None]
    assert len(unknown) == (point in ("model relay: call recorded", "model relay: answer received"))
    assert all(call.charged == call.call.reserved for call in unknown)
    answered = Counter(call.call.sha256 for call in calls if call.answer is not None)
    assert max(answered.values()) == 1  # every request has one answer, however often the run was started
    served = sum(isinstance(entry, ServedEntry) for entry in entries)
    assert served == (0 if point in ("model relay: call recorded", "model relay: answer received") else served)
    if point == "evaluator: episode played":
        assert served >= 2  # the first episode was played again, with the recorded answers


@pytest.mark.slow
def test_a_participant_that_ignores_its_budget_fails_with_that_kind_and_keeps_what_was_measured(run: Runner) -> None:
    done = run(AGENT, *run.with_model("[budget]\ncalls = 4\n"))
    assert done.returncode == 1
    manifest = run.manifest
    assert (manifest.exit_reason, manifest.failure.kind.value) == ("budget", "budget")
    assert "the budget of calls is exhausted: 4 of 4 used" in manifest.failure.message
    usage = read_record(run.bundle / "metrics" / "model_usage.json", ModelUsage)
    assert (usage.total.answered, usage.budgets["calls"].refused) == (4, 1)
    assert [index for index, _ in run.episodes] == [0]


@pytest.mark.slow
def test_an_agent_that_hides_refused_calls_does_not_hide_them_from_the_record(run: Runner) -> None:
    hides = AGENT.replace('policy["says"] = ask("step', 'policy["says"] = quietly("step') + (
        "\ndef quietly(text):\n    try:\n        return ask(text)\n    except Exception:\n        return ''\n"
    )
    done = run(hides, *run.with_model("[budget]\ncalls = 2\n"))
    assert done.returncode == 0, done.stdout + done.stderr
    refused = read_record(run.bundle / "metrics" / "model_usage.json", ModelUsage).total.refused
    assert refused >= 2
    line = f"language model: {refused} x budget_exhausted: a budget of the run was exhausted. Hint: raise it in"
    assert line in " ".join((done.stdout + done.stderr).split())
    assert any(line in warning for warning in run.manifest.warnings)


@pytest.mark.slow
def test_an_error_of_the_server_is_not_the_participants_and_the_run_resumes(run: Runner, model: RunningServer) -> None:
    agent = AGENT.replace('ask("step %d" % policy["steps"])', 'ask("busy") if policy["steps"] > 30 else ask("step")')
    done = run(agent, *run.with_model("call_timeout_s = 0.5\n"))
    assert done.returncode == 3, done.stdout + done.stderr
    assert run.manifest.state.value == "interrupted"
    assert run.manifest.failure.kind.value == "infrastructure"


@pytest.mark.slow
def test_prices_and_limits_of_the_file_count_and_end_a_run_at_its_cost(run: Runner) -> None:
    prices = '[prices]\ncurrency = "EUR"\n[prices.models.scripted]\ninput = 1000000.0\noutput = 500000.0\n'
    assert run(AGENT, *run.with_model(f"output_tokens = 1\n{prices}")).returncode == 0
    usage = read_record(run.bundle / "metrics" / "model_usage.json", ModelUsage)
    assert usage.currency == "EUR"
    assert usage.total.tokens_out == usage.total.calls > 0
    assert usage.total.cost == pytest.approx(usage.total.tokens_in + 0.5 * usage.total.tokens_out)
    cheap = run.folder / "cheap"
    refused = run(AGENT, *run.with_model(f"output_tokens = 1\n{prices}[budget]\ncost = 1\n"), root=cheap)
    assert refused.returncode == 1
    assert "the budget of cost is exhausted: 0 of 1 used" in refused.stdout + refused.stderr
    nameless = run(AGENT, *run.with_model(prices, name="other"), root=run.folder / "nameless")
    assert nameless.returncode == 2
    assert "there is no price of 'other'" in nameless.stdout + nameless.stderr


@pytest.mark.slow
def test_a_finished_run_is_not_continued_with_another_model(run: Runner) -> None:
    assert run(AGENT, *run.with_model()).returncode == 0
    before = (run.bundle / "manifest.json").read_bytes()
    assert run(AGENT, *run.with_model()).returncode == 0  # prints the result
    other = run(AGENT, *run.with_model(name="other"))
    assert other.returncode == 2, other.stdout + other.stderr
    assert "model" in other.stdout + other.stderr
    assert "Traceback" not in other.stdout + other.stderr
    assert (run.bundle / "manifest.json").read_bytes() == before


@pytest.mark.slow
def test_a_generalization_calls_the_model_from_each_task(run: Runner, model: RunningServer) -> None:
    gin = GIN.replace("INFERENCE", "GENERALIZATION").replace("inference_episodes", "generalization_episodes") + (
        "Submission.generalization_tasks = ['difficulty_level_1_num_websites_1', 'difficulty_level_2_num_websites_1']\n"
    )
    done = run(AGENT, *run.with_model("[budget]\ncalls = 1000\n"), gin=gin)
    assert done.returncode == 0, done.stdout + done.stderr
    usage = read_record(run.root / "generalization" / "metrics" / "model_usage.json", ModelUsage)
    assert usage.total.answered == len(model.model.requests)
    assert usage.budgets["calls"].used == usage.total.calls
    episodes = {(scope.task, scope.episode) for scope in usage.scopes if scope.phase == "episode"}
    assert len(episodes) == 2 * 2
    assert len({task for task, _ in episodes}) == 2


@pytest.mark.slow
def test_a_check_reaches_the_model_and_names_the_option_if_there_is_none(run: Runner, model: RunningServer) -> None:
    assert run(AGENT, *run.with_model(), root=run.root).returncode == 0  # writes the submission
    sent = len(model.model.requests)
    words = [
        sys.executable,
        "-m",
        "a2perf",
        "check",
        str(run.folder / "entry"),
        "--sandbox",
        "process",
        "--steps",
        "2",
        "--env-id",
        "WebNavigation-Difficulty-01-v0",
    ]
    environment = {**os.environ, "MODEL_KEY": KEY}
    without = subprocess.run(words, capture_output=True, text=True, env=environment, cwd=run.folder)
    assert without.returncode == 1
    assert "give `--model FILE.toml`" in without.stdout
    given = subprocess.run([*words, *run.with_model()], capture_output=True, text=True, env=environment, cwd=run.folder)
    assert "load_policy" not in given.stdout, given.stdout + given.stderr
    assert len(model.model.requests) == sent + 2  # at loading and in the first step


def test_every_error_has_a_cause_and_a_hint() -> None:
    kinds = [outcome.value for outcome in CallOutcome if outcome is not CallOutcome.OK]
    assert len({explained(kind) for kind in kinds}) == len(kinds)
    counts = UsageCounts(errors={"timeout": 1, "unreachable": 2, "of a newer version": 1})
    assert [line.partition(":")[0] for line in error_lines(counts)] == [
        "2 x unreachable",
        "1 x of a newer version",
        "1 x timeout",
    ]


SERVER = 'endpoint = "http://h/v1"\nmodels = ["x"]\n'
WRONG = {
    "no endpoint": ('models = ["x"]', "one of endpoint and replay is needed"),
    "both": (SERVER + 'replay = "x"', "one of endpoint and replay is needed"),
    "no model": ('endpoint = "http://127.0.0.1:1/v1"', "no model is named"),
    "no address": ('endpoint = "localhost"\nmodels = ["x"]', "is not the address of a server"),
    "a password": ('endpoint = "http://me:secret@h/v1"\nmodels = ["x"]', "contains a user or a password"),
    "no such variable": (SERVER + 'key_variable = "NOT_SET_ANYWHERE"', "is not set"),
    "a passed variable": (SERVER + 'key_variable = "PASSED"', "would give the model's key to the submission"),
    "two keys": (SERVER + 'key_variable = "A"\nkey_file = "b"', "the key is given twice"),
    "no key file": (SERVER + 'key_file = "nowhere"', "the key file cannot be read"),
    "no prices": (SERVER + "[budget]\ncost = 1", "a budget of cost needs prices"),
    "no price": (SERVER + '[prices]\ncurrency = "EUR"\nmodels = {}', "there is no price of 'x'"),
    "a negative price": (SERVER + '[prices]\ncurrency = "EUR"\n[prices.models.x]\ninput = -1', "is not a description"),
    "a negative budget": (SERVER + "[budget]\ntokens = -1", "is not a description of a model"),
    "an unknown key": (SERVER + "call_limit = 1", "unknown field `call_limit`"),
    "no TOML": ("endpoint", "is not a description of a model"),
    "no record": ('replay = "nothing"', "holds no record of calls"),
}


@pytest.mark.parametrize("what", WRONG)
def test_a_wrong_file_is_an_error_before_anything_starts(what: str, tmp_path: Path) -> None:
    text, message = WRONG[what]
    (tmp_path / "model.toml").write_text(text)
    run = ServedRun(submission=tmp_path, folder=tmp_path, logs=tmp_path, passed_variables=["PASSED"])
    with pytest.raises(ConfigError, match=message) as caught:
        LanguageModel(model=str(tmp_path / "model.toml")).access(run)
    assert "secret" not in str(caught.value)


def test_paths_in_the_file_start_at_its_folder_and_are_hidden(tmp_path: Path) -> None:
    (tmp_path / "model.toml").write_text(SERVER + 'key_file = "key"')
    (tmp_path / "key").write_text(f"{KEY}\n")
    model = LanguageModel(model=str(tmp_path / "model.toml"))
    access = model.access(ServedRun(submission=tmp_path / "entry", folder=tmp_path, logs=tmp_path))
    assert access.key == KEY
    assert model.hidden_paths() == [str(tmp_path / "model.toml"), str(tmp_path / "key")]
    assert KEY not in str(model.identity())
