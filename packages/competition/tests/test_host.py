"""A hosted competition: uploads of strangers, quotas, phases, orders, and what is served."""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import time
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

import a2perf_competition as competitions
from a2perf.errors import ConfigError
from a2perf.launch import AttemptOutcome
from a2perf.storage import read_json
from a2perf_competition import archive, unpack
from a2perf_competition.host import ATTEMPTS, Host, write_order
from a2perf_competition.host_command import host as command
from a2perf_competition.hosted import HostedEntry, check_entry, read_settings
from a2perf_competition.records import CompetitionTerms, load
from tests.made_submissions import policy, write_submission

FIRST_CELL = policy(
    load='print("hello", flush=True)',
    preprocess='return np.flatnonzero(observation["mask"])',
    infer="return int(observation[0])",
)
WEAK = 'sandbox = "process"\nallow_weaker = true\n'
"""A level that every machine has."""


def create(folder: Path) -> None:
    competitions.create(
        folder / "cup",
        CompetitionTerms(
            name="cup",
            domain="circuit_training",
            public_task="toy_macro_stdcell",
            held_out=1,
            episodes=1,
            latency_steps=1,
            train=False,
        ),
    )


@pytest.fixture(scope="module")
def created(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("host")
    create(folder)
    return folder


@pytest.fixture
def hosted(created: Path, tmp_path: Path) -> Path:
    shutil.copytree(created, tmp_path / "h")
    (tmp_path / "h/host.toml").write_text(WEAK)
    return tmp_path / "h"


def upload(folder: Path, entrant: str, name: str) -> Path:
    return write_submission(folder / "inbox" / entrant / name, FIRST_CELL)


def taken(folder: Path) -> Host:
    """Returns a host that has taken what lies in the mailbox, and runs nothing."""
    made = Host(folder)
    made.turn()
    made.turn()
    return made


def text_of(page: Path) -> str:
    return " ".join(re.sub("<[^>]+>", " ", page.read_text().partition("<header>")[2]).split())


# --- uploads --------------------------------------------------------------------------------------------------------


def zipped(*members: tuple[str, bytes]) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members:
            archive.writestr(name, content)
    return stream.getvalue()


def tarred(**attributes: object) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz") as archive:
        member = tarfile.TarInfo("a")
        for name, value in attributes.items():
            setattr(member, name, value)
        archive.addfile(member)
    return stream.getvalue()


def linked_zip() -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        member = zipfile.ZipInfo("a")
        member.external_attr = 0o120777 << 16
        archive.writestr(member, "/etc/passwd")
    return stream.getvalue()


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize(
    ("name", "content", "refused"),
    [
        ("a.zip", lambda: zipped(("x", b"1"), ("x", b"2")), "two members are named 'x'"),
        ("a.zip", lambda: zipped(("x", b"1"), ("./X", b"2")), "two members are named 'X'"),
        ("a.zip", lambda: zipped(("../x", b"1")), "'../x' leads out of the folder"),
        ("a.zip", lambda: zipped(("x", b"\0" * 2_000_000)), "it unpacks to more than 1,000,000 bytes"),
        ("a.zip", linked_zip, "'a' is a link or a special file"),
        ("a.zip", lambda: zipped(("x", b"1" * 1000))[:-30], "the archive is damaged"),
        ("a.zip", lambda: zipped(), "it is empty"),
        ("a.tar.gz", lambda: tarred(type=tarfile.SYMTYPE, linkname="/etc"), "'a' is a link or a special file"),
        ("a.tar.gz", lambda: tarred(type=tarfile.LNKTYPE, linkname="b"), "'a' is a link or a special file"),
        ("a.tar.gz", lambda: tarred(type=tarfile.FIFOTYPE), "'a' is a link or a special file"),
        ("a.tar.gz", lambda: tarred(name="/a"), "'/a' leads out of the folder"),
        ("a.tgz", lambda: b"no archive", "the archive is damaged"),
        ("a.rar", lambda: b"Rar!", "it is neither a folder nor an archive"),
    ],
)
def test_a_hostile_archive_is_refused_in_one_line(
    name: str, content: Callable[[], bytes], refused: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / name).write_bytes(content())
    (tmp_path / "out").mkdir()
    unpack.main(tmp_path / name, tmp_path / "out", 1_000_000)
    said = capsys.readouterr().out
    assert refused in said
    assert said.count("\n") == 1
    assert not (tmp_path / "x").exists()


def test_links_fifos_and_a_link_instead_of_a_folder_are_refused(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("/etc")
    for name, make in {"linked": lambda path: path.symlink_to("/etc"), "fifo": os.mkfifo}.items():
        (tmp_path / name).mkdir()
        make(tmp_path / name / "x")
    for name in ("link", "linked", "fifo"):
        out = tmp_path / f"{name}.out"
        out.mkdir()
        words = [sys.executable, "-I", "-S", unpack.__file__, tmp_path / name, out, "1000"]
        done = subprocess.run(words, capture_output=True, text=True, check=True, timeout=60)
        assert "link or a special file" in done.stdout
        assert list(out.iterdir()) == []


def test_the_mailbox_is_read_as_it_is_meant(hosted: Path) -> None:
    upload(hosted, "ada", "first")
    upload(hosted, "ada", ".hidden")
    (hosted / "inbox/ada/late.zip.part").write_bytes(b"")
    (hosted / "inbox/ada/first.zip").write_bytes(zipped(("inference.py", b"")))
    (hosted / "inbox/..bad name").mkdir()
    (hosted / "inbox/out").symlink_to("/etc")
    (hosted / "inbox/eve/folder.withdraw").mkdir(parents=True)
    (hosted / "orders").mkdir()
    (hosted / "orders/ada-9.json").write_text("{")
    made = taken(hosted)
    assert {name: (one.state, one.name) for name, one in made.entries.items()} == {
        "ada-1": ("checking", "first"),
        "ada-2": ("refused", "first"),
    }
    assert "name of ada-1" in made.entries["ada-2"].reason
    assert sorted(path.name for path in (hosted / "inbox/ada").iterdir()) == [".hidden", "late.zip.part"]
    assert made.not_taken == {
        "eve": "cannot be taken: Is a directory",
        "out": "not a folder with a plain name of an entrant",
    }
    assert list((hosted / "orders").iterdir()) == []


def test_a_host_that_died_between_two_steps_of_an_arrival_loses_nothing(hosted: Path) -> None:
    write_submission(hosted / "entries/ada-1/upload/first", FIRST_CELL)
    (hosted / "entries/bob-1/upload").mkdir(parents=True)
    made = taken(hosted)
    assert list(made.entries) == ["ada-1"]
    assert made.entries["ada-1"].name == "first"
    again = taken(hosted)
    assert again.entries["ada-1"].number == 1
    assert again.queue.unsettled() == 1


def test_a_git_remote_is_pulled_as_a_mailbox(hosted: Path, tmp_path: Path) -> None:
    def push(text: str) -> None:
        (work / "ada/first/note").write_text(text)
        for words in (["add", "--all"], ["commit", "--quiet", "-m", text], ["push", "--quiet", "origin", "HEAD"]):
            archive.git(work, *words)

    bare, work = tmp_path / "entries.git", tmp_path / "work"
    archive.git(tmp_path, "init", "--quiet", "--bare", str(bare))
    (hosted / "host.toml").write_text(f"git = '{bare}'\n{WEAK}")
    assert "git fetch" in taken(hosted).not_taken["git"]  # it is empty yet
    archive.git(tmp_path, "clone", "--quiet", str(bare), str(work))
    write_submission(work / "ada/first", FIRST_CELL)
    (work / "ada/first/data").symlink_to("/etc")
    write_submission(work / "not plain/first", FIRST_CELL)
    push("one")
    made = taken(hosted)
    assert made.not_taken == {"not plain/first": "not a plain name of an entrant or of an entry"}
    assert taken(hosted).entries.keys() == made.entries.keys() == {"ada-1"}
    push("two")
    made = taken(hosted)
    assert [one.name.rpartition("-")[0] for one in made.entries.values()] == ["first", "first"]
    assert {one.state for one in made.entries.values()} == {"checking"}
    check_entry(hosted / "entries/ada-2", made.settings, "process")
    assert "'data' is a link" in json.loads((hosted / "entries/ada-2/check.json").read_text())["refused"]
    (hosted / "host.toml").write_text(f"git = '{tmp_path}/absent'\n{WEAK}")
    assert "does not appear to be a git repository" in taken(hosted).not_taken["git"]


# --- settings, quotas and phases --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("quota = 0", "a number below 1"),
        ("quoted = 1", "quoted"),
        ("quota = ", "host.toml"),
        ("[[phases]]\nname = 'a'\nkind = 'secret'", "has the kind 'secret'"),
        ("[[phases]]\nname = 'a'\nkind = 'blind'\nstarts = 2026-01-01T00:00:00", "without a time zone"),
        (
            "[[phases]]\nname = 'a'\nkind = 'blind'\nstarts = 2026-02-01T00:00:00Z\nends = 2026-01-01T00:00:00Z",
            "ends before it starts",
        ),
        (
            "[[phases]]\nname = 'a'\nkind = 'blind'\nends = 2026-02-01T00:00:00Z\n"
            "[[phases]]\nname = 'b'\nkind = 'development'\nstarts = 2026-03-01T00:00:00Z",
            "may not follow it",
        ),
    ],
)
def test_settings_that_are_not_valid_are_named(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "host.toml").write_text(text)
    with pytest.raises(ConfigError, match=message) as raised:
        read_settings(tmp_path)
    assert "\n" not in raised.value.message


def test_an_entry_that_waits_states_for_what(hosted: Path) -> None:
    (hosted / "host.toml").write_text(f"quota = 1\nwaiting = 1\n{WEAK}")
    for name in ("a", "b", "c"):
        upload(hosted, "ada", name)
    made = taken(hosted)
    for _ in range(3):
        made.turn()
    made._write_pages()
    assert [one.state for one in made.entries.values()] == ["checking", "received"]
    assert "the next day (UTC): 1 of 1 entries of" in text_of(hosted / "site/entries/ada-2.html")
    assert "its runs; place 1 in the queue" in text_of(hosted / "site/entries/ada-1.html")
    assert "ada/c: waits in the mailbox: 1 entries wait already" in text_of(hosted / "site/index.html")


@pytest.mark.parametrize(
    ("settings", "wait"),
    [
        ("free_bytes = 1_000_000_000_000_000", "disk space on the host"),
        (
            "[[phases]]\nname = 'Play'\nkind = 'development'\nstarts = 2100-01-01T00:00:00Z",
            "Play, which starts at 2100",
        ),
        ("[[phases]]\nname = 'Old'\nkind = 'blind'\nends = 2000-01-01T00:00:00Z", "nothing: entries closed"),
        ("[[phases]]\nname = 'End'\nkind = 'final'", "nothing: entries closed"),
    ],
)
def test_nothing_starts_without_disk_space_or_outside_of_a_phase(hosted: Path, settings: str, wait: str) -> None:
    (hosted / "host.toml").write_text(f"{WEAK}{settings}")
    upload(hosted, "ada", "first")
    made = taken(hosted)
    assert made.waits["ada-1"].startswith(wait)
    assert not made.queue.unsettled()


def settle(made: Host, outcome: AttemptOutcome) -> HostedEntry:
    lease = made.queue.lease()
    assert lease is not None
    made.queue.finish(lease, outcome)
    made._changed.add(str(lease.entry.data["entry"]))
    made.turn()
    made.turn()
    return made.entries[str(lease.entry.data["entry"])]


def test_a_fault_of_the_host_uses_up_no_quota(hosted: Path) -> None:
    (hosted / "host.toml").write_text(f"quota = 1\n{WEAK}")
    upload(hosted, "ada", "a")
    upload(hosted, "ada", "b")
    made = taken(hosted)
    assert "ada-2" in made.waits
    entry = settle(made, AttemptOutcome(False, "infrastructure", "node lost", repeatable=False))
    assert (entry.state, entry.day) == ("fault", "")
    assert made.entries["ada-2"].state == "checking"
    write_order(hosted, "ada-1", "rerun", "the node is back")
    made.turn()
    assert made.entries["ada-1"].state == "checking"
    assert made.entries["ada-1"].events[-1].text == "run again by the organizer: the node is back"


def test_an_entry_that_nobody_can_show_to_have_killed_itself_runs_again(hosted: Path) -> None:
    upload(hosted, "ada", "a")
    made = taken(hosted)
    killed = AttemptOutcome(False, "signal", "step 3: the process was killed by SIGKILL before it answered")
    for attempt in range(2, ATTEMPTS + 1):
        entry = settle(made, killed)
        assert (entry.state, entry.attempt) == ("checking", attempt)
    assert settle(made, killed).state == "failed"


def test_entrants_and_the_organizer_withdraw(hosted: Path) -> None:
    for entrant in ("ada", "bob"):
        upload(hosted, entrant, "a")
    made = taken(hosted)
    (hosted / "inbox/bob/ada-1.withdraw").touch()  # of another entrant
    made.turn()
    assert made.entries["ada-1"].state == "checking"
    (hosted / "inbox/ada/ada-1.withdraw").touch()
    write_order(hosted, "bob-1", "withdraw", "two accounts")
    made.turn()
    assert {one.state for one in made.entries.values()} == {"withdrawn"}
    assert not made.queue.unsettled()
    with pytest.raises(ConfigError, match="no entry 'eve-1'"):
        write_order(hosted, "eve-1", "withdraw", "")


def test_a_clock_that_is_set_back_delays_no_retry(hosted: Path) -> None:
    upload(hosted, "ada", "a")
    made = taken(hosted)
    lease = made.queue.lease()
    assert lease is not None
    made.queue.finish(lease, AttemptOutcome(False, "infrastructure", "lost"))
    with made.queue._transaction() as connection:
        connection.execute("UPDATE entries SET not_before = ?", (time.time() + 1e6,))
    made.turn()
    assert made.queue.lease() is None
    made._clocks = (time.time() + 3600, made._clocks[1])
    made.turn()
    assert made.queue.lease() is not None


# --- what is served -------------------------------------------------------------------------------------------------


def test_with_other_secrets_every_served_byte_is_the_same(hosted: Path, tmp_path: Path) -> None:
    (hosted / "host.toml").write_text(f"{WEAK}[[phases]]\nname = 'Blind'\nkind = 'blind'")
    upload(hosted, "ada", "a")
    made = taken(hosted)
    entry = made.entries["ada-1"]
    entry.state, entry.score, entry.wall_s = "finished", 0.8125, 3.5
    made._save(entry, "finished")
    made._write_pages()
    assert "0.812" not in "".join(page.read_text() for page in (hosted / "site").rglob("*.html"))
    other = tmp_path / "other"
    shutil.copytree(hosted, other)
    for name in ("cup", "site"):
        shutil.rmtree(other / name)
    create(other)
    assert load(other / "cup").secret != load(hosted / "cup").secret
    Host(other)._write_pages()
    served = [
        {page.relative_to(folder): page.read_bytes() for page in (folder / "site").rglob("*") if page.is_file()}
        for folder in (hosted, other)
    ]
    assert served[0] == served[1]
    assert len(served[0]) == 2


CURIOUS = policy(
    load="""
        import os, pathlib
        shown = {name: value for name, value in os.environ.items() if name.startswith(("A2PERF", "ROOT", "SEED"))}
        print(sorted(shown.items()), pathlib.Path(__file__).parent, flush=True)
    """,
    preprocess='print(observation, flush=True)\nreturn np.flatnonzero(observation["mask"])',
    infer="return int(observation[0])",
)


@pytest.mark.slow
def test_live_hosts_with_other_secrets_serve_the_same_bytes_in_a_blind_phase(tmp_path: Path) -> None:
    """Two hosts at one path, each with all entries from arrival to score; only the times of events may differ."""
    folder, secrets, served = tmp_path / "h", [], []
    for _ in range(2):
        create(folder)
        (folder / "host.toml").write_text(f"{WEAK}[[phases]]\nname = 'Blind'\nkind = 'blind'")
        upload(folder, "ada", "first")
        write_submission(folder / "inbox/bob/curious", CURIOUS)
        write_submission(folder / "inbox/eve/crash", policy(load="raise RuntimeError(__file__)"))
        (folder / "inbox/eve/out.zip").write_bytes(zipped(("../x", b"1")))
        words = [sys.executable, "-c", "from a2perf.cli import main; main()", "host", str(folder), "--once"]
        subprocess.run(words, capture_output=True, check=True, timeout=300)
        states = {one["id"]: one["state"] for one in map(read_json, folder.glob("entries/*/entry.json"))}
        assert states == {"ada-1": "finished", "bob-1": "finished", "eve-1": "failed", "eve-2": "refused"}
        secrets.append(load(folder / "cup").secret)
        pages = {page.relative_to(folder): page.read_text() for page in folder.glob("site/**/*") if page.is_file()}
        served.append({name: re.sub(r"\d{4}-\d\d-\d\dT[\d:]{8}\+00:00", "TIME", text) for name, text in pages.items()})
        shutil.rmtree(folder)
    assert secrets[0] != secrets[1]
    assert served[0] == served[1]
    assert "SEED" in served[0][Path("site/entries/bob-1.html")]


@pytest.mark.slow
def test_a_hosted_competition_from_the_mailbox_to_the_final_results(hosted: Path) -> None:
    upload(hosted, "ada", "first")
    (hosted / "inbox/eve").mkdir()
    (hosted / "inbox/eve/out.zip").write_bytes(zipped(("../x", b"1")))
    words = [sys.executable, "-c", "from a2perf.cli import main; main()", "host", str(hosted), "--once"]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    page = text_of(hosted / "site/entries/ada-1.html")
    assert "State Finished" in page
    assert "Mean return −" in page
    assert page.endswith("seed_0/inference/stdout hello")
    assert "leads out of the folder" in text_of(hosted / "site/entries/eve-1.html")
    (hosted / "host.toml").write_text(f"{WEAK}[[phases]]\nname = 'End'\nkind = 'final'")
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    final = json.loads((hosted / "final.json").read_text())
    assert [(row[0], row[1], row[3]) for row in final["rows"]] == [(1, "ada", "finished")]
    assert final["problems"] == []
    assert "Mean, secret tasks" in text_of(hosted / "site/index.html")
    secret = (hosted / "cup/private/secret.json").read_text()
    served = "".join(page.read_text() for page in (hosted / "site").rglob("*.html"))
    assert json.loads(secret)["salt"] not in served
    assert (hosted / "cup/runs/queue.sqlite").exists()


def test_a_folder_without_a_competition_is_named(tmp_path: Path) -> None:
    words = [sys.executable, "-c", "from a2perf.cli import main; main()", "host", str(tmp_path), "--once"]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 2
    assert done.stderr.startswith(f"a2perf: {tmp_path}/cup holds no competition")
    assert done.stderr.count("\n") <= 2
    assert CliRunner().invoke(command, ["order", str(tmp_path), "rerun", "x"]).exit_code == 2
