"""What metrics there are, how they are chosen, how packages add theirs, and how values are ranked."""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest

from a2perf.constants import ReliabilityMetrics, SystemMetrics
from a2perf.errors import ConfigError, UserError
from a2perf.metrics import registry
from a2perf.metrics.definition import metric
from a2perf.metrics.values import Lead, MetricValue
from a2perf.runs.run import Run
from tests.commands import run_python
from tests.installed_package import install
from tests.metrics.made_runs import runs_of


@pytest.fixture
def installed_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A package beside a2perf with entry points: a good metric, a broken one, one whose name is taken."""
    code = (
        "from a2perf.metrics import metric\n"
        "def curve_points(run):\n"
        "    '''Points of the curve.'''\n"
        "    return None if run.curve is None else run.curve.steps.size\n"
        "def always_fails(runs, profile):\n"
        "    raise RuntimeError('no such column')\n"
        "made = metric(direction='none', source='a test')\n"
        "GOOD = [made(curve_points), metric(direction='none', source='a test', across=True)(always_fails)]\n"
        "TAKEN = metric(direction='none', source='a test', name='returns')(curve_points)\n"
    )
    points = "[a2perf.metrics]\ngood = extra_metrics:GOOD\ntaken = extra_metrics:TAKEN\nbroken = no_such_module:X\n"
    install(tmp_path, monkeypatch, "extra_metrics", code, points)
    registry.reload()
    yield tmp_path
    registry.reload()


def test_every_metric_says_what_it_is() -> None:
    metrics = registry.all_metrics()
    assert {metric.category for metric in metrics.values()} == {"application", "reliability", "system", "data"}
    for name, one in metrics.items():
        assert one.name == name
        assert all((one.label, one.formula, one.source, one.needs, one.provenance)), name
    assert {member.value for member in ReliabilityMetrics} <= set(metrics)


def test_every_name_of_a_metric_is_found_by_grep(repository: Path) -> None:
    code = "\n".join(
        path.read_text() for folder in ("a2perf", "packages") for path in (repository / folder).rglob("*.py")
    )
    names = registry.all_metrics()
    assert [name for name in names if f'"{name}"' not in code and f"def {name}(" not in code] == []


def test_reports_name_no_metric(repository: Path) -> None:
    names = {*registry.all_metrics()} - {"generalization", "returns"}  # also a mode, and a kind of chart
    for path in (repository / "a2perf" / "report").rglob("*.py"):
        texts = [node.value for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Constant)]
        assert names.isdisjoint(text for text in texts if isinstance(text, str)), path


def test_metrics_that_lead_name_theirs_and_each_beside_another_exists() -> None:
    metrics = registry.all_metrics()
    for one in metrics.values():
        assert len(one.title.split()) <= 4 or not one.leads(Lead.TEXT), one.name
        assert one.beside in ("", *metrics), one.name
    assert [one.name for one in registry.leading(Lead.CHART, "train")] == ["energy_gross"]
    assert [one.name for one in registry.beside("latency_round_trip_mean")] == [
        "latency_round_trip_median",
        "latency_round_trip_p99",
    ]


@pytest.mark.parametrize(
    "given", [{}, {"tracking": [{}]}, {"tracking": [{"energy": None, "gpu": 3}], "emissions": [{}]}]
)
def test_every_metric_has_a_value_or_a_condition_for_any_data(given: dict[str, Any]) -> None:
    scores = registry.score(runs_of(**given))
    known = registry.all_metrics().items()
    assert list(scores) == [name for name, one in known if name in scores or one.applies is None]
    for found in scores.values():
        assert (found.value is None) == bool(found.condition), found.name
        assert given or found.value is None
    msgspec.json.encode(scores)


def test_enums_names_and_categories_select() -> None:
    chosen = registry.select([ReliabilityMetrics.IqrWithinRuns, "LowerCVaROnAcross", "returns", "IqrWithinRuns"])
    assert [metric.name for metric in chosen] == ["IqrWithinRuns", "LowerCVarOnAcross", "returns"]
    assert {m.name for m in registry.select(SystemMetrics.TRAINING_TIME)} == {"wall_clock", "cpu_time"}
    assert all(m.name.startswith("latency_") for m in registry.select([SystemMetrics.INFERENCE_TIME]))
    assert {m.category for m in registry.select("data")} == {"data"}
    assert registry.select("MEMORY_USAGE") == registry.select(SystemMetrics.MEMORY_USAGE)
    with pytest.raises(ConfigError, match="did you mean 'IqrWithinRuns'"):
        registry.select(["IqrWithinRun"])


def test_enums_work_from_a_gin_file(tmp_path: Path) -> None:
    code = (
        "import gin, a2perf.submission.submission_util\n"
        "from a2perf.metrics import registry\n"
        "chosen = gin.configurable('chosen')(lambda wanted=None: wanted)\n"
        "gin.parse_config('chosen.wanted = [%ReliabilityMetrics.IqrAcrossRuns, %SystemMetrics.TRAINING_TIME]')\n"
        "print([metric.name for metric in registry.select(chosen())])\n"
    )
    done = run_python(code, cwd=tmp_path)
    assert done.stdout.strip() == "['IqrAcrossRuns', 'wall_clock', 'cpu_time']", done.stderr[-2000:]


def test_only_what_is_asked_for_is_computed() -> None:
    data = runs_of(curves=[([1, 2, 3], [1.0, 2.0, 3.0])] * 3)
    scores = registry.score(data, "upstream", names=[ReliabilityMetrics.LowerCVarOnAcross])
    assert list(scores) == ["LowerCVarOnAcross"]
    assert scores["LowerCVarOnAcross"].value == 3.0
    assert "MaxDrawdown" not in registry.score(data, "upstream")
    assert "MaxDrawdown" in registry.score(data, "corrected")


def test_a_package_adds_metrics_and_a_broken_one_costs_only_itself(installed_package: Path) -> None:
    assert {"curve_points", "always_fails"} <= set(registry.all_metrics())
    scores = registry.score(runs_of(curves=[([1, 2], [0.0, 1.0])]))
    assert scores["curve_points"].value == 2.0
    assert registry.all_metrics()["curve_points"].formula == "Points of the curve"
    assert scores["always_fails"].condition == "failed: RuntimeError: no such column"
    assert scores["MedianPerfDuringTraining"].value == 0.5
    problems = registry.problems()
    assert set(problems) == {"taken", "broken"}
    assert "'returns' is taken" in problems["taken"]
    assert "ModuleNotFoundError" in problems["broken"]


def _values(**by_name: float) -> Mapping[str, MetricValue]:
    return {name: MetricValue(name="x", value=value, direction="min", unit="s") for name, value in by_name.items()}


def test_ranks_follow_the_direction_and_refuse_what_cannot_be_compared() -> None:
    values = dict(_values(a=3.0, b=1.0, c=3.0))
    assert registry.rank(values) == {"a": 2.5, "b": 1.0, "c": 2.5}
    nothing = MetricValue(name="x", unit="s", direction="min", condition="not enough data (n=0, needs 1)")
    assert registry.rank({**values, "d": nothing}) == {"a": 2.5, "b": 1.0, "c": 2.5}
    assert registry.rank({"d": nothing}) == {}
    other = MetricValue(name="x", value=1.0, direction="min", unit="ms")
    with pytest.raises(UserError, match="cannot be ranked"):
        registry.rank({**values, "e": other})
    aimless = MetricValue(name="y", value=1.0)
    with pytest.raises(UserError, match="no better or worse"):
        registry.rank({"a": aimless})


def test_metric_of_one_run_has_spread_interval_and_notes_over_runs() -> None:
    @metric(unit="bytes", direction="min", source="a test", provenance="measured")
    def written(run: Run) -> float:
        """Bytes written to storage."""
        return run.tracking.io_write_bytes

    runs = runs_of(tracking=[{"io_write_bytes": 10}, {}, {"io_write_bytes": 30}])
    assert written(runs.runs[0]) == 10
    found = written.score(runs)
    assert (found.name, found.unit, found.direction, found.provenance) == ("written", "bytes", "min", "measured")
    assert (found.value, found.n, found.per_run) == (20.0, 2, [10, None, 30])
    assert found.spread == pytest.approx(200**0.5)
    assert found.interval == pytest.approx((20 - 127.062, 20 + 127.062), rel=1e-5)
    assert found.notes == ["1 of 3 runs did not record it"]
    assert written.score(runs, "upstream").interval is None
    assert (written.label, written.formula) == ("Written", "Bytes written to storage")


def test_metric_across_runs_has_no_number_of_one_run() -> None:
    with pytest.raises(TypeError, match="exists only across runs"):
        registry.all_metrics()["IqrAcrossRuns"](runs_of(wall_clock=[1.0]).runs[0])


def test_old_name_of_the_upstream_profile_is_accepted() -> None:
    runs = runs_of(returns={"t": [[1.0, 2.0], [4.0]]})
    assert registry.score(runs, "a2perf") == registry.score(runs, "upstream")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="did you mean 'upstream'"):
        registry.score(runs, "upstram")  # type: ignore[arg-type]


def test_import_contract_of_scoring_names_every_module_but_the_trackers(repository: Path) -> None:
    contracts = tomllib.loads((repository / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (contract,) = [one for one in contracts if one["name"] == "scoring never imports the trackers"]
    folder = repository / "a2perf" / "metrics"
    names = [path.relative_to(folder).with_suffix("").parts for path in folder.rglob("[!_]*.py")]
    modules = {".".join(("a2perf.metrics", *parts)) for parts in names if parts[0] != "trackers"}
    assert set(contract["source_modules"]) == modules | {"a2perf.report", "a2perf.runs"}
    assert not contract.get("allow_indirect_imports")
