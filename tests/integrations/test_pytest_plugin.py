"""The mark of the removed pytest plug-in."""

from __future__ import annotations

import subprocess
import sys
from importlib import metadata
from pathlib import Path


def test_pytest_loads_nothing_of_a2perf_and_the_mark_names_its_replacement(tmp_path: Path) -> None:
    assert [point.value for point in metadata.entry_points(group="pytest11") if "a2perf" in point.value] == []
    (tmp_path / "test_mine.py").write_text(
        "import sys, pytest\n"
        "@pytest.mark.a2perf(reaches=0.5)\ndef test_marked(): pass\n"
        "def test_plain(): assert 'a2perf' not in sys.modules\n"
    )
    pytest_run = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_mine.py"]
    plain = subprocess.run([*pytest_run, "-k", "plain"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert plain.returncode == 0, plain.stdout
    refused = subprocess.run(
        [*pytest_run, "-p", "a2perf.integrations.pytest_plugin"], cwd=tmp_path, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert refused.returncode == 4
    replacement = "the mark a2perf was removed; assert on the results of `a2perf.evaluate` instead"
    assert f"ERROR: test_mine.py::test_marked: {replacement}" in (refused.stdout + refused.stderr).splitlines()
