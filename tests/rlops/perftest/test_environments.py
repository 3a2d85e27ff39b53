"""Ids of other years lead to the version that is installed."""

from __future__ import annotations

from collections.abc import Iterator

import gymnasium
import pytest

from a2perf.errors import UserError
from a2perf.experiments.needs import resolve_env_id


@pytest.fixture
def versions() -> Iterator[None]:
    names = ["OldToy-v1", "OldToy-v4", "OldToy-v5"]
    for name in names:
        gymnasium.register(name, entry_point="gymnasium.envs.toy_text.frozen_lake:FrozenLakeEnv")
    yield
    for name in names:
        del gymnasium.registry[name]


@pytest.mark.usefixtures("versions")
@pytest.mark.parametrize(
    ("asked", "found"), [("OldToy-v4", "OldToy-v4"), ("OldToy-v2", "OldToy-v4"), ("OldToy-v9", "OldToy-v5")]
)
def test_the_next_version_takes_its_place_with_a_notice(asked: str, found: str):
    resolved, notice = resolve_env_id(asked)
    assert resolved == found
    assert (asked in notice and found in notice) == (asked != found)


def test_an_unknown_name_is_said():
    with pytest.raises(UserError, match=r"'CartPol-v1' is registered; did you mean 'CartPole-v1'"):
        resolve_env_id("CartPol-v1")
