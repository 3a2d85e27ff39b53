"""The submissions of docs/reference/adapters.md are submissions, and what it says of arguments is so."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest

from a2perf.submission.participant.adapters import callables, sb3, tf_agents


def _page(repository: Path) -> str:
    return (repository / "docs" / "reference" / "adapters.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("adapter", ["sb3", "tf_agents", "callables"])
def test_submission_of_the_page_keeps_the_contract(repository: Path, adapter: str) -> None:
    blocks = re.findall(r"^```python\n(.*?)^```", _page(repository), flags=re.DOTALL | re.MULTILINE)
    (text,) = [block for block in blocks if f"adapters import {adapter}\n" in block]
    names: dict[str, object] = {}
    exec(text, names)
    assert {"load_policy", "preprocess_observation", "infer_once"} <= set(names)


@pytest.mark.parametrize("module", [callables, sb3, tf_agents])
def test_every_argument_is_on_the_page(repository: Path, module: object) -> None:
    parameters = list(inspect.signature(module.contract).parameters)
    assert all(f"`{name}`" in _page(repository) for name in parameters[1:]), parameters
