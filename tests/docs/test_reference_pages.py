"""The pages on the record of a run and on tested attacks are complete."""

from pathlib import Path

import msgspec
import pytest

from a2perf import records
from a2perf.constants import ExitCode
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
    page = (repository / "docs" / "reference" / "attacks.md").read_text(encoding="utf-8")
    rows = [f"| {probe.what} | `{probe.stopped_from}` |" for probe in PROBES]
    for attack in ASSAULTS:
        outcome = f"`{attack.outcome.value}`" if attack.outcome else "run finishes"
        rows.append(f"| {attack.what} | `{attack.stopped_from}` | {outcome} |")
    files = (path.name for path in (repository / "tests" / "attacks").glob("test_*.py"))
    described_apart = "test_attacks.py"  # runs the catalogue
    rows += [f"`{name}`" for name in files if name != described_apart]
    assert [row for row in rows if row not in page] == []
