"""The page on the domain is true: its code runs, and it and the change log name every id."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from a2perf.domains import load_attribute
from a2perf.domains.web_navigation import DOMAIN
from a2perf.domains.web_navigation.designs import shipped_record

DOCS = Path(__file__).parents[3] / "docs" / "environments"
PAGE = (DOCS / "web_navigation.md").read_text()
BLOCKS = re.findall(r"^```python\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("block", range(2))
def test_code_on_the_page_runs(block):
    assert len(BLOCKS) == 4
    exec(compile(BLOCKS[block], f"block {block}", "exec"), {})


def test_page_and_change_log_name_every_id():
    log = (DOCS / "CHANGELOG.md").read_text()
    for environment in DOMAIN.environments:
        assert f"`{environment.id}`" in PAGE
        assert environment.id.partition("-")[2] in log


def test_commands_hang_on_the_domain_record():
    group = load_attribute(DOMAIN.data_commands["websites"])
    assert set(group.commands) >= {"difficulty", "generate"}


def test_the_table_of_difficulty_holds():
    """The bounds on the page are those of the shipped sets."""
    easy, middle, hard = (shipped_record(level) for level in (1, 2, 3))
    assert "at least 8 %" in PAGE
    assert min(easy["success"]) >= 0.08
    assert "0.4 % to 4 %" in PAGE
    assert min(middle["success"]) >= 0.004
    assert max(middle["success"]) <= 0.04
    assert "at most 0.05 % (1 of 2000)" in PAGE
    assert max(hard["success"]) <= 0.0005
    for record, bounds in ((easy, "2 to 3"), (middle, "3 to 6"), (hard, "7 to 18")):
        low, high = (int(number) for number in bounds.split(" to "))
        assert f"| {bounds} |" in PAGE
        assert low <= min(record["length"])
        assert max(record["length"]) <= high


def test_importing_the_domain_loads_no_heavy_library():
    code = (
        "import sys; from a2perf.domains import web_navigation, register_environments; register_environments();"
        "print([name for name in ('selenium', 'PIL', 'matplotlib', 'gin') if name in sys.modules])"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"
