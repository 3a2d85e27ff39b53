"""Entry points of installed packages: good ones are passed on, broken ones are named and stop nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from a2perf.errors import ConfigError
from a2perf.plugins import RejectedPlugin, load_plugin, load_plugins, plugin_names
from tests.installed_package import install

GROUP = "a2perf.tests_of_plugins"


@pytest.fixture(autouse=True)
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A package with entry points: two functions, a number, a name that does not exist."""
    names = {"two": "two", "one": "one", "number": "number", "gone": "gone"}
    points = [f"{name} = module_with_plugins:{value}" for name, value in names.items()]
    code = "def one(): return 1\ndef two(): return 2\nnumber = 3\n"
    install(tmp_path, monkeypatch, "module_with_plugins", code, "\n".join([f"[{GROUP}]", *points]))


def test_accepted_objects_arrive_by_name_and_the_others_have_a_reason() -> None:
    found = {}

    def accept(name: str, loaded: object) -> None:
        if not callable(loaded):
            raise RejectedPlugin(f"{loaded!r} is not a function")
        if name == "two":
            raise OSError("no device")
        found[name] = loaded()

    problems = load_plugins(GROUP, accept)
    assert found == {"one": 1}
    assert {name: str(problem) for name, problem in problems.items()} == {
        "gone": "module_with_plugins:gone: AttributeError: module 'module_with_plugins' has no attribute 'gone'",
        "number": "module_with_plugins:number: 3 is not a function",
        "two": "module_with_plugins:two: OSError: no device",
    }


def test_one_plugin_is_loaded_by_its_name_alone() -> None:
    assert plugin_names(GROUP) == ["gone", "number", "one", "two"]
    assert load_plugin(GROUP, "two", "thing", gives="a number")() == 2


@pytest.mark.parametrize(
    ("name", "message", "hint"),
    [
        ("onee", "'onee' is not a thing; did you mean 'one'?", "choose one of: built_in, gone, number, one, two"),
        ("number", "the thing 'number' is 3, which cannot be called", "returns a number"),
        ("gone", "the thing 'gone' cannot be loaded from module_with_plugins:gone: Attr", "module-with-plugins"),
    ],
)
def test_what_cannot_be_used_is_a_user_error(name: str, message: str, hint: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_plugin(GROUP, name, "thing", gives="a number", others=("built_in",))
    assert caught.value.message.startswith(message)
    assert hint in str(caught.value.hint)


def test_a_group_without_packages_names_the_group() -> None:
    with pytest.raises(ConfigError, match=r"install a package with the group a2perf\.empty"):
        load_plugin("a2perf.empty", "one", "thing", gives="a number")
