"""The page on the domain is true: its code runs, and it and the change log name every id."""

import re
from pathlib import Path

import pytest

from a2perf.domains import load_attribute
from a2perf.domains.quadruped_locomotion import DOMAIN

DOCS = Path(__file__).parents[3] / "docs" / "environments"


@pytest.mark.parametrize("block", range(2))
def test_code_on_the_page_runs(block):
    blocks = re.findall(
        r"(?<!-->\n)^```python\n(.*?)^```", (DOCS / "quadruped_locomotion.md").read_text(), re.DOTALL | re.MULTILINE
    )
    assert len(blocks) == 2
    exec(compile(blocks[block], f"block {block}", "exec"), {})


def test_page_and_change_log_name_every_id():
    page = (DOCS / "quadruped_locomotion.md").read_text()
    for prefix, names in re.findall(r"`(\w+-\w*)\{([\w,]+)\}-v0`", page):
        page += " ".join(f"{prefix}{name}-v0" for name in names.split(",")) + "\n"
    log = (DOCS / "CHANGELOG.md").read_text()
    for environment in DOMAIN.environments:
        assert environment.id in page
        assert environment.id.partition("-")[2] in log


def test_commands_hang_on_the_domain_record():
    group = load_attribute(DOMAIN.data_commands["clips"])
    assert {name for name, command in group.commands.items() if not command.hidden} == {"list", "generate"}


def test_importing_the_domain_loads_no_heavy_library():
    import subprocess
    import sys

    code = (
        "import sys; from a2perf.domains import quadruped_locomotion, register_environments; register_environments();"
        "print([name for name in ('numba', 'pybullet', 'mujoco', 'matplotlib', 'gin') if name in sys.modules])"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"
