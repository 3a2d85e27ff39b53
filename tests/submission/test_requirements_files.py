"""Requirement files: what counts as their content, and which line is to blame."""

from __future__ import annotations

from pathlib import Path

import pytest

from a2perf.errors import SubmissionError
from a2perf.submission.python_env.requirements import read_requirements
from tests.submission import wheels


def test_comments_spacing_order_and_continuations_make_no_other_content(tmp_path: Path) -> None:
    first, second = tmp_path / "a.txt", tmp_path / "b.txt"
    first.write_text("# wanted\ntoy==1.0   # the toy\n\nother >= 2, \\\n  < 3\n")
    second.write_text("other >= 2, < 3\r\ntoy==1.0\r\n")
    assert read_requirements(first).normalised() == read_requirements(second).normalised()
    assert [line.place for line in read_requirements(first).lines] == ["a.txt:2", "a.txt:4"]
    second.write_text("other >= 2, < 3\ntoy==1.1\n")
    assert read_requirements(first).normalised() != read_requirements(second).normalised()


def test_named_files_are_part_of_the_content(tmp_path: Path) -> None:
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "base.txt").write_text("-r deeper.txt\n")
    (tmp_path / "more" / "deeper.txt").write_text("deep==1\n")
    (tmp_path / "limits.txt").write_text("toy<2\n")
    top = tmp_path / "requirements.txt"
    top.write_text("--requirement more/base.txt\n-c limits.txt\n--find-links wheels\ntoy\n")
    lines = read_requirements(top).lines
    assert [(line.text, line.constraint) for line in lines] == [
        ("deep==1", False), ("toy<2", True), (f"--find-links {tmp_path / 'wheels'}", False), ("toy", False),
    ]  # fmt: skip
    assert lines[0].place == "more/deeper.txt:1"


def test_a_local_wheel_counts_with_its_bytes(tmp_path: Path) -> None:
    wheel = wheels.write_wheel(tmp_path / "vendor", "toy", "1.0")
    file = tmp_path / "requirements.txt"
    file.write_text("./vendor/toy-1.0-py3-none-any.whl\n")
    before = read_requirements(file)
    assert before.lines[0].name == "toy"
    assert not before.lines[0].builds
    wheel.write_bytes(wheel.read_bytes() + b"x")
    assert read_requirements(file).normalised() != before.normalised()


def test_a2perf_itself_is_taken_out_and_its_extras_are_kept(tmp_path: Path) -> None:
    file = tmp_path / "requirements.txt"
    file.write_text("a2perf[circuit-training]>=0.5\ntoy\n")
    read = read_requirements(file)
    assert [line.text for line in read.lines] == ["toy"]
    assert read.own_extras == ("circuit-training",)
    assert read_requirements(tmp_path / "none.txt").lines == ()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("toy==1.0\n==nothing\n", "requirements.txt:2: '==nothing'"),
        ("-r missing.txt\n", "requirements.txt:1"),
        ("-r requirements.txt\n", "in a circle"),
        ("./nowhere.whl\n", "no such file"),
    ],
)
def test_a_line_that_is_wrong_is_named(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "requirements.txt").write_text(text)
    with pytest.raises(SubmissionError) as caught:
        read_requirements(tmp_path / "requirements.txt")
    assert words in str(caught.value)
