"""The pages on the record of a run and on tested attacks are complete; verdicts keep their promised error rates."""

import re
import runpy
from pathlib import Path

import pytest

from a2perf import records
from a2perf.constants import ExitCode
from docs.building import attacks
from docs.building.markdown import with_tables
from tests.attacks.catalogue import ASSAULTS, PROBES


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
    verdicts = runpy.run_path(str(repository / "perf" / "verdicts.py"))
    made = page.partition(verdicts["BEGIN"])[2].partition(verdicts["END"])[0]
    rows = [[cell.strip(" %") for cell in line.split("|")[1:-1]] for line in made.splitlines() if line.startswith("| ")]
    covered, looked, gated = ({row[0]: row[1:] for row in rows if len(row) == columns} for columns in (7, 3, 4))
    assert set(verdicts["DISTRIBUTIONS"]) <= set(covered)
    assert set(verdicts["DISTRIBUTIONS"]) <= set(looked)
    for name in ("normal", "lognormal, sigma 0.5", "Student's t, 3 degrees", "tied (rounded)"):
        assert all(float(share) >= 92.5 for share in covered[name][::2]), name
    assert float(covered["normal, IQM of five tasks"][1]) <= 1.7
    assert all(float(looked[name][0]) <= 5.0 for name in verdicts["DISTRIBUTIONS"])
    assert all(float(share) <= 5.0 for name in ("normal", "bimodal, a fifth fails") for share in gated[name][:2])
    (every,) = re.findall(r"from 3 to 600, normal scores: ([0-9.]+)% false", made)
    assert float(every) <= 5.0
    # the same seeds give the same numbers: one row is made again
    assert verdicts["every_look"](6000) == pytest.approx(float(every) / 100.0, abs=0.0006)
