"""The ladder: a level is given as asked for, or refused with what this host has."""

import pytest

from a2perf.errors import UserError
from a2perf.sandbox import Level, ProcessSandbox, available_levels, get_sandbox, register_sandbox
from a2perf.sandbox.interface import _levels


@pytest.fixture
def registry_restored():
    before = dict(_levels)
    yield
    _levels.clear()
    _levels.update(before)


@pytest.mark.parametrize("level", ["none", "process"])
def test_level_is_the_one_asked_for(level: str) -> None:
    sandbox = get_sandbox(level)
    assert sandbox.level == level
    assert len(sandbox.guarantees()) >= 3
    assert any("network" in sentence for sentence in sandbox.missing())


def test_process_guarantees_more_than_none() -> None:
    assert set(get_sandbox("none").guarantees()) < set(get_sandbox("process").guarantees())


def test_unknown_level_names_the_nearest_and_what_this_host_offers() -> None:
    with pytest.raises(UserError, match="did you mean 'process'") as caught:
        get_sandbox("proces")
    assert caught.value.hint is not None
    assert "none, process" in caught.value.hint


def test_unavailable_level_is_refused_and_never_replaced(registry_restored) -> None:
    register_sandbox("docker", Level(lambda: ProcessSandbox(confined=True), lambda: "no daemon answers"))
    assert "docker" not in available_levels()
    with pytest.raises(UserError, match="not available on this host: no daemon answers"):
        get_sandbox("docker")


def test_levels_are_listed_weakest_first(registry_restored) -> None:
    register_sandbox("another", Level(lambda: ProcessSandbox(confined=True)))
    register_sandbox("bubblewrap", Level(lambda: ProcessSandbox(confined=True)))
    names = available_levels()
    assert [name for name in names if name != "docker"] == ["none", "process", "bubblewrap", "another"]
