"""What must stay the same while the code is rebuilt: numbers, keys, files and exit statuses.

``tests/pinned/expected`` was recorded by the code before the restructuring. If a difference is meant, record again with
``python -m tests.pinned.record NAME`` and say in the commit why each line of the diff changed. What an environment
computes is pinned elsewhere: ``tests/domains/test_fingerprints.py`` and the golden traces in ``tests/domains``.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.pinned import condense
from tests.pinned.record import EXPECTED, PINS

_MARKS = {"commands": pytest.mark.group("pybullet")}


@pytest.mark.parametrize("name", [pytest.param(name, marks=_MARKS.get(name, ())) for name in PINS])
def test_output_is_as_recorded(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.chdir(tmp_path)
    actual = condense.plain(PINS[name](tmp_path))
    expected = json.loads((EXPECTED / f"{name}.json").read_text())
    found = condense.differences(expected, actual)
    listed = "\n".join(found[:60])
    assert not found, f"{len(found)} differences; if they are meant: python -m tests.pinned.record {name}\n{listed}"


def test_changed_number_missing_key_and_new_key_are_found() -> None:
    expected = {"a": [1.0, 2, None], "b": {"c": "x"}}
    assert condense.differences(expected, {"a": [1.0 + 1e-12, 2, None], "b": {"c": "x"}}) == []
    assert condense.differences(expected, {"a": [1.001, 2, None], "b": {"d": "x"}}) == [
        "/a[0]: 1.001, was 1.0",
        '/b/c: missing, was "x"',
        '/b/d: new, "x"',
    ]


def test_signature_sees_every_number() -> None:
    numbers = {"energy": 3e-7, "memory": 2.5e9, "runs": [1.0, 2.0]}
    before = condense.signature(numbers)
    for changed in ({"energy": 3.01e-7}, {"memory": 2.501e9}, {"runs": [1.0, 2.001]}):
        assert abs(condense.signature(numbers | changed) - before) > 1e-4
