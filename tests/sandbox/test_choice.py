"""A requested level or limit is provided, refused with a hint, or, if allowed, replaced and recorded as missing."""

import re

import pytest

from a2perf.errors import UserError
from a2perf.sandbox import (
    Level,
    Limits,
    ProcessSandbox,
    choose_sandbox,
    get_sandbox,
    limits,
    register_sandbox,
    strongest_level,
    task_clock,
)


@pytest.fixture
def bubblewrap_missing(registry_restored):
    register_sandbox(
        "bubblewrap", Level(lambda: ProcessSandbox(confined=True), lambda: "no bwrap here", "apt-get install it")
    )


def test_strongest_is_the_better_of_process_and_bubblewrap(bubblewrap_missing) -> None:
    assert strongest_level() == "process"
    sandbox, lost = choose_sandbox("strongest", Limits())
    assert (sandbox.level, lost) == ("process", [])


@pytest.mark.group("bwrap")
def test_strongest_is_bubblewrap_where_it_works() -> None:
    assert choose_sandbox("strongest", Limits())[0].level == "bubblewrap"


def test_unavailable_level_is_an_error_with_a_fix(bubblewrap_missing) -> None:
    with pytest.raises(UserError, match="not available on this host: no bwrap here") as caught:
        choose_sandbox("bubblewrap", Limits())
    assert "apt-get install it" in str(caught.value.hint)
    assert "--allow-weaker" in str(caught.value.hint)


def test_weaker_level_is_named_where_it_was_allowed(bubblewrap_missing) -> None:
    sandbox, lost = choose_sandbox("bubblewrap", Limits(), allow_weaker=True)
    assert sandbox.level == "process"
    assert lost == ["the requested level 'bubblewrap': no bwrap here"]


@pytest.mark.parametrize(
    ("level", "asked", "named", "missing"),
    [
        ("process", Limits(cpus=1), "cpus needs a writable control group with the controller 'cpu'", ""),
        (
            "process",
            Limits(memory_bytes=2**30),
            "memory_bytes needs a writable control group with the controller 'memory' "
            "(without one it binds each process, and the tree only by sampling)",
            "no control group: the limit binds each process",
        ),
        ("none", Limits(memory_bytes=2**30), "memory_bytes needs the level 'process'", ""),
    ],
)
def test_limit_that_nothing_enforces_is_an_error_or_named(
    level: str, asked: Limits, named: str, missing: str, no_control_groups
) -> None:
    with pytest.raises(UserError, match=re.escape(named)) as caught:
        choose_sandbox(level, asked)
    assert "--allow-weaker" in str(caught.value.hint)
    sandbox, lost = choose_sandbox(level, asked, allow_weaker=True)
    assert (sandbox.level, lost) == (level, [named])
    assert any(missing in phrase for phrase in sandbox.missing())


def test_account_that_misses_processes_is_named(no_control_groups, monkeypatch) -> None:
    def named(sandbox) -> list[str]:
        return [phrase for phrase in sandbox.missing() if phrase.startswith("uncounted processor time and energy")]

    for level in ("none", "process"):
        monkeypatch.setattr(task_clock, "why_unavailable", lambda: None)
        assert "without read permission" in named(get_sandbox(level))[0]
        monkeypatch.setattr(task_clock, "why_unavailable", lambda: "perf_event_open: refused")
        (phrase,) = named(get_sandbox(level))
        assert "no process waits for" in phrase
        assert "sysctl kernel.perf_event_paranoid=2" in phrase


def test_account_of_a_control_group_misses_nothing(monkeypatch, tmp_path) -> None:
    monkeypatch.setattr(limits, "place", lambda: limits.GroupParent(2, {"memory": tmp_path}))
    assert ProcessSandbox(confined=True).uncounted() == []


def test_host_without_control_groups_says_that_limits_are_sampled(no_control_groups) -> None:
    assert not any("by the kernel" in sentence for sentence in get_sandbox("process").guarantees())
