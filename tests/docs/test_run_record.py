"""The page on the record of a run names every field that is written."""

from pathlib import Path

import msgspec
import pytest

from a2perf import records
from a2perf.constants import ExitCode


@pytest.mark.parametrize("record", [records.Manifest, records.Failure, records.Attempt, records.TrainResults,
                                    records.LatencySummary, records.LatencyResults, records.Episode])  # fmt: skip
def test_page_names_every_field(record: type[msgspec.Struct], repository: Path) -> None:
    page = (repository / "docs" / "reference" / "run_record.md").read_text(encoding="utf-8")
    not_shown = {"observations", "clock"}
    missing = [name for name in record.__struct_fields__ if f"`{name}`" not in page and name not in not_shown]
    assert missing == []


def test_page_names_every_state_kind_and_exit_status(repository: Path) -> None:
    page = (repository / "docs" / "reference" / "run_record.md").read_text(encoding="utf-8")
    assert all(f"`{member.value}`" in page for kind in (records.RunState, records.FailureKind) for member in kind)
    assert all(f"\n| {status.value} |" in page for status in ExitCode)
