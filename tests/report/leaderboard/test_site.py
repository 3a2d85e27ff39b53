"""The files of a site: same bytes, links that resolve, words of strangers that stay words."""

from __future__ import annotations

import csv
import json
import re
import shutil
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import pytest

from a2perf.errors import UserError
from a2perf.plain_text import csv_cell
from a2perf.report.leaderboard import WrittenLeaderboard, write_leaderboard
from a2perf.report.names import plain, slug
from tests.commands import call_a2perf
from tests.report.leaderboard.conftest import HOSTILE
from tests.report.leaderboard.made_entries import Field, references


class _Links(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.links: list[str] = []
        self.ids: set[str] = set()
        self.scripts = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        self.ids |= {found["id"] or ""} if "id" in found else set()
        self.scripts += tag == "script"
        if tag == "a":
            self.links.append(found.get("href") or found.get("xlink:href") or "")


def _parsed(page: Path) -> _Links:
    parser = _Links()
    parser.feed(page.read_text())
    return parser


def test_every_link_leads_to_a_file_of_the_site_and_every_anchor_exists(built: WrittenLeaderboard) -> None:
    site = built.page.parent
    pages = [built.page, *site.glob("tasks/*.html"), *site.glob("submissions/*/index.html")]
    assert len(pages) == 8
    followed = 0
    for page in pages:
        for link in _parsed(page).links:
            assert not re.match(r"[a-z]+:|//", link), link
            name, _, anchor = link.partition("#")
            target = (page.parent / unquote(name)).resolve() if name else page
            assert target.is_file(), link
            assert target.is_relative_to(site.resolve())
            if anchor:
                assert anchor in _parsed(target).ids
            followed += 1
    assert followed > 25


def test_the_same_bundles_give_the_same_bytes(field: Field, tmp_path: Path) -> None:
    field.entry("agent", 7.0)
    field.entry("other", 6.0)
    contents = []
    for name in ("one", "two"):
        field.top.rename(tmp_path / name)
        out = tmp_path / f"site_{name}"
        write_leaderboard(tmp_path / name, out, references=references, reports=False)
        contents.append(
            {path.relative_to(out).as_posix(): path.read_bytes() for path in sorted(out.rglob("*")) if path.is_file()}
        )
        (tmp_path / name).rename(field.top)
    assert contents[0] == contents[1]
    assert {"index.html", "leaderboard.json", "leaderboard.csv"} <= set(contents[0])
    assert str(tmp_path).encode() not in b"".join(contents[0].values())


@pytest.mark.slow
def test_several_processes_give_the_same_bytes(field: Field, tmp_path: Path) -> None:
    for number in range(8):
        field.entry(f"agent_{number}", float(number), seeds=2, train=False)
    for processes in (1, 2):
        write_leaderboard(
            field.top, tmp_path / f"site{processes}", references=references, reports=False, processes=processes
        )
    assert (tmp_path / "site1" / "index.html").read_bytes() == (tmp_path / "site2" / "index.html").read_bytes()
    assert (tmp_path / "site1" / "leaderboard.json").read_bytes() == (
        tmp_path / "site2" / "leaderboard.json"
    ).read_bytes()


def test_page_json_and_csv_hold_the_same_numbers(built: WrittenLeaderboard) -> None:
    site = built.page.parent
    document = json.loads((site / "leaderboard.json").read_text())
    rows = list(csv.DictReader((site / "leaderboard.csv").open(newline="")))
    entries = [row for board in document["boards"] for row in board["rows"]]
    assert len(entries) == len(rows) == 7
    for entry, row in zip(entries, rows, strict=True):
        assert float(row["score"]) == entry["entry"]["score"]["value"]
        assert float(row["inference.returns"]) == entry["entry"]["scores"]["inference"]["returns"]["value"]
        assert row["env_kwargs"] == entry["entry"]["env_kwargs"] != ""
        assert row["place"] == ("" if entry["place"] is None else str(entry["place"]))
    page = built.page.read_text()
    assert f"{entries[-1]['entry']['score']['value']:.3f}" in page


def test_words_of_strangers_stay_words(built: WrittenLeaderboard) -> None:
    site = built.page.parent
    for page in (built.page, *site.glob("tasks/*.html"), *site.glob("submissions/*/index.html")):
        text = page.read_text()
        assert "<script>document" not in text
        assert "took longer than <b>" not in text
        assert _parsed(page).scripts == (1 if page == built.page else 2 if page.parent.name == "tasks" else 0)
        assert "default-src 'none'" in text
    assert "&lt;script&gt;document" in built.page.read_text()


@pytest.mark.parametrize(
    "name",
    [
        HOSTILE,
        "../../etc/passwd",
        "/abs/olute",
        "..",
        "a" * 5000,
        "день 日本語 🙂",
        "\x1b[31mred\x07",
        "\u202egnp.exe",
        "con",
        "=cmd|' /C calc'!A0",
        "{{ 7 * 7 }}",
        "a\nb",
        "' onmouseover='x",
        " ",
    ],
)
def test_names_of_strangers_make_safe_files_and_pages(name: str, field: Field, tmp_path: Path) -> None:
    field.entry(name, 7.0, seeds=1, train=False)
    site = tmp_path / "deep" / "site"
    write_leaderboard(field.top, site, references=references, reports=False)
    (page,) = site.glob("submissions/*/index.html")
    assert re.fullmatch(r"[a-z0-9-]{1,41}[0-9a-f]{8}", page.parent.name)
    assert {path.name for path in (tmp_path / "deep").iterdir()} == {"site"}
    text = page.read_text() + (site / "index.html").read_text()
    assert not re.search("[\x00-\x08\x0b-\x1f\u202a-\u202e]", text)
    assert "49" not in re.findall(r"<h1>(.*?)</h1>", text)
    (row,) = csv.DictReader((site / "leaderboard.csv").open(newline=""))
    assert not row["name"].startswith(("=", "+", "-", "@"))
    assert _parsed(page).links


def test_different_submissions_of_one_name_have_pages_of_their_own() -> None:
    assert slug("agent", "1") != slug("agent", "2")
    assert slug("a/b", "1") != slug("a-b", "1")
    assert csv_cell("=1+1") == "'=1+1"
    assert plain("x" * 500, 10) == "x" * 9 + "…"


def test_pages_of_submissions_that_are_gone_are_removed_and_foreign_folders_refused(
    field: Field, tmp_path: Path
) -> None:
    site = tmp_path / "site"
    field.entry("agent", 7.0, seeds=1, train=False)
    field.entry("leaver", 6.0, seeds=1, train=False)
    write_leaderboard(field.top, site, references=references, reports=False)
    assert len(list((site / "submissions").iterdir())) == 2
    shutil.rmtree(field.top / "leaver-6")
    write_leaderboard(field.top, site, references=references, reports=False)
    assert [path.name[:5] for path in (site / "submissions").iterdir()] == ["agent"]
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "cat.png").write_bytes(b"")
    with pytest.raises(UserError, match="is not empty and holds no leaderboard"):
        write_leaderboard(field.top, tmp_path / "photos", references=references, reports=False)
    with pytest.raises(UserError, match="does not exist"):
        write_leaderboard(tmp_path / "nowhere", tmp_path / "other", reports=False)


def test_a_submission_has_its_report(field: Field, tmp_path: Path) -> None:
    field.entry("agent", 7.0, seeds=2)
    field.entry("other", 6.0, seeds=1, train=False)
    for _ in range(2):  # again: in the same place
        written = write_leaderboard(field.top, tmp_path / "site", references=references)
        assert written.problems == {}
        for page in (tmp_path / "site").glob("submissions/*/index.html"):
            assert "report/index.html" in _parsed(page).links
            report = page.parent / "report" / "index.html"
            assert page.parent.name.split("-")[0] in report.read_text()
            assert not [link for link in _parsed(report).links if link.startswith("figures/")]
            assert list(report.parent.iterdir()) == [report]


def test_the_command_prints_where_the_site_is_and_its_entries(field: Field, tmp_path: Path) -> None:
    field.entry("agent", 7.0, seeds=2, train=False)
    torn = field.evaluate("torn", [1.0], 0)
    (torn / "manifest.json").write_text("{")
    arguments = ["leaderboard", str(field.top), "-o", str(tmp_path / "site"), "--no-reports"]
    said = call_a2perf(*arguments, check=True).out
    assert "1 entries in 1 table(s), 0 without a rank" in said
    assert "invalid: torn-4/trot/seed_0/inference" in said
    document = call_a2perf(*arguments, "--json").json()
    assert document["boards"][0]["rows"][0]["entry"]["runs"][0]["changed"] == []


def test_costs_far_apart_stand_on_a_logarithmic_axis_with_plain_numbers(field: Field, tmp_path: Path) -> None:
    field.entry("thrifty", 5.0, seeds=2, train=False)
    field.entry("greedy", 9.0, seeds=2, train=False, latency_scale=500)
    write_leaderboard(field.top, tmp_path / "site", references=references, reports=False)
    figure = tmp_path / "site" / "figures" / "board-0-inference-energy-per-decision"
    drawing = figure.with_suffix(".svg").read_text()
    assert "mathdefault" not in drawing
    assert {"0.1", "1", "10"} <= set(re.findall(">([0-9.]+)</text>", drawing))  # mWh
    assert "point-" not in drawing
    assert figure.with_suffix(".pdf").read_bytes().startswith(b"%PDF")
