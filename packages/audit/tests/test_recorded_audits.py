"""Every task of the protocols has a recorded audit and a page, and a check that fails is explained."""

from __future__ import annotations

import json
from pathlib import Path

from a2perf.metrics import protocol
from a2perf_audit.checks import CHECKS
from docs.building import audits


def test_every_task_of_the_protocols_has_the_page_of_its_audit(tmp_path: Path) -> None:
    audits.write(tmp_path)
    tasks = {name for version in protocol.versions() for name in protocol.load(version).tasks}
    assert {page.stem for page in tmp_path.glob("audit_*.md")} == {f"audit_{task}" for task in tasks}
    known, reasons = audits.read()
    overview = (tmp_path / "audits.md").read_text()
    for task in tasks:
        assert f"[{task}](audit_{task}.md)" in overview
        assert [one["check"] for one in known[task]["findings"]] == [check.__name__ for check in CHECKS]
        failed = {one["check"] for one in known[task]["findings"] if one["verdict"] == "fails"}
        assert failed == {*reasons.get(task, {})}
        page = (tmp_path / f"audit_{task}.md").read_text()
        assert all(reasons[task][check] in page for check in failed)
        assert f"python results/audits.py {task}" in page


def test_recorded_audits_can_be_sealed() -> None:
    from a2perf_competition.records import AuditTerms

    content = audits.RECORDED.read_bytes()
    assert len(AuditTerms.of(content).verdicts) == len(CHECKS) * len(json.loads(content))
