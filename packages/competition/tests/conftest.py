"""Fixtures of the core's attacks and pages."""

from __future__ import annotations

from tests.attacks.conftest import noted, pytest_terminal_summary  # noqa: F401
from tests.conftest import browser  # noqa: F401
