"""Kinds of experiments of installed packages: run by name, and refused with the reason if they are broken."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from a2perf.errors import ConfigError
from a2perf.experiments.kinds import kind_names, plan_kind
from tests.commands import call_a2perf
from tests.installed_package import install

_MODULE = """
import sys
from a2perf.launch import RunCommand, RunSpec

def lengths(root, *, values, same_key="no"):
    specs = []
    for value in values.split(":"):
        command = RunCommand((sys.executable, "-c", f"print({value!r})"), name=f"length_{value}", cwd=root.parent,
                             log=root / f"{value}.log")
        specs.append(RunSpec("key" if same_key == "yes" else f"length {value}", command, {"value": value, "seed": 0}))
    return specs

NUMBER = 3
"""
_POINTS = """[a2perf.experiments]
lengths = kind_of_a_package:lengths
number = kind_of_a_package:NUMBER
missing = kind_of_a_package:NOWHERE
"""


@pytest.fixture(autouse=True)
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, monkeypatch, "kind_of_a_package", _MODULE, _POINTS)


def test_a_kind_runs_and_resumes(tmp_path: Path) -> None:
    assert call_a2perf("experiment") == (0, "lengths\nmissing\nnumber\n", "")
    root = tmp_path / "experiment"
    code, out, _ = call_a2perf("experiment", "lengths", "--root-dir", root, "-o", "values=3:5")
    assert code == 0
    assert f"2 of 2 runs finished in {root}" in out
    assert [line.split()[:3] for line in out.splitlines()[:3]] == [
        ["value", "runs", "finished"],
        ["3", "1", "1"],
        ["5", "1", "1"],
    ]
    code, out, _ = call_a2perf("experiment", "lengths", "--root-dir", root, "-o", "values=3:5:7", "--json")
    assert (code, json.loads(out)["counts"]["finished"]) == (0, 3)


@pytest.mark.parametrize(
    ("name", "options", "message", "hint"),
    [
        ("length", {}, "did you mean 'lengths'", "lengths, missing, number"),
        ("missing", {}, "cannot be loaded from kind_of_a_package:NOWHERE: AttributeError", "kind-of-a-package"),
        ("number", {}, "'number' is 3, which cannot be called", "returns run specifications"),
        ("lengths", {}, "requires values", "-o values=VALUE"),
        (
            "lengths",
            {"values": "1", "valeus": "2"},
            "has no option 'valeus'; did you mean 'values'",
            "values, same_key",
        ),
        ("lengths", {"values": "1:2", "same_key": "yes"}, "have the key 'key'", "own key"),
    ],
)
def test_an_invalid_call_is_refused(
    tmp_path: Path, name: str, options: dict[str, str], message: str, hint: str
) -> None:
    assert kind_names() == ["lengths", "missing", "number"]
    with pytest.raises(ConfigError) as caught:
        plan_kind(name, tmp_path, options)
    assert message in caught.value.message
    assert hint in (caught.value.hint or "")
