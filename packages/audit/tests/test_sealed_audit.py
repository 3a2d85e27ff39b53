"""An audit is sealed with the terms of a competition, and its failed checks stand beside the results."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from a2perf.cli import main
from packages.audit.tests.test_references import INFERENCE

TASK = "toy_macro_stdcell"
FAILED = f"failed checks of the environment: {TASK}: rewards"


def status(*words: Any) -> int:
    """Runs a command in this process and returns its exit status."""
    with pytest.raises(SystemExit) as ended:
        main([*map(str, words)])
    return int(ended.value.code or 0)


def init(folder: Path, audit: Path) -> int:
    """Creates a small competition with an audit."""
    given = ["--domain", "circuit_training", "--task", TASK, "--held-out", 1, "--episodes", 1, "--seed", 0]
    return status("competition", "init", folder, *given, "--no-train", "--set", "latency_steps=1", "--audit", audit)


def test_an_audit_is_sealed_published_and_verified(tmp_path: Path, monkeypatch: Any, capfd: Any) -> None:
    monkeypatch.chdir(tmp_path)
    audit = Path("audit.json")
    assert status("audit", TASK, "--json", "--episodes", 5, "--search-steps", 100, "--reward-range", 0, 1) == 1
    audit.write_text(capfd.readouterr().out)
    assert init(Path("cup"), audit) == 0
    entry = Path("ada")
    entry.mkdir()
    (entry / "inference.py").write_text(INFERENCE.replace("ACTION", 'int(observation["mask"].argmax())'))
    for name in ("requirements.txt", "__init__.py"):
        (entry / name).touch()
    (entry / "train.py").write_text("def train():\n    pass\n")
    weaker = ("--sandbox", "process", "--allow-weaker")
    assert status("competition", "run", "cup", "--submission", entry, *weaker) == 0
    assert status("competition", "publish", "cup", "-o", "site", "--yes") == 0
    assert FAILED in Path("site/index.html").read_text()
    capfd.readouterr()
    assert status("competition", "verify", "site/reveal") == 0
    checks = len(json.loads(audit.read_text())[0]["findings"])
    assert f"note: {FAILED}, of {checks} checks in the audit; " in capfd.readouterr().out

    revealed = Path("site/reveal/audit.json")
    revealed.write_text(audit.read_text().replace('"fails"', '"holds"'))
    assert status("competition", "verify", "site/reveal") == 1
    assert "PROBLEM: audit.json is not the audit of terms.json" in capfd.readouterr().out
    revealed.unlink()
    assert status("competition", "verify", "site/reveal") == 1
    assert "PROBLEM: audit.json" in capfd.readouterr().out
    Path("cup/public/audit.json").write_text("[]")
    assert status("competition", "run", "cup", "--submission", entry, *weaker) == 2
    assert "are not those of the published commitment" in capfd.readouterr().err


def test_what_is_no_audit_of_the_task_is_refused(tmp_path: Path, capfd: Any) -> None:
    audit = tmp_path / "audit.json"
    for content, text in {
        "{": "audit.json cannot be read",
        '[{"subject": "ariane"}]': "audit.json cannot be read",
        json.dumps([{"subject": "ariane", "findings": [{"check": "api", "verdict": 1}]}]): "audit.json cannot be read",
        "[]": "the audit is not of toy_macro_stdcell",
    }.items():
        audit.write_text(content)
        assert init(tmp_path / "cup", audit) == 2
        assert text in capfd.readouterr().err
        assert not (tmp_path / "cup").exists()
