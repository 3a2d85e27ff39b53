"""A host under random SIGKILL: of itself, its evaluators and its participants.

``A2PERF_CRASH_MINUTES`` sets how long processes are killed; 2 minutes by default.
"""

from __future__ import annotations

import io
import json
import os
import random
import signal
import subprocess
import sys
import tarfile
import time
from collections import Counter
from pathlib import Path

import psutil
import pytest

from a2perf.sandbox import available_levels
from tests.made_submissions import policy, write_submission

from .test_host import FIRST_CELL, create, zipped

MINUTES = float(os.environ.get("A2PERF_CRASH_MINUTES", "2"))
KILL_EVERY_S = 3.0
STUCK_S = 120.0
HOSTILE = (
    "raise SystemExit(7)",
    "import os, signal\nos.kill(os.getpid(), signal.SIGTERM)",
    "x = bytearray(64 << 30)",
    "import os\n[os.fork() for _ in range(99)]\nraise RuntimeError",
)


def put(folder: Path, number: int) -> bool:
    """Puts an entry into the mailbox in one step; every tenth is hostile."""
    inbox, work = folder / "inbox" / f"entrant{number % 5}", folder / "work"
    inbox.mkdir(parents=True, exist_ok=True)
    hostile = number % 10 == 9
    if number % 20 == 9:
        stream = io.BytesIO()
        with tarfile.open(fileobj=stream, mode="w") as archive:
            member = tarfile.TarInfo("inference.py")
            member.type, member.linkname = tarfile.SYMTYPE, "/etc/passwd"
            archive.addfile(member)
        content, name = stream.getvalue(), f"n{number}.tar"
    else:
        code = policy(load=HOSTILE[number // 10 % len(HOSTILE)]) if hostile else FIRST_CELL
        files = {path.name: path.read_bytes() for path in write_submission(work, code).iterdir() if path.is_file()}
        content, name = zipped(*files.items()), f"n{number}.zip"
    (inbox / f".{name}").write_bytes(content)
    (inbox / f".{name}").rename(inbox / name)
    return hostile


def _command(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except psutil.Error:  # it has ended
        return ""


def kill_one(supervisor: subprocess.Popen[bytes], dice: random.Random) -> str:
    """Kills a random process of one kind."""
    tree = psutil.Process(supervisor.pid).children(recursive=True)
    host = [one for one in tree if "a2perf_competition.host" in _command(one)]
    kinds = {
        "supervisor": [psutil.Process(supervisor.pid)],
        "host": host,
        "others": [one for one in tree if one not in host],
    }
    kind = dice.choices(list(kinds), [1, 1, 20])[0]
    if not kinds[kind]:
        return "none"
    victim = dice.choice(kinds[kind])
    name = kind if kind != "others" else "participant" if "worker" in _command(victim) else "evaluator or guard"
    victim.send_signal(signal.SIGKILL)
    return name


def records(folder: Path) -> list[dict]:
    return [json.loads(file.read_text()) for file in folder.glob("entries/*/entry.json")]


@pytest.mark.slow
@pytest.mark.timeout(MINUTES * 60 + 1200)
@pytest.mark.skipif("bubblewrap" not in available_levels(), reason="needs bubblewrap")
def test_random_kills_lose_nothing_and_use_up_no_quota(tmp_path: Path) -> None:
    create(tmp_path)
    (tmp_path / "host.toml").write_text("quota = 100_000\nwaiting = 100_000\nworkers = 2\nfree_bytes = 0\n")
    dice, killed = random.Random(7), Counter[str]()
    hostile: dict[str, bool] = {}
    words = [sys.executable, "-c", "from a2perf.cli import main; main()", "host", str(tmp_path)]

    def start() -> subprocess.Popen[bytes]:
        with (tmp_path / "log").open("ab") as log:
            return subprocess.Popen(words, stdout=log, stderr=log)

    supervisor, ends = start(), time.monotonic() + MINUTES * 60
    due = time.monotonic() + KILL_EVERY_S
    try:
        while time.monotonic() < ends:
            waiting = len(hostile) - sum(one["state"] in ("finished", "failed", "refused") for one in records(tmp_path))
            if waiting < 4:
                hostile[f"n{len(hostile)}"] = put(tmp_path, len(hostile))
            if time.monotonic() >= due:
                due = time.monotonic() + dice.expovariate(1 / KILL_EVERY_S)
                if supervisor.poll() is None:
                    try:
                        killed[kill_one(supervisor, dice)] += 1
                    except psutil.Error:
                        continue
                if supervisor.poll() is not None:
                    supervisor = start()
            time.sleep(0.2)
        if supervisor.poll() is not None:
            supervisor = start()
        seen, since = 0, time.monotonic()
        while time.monotonic() - since < STUCK_S:
            found = records(tmp_path)
            events = sum(len(one["events"]) for one in found)
            if events != seen:
                seen, since = events, time.monotonic()
            if len(found) == len(hostile) and not any(
                one["state"] in ("received", "checking", "running") for one in found
            ):
                break
            time.sleep(0.5)
    finally:
        if supervisor.poll() is None:
            supervisor.send_signal(signal.SIGTERM)
            supervisor.wait(60)
    found = records(tmp_path)
    states = Counter((hostile[one["name"]], one["state"]) for one in found)
    print(f"{len(hostile)} entries, {sum(hostile.values())} hostile; killed {dict(killed)}; {dict(states)}")
    for one in found:
        if not hostile[one["name"]] and one["state"] != "finished":
            print(one["id"], one["state"], one["kind"], one["reason"], one["attempt"])
    assert sorted(one["name"] for one in found) == sorted(hostile)  # none lost, none twice
    assert not [one["id"] for one in found if one["state"] in ("received", "checking", "running")]  # none stuck
    assert not [one["id"] for one in found if [event["text"] for event in one["events"]].count("finished") > 1]
    ours = [one["id"] for one in found if one["day"] and not hostile[one["name"]] and one["state"] != "finished"]
    assert ours == []  # no quota used up by a fault of the host
    assert len({one["score"] for one in found if one["state"] == "finished"}) == 1
