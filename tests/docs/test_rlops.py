"""The error rates of verdicts that the page on statistics promises."""

from __future__ import annotations

from pathlib import Path


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
