"""The walk through RLops is true: its commands lead to the verdict it prints, and every flag is in its table."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import click
import pytest

from a2perf.cli.rlops import rlops


@pytest.fixture
def page(repository: Path) -> str:
    return (repository / "docs" / "how_to" / "rlops.md").read_text(encoding="utf-8")


def test_commands_lead_to_the_verdict_that_is_printed(page: str, tmp_path: Path) -> None:
    blocks = re.findall(r"^```sh\n(.*?)^```", page, flags=re.DOTALL | re.MULTILINE)
    assert len(blocks) >= 8
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    for name in ("A2PERF_STORE", "WANDB_TAGS", "GITHUB_REF", "CI_MERGE_REQUEST_IID"):
        environment.pop(name, None)
    said = []
    for block in blocks:
        done = subprocess.run(
            ["bash", "-euc", block], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, f"{block}\n{done.stdout}\n{done.stderr}"
        said.append(done.stdout)
    record = json.loads((tmp_path / "project" / "compare.json").read_text())
    assert record["verdict"] == "REGRESSION"
    printed = re.findall(r"^```text\n(.*?)^```", page, flags=re.DOTALL | re.MULTILINE)
    assert any(printed[0] in out for out in said)
    assert (tmp_path / "project" / "compare.html").stat().st_size > 50_000


def test_every_flag_is_in_the_table(page: str) -> None:
    for option in rlops.params:
        if isinstance(option, click.Option):
            for flag in option.opts:
                assert f"`{flag}" in page or f" {flag}" in page, flag


def test_simulated_table_keeps_what_the_page_promises(page: str) -> None:
    rows = [line.split("|")[1:-1] for line in page.splitlines() if re.match(r"\| (normal|skewed|two|half)", line)]
    together = [row for row in rows if len(row) == 5]
    rows = [row for row in rows if len(row) == 6]
    assert (len(rows), len(together)) == (20, 7)
    for row in together:
        assert all(float(cell.strip(" %")) <= 5.0 for cell in row[2:4]), row
    for row in rows:
        assert all(float(cell.strip(" %")) <= 5.0 for cell in row[2:4]), row
        assert float(row[5].strip(" %")) >= 80.0, row


@pytest.mark.parametrize("name", ["docs/how_to/rlops.md", "docs/reference/rlops.md", "CONTRIBUTING.md"])
def test_files_that_are_linked_to_exist(repository: Path, name: str) -> None:
    text = (repository / name).read_text(encoding="utf-8")
    links = [link for link in re.findall(r"\]\(([^)#]+)\)", text) if "://" not in link]
    assert links
    for link in links:
        assert ((repository / name).parent / link).exists(), link


def test_pull_request_template_asks_for_the_class_of_change(repository: Path) -> None:
    text = (repository / ".github" / "pull_request_template.md").read_text(encoding="utf-8")
    assert "**Results cannot change**" in text
    assert "**Results can change**" in text
    assert "a2perf rlops --exp-name" in text
