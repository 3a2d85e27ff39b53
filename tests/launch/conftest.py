"""Engines and clusters of the tests' own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.launch import docker_engine as engines


@pytest.fixture(scope="session")
def _docker_engine() -> Iterator[engines.DockerEngine]:
    with engines.running_engine() as engine:
        yield engine


@pytest.fixture
def docker_engine(_docker_engine: engines.DockerEngine, monkeypatch: pytest.MonkeyPatch) -> engines.DockerEngine:
    """A private engine, which is also what ``DOCKER_HOST`` names."""
    monkeypatch.setenv("DOCKER_HOST", _docker_engine.host)
    return _docker_engine
