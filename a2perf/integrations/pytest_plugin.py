"""Refuses the mark of the removed pytest plug-in.

No entry point names this module. It stays for one release, because the metadata of an older editable installation does:
without it, every run of pytest there would end in an import error.
"""

from __future__ import annotations

import pytest


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Ends pytest if a test has the mark.

    Raises:
        pytest.UsageError: the message names the replacement.
    """
    for item in items:
        if item.get_closest_marker("a2perf") is not None:
            raise pytest.UsageError(
                f"{item.nodeid}: the mark a2perf was removed; assert on the results of `a2perf.evaluate` instead"
            )
