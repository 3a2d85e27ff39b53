"""A packed file of a stranger: every trick is refused with an error, and a changed byte is found or harmless."""

from __future__ import annotations

import os
import shutil
import stat
import struct
import zlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from a2perf.cli import cli
from a2perf.errors import UserError
from a2perf.runs import signing
from a2perf.runs.bundles.bundle import write_manifest
from a2perf.runs.bundles.files import files_of
from a2perf.runs.bundles.inventory import read_manifest, record_files
from a2perf.runs.pack import pack
from a2perf.runs.packed import packed_format
from a2perf.runs.packed.packed_archive import unpack
from tests.attacks.forged_zip import FILE, MARKER, Forged, folder, marker, write
from tests.launch.test_signing import finished

RUN = [folder(b"r"), folder(b"r/inference"), Forged(b"r/inference/manifest.json", b"{}")]
ZEROS = b"\0" * (2 << 20)
LINK, DEVICE, FIFO, SOCKET = 0o120777, 0o060644, 0o010644, 0o140644


def _with(*members: Forged) -> Callable[[Path], Path]:
    return lambda path: write(path, [*RUN, *members])


def _zip64(path: Path) -> Path:
    write(path, RUN)
    data = path.read_bytes()
    locator = struct.pack("<4sLQL", b"PK\x06\x07", 0, len(data) - 22, 1)
    path.write_bytes(data[:-22] + locator + data[-22:])
    return path


def _hidden_zip64(path: Path) -> Path:
    """A 64-bit locator inside the last name of the directory, which some readers prefer to the record behind it."""
    return write(path, [*RUN, Forged(b"s" + struct.pack("<4sLQL", b"PK\x06\x07", 0, 64, 1))])


HOSTILE: dict[str, tuple[Callable[[Path], Path], str]] = {
    "`..` in a name": (_with(Forged(b"r/../x")), "`..`"),
    "`..` as a name": (_with(folder(b"..")), "`..`"),
    "an absolute name": (_with(Forged(b"/etc/x")), "absolute"),
    "a drive letter": (_with(Forged(b"C:/x")), "absolute"),
    "a backslash": (_with(Forged(b"r\\..\\x")), "backslash"),
    "an empty part": (_with(Forged(b"r//x")), "empty"),
    "a `.` part": (_with(Forged(b"r/./x")), "`.`"),
    "an empty name": (_with(Forged(b"")), "empty"),
    "a null byte": (_with(Forged(b"r/x\0.png")), "cannot be printed"),
    "a control sequence": (_with(Forged(b"r/\x1b[2J")), "cannot be printed"),
    "a name that turns the direction of text": (_with(Forged("r/\u202egnp.x".encode(), flags=0x800)), "cannot be"),
    "a name that is not UTF-8": (_with(Forged(b"r/\xff", flags=0x800)), "codec"),
    "a name in another encoding": (_with(Forged(b"r/\xe4")), "form"),
    "a very long name": (_with(Forged(b"r/" + b"a" * 300)), "longer"),
    "a deep tree": (_with(Forged(b"r" + b"/a" * 120)), "deeper"),
    "a name twice": (_with(Forged(b"r/x"), Forged(b"r/x")), "twice"),
    "a file and a folder of one name": (_with(Forged(b"r/x"), folder(b"r/x")), "twice"),
    "names that differ in case": (_with(Forged(b"r/X"), Forged(b"r/x")), "same name"),
    "names that differ in Unicode's form": (
        _with(Forged("r/e\u0301".encode(), flags=0x800), Forged("r/\xe9".encode(), flags=0x800)),
        "same name",
    ),
    "a name below a file": (_with(Forged(b"r/inference/manifest.json/x")), "not a member"),
    "a name below no folder": (_with(Forged(b"s/x")), "not a member"),
    "a file at the top": (_with(Forged(b"x")), "outside"),
    "a second marker": (_with(Forged(MARKER)), "twice"),
    "a link": (_with(Forged(b"r/x", b"/etc/passwd", mode=LINK)), "is a link"),
    "a folder that is a link": (_with(Forged(b"r/x/", mode=LINK)), "is a link"),
    "a device": (_with(Forged(b"r/x", mode=DEVICE)), "is a device"),
    "a fifo": (_with(Forged(b"r/x", mode=FIFO)), "is a fifo"),
    "a socket": (_with(Forged(b"r/x", mode=SOCKET)), "is a socket"),
    "a member of no kind": (_with(Forged(b"r/x", mode=0)), "no kind"),
    "a set-id bit": (_with(Forged(b"r/x", mode=FILE | 0o4111)), "set-id"),
    "a recorded link to outside": (lambda path: write(path, RUN, first=marker(links={"r/x": "../etc"})), "lead out"),
    "a recorded absolute link": (lambda path: write(path, RUN, first=marker(links={"r/x": "/etc"})), "lead out"),
    "a recorded link that turns back": (
        lambda path: write(path, RUN, first=marker(links={"r/inference/x": "a/../../.."})),
        "lead out",
    ),
    "a recorded link over a file": (
        lambda path: write(path, RUN, first=marker(links={"r/inference/manifest.json": "x"})),
        "twice",
    ),
    "a recorded link above a file": (
        lambda path: write(path, [folder(b"r"), Forged(b"r/x/y")], first=marker(links={"r/x": "."})),
        "not a member",
    ),
    "encryption": (_with(Forged(b"r/x", b"secret", flags=1)), "encrypted"),
    "strong encryption": (_with(Forged(b"r/x", b"secret", flags=0x41)), "encrypted"),
    "another compression": (_with(Forged(b"r/x", b"data", method=14)), "neither"),
    "a bomb": (_with(Forged(b"r/x", ZEROS, method=8)), "250 times"),
    "sizes that lie about a bomb": (_with(Forged(b"r/x", b"x", method=8, size=0xFFFF_FFF0)), "250 times"),
    "more content than is accepted": (
        _with(*(Forged(b"r/x%d" % index, b"x", method=8, size=1000) for index in range(3))),
        "more than",
    ),
    "more members than are accepted": (_with(*(Forged(b"r/x%d" % index) for index in range(10))), "more than"),
    "a stored member with two sizes": (_with(Forged(b"r/x", b"data", size=3)), "two different sizes"),
    "a folder with content": (_with(folder(b"r/x", data=b"data")), "content"),
    "overlapping members": (_with(Forged(b"r/x", b"data"), Forged(b"r/y", b"data", offset=200)), "overlaps"),
    "a member inside of another": (_with(Forged(b"r/x", b"data", offset=0)), "overlaps"),
    "one content of two members": (
        _with(Forged(b"r/x", b"data" * 99), Forged(b"r/y", b"data" * 99, offset=301)),
        "overlaps",
    ),
    "a size that swallows the next member": (
        _with(Forged(b"r/x", b"data", packed_size=60, size=60), Forged(b"r/y")),
        "overlaps",
    ),
    "a gap with something in it": (_with(Forged(b"r/x", b"data", before=b"payload")), "gap"),
    "something before the directory": (lambda path: write(path, RUN, between=b"payload"), "between"),
    "something before the archive": (lambda path: write(path, RUN, prepended=b"#!/bin/sh\n"), ""),
    "something after the archive": (lambda path: write(path, RUN, appended=b"payload"), "appended"),
    "an archive after the archive": (
        lambda path: write(path, RUN, appended=write(path.with_name("inner.zip"), RUN).read_bytes()),
        "end",
    ),
    "a comment of the archive": (lambda path: write(path, RUN, comment=b"PK\x05\x06" + b"\0" * 18), "end"),
    "a comment of a member": (_with(Forged(b"r/x", comment=b"note")), "form"),
    "an extra field": (
        _with(Forged(b"r/x", extra=struct.pack("<HHBL4s", 0x7075, 9, 1, zlib.crc32(b"r/x"), b"name"))),
        "form",
    ),
    "an extra field in the header alone": (_with(Forged(b"r/x", local={"extra": b"\x01\x00\x00\x00"})), "contradicts"),
    "another name in the header": (_with(Forged(b"r/x", b"data", local={"name": b"r/y"})), "contradicts"),
    "another size in the header": (_with(Forged(b"r/x", b"data", local={"size": 3})), "contradicts"),
    "another method in the header": (_with(Forged(b"r/x", b"data", local={"method": 8})), "contradicts"),
    "sizes behind the content": (_with(Forged(b"r/x", b"data", flags=8)), "form"),
    "a time": (_with(Forged(b"r/x", time=1)), "form"),
    "another system's attributes": (_with(Forged(b"r/x", system=0)), "form"),
    "members out of order": (_with(Forged(b"r/y"), Forged(b"r/x")), "order"),
    "fewer members than it says": (lambda path: write(path, RUN, here=9, count=9), "its end says 9"),
    "more members than it says": (lambda path: write(path, RUN, here=2, count=2), "its end says 2"),
    "several disks": (lambda path: write(path, RUN, disk=1, first_disk=1), "end"),
    "a directory that begins elsewhere": (lambda path: write(path, RUN, offset=10), "end"),
    "a directory of another length": (lambda path: write(path, RUN, length=10), "end"),
    "the 64-bit extension": (_zip64, "end"),
    "64-bit counts": (lambda path: write(path, RUN, here=0xFFFF, count=0xFFFF), "its end says 65535"),
    "a 64-bit size": (
        _with(Forged(b"r/x", b"data", method=8, packed_size=0xFFFF_FFFF, extra=struct.pack("<HHQ", 1, 8, 1 << 40))),
        "form",
    ),
    "a 64-bit locator in a name": (_hidden_zip64, "cannot be printed"),
    "a newer format": (lambda path: write(path, RUN, first=marker(b'{"format":2,"links":{}}\n')), "format"),
    "a marker that is no record": (lambda path: write(path, RUN, first=marker(b"[" * 5000)), "not what"),
    "a marker with more in it": (
        lambda path: write(path, RUN, first=marker(b'{"format":1,"links":{},"x":1}\n')),
        "form",
    ),
    "a marker that is no member": (lambda path: write(path, RUN[1:], first=marker()), "not a member"),
}
COMMANDS = (("validate",), ("score",), ("unpack",))


@pytest.fixture
def small_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packed_format, "MAX_MEMBERS", 8)
    monkeypatch.setattr(packed_format, "MAX_CONTENT_BYTES", 2500)


@pytest.mark.parametrize("trick", HOSTILE)
def test_a_hostile_archive_is_refused_with_a_sentence(
    trick: str, tmp_path: Path, request: pytest.FixtureRequest, noted
) -> None:
    forge, words = HOSTILE[trick]
    if trick.startswith("more ") and "accepted" in trick:
        request.getfixturevalue("small_limits")
    path = forge(tmp_path / "packed.zip")
    out = tmp_path / "out"
    for command in COMMANDS:
        found = CliRunner().invoke(cli, [*command, str(path), *(["-o", str(out)] if command != ("validate",) else [])])
        assert isinstance(found.exception, UserError), (command, found.output, found.exception)
        said = str(found.exception)
        assert words in said, said
        assert int(found.exception.exit_code) == 2
        assert all(line.isprintable() for line in said.splitlines())
        assert not out.exists() or not list(out.iterdir())
    noted(f"a packed file with {trick}", "refused")


def test_the_forge_itself_writes_what_is_accepted(tmp_path: Path) -> None:
    path = write(
        tmp_path / "packed.zip", [*RUN, Forged(b"r/x", b"data" * 9, method=8)], first=marker(links={"r/y": "x"})
    )
    assert unpack(path, tmp_path / "out") == [tmp_path / "out" / "r"]
    assert (tmp_path / "out" / "r" / "y").read_bytes() == b"data" * 9


def test_permissions_for_others_are_those_of_pack_whatever_the_archive_says(tmp_path: Path) -> None:
    members = [folder(b"r"), replace(folder(b"r/f"), mode=0o040754), Forged(b"r/x", b"data", mode=0o100640)]
    umask = os.umask(0o022)
    try:
        unpack(write(tmp_path / "packed.zip", members, first=marker()), tmp_path / "out")
    finally:
        os.umask(umask)
    modes = [stat.S_IMODE((tmp_path / "out" / "r" / name).stat().st_mode) for name in ("f", "x")]
    assert modes == [0o755, 0o644]


def test_a_bomb_is_never_inflated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A2PERF_CACHE_DIR", str(tmp_path / "cache"))
    coder = zlib.compressobj(9, zlib.DEFLATED, -15)
    bomb = coder.compress(b"\0" * (64 << 20)) + coder.flush()
    path = write(tmp_path / "bomb.zip", [folder(b"r"), Forged(b"r/x", b"tiny", method=8, stored=bomb)])
    with pytest.raises(UserError, match="damaged"):
        files_of(path / "r")
    assert not [file for file in (tmp_path / "cache").rglob("*") if file.is_file()]
    with pytest.raises(UserError, match="damaged"):
        unpack(path, tmp_path / "out")
    assert list((tmp_path / "out").iterdir()) == []


def test_a_fifo_or_link_in_the_place_of_a_packed_file_is_never_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "packed.zip")
    found = CliRunner().invoke(cli, ["score", str(tmp_path / "packed.zip")])
    assert isinstance(found.exception, UserError)
    with pytest.raises(UserError, match="not a regular file"):
        unpack(tmp_path / "packed.zip", tmp_path / "out")


# --- any single change -----------------------------------------------------------------------------------------------


def test_content_beyond_the_free_space_is_not_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "packed.zip", [*RUN, Forged(b"r/x", b"data" * 999)])
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: shutil._ntuple_diskusage(10_000, 8_000, 2_000))  # type: ignore[attr-defined]
    with pytest.raises(UserError, match="more than"):
        files_of(path)
    with pytest.raises(UserError, match="more than"):
        unpack(path, tmp_path / "out")
    assert not list((tmp_path / "out").iterdir())


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory, key: Path) -> Path:
    """A signed run with a link and an empty folder, packed."""
    root = tmp_path_factory.mktemp("signed") / "root"
    bundle = finished(root / "inference", "inference")
    for odd in bundle.glob("artifacts/na*"):
        odd.unlink()
    manifest = read_manifest(bundle)
    record_files(bundle, manifest)
    write_manifest(bundle, manifest)
    signing.sign(bundle, key)
    return pack([root])


def _problems(path: Path, key: Path) -> list[str]:
    try:
        bundles = signing.bundles_of([str(path)])
        return [
            problem
            for bundle in bundles
            for problem in signing.verify(bundle, signing.trusted_keys(key.parent)).problems
        ]
    except UserError as error:
        return [error.message]


CHANGES = ("flip", "cut", "insert", "remove", "repeat", "swap")


@settings(max_examples=400, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(change=st.sampled_from(CHANGES), at=st.integers(0, 2**20), length=st.integers(1, 64), bit=st.integers(0, 7))
def test_a_changed_byte_of_a_signed_packed_run_is_found_or_harmless(
    tmp_path_factory: pytest.TempPathFactory, packed: Path, key: Path, change: str, at: int, length: int, bit: int
) -> None:
    data = bytearray(packed.read_bytes())
    at %= len(data)
    piece = data[at : at + length]
    if change == "flip":
        data[at] ^= 1 << bit
    elif change == "cut":
        del data[at:]
    elif change == "insert":
        data[at:at] = bytes(length)
    elif change == "remove":
        del data[at : at + length]
    elif change == "repeat":
        data[at:at] = piece
    else:
        data[at : at + length] = piece[::-1]
    if data == packed.read_bytes():
        return
    top = tmp_path_factory.mktemp("m")
    path = top / packed.name
    path.write_bytes(data)
    try:
        problems = _problems(path, key)
        assert all(problem.isprintable() for problem in problems)
        if not problems:  # another way to deflate the same content: what is unpacked is what was signed
            original, changed = unpack(packed, top / "a"), unpack(path, top / "b")
            signed = {f"inference/{name}" for name in read_manifest(original[0] / "inference").inventory}
            assert _contents(original[0], signed) == _contents(changed[0], signed)
    finally:
        shutil.rmtree(top)


def test_the_unchanged_packed_run_is_verified(packed: Path, key: Path) -> None:
    assert _problems(packed, key) == []


def _contents(folder: Path, signed: set[str]) -> dict[str, object]:
    """Returns what each entry holds, with the permissions that the manifest lists."""
    return {
        (name := path.relative_to(folder).as_posix()): (
            os.readlink(path) if path.is_symlink() else path.read_bytes() if path.is_file() else None,
            path.lstat().st_mode if name in signed else None,
        )
        for path in sorted(folder.rglob("*"))
    }
