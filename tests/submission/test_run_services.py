"""A service of an installed package: a real entry point, whose socket echoes what a participant sends."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from a2perf.plugins import is_installed
from a2perf.records import Manifest
from a2perf.runs import read_runs
from a2perf.sandbox import why_unavailable
from a2perf.storage import read_record
from tests.commands import flags, run_a2perf
from tests.made_submissions import WEB, gin, policy, write_submission

ECHO = """
import contextlib, socket, threading
from dataclasses import dataclass, replace
from typing import ClassVar

import msgspec

from a2perf.submission.run_services import RunService, ServiceSession
from a2perf.submission.settings import option


class EchoSession(ServiceSession):
    address = "ECHO_ADDRESS=127.0.0.1:{port}"

    def __init__(self, run, prefix):
        self.variables = {"ECHO_KEY": "sesame"}
        self.heard, self.prefix, self.places, self.kwh = [], prefix, [], []

    def listen(self, listener):
        kept = listener.dup()
        kept.setblocking(True)
        threading.Thread(target=self._serve, args=(kept,), daemon=True).start()

    def _serve(self, listener):
        while True:
            connection, _ = listener.accept()
            with connection:
                heard = connection.recv(1000).decode()
                self.heard.append(heard)
                connection.sendall((self.prefix + heard).encode())

    def enter(self, phase, episode=None, *, task=None):
        self.places.append([phase, episode, task])

    def explained(self, failure):
        return msgspec.structs.replace(failure, message=failure.message + f" (after {len(self.heard)} words)")

    @contextlib.contextmanager
    def reporting_energy(self, net_kwh):
        yield
        self.kwh.append(net_kwh())


@dataclass(frozen=True, kw_only=True)
class Echo(RunService):
    name: ClassVar[str] = "echo"
    echo: str | None = option(None, "Word in front of every echo.", metavar="WORD")
    echo_secret: str | None = None

    def is_wanted(self):
        return self.echo is not None

    def names(self):
        return ("parrot",)

    def identity(self):
        return {"echo": self.echo}

    def hidden_paths(self):
        return () if self.echo_secret is None else (self.echo_secret,)

    @contextlib.contextmanager
    def open(self, run):
        session = EchoSession(run, self.echo)
        yield session
        (run.folder / "echo.json").write_bytes(
            msgspec.json.encode({"heard": session.heard, "places": session.places, "kwh": session.kwh})
        )
        run.warn(f"{len(session.heard)} words were echoed")
        run.say("the echo has ended")

    @classmethod
    def explain_absence(cls, failure):
        if "ECHO_ADDRESS" not in failure.message:
            return failure
        return msgspec.structs.replace(failure, message=failure.message + " (give --echo WORD)")
"""

AGENT = policy(
    top="""
    import os, socket

    def said(word):
        host, port = os.environ["ECHO_ADDRESS"].split(":")
        with socket.create_connection((host, int(port)), 30) as connection:
            connection.sendall(word.encode())
            return connection.recv(1000).decode()
    """,
    load="""
    assert os.environ["ECHO_KEY"] == "sesame"
    assert said("load") == "oh load", said("load")
    assert not os.path.exists(os.environ["SECRET"]) or not os.path.getsize(os.environ["SECRET"])
    return {"env": env, "steps": 0}
    """,
    infer="""
    policy["steps"] += 1
    if policy["steps"] == 1:
        said("step")
    return np.zeros(policy["env"].action_space.shape, policy["env"].action_space.dtype)
    """,
)
GIN = gin(
    WEB,
    num_inference_steps=0,
    record_frames=0,
    pass_environment=["SECRET"],
    kwargs={"num_websites": 1, "difficulty": 1},
)


class Place:
    """A submission, a gin file and a package with the service, in one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.root = folder, folder / "root"
        record = folder / "site" / "echoing-0.3.dist-info"
        record.mkdir(parents=True)
        (record / "METADATA").write_text("Metadata-Version: 2.1\nName: echoing\nVersion: 0.3\n")
        (record / "entry_points.txt").write_text("[a2perf.run_options]\necho = echoing:Echo\n")
        (folder / "site" / "echoing.py").write_text(ECHO)
        self.write(AGENT, GIN)
        (folder / "secret").write_text("secret")

    def write(self, agent: str, gin: str) -> None:
        write_submission(self.folder / "entry", agent, "")
        (self.folder / "inference.gin").write_text(gin)

    def a2perf(self, *words: str) -> Any:
        environment = {**os.environ, "PYTHONPATH": str(self.folder / "site"), "SECRET": str(self.folder / "secret")}
        return run_a2perf(*words, cwd=self.folder, env=environment)

    def run(self, *words: str, level: str = "process") -> Any:
        given = flags(submission="entry", gin_config="inference.gin", root_dir=self.root, sandbox=level)
        return self.a2perf("run", *given, *words)

    @property
    def manifest(self) -> Manifest:
        return read_record(self.root / "inference" / "manifest.json", Manifest)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


@pytest.mark.group("bwrap")
def test_a_cut_off_participant_reaches_the_service_and_its_run_records_it(place: Place) -> None:
    if (reason := why_unavailable("bubblewrap")) is not None:
        pytest.skip(reason)
    secret = f"Echo.echo_secret = '{place.folder / 'secret'}'"
    done = place.run("--echo", "oh ", "--gin-bindings", secret, level="bubblewrap")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "the echo has ended" in done.stdout + done.stderr
    manifest = place.manifest
    assert manifest.models == ["parrot"]
    assert manifest.settings["echo"] == "oh "
    assert "2 words were echoed" in manifest.warnings
    assert "echo.json" in {**manifest.files, **manifest.inventory}
    found = json.loads((place.root / "inference" / "echo.json").read_text())
    assert found["heard"] == ["load", "step"]
    assert [(phase, episode) for phase, episode, _ in found["places"] if episode is not None] == [("episode", 0)]
    assert [isinstance(kwh, float) for kwh in found["kwh"]] == [True]
    (run,) = read_runs([place.root])
    assert run.algorithm == "entry (parrot)"


def test_a_service_is_an_option_of_every_run_and_part_of_its_identity(place: Place) -> None:
    for command in ("run", "check", "submit"):
        assert "--echo WORD" in place.a2perf(command, "--help").stdout
    place.write(AGENT.replace("    assert not os.path.exists", "    0 and os.path.exists"), GIN + "Echo.echo = 'oh '\n")
    assert place.run().returncode == 0
    assert place.manifest.settings["echo"] == "oh "
    assert any("not only the services of the run" in warning for warning in place.manifest.warnings)
    other = place.run("--echo", "ah ")
    assert other.returncode == 2
    assert "echo was oh , now ah" in other.stdout + other.stderr


def test_a_service_explains_failures_with_and_without_it(place: Place) -> None:
    fails = AGENT.replace(
        '    assert os.environ["ECHO_KEY"]', '    raise ValueError(os.environ["ECHO_ADDRESS"][:9])\n    0'
    )
    place.write(fails, GIN)
    failed = place.run("--echo", "oh ")
    assert failed.returncode == 1, failed.stdout + failed.stderr
    assert place.manifest.failure.message.endswith("127.0.0.1 (after 0 words)")
    assert place.run("--force").returncode == 1
    assert place.manifest.failure.message == "KeyError: 'ECHO_ADDRESS' (give --echo WORD)"


@pytest.mark.parametrize(
    ("point", "message"),
    [
        ("echo = echoing:Missing", "the run service echo cannot be loaded: echoing:Missing: "),
        ("echo = echoing:AGENT", "the run service echo cannot be loaded: echoing:AGENT: "),
    ],
)
def test_a_broken_service_ends_a_run_before_it_starts(point: str, message: str, place: Place) -> None:
    record = place.folder / "site" / "echoing-0.3.dist-info"
    (record / "entry_points.txt").write_text(f"[a2perf.run_options]\n{point}\n")
    done = place.run()
    assert done.returncode == 2, done.stdout + done.stderr
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert place.a2perf("--help").returncode == 0


@pytest.mark.skipif(is_installed("a2perf-agents"), reason="a2perf-agents is installed")
def test_a_setting_of_a_distribution_that_is_not_installed_names_it(place: Place) -> None:
    by_option = place.run("--model", "model.toml")
    place.write(AGENT, GIN + "Submission.model = 'model.toml'\n")
    for done in (by_option, place.run()):
        assert done.returncode == 2
        said, hint = done.stderr.splitlines()
        assert said.endswith("model comes with the distribution a2perf-agents")
        assert "packages/agents" in hint
