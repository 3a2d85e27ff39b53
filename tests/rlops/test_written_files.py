"""Which files are a run's, rule by rule, with real processes that hold them open."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from a2perf.runs.bundles.written_files import WrittenFiles, descendants
from tests.waiting import Child

HOST = socket.gethostname()


def write(folder: Path, name: str, text: str = "x") -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def found(written: WrittenFiles) -> dict[str, str]:
    return {path.relative_to(written.folder).as_posix(): rule for path, rule in written.found().items()}


def test_file_that_a_process_of_the_run_holds_open_is_its_own(tmp_path: Path) -> None:
    written = WrittenFiles(tmp_path, "E-v0", 1)
    code = (
        "import subprocess, sys\n"
        'inner = \'import sys; out = open(sys.argv[1], "w"); out.write("1"); print(0, flush=True); sys.stdin.read()\'\n'
        "read = open(sys.argv[2])\n"
        "sys.exit(subprocess.call([sys.executable, '-c', inner, sys.argv[1]]))\n"
    )
    other = write(tmp_path, "other.csv")
    with Child(
        [sys.executable, "-c", code, str(tmp_path / "log.csv"), str(other)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as child:
        assert child.stdout is not None
        child.stdout.readline()
        assert child.pid in descendants(os.getpid())
        pids = [child.pid, *descendants(child.pid)]
        assert len(pids) >= 2  # the grandchild as well
        written.look(pids)
        assert child.stdin is not None
        child.stdin.close()
    assert found(written) == {"log.csv": "open file"}


def test_files_beside_an_event_file_of_the_run_are_its_own_unless_others_write_there(tmp_path: Path) -> None:
    written = WrittenFiles(tmp_path, "E-v0", 1)
    written.look([4242])
    for folder in ("mine", "shared"):
        write(tmp_path, f"{folder}/events.out.tfevents.1700000000.{HOST}.4242.0")
        write(tmp_path, f"{folder}/progress.csv")
    write(tmp_path, f"shared/events.out.tfevents.1700000000.{HOST}.4243.0")
    assert found(written) == {
        f"mine/events.out.tfevents.1700000000.{HOST}.4242.0": "process id",
        "mine/progress.csv": "same folder",
        f"shared/events.out.tfevents.1700000000.{HOST}.4242.0": "process id",
    }


@pytest.mark.parametrize(
    ("name", "mine"),
    [
        ("runs/CartPole-v1__ppo__1__1700000000/progress.csv", True),
        ("videos/CartPole-v1__ppo__1__1700000000/rl-video-episode-0.mp4", True),
        ("runs/CartPole-v1__ppo__2__1700000000/progress.csv", False),
        ("videos/CartPole-v1__ppo__2__1700000000/rl-video-episode-1.mp4", False),
        ("runs/CartPole-v1__ppo__11__1700000000/progress.csv", False),
        ("runs/CartPole-v12__ppo__1__1700000000/progress.csv", False),
        ("runs/Acrobot-v1__ppo__1__1700000000/progress.csv", False),
        ("out/CartPole-v1/seed_1/progress.csv", True),
        ("out/CartPole-v1/seed1.csv", True),
        ("out/CartPole-v1/s1/monitor.csv", True),
        ("out/CartPole-v1.csv", False),  # the 1 of its version is no seed
        ("out/CartPole-v1_seed_0.1.csv", False),
        ("progress_1.csv", False),
    ],
)
def test_name_tells_a_run_by_environment_and_seed_as_whole_words(tmp_path: Path, name: str, mine: bool) -> None:
    written = WrittenFiles(tmp_path, "CartPole-v1", 1)
    write(tmp_path, name)
    assert found(written) == ({name: "name of environment and seed"} if mine else {})


def test_environments_with_a_slash_are_found_in_names(tmp_path: Path) -> None:
    written = WrittenFiles(tmp_path, "ALE/Pong-v5", 3)
    write(tmp_path, "runs/ALE/Pong-v5__dqn__3__17/progress.csv")
    write(tmp_path, "runs/ALE_Pong-v5__dqn__3__17/progress.csv")
    assert len(found(written)) == 2


def test_event_file_of_a_process_that_was_not_seen_goes_by_its_name(tmp_path: Path) -> None:
    written = WrittenFiles(tmp_path, "E-v0", 1)
    name = f"runs/E-v0__ppo__1__17/events.out.tfevents.1700000000.{HOST}.4243.0"
    write(tmp_path, name)
    assert found(written) == {name: "name of environment and seed"}
    # with an event file that is certainly the run's, the other is another run's of the same name
    written.look([4242])
    sure = f"runs/E-v0__ppo__1__18/events.out.tfevents.1700000000.{HOST}.4242.0"
    write(tmp_path, sure)
    assert found(written) == {sure: "process id"}


def test_run_that_was_alone_has_what_may_hold_a_curve(tmp_path: Path) -> None:
    old = write(tmp_path, "results/old.csv")
    grown = write(tmp_path, "results/grown.csv")
    alone, beside = WrittenFiles(tmp_path, "E-v0", 1, alone=True), WrittenFiles(tmp_path, "E-v0", 1)
    write(tmp_path, "results/new.csv")
    write(tmp_path, "results/new.json")
    write(tmp_path, "notes.md")
    grown.write_text("xx")
    assert old.exists()
    assert found(alone) == {"results/grown.csv": "ran alone", "results/new.csv": "ran alone"}
    assert found(beside) == {}


def test_curves_behind_a_link_or_elsewhere_are_found_by_their_descriptors(tmp_path: Path) -> None:
    folder, elsewhere = tmp_path / "project", tmp_path / "big_disk"
    folder.mkdir()
    elsewhere.mkdir()
    (folder / "runs").symlink_to(elsewhere)
    written = WrittenFiles(folder, "E-v0", 1)
    with (
        (folder / "runs" / "progress.csv").open("w") as curve,
        (elsewhere / "settings.json").open("w"),
        write(elsewhere, "store/seed_1/rlops.json").open(),
        (elsewhere / "store" / "seed_1" / "a.csv").open("w"),
    ):
        curve.write("x")
        written.look([os.getpid()])
    assert written.found() == {elsewhere / "progress.csv": "open file elsewhere"}


def test_what_is_never_looked_at(tmp_path: Path) -> None:
    write(tmp_path, "venv/pyvenv.cfg")
    written = WrittenFiles(tmp_path, "E-v0", 1, alone=True)
    write(tmp_path, "venv/lib/E-v0_1.csv")
    write(tmp_path, ".cache/E-v0_1.csv")
    write(tmp_path, "store/ppo/seed_1/rlops.json")
    write(tmp_path, "store/ppo/seed_1/E-v0_1.csv")
    write(tmp_path, "store/tags.jsonl")
    (tmp_path / "link_E-v0_1.csv").symlink_to(tmp_path / "venv" / "pyvenv.cfg")
    os.mkfifo(tmp_path / "pipe_E-v0_1.csv")
    assert found(written) == {}
