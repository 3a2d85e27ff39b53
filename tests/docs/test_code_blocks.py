"""Every code block of every page runs, in the order of the page, and prints what the page says it prints.

The default suite parses all blocks, and runs the quick pages. The slow tests run the others.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.docs import documents

REPOSITORY = Path(__file__).resolve().parents[2]
DOCS = REPOSITORY / "docs"
ALL = sorted(
    str(path.relative_to(REPOSITORY).with_suffix(""))
    for path in (
        *DOCS.rglob("*.md"),
        *REPOSITORY.glob("*.md"),
        *REPOSITORY.glob("examples/*/README.md"),
        *REPOSITORY.glob("templates/*/README.md"),
        *REPOSITORY.glob("compatibility/**/README.md"),
        *(REPOSITORY / folder / "README.md" for folder in ("docker", "results")),
    )
    if path.is_file()
)
WITH_CODE = [page for page in ALL if "```" in (REPOSITORY / f"{page}.md").read_text(encoding="utf-8")]
ELSEWHERE = {
    "README": "its commands are those of the tutorials; `make demo` has a test",
    "docs/how_to/coming_from": "test_coming_from.py",
    "docs/how_to/train_with_openenv": "packages/serve/tests/test_openenv.py",
    "templates/submission/README": "needs the folder that it describes; the first submission runs the same commands",
}
"""Pages with blocks that are run elsewhere."""
QUICK = (
    "docs/tutorials/first_submission",
    "docs/how_to/your_own_metric",
)


def _blocks(page: str) -> list[documents.Block]:
    return documents.blocks_of(REPOSITORY / f"{page}.md")


PAGES = [
    page
    for page in WITH_CODE
    if page not in ELSEWHERE
    and any(block.kind in ("sh", "python") and not block.not_executed for block in _blocks(page))
]
GROUPS = [(page, group) for page in PAGES for group in sorted({block.needs for block in _blocks(page)} - {""})]


def play(page: str, folder: Path, *, having: tuple[str, ...] = ()) -> int:
    work = folder / "work"
    work.mkdir()
    text = (REPOSITORY / f"{page}.md").read_text(encoding="utf-8")
    for name in ("examples", "results", "tests/recorded/logs"):  # copies, so that no block writes into the checkout
        if f"{name}/" in text:
            shutil.copytree(REPOSITORY / name, work / name, ignore=shutil.ignore_patterns("__pycache__"))
    return documents.run(REPOSITORY / f"{page}.md", work, documents.installation(folder), having=having)


def _marks(page: str) -> list[pytest.MarkDecorator]:
    needed = [pytest.mark.group("competition")] if page.endswith("competition") else []
    return needed if page in QUICK else [pytest.mark.slow, pytest.mark.timeout(900), *needed]


@pytest.mark.parametrize("page", [pytest.param(page, marks=_marks(page)) for page in PAGES])
def test_blocks_run(page: str, tmp_path: Path) -> None:
    assert play(page, tmp_path) >= 1


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("page", "group"), [pytest.param(page, group, marks=pytest.mark.group(group)) for page, group in GROUPS]
)
def test_blocks_that_need_more_run(page: str, group: str, tmp_path: Path) -> None:
    """The blocks of a group run after those that need nothing, as on the page."""
    assert play(page, tmp_path, having=(group,)) >= 2


def test_every_group_that_a_page_names_exists() -> None:
    from tests import conftest

    assert GROUPS
    assert {group for _, group in GROUPS} <= set(conftest.GROUPS)


# --- what needs no run ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("page", ALL)
def test_blocks_are_well_formed_and_name_existing_commands_and_options(page: str) -> None:
    assert list(documents.check(REPOSITORY / f"{page}.md")) == []


def test_blocks_that_never_run_are_few_and_say_why() -> None:
    unrun = {
        (page, block.line): block.not_executed for page in WITH_CODE for block in _blocks(page) if block.not_executed
    }
    for place, reason in unrun.items():
        print(*place, reason)
    assert all(len(reason.split()) >= 2 for reason in unrun.values())
    assert len(unrun) <= 80  # most train for minutes or hours, or need a server of a model


def test_lines_of_code_fit_the_column_of_the_site() -> None:
    long = [
        f"{page}, line {block.line}: {line}"
        for page in WITH_CODE
        if page != "README"  # not on the site
        for block in _blocks(page)
        if block.kind not in ("text", "setup")
        for line in block.text.splitlines()
        if len(line) > 88 and max(map(len, line.split())) < 60  # such a word cannot be broken
    ]
    assert long == []


# --- the runner itself ------------------------------------------------------------------------------------------------


def test_a_block_that_nothing_would_run_is_refused(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("words\n\n```fortran\nend\n```\n")
    assert list(documents.check(page)) == [
        "page.md, line 3: a block of 'fortran' is neither run nor parsed; name a language or a file"
    ]
    with pytest.raises(ValueError, match="a block of 'fortran'"):
        documents.run(page, tmp_path, {})


@pytest.mark.parametrize(
    ("kind", "text", "message"),
    [
        ("json", "{", "Expecting"),
        ("toml", "x =", "Invalid value"),
        ("yaml", "a: [", "expected the node"),
        ("gin", "a.b = ", "Unable to parse value"),
        ("python", "x =", "invalid syntax"),
        ("sh", "if true; then", "syntax error"),
        ("sh", "a2perf report runs --outptu x", "No such option '--outptu'"),
        ("sh", "a2perf-launch --submission a --nosuch", "No such option '--nosuch'"),
        ("sh", "a2perf rlops --tags a b --nosuch", "No such option '--nosuch'"),
        ("sh", "x=$(a2perf nosuch --json)", "no command 'nosuch'"),
    ],
)
def test_a_block_that_is_never_run_is_parsed(tmp_path: Path, kind: str, text: str, message: str) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"<!-- not executed: only parsed -->\n```{kind}\n{text}\n```\n")
    assert [message in problem for problem in documents.check(page)] == [True]


@pytest.mark.parametrize(
    ("block", "said"),
    [("```sh\nfalse\necho on\n```\n", "line 1"), ("```sh\necho 2; echo 1\n```\n```text\n1\n2\n```\n", "'2' was not")],
)
def test_failures_and_other_output_are_found(tmp_path: Path, block: str, said: str) -> None:
    page = tmp_path / "page.md"
    page.write_text(block)
    with pytest.raises(AssertionError, match=said):
        documents.run(page, tmp_path, {"PATH": "/usr/bin:/bin"})
