"""A submission's folder as a weapon: what it shows, hides, redirects, and how it looks to whoever reads it."""

from __future__ import annotations

import json
import os
import socket
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from a2perf.errors import ConfigError, SubmissionError
from a2perf.records import FailureKind
from a2perf.sandbox import LADDER, Limits
from a2perf.stranger_files import Kind, walk
from a2perf.submission.checking.trial import missing_files
from a2perf.submission.evaluator.process.failures import ParticipantFailure
from a2perf.submission.evaluator.process.participant_python import requirement_problems
from a2perf.submission.evaluator.submitted.folder_content import identify_submission
from a2perf.submission.settings import PythonEnv
from tests.commands import run_command
from tests.deep_folders import nest
from tests.made_submissions import TROT, gin, policy, write_submission
from tests.participants import make_participant

HIDES = ("bubblewrap", "docker")
LEVELS = [pytest.param(level, marks=pytest.mark.group("bwrap") if level == "bubblewrap" else ()) for level in LADDER]

PROBE = policy(
    top="import json",
    infer="""
    scope = {}
    try:
        exec(observation["code"], scope)
        return json.dumps(scope["result"])
    except Exception as error:
        return json.dumps(f"stopped: {type(error).__name__}")
    """,
)
EVERYTHING = """
import os
result = []
for top, folders, files in os.walk({folder!r}):
    for name in files:
        path = os.path.join(top, name)
        try:
            open(path, "rb").read(1)
            result.append(os.path.relpath(path, {folder!r}))
        except OSError:
            pass
"""
READ = "result = open({path!r}).read()"


@pytest.fixture
def entry(tmp_path: Path) -> Path:
    return write_submission(tmp_path / "entry", PROBE)


def answer(folder: Path, level: str, code: str, **options) -> object:
    """What a participant at a level gets out of a piece of code."""
    artifacts = folder.parent / "root" / "inference" / "artifacts"
    artifacts.mkdir(parents=True, exist_ok=True)
    options.setdefault("artifacts", artifacts)
    process = make_participant(folder, sandbox=level, logs=folder.parent / "logs", **options)
    with process:
        process.start()
        process.load_policy({})
        return json.loads(process.infer({"code": code}, 60).action)


@pytest.mark.parametrize("level", LEVELS)
def test_all_that_it_reads_from_its_folder_is_in_its_hash(
    level: str, entry: Path, tmp_path: Path, available: Callable[[str], None], noted
) -> None:
    available(level)
    root = entry / "runs" / "one"
    for name in ("venv/x.py", "node_modules/x.js", ".git/x", "a.egg-info/x", "__pycache__/x.pyc", "runs/code.py"):
        (entry / name).parent.mkdir(parents=True, exist_ok=True)
        (entry / name).write_text(name)
    (tmp_path / "outside.py").write_text("outside")
    (entry / "link.py").symlink_to(tmp_path / "outside.py")
    (entry / "way").symlink_to("runs")
    root.mkdir(parents=True)
    identity = identify_submission(entry, root=root)
    covered = {item.path for item in walk(entry, without={"runs"}) if item.kind is Kind.FILE}
    seen = set(answer(entry, level, EVERYTHING.format(folder=str(entry)), hidden=(entry / "runs",)))
    assert covered <= seen
    beyond = seen - covered
    if level in HIDES:
        assert beyond == set()
        assert (
            answer(entry, level, READ.format(path=f"{entry}/way/code.py"), hidden=(entry / "runs",)) != "runs/code.py"
        )
    else:
        assert beyond == {"runs/code.py", "link.py"}
        assert identity.not_covered == ["runs/", f"link.py -> {tmp_path / 'outside.py'}"]
    outcome = "stopped: not visible" if level in HIDES else "came through; the record names it"
    noted("code outside of the submission's hash", outcome, [level])


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("way", ["hidden by a link", "given by a link", "both by links", "a link to it", "into it"])
def test_hidden_file_given_through_a_link(
    level: str, way: str, entry: Path, tmp_path: Path, available: Callable[[str], None], noted
) -> None:
    available(level)
    data = tmp_path / "data"
    data.mkdir()
    (data / "secret").write_text("the seeds")
    for name, target in (("alias", data), ("second", data), ("file", data / "secret")):
        (tmp_path / name).symlink_to(target)
    hidden, given, path = {
        "hidden by a link": (tmp_path / "alias" / "secret", data, data / "secret"),
        "given by a link": (data / "secret", tmp_path / "alias", tmp_path / "alias" / "secret"),
        "both by links": (tmp_path / "second" / "secret", tmp_path / "alias", tmp_path / "alias" / "secret"),
        "a link to it": (data / "secret", tmp_path / "file", tmp_path / "file"),
        "into it": (data, tmp_path / "file", tmp_path / "file"),
    }[way]
    got = answer(entry, level, READ.format(path=str(path)), hidden=(hidden,), readable=(given,))
    assert (got == "the seeds") == (level not in HIDES)
    outcome = "stopped: not visible" if level in HIDES else "came through"
    noted("read a hidden file that was given through a link", outcome, [level])


@pytest.mark.parametrize("level", LEVELS)
def test_link_in_the_place_of_the_artifacts(
    level: str, entry: Path, tmp_path: Path, available: Callable[[str], None], noted
) -> None:
    available(level)
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "artifacts").symlink_to("elsewhere")
    with pytest.raises(ConfigError, match="is a link"):
        answer(entry, level, "open(os.environ['A2PERF_ARTIFACTS'] + '/x', 'w')", artifacts=tmp_path / "artifacts")
    assert list((tmp_path / "elsewhere").iterdir()) == []
    noted("put a link in the place of the artifacts", "stopped: ConfigError", [level])


SETTINGS = {"num_inference_episodes": 1, "time_participant_code": False, "record_frames": 0}


def launch(entry: Path, root: Path, *words: str, mode: str = "train", cwd: Path | None = None) -> tuple[int, str]:
    """Runs the evaluator with the organizer's configuration; returns its status and what it said."""
    organizers = entry.parent / "organizer.gin"
    organizers.write_text(gin(TROT, mode, kwargs={"mode": "train"}, **SETTINGS))
    command = [sys.executable, "-P", "-c", "from a2perf.cli import launch_main; launch_main()"]
    done = run_command(
        [*command, "--submission", entry, "--gin_config", organizers, "--root_dir", root, *words],
        cwd or entry.parent,
        errors="surrogateescape",
    )
    assert "Traceback" not in done.stdout + done.stderr
    return done.returncode, done.stdout + done.stderr


def spoil(folder: Path, odd: str) -> None:
    if odd == "a fifo":
        os.mkfifo(folder / "odd")
    elif odd == "a socket":
        here = os.getcwd()
        os.chdir(folder)
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind("odd")
        os.chdir(here)
    elif odd == "a sparse file of 1 TB":
        (folder / "odd").touch()
        os.truncate(folder / "odd", 2**40)
    elif odd == "300 nested folders":
        nest(folder, "odd" * 60, 300)


@pytest.mark.parametrize("odd", ["a fifo", "a socket", "a sparse file of 1 TB", "300 nested folders"])
def test_odd_folder_ends_its_own_run_with_a_message(odd: str, entry: Path, tmp_path: Path, noted) -> None:
    spoil(entry, odd)
    status, said = launch(entry, tmp_path / "root", "--sandbox", "process")
    assert status == 1, said
    assert "odd" in said
    noted(f"a submission with {odd}", "stopped: contract, names the file", ["process"])


@pytest.mark.parametrize("odd", ["name", "loop", "depth"])
def test_harmless_oddities_run(odd: str, entry: Path, tmp_path: Path) -> None:
    if odd == "name":
        (entry / os.fsdecode(b"x\xff\n\x1b[31m")).touch()
    elif odd == "loop":
        (entry / "loop").symlink_to("loop")
        (entry / "around").symlink_to(".")
    else:
        nest(entry, "d" * 200, 25)
    status, said = launch(entry, tmp_path / "root", "--sandbox", "process")
    assert status == 0, said


@pytest.mark.parametrize("name", ["train.py", "inference.py", "requirements.txt", "__init__.py"])
@pytest.mark.parametrize("odd", ["fifo", "device", "loop", "link out", "folder", "large"])
def test_check_names_odd_files_and_reads_none(name: str, odd: str, entry: Path, tmp_path: Path) -> None:
    file = entry / name
    file.unlink()
    if odd == "fifo":
        os.mkfifo(file)
    elif odd == "folder":
        file.mkdir()
    elif odd == "large":
        file.touch()
        os.truncate(file, 2**40)
    else:
        (tmp_path / "secret").write_text("the-secret = (")
        file.symlink_to({"device": "/dev/zero", "loop": name, "link out": tmp_path / "secret"}[odd])
    found = [str(item) for item in (*missing_files(entry), *requirement_problems(PythonEnv(), entry))]
    try:
        found += identify_submission(entry).not_covered
    except SubmissionError as error:
        found.append(str(error))
    assert name in str(found)
    assert "the-secret" not in str(found)
    assert all(item.replace("\n", "").isprintable() for item in found)


SOURCES = {
    "import": "import a" + ".a" * 400_000,
    "attributes": "a" + ".a" * 400_000,
    "brackets": "(" * 10**6,
    "elif": "if 1:0\n" + "elif 1:0\n" * 100_000,
    "signs": "-" * 10**6 + "1",
    "targets": "a=" * 400_000 + "1",
    "escapes": "x = '" + "\\d" * 1000 + "'",
    "punycode": "# coding: punycode\n" + "a-" * 400_000,
    "nul": "\0",
    "feeds": "\f" * 10**6,
}


@pytest.mark.parametrize("source", SOURCES.values(), ids=SOURCES)
def test_hostile_source_is_a_failure_of_its_process(source: str, entry: Path, tmp_path: Path, capfd) -> None:
    (entry / "train.py").write_text(source)
    bounds = Limits(memory_bytes=2**30, cpu_s=20)
    with make_participant(entry, mode="train", logs=tmp_path / "logs", limits=bounds) as participant:
        participant.start(time_limit_s=300)
        with pytest.raises(ParticipantFailure) as caught:
            participant.train({})
    assert caught.value.failure.kind is not FailureKind.INFRASTRUCTURE
    assert len(str(caught.value)) < 5000
    assert capfd.readouterr() == ("", "")


def test_link_of_the_submission_never_chooses_where_the_evaluator_writes(entry: Path, tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.mkdir()
    (entry / "out").symlink_to(target)
    status, said = launch(entry, entry / "out" / "one")
    assert status == 2
    assert "a link inside the submission" in said
    assert list(target.iterdir()) == []
    status, said = launch(entry, entry)
    assert status == 2
    assert "is the submission itself" in said


@pytest.mark.parametrize(
    "name", ["artifacts", "logs", "metrics", "journal.jsonl", "operative_config.gin", "manifest.json", ".lock"]
)
def test_link_in_a_bundle_stops_the_run_that_would_resume_it(name: str, entry: Path, tmp_path: Path) -> None:
    bundle, target = tmp_path / "root" / "train", tmp_path / "target"
    bundle.mkdir(parents=True)
    target.mkdir()
    (target / ".x.tmp").touch()
    (target / "file").write_text("{}")
    (bundle / name).symlink_to(target / "file" if "." in name else target)
    status, said = launch(entry, tmp_path / "root")
    assert status == 2, said
    assert f"{name} is a link" in said
    assert {path.name: path.read_text() for path in target.iterdir()} == {".x.tmp": "", "file": "{}"}


@pytest.mark.parametrize("place", ["train", "train/artifacts"])
def test_link_in_a_trained_bundle_shows_nothing_else(place: str, entry: Path, tmp_path: Path) -> None:
    root, secret = tmp_path / "root", tmp_path / "secret"
    (root / place).parent.mkdir(parents=True, exist_ok=True)
    (secret / "artifacts").mkdir(parents=True)
    (root / place).symlink_to(secret)
    status, said = launch(entry, root, mode="inference")
    assert status != 0
    assert "link" in said


@pytest.mark.parametrize(
    ("setting", "name"),
    [("evaluation_seeds_file", "seeds"), ("held_out_task", "task"), ("readable_paths", "data"), ("datasets_path", "d")],
)
def test_setting_that_goes_through_a_link_of_the_submission_is_refused(
    setting: str, name: str, entry: Path, tmp_path: Path
) -> None:
    (entry / name).symlink_to(tmp_path)
    given = str(entry / name)
    value = [given] if setting == "readable_paths" else given
    words = ("--gin_bindings", f"Submission.{setting} = {value!r}")
    status, said = launch(entry, tmp_path / "root", *words, mode="inference")
    assert status == 2, said
    assert "a link inside the submission" in said


def test_code_behind_links_is_refused_where_it_would_be_seen_and_not_hashed(entry: Path, tmp_path: Path, noted) -> None:
    (tmp_path / "helper.py").write_text("x = 1")
    (entry / "helper.py").symlink_to(tmp_path / "helper.py")
    status, said = launch(entry, tmp_path / "process", "--sandbox", "process")
    assert status == 1, said
    assert f"helper.py -> {tmp_path / 'helper.py'}" in said
    status, said = launch(entry, tmp_path / "none", "--sandbox", "none")
    assert status == 0, said
    manifest = json.loads((tmp_path / "none" / "train" / "manifest.json").read_text())
    assert manifest["submission"]["not_covered"] == [f"helper.py -> {tmp_path / 'helper.py'}"]
    assert any("does not cover" in warning for warning in manifest["warnings"])
    for level, outcome in (("none", "came through; the record names it"), ("process", "stopped: contract")):
        noted("code behind a link out of the submission", outcome, [level])


CHANGES_ITSELF = """
import os
def train():
    open(os.path.join(os.path.dirname(__file__), "later.py"), "w").write("x = 1")
"""


def test_submission_that_changes_while_it_runs_is_flagged(entry: Path, tmp_path: Path, noted) -> None:
    (entry / "train.py").write_text(CHANGES_ITSELF)
    status, said = launch(entry, tmp_path / "root", "--sandbox", "process")
    manifest = json.loads((tmp_path / "root" / "train" / "manifest.json").read_text())
    if (entry / "later.py").exists():
        assert status == 0, said
        assert manifest["submission"]["changed"] is True
        assert any("changed during the run" in warning for warning in manifest["warnings"])
        noted("change its own code during the run", "came through; flagged", ["process"])
    else:  # the level keeps it from writing
        assert manifest["submission"]["changed"] is False
        noted("change its own code during the run", "stopped", ["process"])


def test_modules_of_the_working_directory_never_run_in_the_evaluator(entry: Path, tmp_path: Path) -> None:
    canary = tmp_path / "canary"
    for name in ("click", "codecarbon", "filelock", "gin", "msgspec", "psutil", "sitecustomize", "usercustomize"):
        (entry / f"{name}.py").write_text(
            "import sys\nif 'a2perf.submission.participant.worker' not in sys.orig_argv:\n"
            f"    open({str(canary)!r}, 'a').write({name!r})\n"
        )
    status, said = launch(entry, tmp_path / "root", "--sandbox", "process", cwd=entry)
    assert not canary.exists(), canary.read_text()
    assert status == 0, said
