"""Success on compositions of websites: the solver, its clone, and what the page shows."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from a2perf.domains.web_navigation.sites.designs import shipped_designs


@pytest.fixture
def composition(repository: Path, monkeypatch: pytest.MonkeyPatch):
    """The command that measures compositions."""
    monkeypatch.syspath_prepend(str(repository / "packages" / "baselines" / "examples" / "web_composition"))
    for name in ("ROOT_DIR", "A2PERF_ENV_ID", "A2PERF_ENV_KWARGS"):
        monkeypatch.setenv(name, "")  # the command sets them
    import composition

    yield composition
    for name in ("composition", "composition_chart", "reader"):
        sys.modules.pop(name, None)


def test_success_on_compositions_is_measured_and_drawn(
    composition, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(
        composition, "held_out_designs", lambda levels: [one.as_record() for one in shipped_designs(1)[:8]]
    )
    monkeypatch.setattr(composition, "LEVELS", ("1",))
    monkeypatch.setattr(composition, "DEPTHS", (1, 2))
    monkeypatch.setattr(sys, "argv", ["composition.py", "--out", str(tmp_path), "--episodes", "5"])
    composition.main()
    rows = composition.read_rows(tmp_path / "composition.csv")
    assert len(rows) == 4 * 3
    assert {rows[policy, "1", 2, "given"]["success"] for policy in ("solver", "cloned", "cloned-16")} == {"1.0"}
    assert float(rows["random", "1", 2, "given"]["success"]) < 1.0
    assert "| solver | 1 | given | 100.0 [56." in capsys.readouterr().out
    assert (tmp_path / "composition.svg").stat().st_size > 5000
    assert (tmp_path / "composition.png").read_bytes().startswith(b"\x89PNG")
    monkeypatch.setattr(composition, "measure", None)
    composition.main()  # everything is there


def test_the_page_shows_the_recorded_success_on_compositions(composition) -> None:
    rows = composition.read_rows(composition.HERE / "composition.csv")
    assert composition.summary(rows) in (composition.HERE / "README.md").read_text(encoding="utf-8")
    assert all(row["solved"] == row["episodes"] for key, row in rows.items() if key[0] == "solver")


@pytest.mark.slow
@pytest.mark.parametrize("order", ["given", "reversed"])
@pytest.mark.parametrize("depth", [1, 2, 3])
def test_hundreds_of_compositions_are_solved_from_their_observations(composition, depth: int, order: str) -> None:
    designs = [design.as_record() for level in range(1, depth + 1) for design in shipped_designs(level)[::5]]
    load = composition.submission_policy(composition.SOLVER)
    assert composition.measure(load, designs, 2**depth, order, 300)["solved"] == 300
