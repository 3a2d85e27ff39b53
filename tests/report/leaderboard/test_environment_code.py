"""Two versions of the code of an environment are two environments, also where their first episodes are equal."""

from __future__ import annotations

from pathlib import Path

import a2perf
from a2perf.records import EnvironmentPackage
from tests.metrics import made_bundles


def package(version: str) -> EnvironmentPackage:
    return EnvironmentPackage(name="tanks", version=version, module="tanks", sha256=version[-1] * 64)


def test_code_of_another_version_is_never_pooled_or_ranked_with_the_first(tmp_path: Path) -> None:
    for seed, version in ((1, "1.0"), (2, "1.0"), (3, "2.1"), (4, "2.1")):
        made_bundles.write_inference(
            tmp_path / "runs" / f"seed_{seed}", seed, domain="gymnasium", environment=package(version)
        )
    groups = a2perf.score(tmp_path / "runs").groups
    assert [len(group.runs) for group in groups] == [2, 2]
    assert len({group.fingerprint for group in groups}) == 2
    a2perf.write_leaderboard(tmp_path / "runs", tmp_path / "site", reports=False)
    rows = (tmp_path / "site" / "leaderboard.csv").read_text().splitlines()
    head = rows[0].split(",")
    prints = {row.split(",")[head.index("fingerprint")] for row in rows[1:]}
    assert len(prints) == 2
    page = a2perf.write_report(a2perf.read_runs(tmp_path / "runs"), tmp_path / "report").page.read_text()
    assert "tanks 2.1 (sha256 1111" in page


def test_runs_without_a_package_keep_the_fingerprint_of_their_behaviour(tmp_path: Path) -> None:
    bundle = made_bundles.write_inference(tmp_path / "R", 1)
    assert a2perf.read_run(bundle).run.identity.fingerprint == "f" * 8
