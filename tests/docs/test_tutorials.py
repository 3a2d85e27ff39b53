"""Every code block of the tutorials runs, in the order of the page, and prints what the page says it prints."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs import documents

TUTORIALS = Path(__file__).resolve().parents[2] / "docs" / "tutorials"
QUICK = ("first_submission", "your_own_metric")  # the others take from half a minute to a few minutes
PAGES = sorted(path.stem for path in TUTORIALS.glob("*.md"))
GROUPS = [
    (page, group)
    for page in PAGES
    for group in sorted({block.needs for block in documents.blocks_of(TUTORIALS / f"{page}.md")} - {""})
]


def play(page: str, folder: Path, *, having: tuple[str, ...] = ()) -> int:
    (folder / "work").mkdir()
    variables = documents.installation(folder)
    return documents.run(TUTORIALS / f"{page}.md", folder / "work", variables, having=having)


def _marks(page: str) -> list[pytest.MarkDecorator]:
    return [] if page in QUICK else [pytest.mark.slow, pytest.mark.timeout(900)]


@pytest.mark.parametrize("page", [pytest.param(page, marks=_marks(page)) for page in PAGES])
def test_blocks_run(page: str, tmp_path: Path) -> None:
    assert play(page, tmp_path) >= 5


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("page", "group"), [pytest.param(page, group, marks=pytest.mark.group(group)) for page, group in GROUPS]
)
def test_blocks_that_need_more_run(page: str, group: str, tmp_path: Path) -> None:
    """The blocks of a group run after those that need nothing, as on the page."""
    assert play(page, tmp_path, having=(group,)) >= 6


def test_every_group_that_a_page_names_exists() -> None:
    from tests import conftest

    assert GROUPS
    assert {group for _, group in GROUPS} <= set(conftest.GROUPS)


# --- the runner itself ------------------------------------------------------------------------------------------------


def test_a_block_that_nothing_would_run_is_refused(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("words\n\n```json\n{}\n```\n")
    with pytest.raises(ValueError, match=r"page\.md, line 3: a block of 'json'"):
        documents.blocks_of(page)


def test_files_are_written_and_blocks_see_each_others_files_but_no_secrets(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("A2PERF_STORE", "elsewhere")
    page, work = tmp_path / "page.md", tmp_path / "work"
    work.mkdir()
    page.write_text(
        "```toml\n# file: a/b.toml\nx = 1\n```\n"
        "```sh\ncat a/b.toml; echo store=${A2PERF_STORE-none}; echo 3 of 4\n```\n"
        "```text\nx = 1\nstore=none\n... of 4\n```\n"
    )
    assert documents.run(page, work, documents.installation(tmp_path)) == 3


@pytest.mark.parametrize(
    ("block", "said"),
    [("```sh\nfalse\necho on\n```\n", "line 1"), ("```sh\necho 2; echo 1\n```\n```text\n1\n2\n```\n", "'2' was not")],
)
def test_failures_and_other_output_are_found(tmp_path: Path, block: str, said: str) -> None:
    page = tmp_path / "page.md"
    page.write_text(block)
    with pytest.raises(AssertionError, match=said):
        documents.run(page, tmp_path, {"PATH": "/usr/bin:/bin"})


def test_a_block_waits_for_its_group(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("<!-- needs: latex -->\n```sh\necho one\n```\n<!-- needs: latex -->\n```text\none\n```\n")
    variables = {"PATH": "/usr/bin:/bin"}
    assert documents.run(page, tmp_path, variables) == 0
    assert documents.run(page, tmp_path, variables, having=("latex",)) == 2
