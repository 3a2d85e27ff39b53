"""Emissions: the gin name with its parameters, carbon factors, and codecarbon itself around a function."""

from __future__ import annotations

import csv
import inspect
import warnings

import gin
import pytest

from a2perf.domains.registry import packaged_gin_file
from a2perf.errors import ConfigError
from a2perf.metrics.trackers import emissions
from a2perf.metrics.trackers.carbon_factors import find_factor
from a2perf.metrics.trackers.emissions import EmissionsSettings, resolve_settings, track_emissions_decorator
from a2perf.submission import configuration
from tests.commands import run_python

# Every argument that existing gin files may set.
CLASSIC = {
    *("project_name", "measure_power_secs", "api_call_interval", "api_endpoint", "api_key", "output_dir"),
    *("output_file", "save_to_file", "save_to_api", "save_to_logger", "save_to_prometheus", "prometheus_url"),
    *("logging_logger", "offline", "emissions_endpoint", "experiment_id", "country_iso_code", "region"),
    *("cloud_provider", "cloud_region", "gpu_ids", "co2_signal_api_token", "log_level", "default_cpu_power", "pue"),
}


@pytest.fixture(autouse=True)
def no_gin_bindings():
    gin.clear_config()
    yield
    gin.clear_config()


def test_every_classic_parameter_defaults_to_not_given():
    parameters = inspect.signature(emissions._track_emissions_decorator).parameters
    assert {name: parameters[name].default for name in CLASSIC} == {**dict.fromkeys(CLASSIC), "pue": 1.0}


def test_every_parameter_is_one_of_codecarbons():
    from codecarbon import track_emissions

    theirs = set(inspect.signature(track_emissions).parameters)
    assert set(EmissionsSettings.__dataclass_fields__) - theirs == set()


def test_settings_of_the_readme_gin_file():
    """Platform 1.6: tests/packaging/test_gin_files.py compares this file with the one of the public readme."""
    packaged = packaged_gin_file("web_navigation", "training.gin")
    assert packaged is not None
    configuration.parse([packaged], [])
    settings = resolve_settings()
    passed_on = {
        "project_name": "a2perf_web_navigation_train",
        "measure_power_secs": 5,
        "log_level": "info",
        "country_iso_code": "USA",
        "region": "Massachusetts",
    }
    assert settings == EmissionsSettings(**passed_on, save_to_file=True, save_to_logger=False, offline=True)
    assert settings.codecarbon_arguments() == {**passed_on, "pue": 1.0, "output_methods": "csv"}
    assert "track_emissions_decorator.region = 'Massachusetts'" in gin.operative_config_str()


@pytest.mark.parametrize(
    ("given", "outputs", "wanted"),
    [
        ({}, ["csv"], False),
        ({"save_to_file": True}, ["csv"], False),
        ({"output_dir": "there"}, ["csv"], True),
        ({"output_dir": "there", "save_to_file": False}, [], False),
        ({"save_to_prometheus": True, "save_to_api": True}, ["csv", "api", "prometheus"], True),
        ({"output_methods": ["logger", "csv"], "save_to_file": False}, ["logger", "csv"], True),
        ({"output_methods": "api, logfire"}, ["api", "logfire"], True),
        ({"output_handlers": [object()]}, ["csv"], True),
    ],
)
def test_codecarbons_tracker_is_wanted_only_for_outputs_of_its_own(given, outputs, wanted):
    settings = EmissionsSettings(**given)
    assert (settings.outputs(), settings.wants_codecarbon) == (outputs, wanted)


def test_old_names_are_mapped_with_a_warning():
    gin.parse_config(
        "track_emissions_decorator.default_cpu_power = 150\ntrack_emissions_decorator.co2_signal_api_token = 'abc'"
    )
    with pytest.warns(FutureWarning, match="now called") as caught:
        settings = resolve_settings()
    assert len(caught) == 2
    assert (settings.force_cpu_power, settings.electricitymaps_api_token) == (150, "abc")
    with pytest.warns(FutureWarning, match="the value of force_cpu_power counts"):
        settings = track_emissions_decorator(emissions._RESOLVE, default_cpu_power=1.0, force_cpu_power=2.0)
    assert settings.force_cpu_power == 2.0


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("measure_power_secs", "5s", "a number"),
        ("measure_power_secs", 0, "more than 0"),
        ("measure_power_secs", True, "a number"),
        ("measure_power_secs", float("nan"), "a number"),
        ("pue", 0.5, "at least 1"),
        ("force_cpu_power", -1.0, "more than 0"),
        ("country_iso_code", 840, "a string"),
        ("tracking_mode", "proces", "did you mean 'process'"),
        ("log_level", "inf", "did you mean 'info'"),
    ],
)
def test_a_wrong_value_is_named(name, value, words):
    with pytest.raises(ConfigError, match=words) as caught:
        track_emissions_decorator(emissions._RESOLVE, **{name: value})
    assert f"track_emissions_decorator.{name}" in str(caught.value)


def test_a_misspelt_parameter_is_an_error():
    with pytest.raises(ValueError, match="mesure_power_secs"):
        gin.parse_config("track_emissions_decorator.mesure_power_secs = 5")


def test_importing_the_name_does_not_import_codecarbon():
    code = (
        "import sys, a2perf.metrics.trackers.emissions, a2perf.metrics.trackers.sampler\n"
        "print([name for name in ('codecarbon', 'pandas', 'pynvml', 'psutil', 'numpy') if name in sys.modules])"
    )
    done = run_python(code, check=True)
    assert done.stdout == "[]\n"


@pytest.mark.parametrize("form", ["bare", "called", "gin"])
def test_a_decorated_function_runs_under_codecarbon_and_leaves_its_file(tmp_path, form):
    arguments = {"output_dir": str(tmp_path), "log_level": "error", "force_cpu_power": 10, "country_iso_code": "FRA"}
    if form == "gin":
        for name, value in arguments.items():
            gin.bind_parameter(f"track_emissions_decorator.{name}", value)
        decorator = track_emissions_decorator()
    else:
        decorator = track_emissions_decorator(project_name="mine", **arguments)

    def add(a, b=1):
        return a + b

    tracked = track_emissions_decorator(add, **arguments) if form == "bare" else decorator(add)
    assert tracked.__name__ == "add"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert tracked(2, b=3) == 5
    (row,) = csv.DictReader((tmp_path / "emissions.csv").open())
    assert row["country_name"] == "France"
    assert row["project_name"] == ("mine" if form == "called" else "codecarbon")
    assert float(row["emissions"]) / float(row["energy_consumed"]) == pytest.approx(
        find_factor(EmissionsSettings(country_iso_code="FRA")).kg_per_kwh
    )


def test_measurements_go_to_the_log_without_a_logger_of_the_caller():
    code = (
        "from a2perf.metrics.trackers.emissions import track_emissions_decorator as track\n"
        "print(track(lambda: 3, save_to_logger=True, save_to_file=False, log_level='warning', force_cpu_power=10)())"
    )
    done = run_python(code, check=True)
    assert done.stdout == "3\n"
    assert '"energy_consumed": ' in done.stderr


def test_a_decorated_function_that_raises_still_raises(tmp_path):
    @track_emissions_decorator(output_dir=str(tmp_path), log_level="error", force_cpu_power=10)
    def fail():
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        fail()
    assert (tmp_path / "emissions.csv").exists()


@pytest.mark.parametrize(
    ("place", "kg_per_kwh", "source"),
    [
        ({"country_iso_code": "USA", "region": "Massachusetts"}, 0.3765, "USA/Massachusetts"),
        ({"country_iso_code": "usa", "region": " massachusetts"}, 0.3765, "USA/ massachusetts"),
        ({"country_iso_code": "USA"}, 0.3695, "USA"),
        ({"country_iso_code": "USA", "region": "Massachusets"}, 0.3695, "USA"),
        ({}, 0.475, "world"),
        ({"country_iso_code": "XYZ"}, 0.475, "world"),
        ({"country_iso_code": "USA", "force_carbon_intensity_g_co2e_kwh": 12.5}, 0.0125, "forced"),
    ],
)
def test_carbon_factor_of_a_place(place, kg_per_kwh, source):
    factor = find_factor(EmissionsSettings(**place))
    assert factor.kg_per_kwh == pytest.approx(kg_per_kwh, abs=5e-5)
    assert factor.source == source
    assert bool(factor.note) == (source == "world" or place.get("region") == "Massachusets")


@pytest.mark.parametrize(
    "place",
    [
        {"country_iso_code": "USA", "region": "california"},
        {"country_iso_code": "CAN", "region": "ontario"},
        {"country_iso_code": "CHN", "region": "beijing"},
        {"country_iso_code": "SWE", "region": "SE1"},
        {"country_iso_code": "FRA"},
        {"country_iso_code": "DEU", "region": "bavaria"},
    ],
)
def test_carbon_factors_are_codecarbons(place):
    from codecarbon.core.emissions import Emissions
    from codecarbon.core.units import Energy
    from codecarbon.external.geography import GeoMetadata
    from codecarbon.input import DataSource

    theirs = Emissions(DataSource()).get_private_infra_emissions(
        Energy.from_energy(kWh=1.0),
        GeoMetadata(country_iso_code=place["country_iso_code"], region=place.get("region"), country_name=""),
    )
    assert find_factor(EmissionsSettings(**place)).kg_per_kwh == pytest.approx(theirs, rel=1e-9)


def test_cloud_regions():
    factor = find_factor(EmissionsSettings(cloud_provider="gcp", cloud_region="us-east1", country_iso_code="FRA"))
    assert (factor.source, factor.cloud_region) == ("gcp/us-east1", "us-east1")
    assert 0.1 < factor.kg_per_kwh < 1
    unknown = find_factor(EmissionsSettings(cloud_provider="gcp", cloud_region="moon-1", country_iso_code="FRA"))
    assert unknown.source == "FRA"
    assert "moon-1" in unknown.note
