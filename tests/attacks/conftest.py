"""The stage on which the attacks play, and the table of what became of them."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from a2perf.runs import signing
from a2perf.sandbox import LADDER, Limits, why_unavailable
from a2perf.submission.evaluator.process.participant_process import ParticipantProcess
from tests.launch import docker_engine
from tests.made_submissions import policy
from tests.participants import make_participant
from tests.submission.conftest import launch, submission
from tests.waiting import Child

__all__ = ["launch", "submission"]

ENTRY = Path(__file__).parent / "entry"
OBEYS = policy(
    infer="""
    scope = {"__name__": "attack"}
    exec(observation["code"], scope)
    return repr(scope.get("result", ""))
    """
)
"""A policy that runs the code that it is sent and answers with its ``result``."""


@pytest.fixture
def available(request: pytest.FixtureRequest) -> Callable[[str], None]:
    """Makes a level available, or skips the test with the reason."""

    def need(level: str) -> None:
        if level == "docker":
            if (missing := docker_engine.missing()) is not None:
                pytest.skip(missing)
            request.getfixturevalue("docker_engine")
        reason = why_unavailable(level)
        if reason is not None:
            pytest.skip(reason)

    return need


@dataclass
class Stage:
    """A host with things worth stealing.

    Attributes:
        folder: everything of the test.
        canary: a file outside.
        outside: a folder outside.
        bundle: the run's folder.
        artifacts: what the participant may write.
        inner: a folder of bundles inside the submission.
        entry: the submission.
        words: what the placeholders of the catalogue stand for.
        signals: signals that the evaluator got.
        connections: what was sent to the host's sockets.
    """

    folder: Path
    canary: Path
    outside: Path
    bundle: Path
    artifacts: Path
    inner: Path
    entry: Path
    words: dict[str, str | int]
    signals: list[int]
    listeners: list[socket.socket]

    @property
    def secret(self) -> str:
        """The canary's song; it must never be heard outside its file."""
        return str(self.words["secret"])

    def process(self, level: str, **limits: float) -> ParticipantProcess:
        """Returns the submission's process at a level."""
        return make_participant(
            self.entry,
            sandbox=level,
            artifacts=self.artifacts,
            hidden=(self.folder / "run", self.inner),
            limits=Limits(**limits),
            logs=self.folder / "logs",
        )

    def connections(self) -> int:
        """How many connections came to the host's sockets."""
        count = 0
        for listener in self.listeners:
            listener.setblocking(False)
            try:
                listener.accept()[0].close()
                count += 1
            except BlockingIOError:
                pass
        return count

    def untouched(self) -> bool:
        """Whether everything outside is as it was."""
        planted = [path for path in self.folder.rglob("planted") if self.artifacts not in path.parents]
        return not planted and self.canary.read_text() == self.secret and self.files() == self.words["files"]

    def files(self) -> str:
        """The names and contents of everything of the host that an attack aims at."""
        seen = (path for top in (self.outside, self.bundle, self.entry) for path in sorted(top.rglob("*")))
        files = (path for path in seen if path.is_file() and "__pycache__" not in path.parts)
        return "".join(f"{path}{path.read_text()}" for path in files if self.artifacts not in path.parents)


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stage]:
    """Sets the stage."""
    entry, outside, bundle = tmp_path / "entry", tmp_path / "outside", tmp_path / "run" / "inference"
    shutil.copytree(ENTRY, entry, ignore=shutil.ignore_patterns("__pycache__"))
    inner, artifacts = entry / "runs", bundle / "artifacts"
    for folder in (outside, inner, artifacts):
        folder.mkdir(parents=True)
    secret = f"canary-{os.urandom(8).hex()}"
    for file in (outside / "canary", bundle / "manifest.json", bundle / "metrics.json", inner / "manifest.json"):
        file.write_text(secret)
    monkeypatch.setenv("A2PERF_CANARY", secret)
    tcp, abstract, path = socket.create_server(("127.0.0.1", 0)), socket.socket(socket.AF_UNIX), None
    abstract.bind(f"\0{secret}")
    path = socket.socket(socket.AF_UNIX)
    monkeypatch.chdir(outside)  # the path of a socket is short
    path.bind("socket")
    monkeypatch.chdir(tmp_path)
    for listener in (abstract, path):
        listener.listen()
    signals: list[int] = []
    before = signal.signal(signal.SIGUSR2, lambda number, frame: signals.append(number))
    words: dict[str, str | int] = {
        "canary": str(outside / "canary"),
        "outside": str(outside),
        "bundle": str(bundle),
        "inner": str(inner),
        "artifacts": str(artifacts),
        "planted": str(outside / "planted"),
        "secret": secret,
        "abstract": secret,
        "socket": str(outside / "socket"),
        "port": tcp.getsockname()[1],
        "pid": os.getpid(),
    }
    scene = Stage(
        tmp_path, outside / "canary", outside, bundle, artifacts, inner, entry, words, signals, [tcp, abstract, path]
    )
    words["files"] = scene.files()
    bystander = Child(["/bin/sh", "-c", "read line", secret], stdin=subprocess.PIPE)
    descriptor = os.open(outside / "canary", os.O_RDONLY)
    os.set_inheritable(descriptor, True)
    yield scene
    lives = bystander.poll() is None
    bystander.communicate(timeout=300)
    os.close(descriptor)
    signal.signal(signal.SIGUSR2, before)
    for listener in scene.listeners:
        listener.close()
    assert lives, "an attack ended a process of the host"


@pytest.fixture
def noted(record_property: Callable[[str, object], None]) -> Callable[..., None]:
    """Enters an outcome into the table; for every level if the confinement makes no difference."""

    def note(what: str, outcome: str, levels: Sequence[str] = LADDER) -> None:
        for level in levels:
            record_property("attack", (what, level, outcome))

    return note


@pytest.fixture(scope="session")
def key(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A signing key, alone in its folder."""
    key = tmp_path_factory.mktemp("keys") / "organizer"
    signing.new_key(key)
    return key


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Prints the table attack x level x outcome of the tests that ran."""
    table: dict[str, dict[str, str]] = {}
    for outcome in ("passed", "failed"):
        for report in terminalreporter.stats.get(outcome, []):
            for name, value in getattr(report, "user_properties", []):
                if name == "attack":
                    what, level, result = value
                    table.setdefault(what, {})[level] = result if outcome == "passed" else f"NOT AS EXPECTED: {result}"
    if not table:
        return
    terminalreporter.section("attacks")
    terminalreporter.write_line(f"| attack | {' | '.join(LADDER)} |")
    terminalreporter.write_line("| --- |" + " --- |" * len(LADDER))
    for what, cells in table.items():
        terminalreporter.write_line(f"| {what} | {' | '.join(cells.get(level, '-') for level in LADDER)} |")
