"""Croissant metadata of recorded runs: mlcroissant reads the numbers of the runs back."""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from typing import Any

import mlcroissant
import pytest
from click.testing import CliRunner

import a2perf
from a2perf.cli.export_croissant import croissant as command
from a2perf.errors import ConfigError, MissingDependency, UserError
from a2perf.exporters.croissant import write_runs_croissant
from tests.shipped_runs import SHIPPED

LEARNED = SHIPPED / "learning" / "numpy_ars.zip"


def opened(path: Path) -> mlcroissant.Dataset:
    dataset = mlcroissant.Dataset(jsonld=str(path))
    assert not dataset.metadata.ctx.issues.errors
    return dataset


def plain(value: Any) -> Any:
    return value.decode() if isinstance(value, bytes) else value


def test_records_are_the_numbers_of_the_runs(tmp_path: Path) -> None:
    runs = a2perf.read_runs(LEARNED)
    path = write_runs_croissant(runs, tmp_path, name="learning", license="Apache-2.0", authors=["Ada {L}"])
    dataset = opened(path)
    assert dataset.metadata.ctx.issues.warnings == set()
    found = {plain(record["runs/run"]): record for record in dataset.records("runs")}
    assert len(found) == 10
    for result in runs:
        record = found[result.run.key]
        assert plain(record["runs/algorithm"]) == "numpy_ars"
        assert record["runs/seed"] == result.seed
        assert record["runs/energy_gross"] == result.run.tracking.energy.gross_kwh
        assert plain(record["runs/energy_provenance"]) == "estimated"
    episodes = list(dataset.records("episodes"))
    returns = [e.episode_return for r in runs for es in r.run.episodes.values() for e in es]
    assert math.fsum(record["episodes/return"] for record in episodes) == pytest.approx(math.fsum(returns))
    assert len(episodes) == len(returns) == 50
    fields = {field.name: field for record_set in dataset.metadata.record_sets for field in record_set.fields}
    assert "unit kWh; provenance in energy_provenance" in fields["energy_gross"].description


def test_origin_energy_and_limits_are_stated(tmp_path: Path) -> None:
    path = write_runs_croissant(a2perf.read_runs(LEARNED), tmp_path, name="learning")
    found = json.loads(path.read_text())
    assert found["description"] == "10 runs of 1 submission on 1 task, recorded by a2perf."
    assert "Sandbox: bubblewrap. Processors: AMD EPYC." in found["rai:dataCollection"]
    assert "The energy of 10 of 10 runs is an estimate of a model." in found["rai:dataLimitations"]
    assert found["rai:dataSocialImpact"].startswith("Energy of 10 of 10 runs: ≈ ")
    assert found["datePublished"].startswith("2026-11-20")


def test_paths_and_secret_seeds_are_left_out(tmp_path: Path) -> None:
    runs = a2perf.read_runs(LEARNED)
    public = opened(write_runs_croissant(runs, tmp_path / "public", name="x"))
    names = [field.name for record_set in public.metadata.record_sets for field in record_set.fields]
    assert "bundle" not in names
    assert "episode_seed" in names
    assert runs[0].run.manifest is not None
    runs[0].run.manifest.seeds["scheme"] = 2
    secret = write_runs_croissant(runs, tmp_path / "secret", name="x")
    assert "episode_seed" not in secret.read_text()
    assert str(Path.cwd()) not in secret.read_text()


def test_changed_runs_missing_packages_and_folders_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runs = a2perf.read_runs(LEARNED)
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="cannot be written"):
        write_runs_croissant(runs, tmp_path / "file", name="x")
    runs[0].run.changed = True
    with pytest.raises(UserError, match="was changed after it ended"):
        write_runs_croissant(runs, tmp_path, name="x")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingDependency, match=r"pyarrow.*\n.*\.\[frames\]"):
        write_runs_croissant(runs, tmp_path, name="x")


def test_command_describes_runs(tmp_path: Path) -> None:
    arguments = ["--runs", str(LEARNED), "-o", str(tmp_path / "published"), "--license", "Apache-2.0"]
    done = CliRunner().invoke(command, arguments, standalone_mode=False, catch_exceptions=False)
    assert done.output == f"{tmp_path / 'published' / 'croissant.json'}\n"
    assert opened(tmp_path / "published" / "croissant.json").metadata.name == "published"
    with pytest.raises(ConfigError, match="need each other"):
        CliRunner().invoke(command, [str(LEARNED), "--runs"], standalone_mode=False, catch_exceptions=False)
