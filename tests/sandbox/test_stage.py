"""What happens around a participant's start and end: the id on the host, the places, and what is left behind."""

from __future__ import annotations

import os
import socket
import stat
import sys
from pathlib import Path

import pytest

from a2perf.errors import InfrastructureError
from a2perf.sandbox import SandboxSpec, get_sandbox, host_id
from a2perf.sandbox.guard.collection import MOST_DEPTH, Collection
from tests.commands import run_command

ROOT = pytest.mark.skipif(os.getuid() != 0, reason="only root has ids to give")
ON_AN_OVERLAY = """
set -e
mkdir -p "$1/lower" "$1/seen"
mount -t tmpfs none "$1/lower"
mkdir "$1/lower/data" "$1/lower/upper" "$1/lower/work"
mount -t overlay overlay -o "lowerdir=$1/lower/data,upperdir=$1/lower/upper,workdir=$1/lower/work" "$1/seen"
exec "$2" -c "$3" "$1/seen"
"""
EVALUATOR = """
import sys
from pathlib import Path
from a2perf.errors import InfrastructureError
from a2perf.sandbox import SandboxSpec, get_sandbox

folder = Path(sys.argv[1])
for name in ("private", "shared", "written"):
    (folder / name).mkdir()
    (folder / name / "file").write_text("text")
(folder / "private").chmod(0o700)
code = "import os; print(open('../shared/file').read()); os.mkfifo('pipe'); open('new', 'w').close()"
spec = dict(argv=(sys.executable, "-I", "-S", "-c", code), cwd=folder / "written", env={}, stdout=folder / "out")
try:
    get_sandbox("bubblewrap").start(SandboxSpec(readable=[folder / "private"], **spec))
except InfrastructureError as error:
    print(error)
sandbox = get_sandbox("bubblewrap")
confined = sandbox.start(SandboxSpec(readable=[folder / "shared"], writable=[folder / "written"], **spec))
print(confined.wait(60).exit_code, (folder / "out").read_text().strip())
print(sorted((path.name, path.stat().st_uid) for path in (folder / "written").iterdir()))
"""


@ROOT
@pytest.mark.group("bwrap")
def test_a_file_system_that_cannot_translate_ids_serves_what_everybody_may_read(tmp_path: Path) -> None:
    command = ["unshare", "--mount", "sh", "-c", ON_AN_OVERLAY, "sh", str(tmp_path), sys.executable, EVALUATOR]
    done = run_command(command)
    if "mount:" in done.stderr:
        pytest.skip(done.stderr.strip())
    refused, answer, left = done.stdout.splitlines()
    if answer.startswith("0") and not refused:
        pytest.skip("this kernel translates the ids of overlays")
    assert "private" in refused
    assert "chmod -R a+rX" in refused
    assert answer == "0 text"
    assert left == "[('file', 0), ('new', 0)]"


@ROOT
def test_ids_are_drawn_from_the_range() -> None:
    drawn = {host_id.draw() for _ in range(5)}
    assert len(drawn) > 1
    assert all(number in host_id.RANGE or number in host_id.SMALL_RANGE for number in drawn)


@pytest.mark.parametrize(
    ("text", "covered"),
    [
        ("         0          0 4294967295\n", True),
        ("0 100000 65536\n", False),
        ("0 1000 1\n", False),
        ("0 5 1\n1879048192 9 268435456\n", True),
        ("1879048192 9 268435455\n", False),
    ],
)
def test_a_range_is_used_where_the_container_has_all_of_it(text: str, covered: bool) -> None:
    assert host_id._covers(text.splitlines(), host_id.RANGE) is covered


@pytest.fixture
def single_id(monkeypatch: pytest.MonkeyPatch) -> None:
    """An evaluator that has no id but its own: an ordinary user, or root in a container."""
    monkeypatch.setattr(host_id, "draw", lambda: None)


@pytest.mark.group("bwrap")
def test_device_of_the_evaluators_user_is_refused(single_id: None, tmp_path: Path) -> None:
    mine = tmp_path / "device"
    mine.touch()
    spec = SandboxSpec(argv=("/bin/true",), cwd=tmp_path, env={}, devices=[mine])
    with pytest.raises(InfrastructureError, match="belongs to the evaluator's user"):
        get_sandbox("bubblewrap").start(spec)


@pytest.mark.group("bwrap")
def test_evaluator_with_a_single_id_confines_all_the_same(single_id: None, tmp_path: Path) -> None:
    code = "import os; print(os.getuid(), open('/proc/self/status').read().count('0' * 16)); os.mkfifo('pipe')"
    argv = (sys.executable, "-I", "-S", "-c", code)
    sandbox = get_sandbox("bubblewrap")
    spec = SandboxSpec(argv=argv, cwd=tmp_path, env={}, writable=[tmp_path], stdout=tmp_path / "out")
    ending = sandbox.start(spec).wait(300)
    assert ending is not None
    assert (ending.exit_code, ending.collected) == (0, (1, 0, 0))
    identity, capabilities = (tmp_path / "out").read_text().split()
    assert identity == "1000"
    assert int(capabilities) >= 5
    said = [sentence for sentence in sandbox.missing() if "no other id" in sentence or "evaluator's user" in sentence]
    assert len(said) == 1


@pytest.mark.group("bwrap")
def test_folder_that_is_missing_is_the_hosts_fault(tmp_path: Path) -> None:
    spec = SandboxSpec(argv=("/bin/true",), cwd=tmp_path / "nowhere", env={})
    with pytest.raises(InfrastructureError, match="nowhere is not a folder"):
        get_sandbox("bubblewrap").start(spec)


def collected(*folders: Path) -> tuple[int, int, int]:
    left = Collection(os.getuid(), os.getgid())
    left.collect(map(str, folders))
    return left.removed, left.changed, left.failed


def test_collection_keeps_files_folders_and_links(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "file").write_text("text")
    (tmp_path / "folder" / "file").chmod(0o751)
    (tmp_path / "link").symlink_to("/etc/passwd")
    (tmp_path / "dangling").symlink_to("nothing")
    os.mkfifo(tmp_path / "pipe")
    with socket.socket(socket.AF_UNIX) as door:
        door.bind(f"/proc/self/fd/{os.open(tmp_path, os.O_PATH)}/door")
    assert collected(tmp_path) == (2, 0, 0)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["dangling", "folder", "link"]
    assert stat.S_IMODE((tmp_path / "folder" / "file").stat().st_mode) == 0o751
    assert os.readlink(tmp_path / "link") == "/etc/passwd"
    assert collected(tmp_path) == (0, 0, 0)


def test_collection_does_not_follow_links(tmp_path: Path) -> None:
    outside, inside = tmp_path / "outside", tmp_path / "inside"
    outside.mkdir()
    inside.mkdir()
    (outside / "tool").touch()
    (outside / "tool").chmod(0o4755)
    (outside / "closed").mkdir(mode=0)
    os.mkfifo(outside / "pipe")
    (inside / "folder").symlink_to(outside)
    (inside / "file").symlink_to(outside / "tool")
    (tmp_path / "top").symlink_to(outside)
    assert collected(inside, tmp_path / "top", tmp_path / "nothing") == (0, 0, 0)
    assert stat.S_IMODE((outside / "tool").stat().st_mode) == 0o4755
    assert stat.S_IMODE((outside / "closed").stat().st_mode) == 0
    assert (outside / "pipe").exists()


def test_collection_opens_what_keeps_its_owner_out(tmp_path: Path) -> None:
    for name in ("one", "one/two"):
        (tmp_path / name).mkdir()
    (tmp_path / "one" / "two" / "file").write_text("text")
    (tmp_path / "one" / "two" / "file").chmod(0o2000)
    (tmp_path / "one" / "two").chmod(0)
    (tmp_path / "one").chmod(0o1000)
    assert collected(tmp_path) == (0, 3, 0)
    assert (tmp_path / "one" / "two" / "file").read_text() == "text"


def test_collection_cuts_folders_that_are_too_deep(tmp_path: Path) -> None:
    here = os.open(tmp_path, os.O_RDONLY)
    for depth in range(3 * MOST_DEPTH):
        os.mkdir("pit", dir_fd=here)
        os.close(os.open("file", os.O_CREAT, 0o600, dir_fd=here))
        below = os.open("pit", os.O_RDONLY, dir_fd=here)
        os.fchmod(below, 0o300 if depth % 7 == 0 else 0o700)
        os.close(here)
        here = below
    os.close(here)
    removed, _, failed = collected(tmp_path)
    assert (removed, failed) == (1, 0)
    folders = sum(1 for _, names, _ in os.walk(tmp_path) for _ in names)
    assert folders == MOST_DEPTH
