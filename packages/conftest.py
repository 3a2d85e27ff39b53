"""The tests of the distributions share fixtures, groups and isolation with those of the core."""

from __future__ import annotations

from tests.conftest import (  # noqa: F401
    _environment_restored,
    _no_child_left,
    _no_signal_left_ignored,
    pytest_collection_modifyitems,
    pytest_configure,
    pytest_runtest_makereport,
    pytest_runtest_setup,
    pytest_terminal_summary,
    real_environment,
    repository,
)
