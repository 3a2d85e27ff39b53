"""The walk through RLops is true: its commands lead to the verdict it prints, and every flag is in its table."""

from __future__ import annotations

import json
import re
from pathlib import Path

import click
import pytest

from a2perf.cli.rlops import rlops
from tests.docs import documents


@pytest.fixture
def page(repository: Path) -> str:
    return (repository / "docs" / "how_to" / "rlops.md").read_text(encoding="utf-8")


def test_commands_lead_to_the_verdict_that_is_printed(page: str, repository: Path, tmp_path: Path) -> None:
    hidden = ("A2PERF_STORE", "WANDB_TAGS", "GITHUB_REF", "CI_MERGE_REQUEST_IID")
    said = documents.run_shell(repository / "docs" / "how_to" / "rlops.md", tmp_path, without=hidden)
    assert len(said) >= 8
    record = json.loads((tmp_path / "project" / "compare.json").read_text())
    assert record["verdict"] == "REGRESSION"
    printed = re.findall(r"^```text\n(.*?)^```", page, flags=re.DOTALL | re.MULTILINE)
    assert any(printed[0] in out for out in said)
    assert any("gate REGRESSION" in out for out in said)
    assert (tmp_path / "project" / "compare.html").stat().st_size > 50_000


def test_every_flag_is_in_the_table(page: str) -> None:
    for option in rlops.params:
        if isinstance(option, click.Option):
            for flag in option.opts:
                assert f"`{flag}" in page or f" {flag}" in page, flag


def test_simulated_tables_keep_what_the_page_promises(page: str) -> None:
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


def test_pull_request_template_asks_for_the_class_of_change(repository: Path) -> None:
    text = (repository / ".github" / "pull_request_template.md").read_text(encoding="utf-8")
    assert "**Results cannot change**" in text
    assert "**Results can change**" in text
    assert "a2perf rlops --exp-name" in text
