"""What the tests of web navigation share."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping

import pytest

from a2perf.domains.web_navigation.browsers.chromium import ChromiumBackend
from a2perf.domains.web_navigation.sites.website import Site, build_site, checked_design


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


@pytest.fixture
def show(keeper: ChromiumBackend) -> Iterator[Callable[..., ChromiumBackend]]:
    """Shows sites in pages of the browser, and closes them after the test."""
    with contextlib.ExitStack() as stack:

        def shown(site: Site, profile: Mapping[str, str | bool], texts: Mapping[str, str] | None = None):
            backend = ChromiumBackend()
            stack.callback(backend.close)
            backend.reset(site, profile, texts or {})
            return backend

        yield shown
