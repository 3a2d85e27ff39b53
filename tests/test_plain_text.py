"""Text of strangers is safe in every format that it is shown in, whatever it holds."""

from __future__ import annotations

import csv
import io
import json
import re
import sys
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from a2perf.plain_text import (
    csv_cell,
    html_text,
    markdown_block,
    markdown_text,
    safe_link,
    terminal_line,
    terminal_text,
)
from a2perf.terminal import GuardedStream, console, guarded

ANY = st.text(alphabet=st.characters(), max_size=60)  # surrogates included


def controls(text: str, *, but: str = "") -> list[str]:
    """Characters that a terminal obeys, or that nobody sees."""
    return [sign for sign in text if unicodedata.category(sign) in ("Cc", "Cf", "Cs", "Zl", "Zp") and sign not in but]


@given(ANY)
def test_nothing_on_a_terminal_controls_it(text: str) -> None:
    assert not controls(terminal_line(text))
    assert not controls(terminal_text(text), but="\n\t")
    assert terminal_line(terminal_line(text)) == terminal_line(text)
    assert terminal_text(terminal_text(text)) == terminal_text(text)
    terminal_line(text).encode()


@given(st.recursive(ANY | st.integers() | st.none(), lambda inner: st.lists(inner) | st.dictionaries(ANY, inner)))
def test_json_keeps_its_values_on_a_terminal(value: object) -> None:
    document = json.dumps(value, indent=2, ensure_ascii=False)
    assert json.loads(terminal_text(document)) == json.loads(json.dumps(value))


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\x1b]0;title\x07\x9bb", r"a\x1b]0;title\x07\u009bb"),
        ("a\r\nb\tc", r"a\r\nb\tc"),
        ("\u202etxt.exe\u2066\u200b\ufeff\u2028", r"\u202etxt.exe\u2066\u200b\ufeff\u2028"),
        ("\u3164\ufe0f\udc80", r"\u3164\ufe0f\udc80"),
        ("1\u202f000 µm \u00a0≥ 3 ✅", "1\u202f000 µm \u00a0≥ 3 ✅"),
    ],
)
def test_what_is_escaped_and_what_stays(text: str, shown: str) -> None:
    assert terminal_line(text) == shown


def test_a_name_without_end_is_cut() -> None:
    assert len(terminal_line("x" * 10**7)) < 3000


@given(ANY)
def test_no_cell_of_a_csv_file_begins_a_formula(text: str) -> None:
    cell = csv_cell(text)
    assert csv_cell(cell) == cell
    stream = io.StringIO()
    csv.writer(stream).writerow([cell])
    assert not controls(stream.getvalue(), but="\r\n")
    if cell[:1] in tuple("=+-@") and len(cell) > 1:
        float(cell)


@pytest.mark.parametrize(
    "text", ["=1+1", "+cmd|' /C calc'!A0", "-2+3", "@SUM(A1)", "\t=1", " =1", "＝1+1", "\r=1", '"=1"']
)
def test_formulas_get_an_apostrophe(text: str) -> None:
    assert csv_cell(text).startswith("'")


@pytest.mark.parametrize("value", ["-5.0", "+1e-3", "-inf", "nan", "-", "a=b", 3, -2.5, None])
def test_numbers_and_plain_words_stay_as_they_are(value: object) -> None:
    assert csv_cell(value) == value


@given(ANY)
def test_markdown_holds_neither_tags_nor_links_nor_code(text: str) -> None:
    shown = markdown_text(text).replace("<!-- -->", "")
    assert "<" not in shown
    assert ">" not in shown
    assert not controls(shown)
    outside = re.sub("(?<=[A-Za-z0-9])_(?=[A-Za-z0-9])", "", shown)  # inside a word it is never emphasis
    for sign in "`|[]*_$~":
        assert outside.count(sign) == outside.count(f"\\{sign}")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("# heading", r"\# heading"),
        ("- item", r"\- item"),
        ("--- x", r"\--- x"),
        ("1. item", r"1\. item"),
        ("-3.5 W", "-3.5 W"),
        ("@owner fixes #12", "@<!-- -->owner fixes #<!-- -->12"),
        ("https://evil.example", "https&#58;//evil.example"),
        ("[a](javascript:x)", r"\[a\](javascript:x)"),
    ],
)
def test_markdown_and_github_take_words_as_words(text: str, shown: str) -> None:
    assert markdown_text(text) == shown


def test_no_run_of_backticks_ends_a_block() -> None:
    block = markdown_block("a\n````\n<b>\x1b[2J").split("\n")
    assert block[0] == "`````text"
    assert block[-1] == "`````"
    assert block[2:4] == ["````", r"<b>\x1b[2J"]


@pytest.mark.parametrize(
    "target",
    [
        "javascript:alert(1)",
        " JaVaScript:x",
        "java\tscript:x",
        "\x01javascript:x",
        "data:text/html,x",
        "vbscript:x",
        "file:///etc/passwd",
        "//evil.example",
        "/\\evil.example",
        "\\\\evil",
        "&#106;avascript:x",
        "x:y",
    ],
)
def test_links_lead_to_pages_alone(target: str) -> None:
    assert safe_link(target) == "#"


@pytest.mark.parametrize(
    "target", ["#a:b", "submissions/a%20b/index.html#x", "../x", "https://example.org/a?b=c", "a%20b.html", "?q=a:b"]
)
def test_links_within_a_site_and_to_the_web_stay(target: str) -> None:
    assert safe_link(target) == target


def test_templates_get_text_without_control_characters() -> None:
    assert html_text("a\x1b[31m\nb") == "a\\x1b[31m\nb"
    assert html_text(3.5) == 3.5


def test_the_guard_escapes_what_anybody_prints(capsys: pytest.CaptureFixture[str]) -> None:
    with guarded():
        print("\x1b]0;x\x07", file=sys.stderr)
        print("a\u202eb\ud800")
        with guarded():
            assert not isinstance(sys.stdout.below, GuardedStream)
        console().print("[/b] \x1b[31mred", style="bold")
    out, err = capsys.readouterr()
    assert out == "a\\u202eb\\ud800\n[/b] \\x1b[31mred\n"
    assert err == "\\x1b]0;x\\x07\n"
    assert not isinstance(sys.stdout, GuardedStream)
