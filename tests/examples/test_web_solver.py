"""The scripted solver of websites: a submission that a2perf runs, and every level solved from observations alone."""

from __future__ import annotations

import sys
from pathlib import Path

import gymnasium
import pytest


@pytest.fixture
def solver(repository: Path, monkeypatch: pytest.MonkeyPatch):
    """The module that reads pages."""
    monkeypatch.syspath_prepend(str(repository / "examples" / "web_solver"))
    import reader

    yield reader
    sys.modules.pop("reader", None)


@pytest.mark.parametrize("level", [1, 2, 3])
def test_every_website_is_solved_from_its_observations(solver, level: int) -> None:
    env = gymnasium.make(f"WebNavigation-Difficulty-0{level}-v0", num_websites=100)
    reader = solver.Reader()
    for number in range(20):
        observation, _ = env.reset(seed=number, options={"design": number * 5})
        total, ended, cut_off = 0.0, False, False
        while not (ended or cut_off):
            observation, reward, ended, cut_off, info = env.step(reader.choose(observation))
            total += reward
        assert info["reason"] == "solved"
        site = env.unwrapped.site
        perfect = 2 - 0.05 * (len(site.fields) + site.pages - 1)
        # a button that leads nowhere looks like the right one, and costs a step
        decoys = sum(node.role.name in ("NEXT", "SUBMIT") and node.target < 0 for node in site.nodes)
        assert perfect - 0.05 * decoys - 1e-6 <= total <= perfect + 1e-6
