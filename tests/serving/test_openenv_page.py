"""The training program of the page about OpenEnv learns, with the unmodified client."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tests.docs import documents
from tests.serving import openenv_python
from tests.serving.conftest import started


@pytest.mark.group("openenv")
def test_the_program_of_the_page_learns(repository: Path, tmp_path: Path) -> None:
    page = repository / "docs" / "how_to" / "train_with_openenv.md"
    (program,) = [block for block in documents.blocks_of(page) if block.file == "train_openenv.py"]
    (tmp_path / program.file).write_text(program.text, encoding="utf-8")
    with started("openenv", "--domain", "web_navigation") as server:
        command = [str(openenv_python.found()), program.file, server.address]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    first, last = (int(number) for number in re.findall(r"solved (\d+) of", done.stdout))
    assert first < last
    assert last >= 34
