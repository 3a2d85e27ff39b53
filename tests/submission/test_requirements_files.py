"""Requirement files: what counts as their content, and which line is to blame."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from a2perf.errors import SubmissionError
from a2perf.submission.evaluator.python_env import requirements
from a2perf.submission.evaluator.python_env.requirements import Requirements, read_requirements
from tests.submission import wheels


def test_comments_spacing_order_and_continuations_make_no_other_content(tmp_path: Path) -> None:
    first, second = tmp_path / "a.txt", tmp_path / "b.txt"
    first.write_text("# wanted\ntoy==1.0   # the toy\n\nother >= 2, \\\n  < 3\n")
    second.write_text("other >= 2, < 3\r\ntoy==1.0\r\n")
    assert read_requirements(first).normalised() == read_requirements(second).normalised()
    assert [line.place for line in read_requirements(first).lines] == ["a.txt:2", "a.txt:4"]
    first.write_text("toy==1.0\nother >= 2, < 3\n")
    second.write_text("other >= 2, < 3\ntoy==1.1\n")
    assert read_requirements(first).normalised() != read_requirements(second).normalised()


def test_named_files_are_part_of_the_content(tmp_path: Path) -> None:
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "base.txt").write_text("-r deeper.txt\n")
    (tmp_path / "more" / "deeper.txt").write_text("deep==1\n")
    (tmp_path / "limits.txt").write_text("toy<2\n")
    top = tmp_path / "requirements.txt"
    top.write_text("--requirement more/base.txt\n-c limits.txt\n--pre\ntoy\n")
    lines = read_requirements(top).lines
    assert [(line.text, line.constraint) for line in lines] == [
        ("deep==1", False),
        ("toy<2", True),
        ("--pre", False),
        ("toy", False),
    ]
    assert lines[0].place == "more/deeper.txt:1"


def test_a_local_wheel_counts_with_its_bytes(tmp_path: Path) -> None:
    wheel = wheels.write_wheel(tmp_path / "vendor", "toy", "1.0")
    file = tmp_path / "requirements.txt"
    file.write_text("./vendor/toy-1.0-py3-none-any.whl\n")
    before = read_requirements(file)
    assert before.lines[0].name == "toy"
    wheel.write_bytes(wheel.read_bytes() + b"x")
    assert read_requirements(file).normalised() != before.normalised()


def test_a2perf_itself_is_taken_out_and_its_extras_are_kept(tmp_path: Path) -> None:
    file = tmp_path / "requirements.txt"
    file.write_text("a2perf[circuit-training]>=0.5\ntoy\n")
    read = read_requirements(file)
    assert [line.text for line in read.lines] == ["toy"]
    assert read.own_extras == ("circuit-training",)
    assert read_requirements(tmp_path / "none.txt").lines == ()


HASH = f"sha256:{'a' * 64}"


WRONG: dict[str, tuple[str, ...]] = {
    "requirements.txt:2: '==nothing'": ("toy==1.0\n==nothing\n",),
    "requirements.txt:1": ("-r missing.txt\n", "--index-\\\nurl https://example.org\n"),
    "in a circle": ("-r requirements.txt\n",),
    "does not exist": ("./nowhere-1.0-py3-none-any.whl\n",),
    "is not a wheel": ("./nowhere.whl\n", "./mine\n", "./toy-1.0.tar.gz\n", "./toy-1.0-py3-none-any.whl[extra]\n"),
    "requirements.txt:3: toy==${SECRET}: variables are not allowed": ("toy\n\ntoy==${SECRET}\n",),
    "variables are not allowed": ("toy==$HOME\n",),
    "an option that is not allowed": (
        "--index-url https://example.org/simple\n",
        "-ihttps://example.org/simple\n",
        "-f wheels\n",
        "-e ..\n",
        "-e ./mine\n",
        "-e git+https://example.org/toy.git#egg=toy\n",
        "--extra-index-url=https://example.org\n",
        "--find-links wheels\n",
        "--trusted-host example.org\n",
        "--no-binary :all:\n",
        "--cert x.pem\n",
        "--proxy http://example.org\n",
        "--no-index\n",
        "toy --index-url https://example.org\n",
        "toy --config-settings=a=b\n",
        f"toy --hash={HASH} --global-option=x\n",
    ),
    "contains a URL": (
        "toy @ git+https://example.org/toy.git\n",
        "toy@https://example.org/toy-1.0-py3-none-any.whl\n",
        "toy @ file:///etc/passwd\n",
        "git+ssh://git@example.org/toy\n",
        "file:toy-1.0-py3-none-any.whl\n",
        "https://example.org/toy-1.0-py3-none-any.whl\n",
        "file:///etc/toy-1.0-py3-none-any.whl\n",
    ),
    "is outside of the submission's folder": (
        "-r https://example.org/requirements.txt\n",
        "-r ../outside.txt\n",
        "-c/etc/passwd\n",
        "/proc\n",
        "-r a/../../outside.txt\n",
        "-r ~/secret\n",
        "../toy-1.0-py3-none-any.whl\n",
        "vendor/../../toy-1.0-py3-none-any.whl\n",
        "~/toy-1.0-py3-none-any.whl\n",
    ),
    "contains control characters": ("toy\x1b[31m\n", "toy\x00\n"),
    "longer than 2000 characters": (f"toy{'x' * 3000}\n",),
    "is not a requirement": (f"toy; {'(' * 1500}\n",),
    "more than 5000 requirements": ("toy\n" * 5001,),
}


@pytest.mark.parametrize(("text", "words"), [(text, words) for words, texts in WRONG.items() for text in texts])
def test_a_line_that_is_wrong_is_named(tmp_path: Path, text: str, words: str) -> None:
    folder = tmp_path / "entry"
    folder.mkdir()
    (tmp_path / "outside.txt").write_text("secret-canary==1.0\n")
    (folder / "requirements.txt").write_bytes(text.encode())
    with pytest.raises(SubmissionError) as caught:
        read_requirements(folder / "requirements.txt")
    assert words in str(caught.value)
    assert "canary" not in str(caught.value)
    assert all(char.isprintable() or char == "\n" for char in str(caught.value))


def test_links_and_special_files_are_not_read(tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    secret = tmp_path / "outside" / "secret.txt"
    secret.write_text("canary==1.0\n")
    for number, make in enumerate(
        [
            lambda file: file.symlink_to("/dev/zero"),
            lambda file: file.symlink_to(secret),
            lambda file: file.symlink_to("nowhere"),
            os.mkfifo,
            lambda file: file.mkdir(),
            lambda file: os.truncate(os.open(file, os.O_CREAT | os.O_RDWR), 1 << 40),
            lambda file: file.write_bytes(b"toy\xff\n"),
        ]
    ):
        folder = tmp_path / str(number)
        folder.mkdir()
        make(folder / "requirements.txt")
        with pytest.raises(SubmissionError, match=r"requirements\.txt"):
            read_requirements(folder / "requirements.txt")
    folder = tmp_path / "inner"
    folder.mkdir()
    (folder / "link").symlink_to(secret.parent)
    for line in ("-r link/secret.txt", "-r link/absent.txt", "./link/toy-1.0-py3-none-any.whl"):
        (folder / "requirements.txt").write_text(f"{line}\n")
        with pytest.raises(SubmissionError, match="is a link") as caught:
            read_requirements(folder / "requirements.txt")
        assert "canary" not in str(caught.value)


def test_wheels_are_bounded_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wheel = tmp_path / "toy-1.0-py3-none-any.whl"
    with wheel.open("wb") as stream:
        stream.truncate(requirements.MAX_LOCAL_BYTES + 1)
    (tmp_path / "requirements.txt").write_text(f"./{wheel.name}\n")
    with pytest.raises(SubmissionError, match="exceeds the limit"):
        read_requirements(tmp_path / "requirements.txt")
    os.truncate(wheel, 1000)
    (tmp_path / "requirements.txt").write_text(f"./{wheel.name}\n" * 3)
    monkeypatch.setattr(requirements, "MAX_LOCAL_BYTES", 2500)
    with pytest.raises(SubmissionError, match="exceeds the limit"):
        read_requirements(tmp_path / "requirements.txt")


def test_hashes_stay_with_their_requirement(tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text(f"toy==1.0 \\\n    --hash={HASH} \\\n    --hash={HASH}\n")
    (line,) = read_requirements(tmp_path / "requirements.txt").lines
    assert line.text == f"toy==1.0 --hash={HASH} --hash={HASH}"
    assert line.name == "toy"


WORDS = st.sampled_from(
    [
        "-r ",
        "-c",
        "-e ",
        "./",
        "../",
        "/",
        "~",
        "requirements.txt",
        "toy",
        "==1.0",
        ";",
        "(",
        "[x]",
        " @ ",
        "file:",
        "${A}",
        "--hash=sha256:",
        "\\\n",
        "\n",
        "#",
        "link",
        ".whl",
        "toy-1.0-py3-none-any.whl",
        "\x1b",
        "\u2028",
        "a2perf[",
        "]",
        "--",
    ]
)


@settings(max_examples=300, deadline=None)
@given(st.one_of(st.binary(max_size=200), st.lists(WORDS, max_size=30).map(lambda words: "".join(words).encode())))
def test_no_file_whatsoever_reads_outside_or_crashes(data: bytes) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "entry"
        folder.mkdir()
        (Path(scratch) / "toy").write_text("canary==1\n")
        (folder / "link").symlink_to("../toy")
        (folder / "requirements.txt").write_bytes(data)
        read, message = Requirements(), ""
        try:
            read = read_requirements(folder / "requirements.txt")
        except SubmissionError as error:
            message = str(error)
        read.unsatisfied_here()
        assert "canary" not in message + "".join(read.normalised())
        assert all(line.text.isprintable() and "$" not in line.text for line in read.lines)
