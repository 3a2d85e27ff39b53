"""What the tests of web navigation share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from a2perf.domains.web_navigation.chromium import ChromiumBackend
from a2perf.domains.web_navigation.website import build_site, checked_design


@pytest.fixture(scope="package")
def _keeper() -> Iterator[ChromiumBackend]:
    backend = ChromiumBackend()
    yield backend
    backend.close()


@pytest.fixture
def keeper(_keeper: ChromiumBackend) -> ChromiumBackend:
    """A page that keeps the browser from ending between tests, since starting one takes seconds."""
    _keeper.reset(build_site(checked_design({"action": [], "action_page": []})), {}, {})
    return _keeper
