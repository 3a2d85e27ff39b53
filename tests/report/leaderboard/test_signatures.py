"""Signatures made with real keys, as the command checks them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.commands import call_a2perf
from tests.report.leaderboard.made_entries import Field

pytest.importorskip("cryptography", reason="signing needs the extra signing")


def _run(field: Field, out: Path, *more: str) -> dict[str, dict[str, Any]]:
    document = call_a2perf("leaderboard", field.top, "-o", out, "--no-reports", "--json", *more, check=True).json()
    return {row["entry"]["name"]: row for board in document["boards"] for row in board["rows"]}


def test_signed_unknown_forged_and_unsigned(field: Field, tmp_path: Path) -> None:
    from a2perf.runs.signing import new_key, sign

    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    public = new_key(ours)
    new_key(theirs)
    for name, key in (("signed", ours), ("stranger", theirs), ("forged", ours), ("broken", None), ("unsigned", None)):
        for seed in range(2):
            bundle = field.evaluate(name, [5.0 + seed], seed)
            if key is not None:
                sign(bundle, key)
            if name == "broken":
                (bundle / "signature.json").write_text("{}")
            if name == "forged":
                record = bundle / "manifest.json"
                record.write_text(record.read_text().replace('"a2perf_version": "1.0.0"', '"a2perf_version": "9.9.9"'))
    rows = _run(field, tmp_path / "site", "--trusted-keys", str(public))
    states = {name: row["entry"]["runs"][0]["signature"]["state"] for name, row in rows.items()}
    assert states == {
        "signed": "signed",
        "stranger": "unknown key",
        "forged": "invalid",
        "broken": "invalid",
        "unsigned": "unsigned",
    }
    assert rows["forged"]["place"] is None
    assert "manifest.json was changed after the run" in rows["forged"]["entry"]["not_ranked"][0]
    assert {name for name, row in rows.items() if row["place"] is not None} == {"signed", "stranger", "unsigned"}
    legend = (tmp_path / "site" / "index.html").read_text()
    assert all(f"<b>{word}:</b>" in legend for word in ("Unsigned", "Signed", "Unknown key"))
    without = _run(field, tmp_path / "site")
    assert "<b>Signed:</b>" not in (tmp_path / "site" / "index.html").read_text()
    assert without["signed"]["entry"]["runs"][0]["signature"]["state"] == "unknown key"
