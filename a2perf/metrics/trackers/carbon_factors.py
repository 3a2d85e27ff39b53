"""Carbon intensity of electricity and power of processors, out of the data files that codecarbon ships.

The files are read where they lie, without importing codecarbon, which takes seconds. The choice of the factor follows
codecarbon's own order: a forced value, the cloud region, the region of a country, the country, the world.
"""

from __future__ import annotations

import csv
import importlib.util
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from a2perf.metrics.trackers.emissions import EmissionsSettings

KG_PER_LB = 0.45359237
# kg CO2eq per kWh by fuel, with which codecarbon weighs the Canadian provinces; from the energy-usage package of
# github.com/responsibleproblemsolving.
_FUEL_KG_PER_KWH = {"coal": 0.995725971, "petroleum": 0.8166885263, "naturalGas": 0.7438415916}
_NORDIC_ZONES = {
    "SWE": {"SE1", "SE2", "SE3", "SE4"},
    "NOR": {"NO1", "NO2", "NO3", "NO4", "NO5"},
    "FIN": {"FI"},
}


@dataclass(frozen=True)
class CarbonFactor:
    """How much a kilowatt-hour emits, in kg CO2 equivalents, and why it is coarser than the one asked for, if it is.

    The source is ``"USA/Massachusetts"``, ``"gcp/us-east1"``, ``"world"``, ``"forced"``.
    """

    kg_per_kwh: float
    source: str
    country_name: str = ""
    country_iso_code: str = ""
    region: str = ""
    cloud_provider: str = ""
    cloud_region: str = ""
    note: str = ""


NO_FACTOR = CarbonFactor(0.0, "none")


def codecarbon_data() -> Path:
    """Returns the data folder of the installed package without importing it."""
    spec = importlib.util.find_spec("codecarbon")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent / "data"


def find_factor(settings: EmissionsSettings) -> CarbonFactor:
    """Returns the finest carbon intensity for the place of the settings; its ``note`` states what is not known.

    The case of a region does not matter. A cloud counts only with its region.
    """
    region = settings.region
    cloud_provider, cloud_region = settings.cloud_provider, settings.cloud_region
    iso = (settings.country_iso_code or "").upper()
    infra = codecarbon_data() / "private_infra"
    mix = _load(infra / "global_energy_mix.json")
    country = mix.get(iso, {})
    place = {"country_name": country.get("country_name", ""), "country_iso_code": iso, "region": region or ""}
    if settings.force_carbon_intensity_g_co2e_kwh is not None:
        return CarbonFactor(settings.force_carbon_intensity_g_co2e_kwh / 1e3, "forced", **place)
    notes = []
    if cloud_provider and cloud_region:
        cloud = (cloud_provider, cloud_region)
        rows = (row for row in _rows("cloud/impact.csv") if (row["provider"], row["region"]) == cloud and row["impact"])
        row = next(rows, None)
        if row is not None:
            return CarbonFactor(
                float(row["impact"]) / 1e3,
                f"{cloud_provider}/{cloud_region}",
                country_name=row["country_name"],
                country_iso_code=row["countryIsoCode"],
                region=row["state"] or row["city"],
                cloud_provider=cloud_provider,
                cloud_region=cloud_region,
            )
        notes.append(f"no carbon intensity for cloud region {cloud_provider}/{cloud_region}")
    if region and iso:
        value = _region_kg(infra, iso, region)
        if value is not None:
            return CarbonFactor(value, f"{iso}/{region}", note="; ".join(notes), **place)
        notes.append(f"no carbon intensity for region {region!r} of {iso}, the country's is used")
    if country:
        return CarbonFactor(float(country["carbon_intensity"]) / 1e3, iso, note="; ".join(notes), **place)
    notes.append(f"no carbon intensity for country {iso!r}" if iso else "no country_iso_code is given")
    world = _load(infra / "carbon_intensity_per_source.json")["world_average"]
    return CarbonFactor(float(world) / 1e3, "world", note="; ".join([*notes, "the world average is used"]), **place)


def find_cpu_power(model: str) -> tuple[str, float] | None:
    """Returns the name of a processor in codecarbon's table and its thermal design power in watts, or ``None``."""
    wanted = plain_cpu_name(model)
    for row in _rows("hardware/cpu_power.csv") if wanted else ():
        if plain_cpu_name(row["Name"]) == wanted and re.fullmatch(r"\d+(\.\d+)?", row["TDP"]):
            return row["Name"], float(row["TDP"])
    return None


def plain_cpu_name(model: str) -> str:
    """Reduces a processor's name to maker, family and number, lower case, for comparison."""
    name = re.sub(r"\((R|TM|tm)\)", " ", model)
    name = re.sub(r"@.*$", " ", name)
    name = re.sub(r"\b(\d+|Dual|Quad|Six|Eight)-Core\b|\bProcessor\b|\bCPU\b|with Radeon.*$", " ", name)
    return " ".join(name.lower().split())


def _load(path: Path) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return loaded


def _rows(table: str) -> list[dict[str, str]]:
    return list(csv.DictReader((codecarbon_data() / table).read_text(encoding="utf-8-sig").splitlines()))


def _region_kg(infra: Path, iso: str, region: str) -> float | None:
    name = " ".join(region.lower().split())
    yearly = sorted(path for path in infra.iterdir() if path.is_dir() and path.name.isdigit())
    if iso == "USA":
        entry = _newest(yearly, "usa_emissions.json").get(name)
        return float(entry["emissions"]) * KG_PER_LB / 1e3 if entry and "emissions" in entry else None
    if iso == "CAN":
        entry = _newest(yearly, "canada_energy_mix.json").get(name)
        if not entry:
            return None
        return float(sum(entry.get(fuel, 0.0) / entry["total"] * kg for fuel, kg in _FUEL_KG_PER_KWH.items()))
    if iso == "CHN":
        short = re.sub(r"\s+(autonomous region|municipality|province|sheng|shi|zizhiqu)$", "", name)
        for province in _newest(yearly, "china_provincial_emissions.json").get("data", {}).values():
            if short in province["names"]:
                return float(province["emission_factor"]) / 1e3
        return None
    if region.upper() in _NORDIC_ZONES.get(iso, set()):
        zone = _newest([infra], "nordic_emissions.json").get("data", {}).get(region.upper())
        return float(zone["emission_factor"]) / 1e3 if zone else None
    return None


def _newest(folders: list[Path], name: str) -> dict[str, Any]:
    for folder in reversed(folders):
        if (folder / name).exists():
            return _load(folder / name)
    return {}
