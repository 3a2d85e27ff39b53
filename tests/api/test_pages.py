"""``a2perf.write_report`` and ``a2perf.write_leaderboard``: the files of the commands, from runs or paths."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import a2perf
from a2perf.errors import ConfigError, UserError
from a2perf.report.writing import WrittenReport
from tests.commands import call_a2perf
from tests.shipped_runs import SHIPPED, unpacked

SMALL = SHIPPED / "small"
ONE = SMALL / "greedy_placer.zip"


def files(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three seeds of one submission on one task."""
    return unpacked("small/greedy_placer", tmp_path_factory.mktemp("runs")) / "toy_macro_stdcell"


@pytest.fixture(scope="module")
def written(recorded: Path, tmp_path_factory: pytest.TempPathFactory) -> WrittenReport:
    runs = a2perf.read_runs(recorded)
    return a2perf.write_report(list(runs)[::-1], tmp_path_factory.mktemp("report") / "a <b> folder", title="T")


def test_a_report_of_runs_has_the_bytes_of_the_command(recorded: Path, written: WrittenReport, tmp_path: Path) -> None:
    call_a2perf("report", str(recorded), "-o", str(tmp_path / "report"), "--title", "T", check=True)
    assert files(written.folder) == files(tmp_path / "report")
    assert written.record.title == "T"
    assert repr(written).splitlines() == [written.sentence, written.overview, f"report: {written.page}"]


def test_a_report_in_a_notebook_links_to_its_page(written: WrittenReport, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "/a%20%3Cb%3E%20folder/index.html" in written._repr_html_()
    monkeypatch.chdir(written.folder.parent)
    html = written._repr_html_()
    assert 'href="a%20%3Cb%3E%20folder/index.html"' in html
    assert "<script" not in html
    assert "3 runs of 1 submission" in html


def test_progress_goes_to_standard_error_unless_it_is_switched_off(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    unpacked("small/greedy_placer", tmp_path / "runs")
    a2perf.write_leaderboard(tmp_path / "runs", tmp_path / "site", reports=False)
    assert capsys.readouterr().err.startswith("found 3 entries, 9 runs\n")
    a2perf.write_leaderboard(tmp_path / "runs", tmp_path / "site", reports=False, progress=False)
    assert capsys.readouterr().err == ""


def test_what_cannot_be_written_or_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="cannot be written"):
        a2perf.write_report(ONE, tmp_path / "file" / "report")
    with pytest.raises(UserError, match="does not exist"):
        a2perf.write_report(tmp_path / "nothing", tmp_path / "report")
    with pytest.raises(ConfigError, match="unknown profile 'corected'; did you mean 'corrected'"):
        a2perf.write_report(ONE, tmp_path / "report", profile="corected")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=re.escape("needs a folder of bundles, not Runs")):
        a2perf.write_leaderboard(a2perf.read_runs(ONE), tmp_path / "site")  # type: ignore[arg-type]
    assert not (tmp_path / "site").exists()
