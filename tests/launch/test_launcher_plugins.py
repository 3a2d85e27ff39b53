"""Launchers of installed packages: found by name, checked, and refused with the reason if they are broken."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from a2perf.errors import ConfigError
from a2perf.launch import RunCommand, get_launcher
from tests.installed_package import install

_MODULE = """
from a2perf.launch.local import LocalLauncher

class Careful(LocalLauncher):
    name = "careful"

    def __init__(self, *, level: str = "5") -> None:
        super().__init__()
        self.level = int(level)

class Half:
    name = "half"

    def start(self, command):
        raise NotImplementedError

NUMBER = 3
"""
_POINTS = """[a2perf.launchers]
careful = launcher_of_a_package:Careful
half = launcher_of_a_package:Half
number = launcher_of_a_package:NUMBER
missing = launcher_of_a_package:NOWHERE
local = launcher_of_a_package:Half
"""


@pytest.fixture(autouse=True)
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, monkeypatch, "launcher_of_a_package", _MODULE, _POINTS)


def test_a_launcher_of_a_package_is_used_by_its_name(tmp_path: Path) -> None:
    launcher = get_launcher("careful", level="7")
    assert (launcher.name, launcher.level) == ("careful", 7)  # type: ignore[attr-defined]
    assert launcher.run(RunCommand((sys.executable, "-c", "raise SystemExit(4)"), cwd=tmp_path)) == 4


def test_built_in_launchers_cannot_be_replaced() -> None:
    assert type(get_launcher("local")).__name__ == "LocalLauncher"


@pytest.mark.parametrize(
    ("name", "options", "message", "hint"),
    [
        ("missing", {}, "cannot be loaded from launcher_of_a_package:NOWHERE: AttributeError", "launcher-of-a-package"),
        ("number", {}, "'number' is 3, which cannot be called", "class or function"),
        ("half", {}, "Half has no adopt, wait, run, close", "a2perf.launch.Launcher"),
        ("carefull", {}, "did you mean 'careful'", "careful"),
        ("careful", {"leval": "7"}, "has no option 'leval'; did you mean 'level'", "level"),
        ("local", {"address": "x"}, "'local' has no option 'address'", "write --launcher local alone"),
    ],
)
def test_what_is_wrong_is_said(name: str, options: dict[str, str], message: str, hint: str) -> None:
    with pytest.raises(ConfigError) as caught:
        get_launcher(name, **options)
    assert message in caught.value.message
    assert hint in (caught.value.hint or "")
