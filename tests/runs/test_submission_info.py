"""How a submission describes itself: ``a2perf.toml``, the manifest, and ``submissions.toml`` beside results."""

from __future__ import annotations

from pathlib import Path

import pytest

from a2perf.errors import SubmissionError, UserError
from a2perf.records import SubmissionInfo
from a2perf.report.names import kind_order, metric_title, submission_kind, submission_title
from a2perf.runs import find_runs, read_run
from a2perf.runs.run import BUNDLE, RunFolder
from a2perf.runs.submission_info import (
    FALLBACK_FILE,
    FILE,
    KINDS,
    bounded,
    described_submissions,
    info_of,
    read_submission_info,
)
from a2perf.submission.evaluator.submitted.folder_content import identify_submission

REPOSITORY = Path(__file__).parents[2]
RECORDED = REPOSITORY / "results" / "recorded"


def _written(folder: Path, text: str) -> Path:
    (folder / FILE).write_text(text)
    return folder


def test_description_becomes_part_of_the_identity(tmp_path: Path) -> None:
    assert identify_submission(tmp_path).info is None
    _written(tmp_path, 'title = "My  agent"\nkind = "learned"\nauthors = ["A", "B"]\nlink = "https://example.org/x"\n')
    info = identify_submission(tmp_path).info
    assert info == SubmissionInfo(title="My agent", kind="learned", authors=["A", "B"], link="https://example.org/x")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("title = ", "not valid TOML"),
        ("a = " + "[" * 5000, "not valid TOML"),
        ('titel = "x"', "unknown key 'titel'; did you mean 'title'?"),
        ("title = 3", "title is not a string"),
        (f'title = "{"x" * 61}"', "title has 61 characters; at most 60"),
        ('kind = "magic"', "unknown kind 'magic'"),
        ('kind = ["learned"]', "unknown kind"),
        ('link = "javascript:alert(1)"', "not an http(s) address"),
        ('link = "https://a.org/\\" onclick=1"', "not an http(s) address"),
        ('authors = "me"', "authors is not a list"),
        (f"authors = {['a'] * 21}", "authors is not a list of at most 20"),
        (f'summary = "{"x" * 20_000}"', "16384 bytes"),
        ('weights = "policy.pt"', "weights is not a list of at most 100 files"),
        ("weights = [3]", "weights is not a string"),
    ],
)
def test_invalid_description_is_refused_with_its_fix(tmp_path: Path, text: str, problem: str) -> None:
    with pytest.raises(UserError) as caught:
        read_submission_info(_written(tmp_path, text))
    assert problem in caught.value.message
    with pytest.raises(SubmissionError):
        identify_submission(tmp_path)


def test_link_out_of_the_folder_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "elsewhere.toml").write_text('title = "stolen"')
    folder = tmp_path / "submission"
    folder.mkdir()
    (folder / FILE).symlink_to("../elsewhere.toml")
    with pytest.raises(UserError):
        read_submission_info(folder)


def test_description_in_a_manifest_is_bounded_again() -> None:
    info = SubmissionInfo(
        title="\x1b[31m" + "t" * 100, kind="winner", authors=["a" * 100] * 50, link="javascript:x", summary="a\nb"
    )
    shown = bounded(info)
    assert shown == SubmissionInfo(title="t" * 60, kind="", authors=["a" * 80] * 20, link="", summary="a b")


def test_file_above_the_bundles_describes_runs_recorded_without(tmp_path: Path) -> None:
    run = RunFolder(BUNDLE, tmp_path / "agent" / "seed_0" / "train", "agent/seed_0/train")
    run.path.mkdir(parents=True)
    assert info_of(run, None, "agent") == (SubmissionInfo(), [])
    (tmp_path / FALLBACK_FILE).write_text('[agent]\ntitle = "Agent"\nkind = "search"\n')
    assert info_of(run, None, "agent") == (SubmissionInfo(title="Agent", kind="search"), [])
    assert info_of(run, None, "other") == (SubmissionInfo(), [])
    assert info_of(run, SubmissionInfo(title="Own"), "agent") == (SubmissionInfo(title="Own"), [])
    (tmp_path / FALLBACK_FILE).write_text("agent = 1\n")
    assert info_of(run, None, "agent")[1] == ["submissions.toml: 'agent' is not a table"]


def test_examples_and_recorded_results_have_the_same_descriptions() -> None:
    described = described_submissions(RECORDED / FALLBACK_FILE)
    folders = (*REPOSITORY.glob("examples/*/inference.py"), *REPOSITORY.glob("packages/*/examples/*/inference.py"))
    examples = {path.parent.name: path.parent for path in folders}
    assert set(described) == set(examples)
    for name, info in described.items():
        assert info == read_submission_info(examples[name]), name
        assert info.title, name
        assert info.kind in KINDS, name


def test_shipped_run_has_a_title() -> None:
    folder = find_runs([RECORDED / "learning" / "minimal.zip"])[0]
    run = read_run(folder)
    assert (submission_title(run.algorithm, run.info), submission_kind(run.info)) == ("Random policy", "Random")


def test_names_fall_back_to_ids() -> None:
    assert submission_title("my_agent") == "my_agent"
    assert submission_kind(None) == ""
    assert submission_kind(SubmissionInfo()) == ""
    assert kind_order("random") < kind_order("learned") < kind_order("")
    assert metric_title("memory_rss_peak") == "Peak memory (RSS)"
    assert metric_title("no_such_metric") == "No such metric"
