"""Fixtures of the core that these tests use."""

from __future__ import annotations

from tests.datasets.conftest import write  # noqa: F401
