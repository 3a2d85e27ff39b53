"""The registry of levels: built-in ones, those of installed packages, and what a refusal says."""

import pytest

from a2perf.errors import UserError
from a2perf.sandbox import (
    GROUP,
    Level,
    Limits,
    ProcessSandbox,
    available_levels,
    choose_sandbox,
    get_sandbox,
    interface,
    problems,
    register_sandbox,
    strongest_level,
)


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


def test_levels_are_listed_weakest_first(registry_restored) -> None:
    register_sandbox("another", Level(lambda: ProcessSandbox(confined=True), above="bubblewrap"))
    register_sandbox("bubblewrap", Level(lambda: ProcessSandbox(confined=True)))
    names = available_levels()
    assert [name for name in names if name != "docker"] == ["none", "process", "bubblewrap", "another"]


# --- levels of installed packages -------------------------------------------------------------------------------------


class _Point:
    """An entry point, as an installed package brings it."""

    def __init__(self, name: str, loaded: object) -> None:
        self.name, self.value, self._loaded = name, f"package:{name}", loaded

    def load(self) -> object:
        if isinstance(self._loaded, Exception):
            raise self._loaded
        return self._loaded


@pytest.fixture
def install(monkeypatch):
    def _install(**loaded: object) -> None:
        points = [_Point(name, value) for name, value in loaded.items()]
        monkeypatch.setattr("a2perf.plugins.entry_points", lambda group: points if group == GROUP else [])
        interface._installed.cache_clear()

    yield _install
    interface._installed.cache_clear()


def test_level_of_an_installed_package_is_offered_in_its_place(install) -> None:
    install(offline=Level(lambda: ProcessSandbox(confined=True), above="process"))
    assert available_levels()[:3] == ["none", "process", "offline"]
    assert isinstance(get_sandbox("offline"), ProcessSandbox)
    assert strongest_level() != "offline"
    assert problems() == {}


def test_unavailable_level_of_a_package_falls_back_to_the_level_below_it(install) -> None:
    install(offline=Level(lambda: ProcessSandbox(confined=True), lambda: "no unshare", "apt-get install it", "process"))
    with pytest.raises(UserError, match="'offline' is not available on this host: no unshare") as caught:
        choose_sandbox("offline", Limits())
    assert str(caught.value.hint).startswith("apt-get install it")
    sandbox, lost = choose_sandbox("offline", Limits(), allow_weaker=True)
    assert (sandbox.level, lost) == ("process", ["the requested level 'offline': no unshare"])


def test_broken_package_costs_only_its_own_level(install) -> None:
    install(
        broken=ImportError("no module"),
        odd="a text",
        process=Level(lambda: ProcessSandbox(confined=False)),
        placed=Level(lambda: ProcessSandbox(confined=True), above="bublewrap"),
    )
    assert get_sandbox("process").guarantees() == ProcessSandbox(confined=True).guarantees()
    assert dict(problems()) == {
        "broken": "package:broken: ImportError: no module",
        "odd": "package:odd: 'a text' is not a Level",
        "placed": "package:placed: above='bublewrap' is not one of none, process, bubblewrap, docker",
        "process": "package:process: the name 'process' is taken",
    }
    with pytest.raises(UserError, match="'broken' is not a sandbox level: package:broken: ImportError: no module"):
        get_sandbox("broken")
