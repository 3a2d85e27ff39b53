"""The page on the domain is true: its code runs, and it and the change log name every id and argument."""

import inspect
import re
from pathlib import Path

from a2perf.domains.circuit_training import DOMAIN
from a2perf.domains.circuit_training.designs import SPEC_FIELDS
from a2perf.domains.circuit_training.environment import CircuitEnv

DOCS = Path(__file__).parents[3] / "docs" / "environments"
PAGE = (DOCS / "circuit_training.md").read_text()


def test_code_on_the_page_runs():
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
    assert len(blocks) == 2
    names = {}
    for number, block in enumerate(blocks):
        exec(compile(block, f"block {number}", "exec"), names)


def test_page_and_change_log_name_every_id_task_and_argument():
    log = (DOCS / "CHANGELOG.md").read_text()
    for environment in DOMAIN.environments:
        assert f"`{environment.id}`" in PAGE
        assert environment.id.partition("-")[2] in log
    for task in DOMAIN.tasks[:5]:
        assert f"`{task.name}`" in PAGE
    hidden = {"self", "spec", "design", "observation_config"}
    for argument in {*inspect.signature(CircuitEnv.__init__).parameters, *SPEC_FIELDS} - hidden:
        assert f"`{argument}`" in PAGE, argument


def test_pictures_of_the_page_are_there():
    pictures = re.findall(r"\]\((pictures/\w+\.png)\)", PAGE)
    assert len(pictures) >= 9
    assert all((DOCS / picture).is_file() for picture in pictures)
