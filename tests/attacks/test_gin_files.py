"""A participant's gin file takes over nothing: not the evaluator, not the sandbox, not the accounting."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from a2perf.domains.registry import domains, gin_folders
from a2perf.errors import ConfigError, UserError
from a2perf.sandbox import strongest_level
from a2perf.submission import configuration, main_submission, participant_gin
from a2perf.submission.gin_origin import locate
from a2perf.submission.participant_settings import ALLOWED, permitted
from a2perf.submission.run_options import RunOptions
from tests.attacks.gin_lines import CODE, HEAD, LINE, SETTINGS
from tests.commands import run_command
from tests.made_submissions import TROT

PROCESS = RunOptions.of(sandbox="process")


@pytest.fixture
def entry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A submission that plants a canary wherever its code runs outside of the participant process."""
    folder = tmp_path / "entry"
    planted = f"open({str(tmp_path / 'canary')!r}, 'a').write(__name__)\ndef wrap(env): pass\n"
    (tmp_path / "outside").mkdir()
    shutil.copytree(Path(__file__).parents[2] / "examples" / "minimal", folder)
    for place in (folder, tmp_path / "outside"):
        (place / "planted.py").write_text(planted)
        (place / "planted.gin").write_text("Submission.sandbox = 'none'\n")
    (folder / "python3").write_text(f"#!/bin/sh\ntouch {tmp_path / 'canary'}\nexit 1\n")
    (folder / "python3").chmod(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(folder))  # as hostile as can be: what is imported is found
    yield folder
    configuration.clear()
    assert not (tmp_path / "canary").exists(), "code of the submission ran in the evaluator"


def run(*words: object, cwd: Path) -> subprocess.CompletedProcess[str]:
    return run_command([sys.executable, "-P", "-m", "a2perf", *map(str, words)], cwd)


@pytest.mark.parametrize("what", [*CODE, *SETTINGS])
def test_a_gin_file_of_the_submission_is_refused_by_file_and_line(
    what: str, entry: Path, tmp_path: Path, noted
) -> None:
    text = {**CODE, **SETTINGS}[what].format(canary=tmp_path / "canary", outside=tmp_path / "outside")
    (entry / "inference.gin").write_bytes((HEAD + text + "\n").encode())
    with pytest.raises(ConfigError) as caught:
        main_submission.run(
            gin_config="inference.gin", submission="entry", root_dir=str(tmp_path / "root"), options=PROCESS
        )
    assert caught.value.exit_code == 2
    message = caught.value.message
    assert message.startswith("inference.gin, line "), message
    number = int(message.removeprefix("inference.gin, line ").partition(":")[0])
    assert LINE <= number <= LINE + 2
    assert message.isprintable()
    assert len(message) < 400
    assert caught.value.hint
    assert not (tmp_path / "root" / "inference").exists()
    kind = "code" if what in CODE else "settings of the organizer"
    noted(f"the submission's gin file: {kind}", "refused, exit 2")


def test_a_refused_name_says_what_is_allowed_and_how_to_go_on(entry: Path) -> None:
    (entry / "inference.gin").write_text(HEAD + "Submission.sandbox = 'none'\n")
    with pytest.raises(ConfigError, match=rf"^inference.gin, line {LINE}: .*may not set Submission.sandbox") as caught:
        configuration.load(locate("inference.gin", submission=entry, domain=None), [])
    for words in ("--trust-submission-config", "outside of the submission", "--gin-bindings"):
        assert words in str(caught.value.hint)


@pytest.mark.parametrize(
    ("what", "make"),
    [
        ("a fifo", os.mkfifo),
        ("a huge file", lambda path: path.write_text("# " + "x" * 70000)),
        ("a sparse file of 8 TiB", lambda path: (path.touch(), os.truncate(path, 2**43))),
        ("a file that is not UTF-8", lambda path: path.write_bytes(HEAD.encode() + b"# \xff\n")),
        ("a link outside", lambda path: path.symlink_to("../outside/planted.gin")),
        ("a link within", lambda path: path.symlink_to("planted.gin")),
        ("a link to itself", lambda path: path.symlink_to(path.name)),
        ("a link to a device", lambda path: path.symlink_to("/dev/zero")),
        ("a link to a secret", lambda path: path.symlink_to("/etc/passwd")),
        ("many bindings", lambda path: path.write_text("Submission.plot_metrics = True\n" * 1000)),
    ],
)
def test_an_odd_file_is_refused_without_waiting(
    what: str, make: Callable[[Path], object], entry: Path, tmp_path: Path, noted
) -> None:
    make(entry / "inference.gin")
    with pytest.raises(UserError) as caught:
        main_submission.run(
            gin_config="inference.gin", submission="entry", root_dir=str(tmp_path / "root"), options=PROCESS
        )
    assert caught.value.exit_code == 2
    assert "inference.gin" in caught.value.message
    assert "root:" not in str(caught.value)
    if what in ("a fifo", "a link to a secret"):
        checked = run("check", "entry", "--steps", 1, "--train-limit", 5, "--env-id", TROT, cwd=tmp_path)
        assert checked.returncode == 1
        assert "inference.gin" in checked.stdout
        assert "root:" not in checked.stdout
    noted("the submission's gin file: fifo, link, huge, sparse, not UTF-8", "refused, exit 2")


@pytest.mark.parametrize(
    "typed",
    [
        "inference.gin",
        "./inference.gin",
        "entry/inference.gin",
        "./entry/../entry/inference.gin",
        "link_to_entry/inference.gin",
        "link_to_file.gin",
        "{entry}/inference.gin",
        "link_to_entry/../entry/inference.gin",
        "outside/../entry/./inference.gin",
        "chain/inference.gin",
    ],
)
@pytest.mark.parametrize("submission", ["entry", "link_to_entry", "{entry}", "entry/../entry"])
def test_the_file_is_the_participants_however_it_is_written(
    typed: str, submission: str, entry: Path, tmp_path: Path
) -> None:
    (entry / "inference.gin").write_text(HEAD)
    (tmp_path / "link_to_entry").symlink_to("entry")
    (tmp_path / "chain").symlink_to(tmp_path / "link_to_entry")
    (tmp_path / "link_to_file.gin").symlink_to(entry / "inference.gin")
    folder = Path(submission.format(entry=entry))
    found = locate(typed.format(entry=entry), submission=folder, domain=None)
    assert (found.origin, found.name) == ("participant", "inference.gin")


def test_a_folder_of_the_submission_that_is_a_link_leads_nowhere(entry: Path, tmp_path: Path) -> None:
    (tmp_path / "outside" / "inference.gin").write_text(HEAD + "Submission.sandbox = 'none'\n")
    (entry / "configs").symlink_to(tmp_path / "outside")
    for typed in ("configs/inference.gin", "entry/configs/inference.gin", "entry/configs/../outside/inference.gin"):
        with pytest.raises(ConfigError, match=r"entry/configs, a link inside the submission"):
            locate(typed, submission=entry, domain=None)


def test_files_outside_are_the_organizers_and_win_wholly(entry: Path, tmp_path: Path, noted) -> None:
    (entry / "inference.gin").write_text("Submission.sandbox = 'none'\n")
    (tmp_path / "inference.gin").write_text(HEAD + "Submission.call_timeout_s = 20.0\n")
    for typed in ("inference.gin", "entry/../inference.gin"):
        found = locate(typed, submission=entry, domain=None)
        assert found.origin == "organizer"
        configuration.load(found, [])
        assert configuration.parameter("Submission.sandbox") is None
        assert configuration.parameter("Submission.call_timeout_s") == 20.0
    packaged = locate("dog_pace/inference.gin", submission=entry, domain="quadruped_locomotion")
    assert packaged.origin == "packaged"
    noted("the submission's gin file beside the organizer's", "not read")


def test_the_organizers_file_includes_nothing_of_the_submission(
    entry: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, noted
) -> None:
    """gin looks for included files in the working directory, which may be the submission's folder."""
    organizers = tmp_path / "outside" / "inference.gin"
    organizers.write_text(HEAD + "include 'planted.gin'\n")
    monkeypatch.chdir(entry)
    with pytest.raises(ConfigError, match=r"includes planted.gin, which is inside the submission"):
        configuration.load(locate(str(organizers), submission=Path(), domain=None), [])
    monkeypatch.chdir(tmp_path / "outside")
    configuration.load(locate(str(organizers), submission=entry, domain=None), [])  # its own planted.gin
    assert configuration.parameter("Submission.sandbox") == "none"
    noted("the organizer's gin file includes one of the submission", "refused, exit 2")


def test_the_organizers_bindings_override_the_file(entry: Path) -> None:
    (entry / "inference.gin").write_text(
        HEAD.replace("INFERENCE", "TRAIN", 1) + "Submission.train_time_limit_s = 3600\n"
    )
    found = locate("inference.gin", submission=entry, domain=None)
    configuration.load(found, ["Submission.train_time_limit_s = 60", "Submission.sandbox = 'process'"])
    assert configuration.parameter("Submission.train_time_limit_s") == 60
    assert configuration.parameter("Submission.sandbox") == "process"
    assert configuration.parameter("create_domain.mode") == "train"


def test_a_task_of_the_organizer_is_not_bent_by_the_file(entry: Path) -> None:
    (entry / "inference.gin").write_text(
        "Submission.mode = 'inference'\nSubmission.domain = 'circuit_training'\n"
        "create_domain.env_name = 'CircuitTraining-Generated-v0'\ncreate_domain.num_macros = 20\n"
        "create_domain.utilization = 0.55\ncreate_domain.is_eval = False\n"
    )
    found = locate("inference.gin", submission=entry, domain=None)
    configuration.load(found, [])
    assert configuration.bound_parameters("create_domain")["num_macros"] == 20
    task = ["create_domain.env_name = 'CircuitTraining-Generated-v0'", "create_domain.num_macros = 40"]
    configuration.load(found, task)
    bound = configuration.bound_parameters("create_domain")
    assert bound == {"env_name": "CircuitTraining-Generated-v0", "num_macros": 40, "is_eval": False}


@pytest.mark.parametrize("line", ["create_domain.num_macros = 100000", "create_domain.utilization = 0.6"])
def test_arguments_of_an_environment_are_those_of_one_registered_task(line: str, entry: Path) -> None:
    (entry / "inference.gin").write_text(
        f"create_domain.env_name = 'CircuitTraining-Generated-v0'\ncreate_domain.num_macros = 20\n{line}\n"
    )
    with pytest.raises(ConfigError, match=r"line 3: .*may not set create_domain") as caught:
        configuration.load(locate("inference.gin", submission=entry, domain=None), [])
    assert "create_domain.num_macros = 40" in str(caught.value.hint) or "num_macros = 40" in str(caught.value.hint)


@pytest.mark.parametrize(
    "path",
    sorted(path for name in domains() for folder in gin_folders(name) for path in folder.rglob("*.gin")),
    ids=lambda path: path.parent.name,
)
def test_a_copy_of_a_packaged_file_may_lie_in_a_submission(path: Path, entry: Path) -> None:
    """It means the same, bit for bit: both have one digest."""
    shutil.copy(path, entry / "copy.gin")
    configuration.load(locate("copy.gin", submission=entry, domain=None), [])
    of_the_copy, record = configuration.text(), configuration.record()
    assert record is not None
    assert (record.origin, record.trusted) == ("participant", False)
    configuration.parse([path], [])
    assert of_the_copy == configuration.text()


def test_trust_is_explicit_and_recorded(entry: Path) -> None:
    (entry / "inference.gin").write_text(HEAD + "Submission.call_timeout_s = 20.0\n")
    found = locate("inference.gin", submission=entry, domain=None, trusted=True)
    configuration.load(found, [], trusted=True)
    assert configuration.parameter("Submission.call_timeout_s") == 20.0
    record = configuration.record()
    assert record is not None
    assert (record.file, record.origin, record.trusted) == ("inference.gin", "participant", True)


@pytest.mark.group("bwrap")
def test_a_run_with_an_allowed_file_is_confined_and_says_so(entry: Path, tmp_path: Path, noted) -> None:
    import hashlib

    content = (HEAD + "Submission.participant_args = {}\n").encode()
    (entry / "inference.gin").write_bytes(content)
    # What the working directory offers: modules by the names of the evaluator's, and settings of its libraries.
    for name in ("click", "gin", "json", "numba", "multiprocessing"):
        (entry / f"{name}.py").write_text(f"open({str(tmp_path / 'canary')!r}, 'a').write(__name__)\n")
    (entry / ".numba_config.yaml").write_text(f"CACHE_DIR: {entry}\n")
    root = tmp_path / "root"
    launched = [sys.executable, "-P", "-c", "from a2perf.cli import launch_main; launch_main()"]
    given = ["--submission", ".", "--gin_config", "inference.gin", "--root_dir", str(root), "--json"]
    ended = run_command([*launched, *given], entry)
    assert ended.returncode in (0, 1), ended.stdout + ended.stderr  # its own modules may stand in its own way
    manifest = json.loads((root / "inference" / "manifest.json").read_text())
    assert manifest["configuration"] == {
        "file": "inference.gin",
        "origin": "participant",
        "trusted": False,
        "sha256": hashlib.sha256(content).hexdigest(),
    }
    assert manifest["sandbox"]["level"] == strongest_level()
    noted("modules and settings in the working directory of the evaluator", "not imported")


@pytest.mark.group("bwrap")
def test_check_reads_the_file_as_data_in_the_sandbox_of_a_run(entry: Path, tmp_path: Path, noted) -> None:
    (entry / "inference.gin").write_text(
        HEAD + f"import planted\nplanted.wrap.env = 1\nSubmission.sandbox = 'none'\n# {tmp_path}\n"
    )
    checked = run("check", "entry", "--steps", 1, "--train-limit", 5, "--json", cwd=tmp_path)
    assert checked.returncode == 1, checked.stdout + checked.stderr
    said = json.loads(checked.stdout)
    assert said["sandbox"] == strongest_level()
    assert [finding["where"] for finding in said["findings"]] == ["planted.gin", "inference.gin"]
    assert f"line {LINE}: " in said["findings"][1]["message"]
    noted("a2perf check of a hostile gin file", "a finding, nothing runs")


@pytest.mark.group("bwrap")
def test_check_confines_the_submission_as_a_run_does(entry: Path, tmp_path: Path, noted) -> None:
    (entry / "inference.gin").write_text(HEAD)
    (entry / "train.py").write_text(f"def train():\n    open({str(tmp_path / 'canary')!r}, 'w').write('x')\n")
    (entry / "planted.gin").unlink()
    checked = run("check", "entry", "--steps", 1, "--train-limit", 5, "--json", cwd=tmp_path)
    assert not (tmp_path / "canary").exists()  # a /tmp of its own may have taken it
    assert json.loads(checked.stdout)["sandbox"] == strongest_level()
    refused = run("check", "entry", "--sandbox", "nowhere", cwd=tmp_path)
    assert refused.returncode == 2
    assert "Traceback" not in refused.stderr
    noted("a2perf check: write outside", "refused", [strongest_level()])


def test_one_submissions_file_does_not_configure_another(entry: Path, tmp_path: Path) -> None:
    (entry / "inference.gin").write_text(HEAD)
    shutil.copytree(entry, tmp_path / "other")
    checked = run("run", "--submission", "entry", "other", "--gin-config", "entry/inference.gin", cwd=tmp_path)
    assert checked.returncode == 2
    assert "is part of the submission entry, and would configure other too" in checked.stderr


@given(
    st.one_of(
        st.binary(max_size=400),
        st.text(max_size=300).map(lambda text: text.encode("utf-8", "surrogatepass")),
        st.lists(
            st.sampled_from(
                [
                    *ALLOWED,
                    "create_domain.num_websites",
                    "Submission.sandbox",
                    "import",
                    "include",
                    "from",
                    " ",
                    "=",
                    "\n",
                    "%",
                    "@",
                    "/",
                    ".",
                    ",",
                    ":",
                    "(",
                    ")",
                    "[",
                    "]",
                    "{",
                    "}",
                    "'",
                    '"',
                    "\\",
                    "#",
                    ";",
                    "-",
                    "1",
                    "1e9",
                    "True",
                    "None",
                    "%BenchmarkMode.TRAIN",
                    "'x'",
                    "f'{x}'",
                    "b'x'",
                    "\t",
                    "\r",
                    "a/b",
                    "lambda",
                    "__import__('os')",
                ]
            ),
            max_size=40,
        ).map(lambda parts: "".join(parts).encode()),
    )
)
@example(b"Submission.mode = %BenchmarkMode.TRAIN\nSubmission.participant_args = {'a': 'b'}\n")
@example(b"[" * 60000)
@example(b"'" * 60001)
@example(b"x.y = " + b"\\\n" * 20000 + b"1")
@settings(max_examples=3000, deadline=None)
def test_any_bytes_are_bindings_or_an_error_with_the_line(content: bytes) -> None:
    """And what is permitted means the same once gin reads its notation."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            values = permitted(participant_gin.parse(content, "fuzzed.gin"), "fuzzed.gin")
        except ConfigError as error:
            refusal: str | None = error.message
            values = {}
        else:
            refusal = None
    assert refusal is None or (refusal.startswith("fuzzed.gin") and refusal.isprintable())
    for name in values:
        assert name in ALLOWED or name.startswith("create_domain.")
    again = "\n".join(f"{name} = {participant_gin.to_gin(value)}" for name, value in values.items())
    assert {item.name: item.value for item in participant_gin.parse(again.encode(), "again.gin")} == values


_TEXT = st.text(st.one_of(st.sampled_from("%@'\"\\ #=(){}[],/ab"), st.characters()), max_size=200).filter(
    str.isprintable
)


@given(st.dictionaries(st.from_regex("[a-z]{1,5}", fullmatch=True), _TEXT, max_size=4))
@settings(max_examples=300, deadline=None)
def test_strings_stay_strings_in_the_configuration_of_a_run(tmp_path_factory: pytest.TempPathFactory, args) -> None:
    """The bundle holds the participant's strings, and the processes of a generalization let gin parse them."""
    folder = tmp_path_factory.getbasetemp()
    (folder / "strings.gin").write_text(f"Submission.participant_args = {participant_gin.to_gin(args)}\n")
    configuration.load(locate(str(folder / "strings.gin"), submission=folder, domain=None), [])
    configuration.restore(configuration.text())
    assert configuration.parameter("Submission.participant_args") == args
    configuration.clear()
