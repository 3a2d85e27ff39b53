"""The pages on the record of a run and on tested attacks are complete; verdicts keep their promised error rates."""

from pathlib import Path

import msgspec
import pytest

from a2perf import records
from a2perf.constants import ExitCode
from docs.building import attacks
from docs.building.markdown import with_tables
from tests.attacks.catalogue import ASSAULTS, PROBES


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


def test_tables_of_attacks_are_those_of_the_tests(repository: Path) -> None:
    page = with_tables((repository / "docs" / "reference" / "attacks.md").read_text("utf-8"), attacks.block)
    assert f"| {PROBES[0].what} | `{PROBES[0].stopped_from}` |" in page
    assert f"| {ASSAULTS[0].what} | `{ASSAULTS[0].stopped_from}` | `{ASSAULTS[0].outcome.value}` |" in page
    assert page.count("\n| ") >= len(PROBES) + len(ASSAULTS)
    files = {path.name for path in (repository / "tests" / "attacks").glob("test_*.py")}
    described_apart = {"test_attacks.py"}  # runs the catalogue
    assert [name for name in files - described_apart if f"`{name}`" not in page] == []


def test_simulated_tables_keep_what_the_page_promises(repository: Path) -> None:
    page = (repository / "docs" / "explanation" / "statistics.md").read_text(encoding="utf-8")
    rows = [[cell.strip(" %") for cell in line.split("|")[1:-1]] for line in page.splitlines() if line.startswith("| ")]
    promised = ("normal", "lognormal", "bimodal, a fifth fails", "two values", "constant", "all five together")
    signs = {row[0]: row[1:] for row in rows if len(row) == 9 and row[0] in promised}
    assert set(signs) == set(promised)
    for row in signs.values():
        for cell in row:  # two standard errors of the simulation above 2.5
            assert all(float(share) <= 2.9 for share in cell.split(",")), row
    gate = [row for row in rows if len(row) == 6 and row[0] in promised]
    assert len(gate) == 9
    for row in gate:
        assert all(float(cell) <= 5.0 for cell in row[2:4]), row
        assert float(row[5]) >= 80.0, row
