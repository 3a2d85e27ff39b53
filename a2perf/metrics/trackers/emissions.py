"""The gin-configurable face of codecarbon: ``track_emissions_decorator`` and the settings that a run takes from it.

The parameters are those of codecarbon 3's ``track_emissions`` under the names that existing gin files use; ``None``
means "not given" and is never passed on, because codecarbon takes an explicit ``None`` for a value and then silently
writes nothing. Importing this module registers the name with gin and does not import codecarbon.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import logging
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gin

from a2perf.errors import ConfigError, did_you_mean

RENAMED = {"default_cpu_power": "force_cpu_power", "co2_signal_api_token": "electricitymaps_api_token"}
TRACKING_MODES = ("process", "machine")
_LOG_LEVELS = ("debug", "info", "warning", "error", "critical")
_OUTPUT_FLAGS = {
    "save_to_file": "csv",
    "save_to_api": "api",
    "save_to_logger": "logger",
    "save_to_prometheus": "prometheus",
    "save_to_logfire": "logfire",
}
_POSITIVE = ("measure_power_secs", "force_cpu_power", "force_ram_power")
_NOT_NEGATIVE = ("wue", "force_carbon_intensity_g_co2e_kwh")
_TEXT = ("project_name", "country_iso_code", "region", "cloud_provider", "cloud_region", "output_dir", "output_file")


@dataclass(frozen=True, kw_only=True)
class EmissionsSettings:
    """Settings of emissions tracking from the gin file; a field that is not bound is ``None``, except ``pue``.

    Each field is codecarbon's parameter of the same name. ``gpu_ids``, ``tracking_mode``, ``measure_power_secs``,
    ``force_cpu_power``, ``force_ram_power`` and ``pue`` also configure the trackers of a2perf. Fields marked
    "codecarbon" concern only outputs that codecarbon writes itself.

    Attributes:
        project_name: name of the project in the emissions table.
        measure_power_secs: seconds between two rows of the emissions table.
        api_call_interval, api_endpoint, api_key: codecarbon: measurements per call of its API, its address and key.
        output_dir, output_file: codecarbon: folder and name of its file.
        output_methods: codecarbon: outputs, as a list or separated by commas; replaces the ``save_to_*`` flags.
        save_to_file: write the classic emissions file, and codecarbon's if a folder or name of it is given.
        save_to_logger: codecarbon: send measurements to ``logging_logger``, by default to its own logger; a run keeps
            that one's lines in ``codecarbon.log``.
        save_to_api, save_to_prometheus, save_to_logfire: codecarbon: send measurements there.
        prometheus_url: codecarbon: address of the Prometheus gateway.
        logging_logger: codecarbon: logger object that receives measurements.
        output_handlers: codecarbon: further output objects.
        offline: do not use the network; only an explicit ``False`` allows it.
        emissions_endpoint: codecarbon: address that receives the total.
        experiment_id, experiment_name: codecarbon: the experiment at its API.
        country_iso_code: three-letter code of the country; selects the carbon intensity.
        region: state or province; refines the carbon intensity.
        cloud_provider, cloud_region: cloud of the machine, such as ``gcp``; selects the carbon intensity.
        country_2letter_iso_code: codecarbon: two-letter code for Electricity Maps.
        gpu_ids: indices or UUIDs of the tracked GPUs; default: all visible ones.
        electricitymaps_api_token: codecarbon: token for live carbon intensity.
        tracking_mode: ``"process"`` tracks the participant's process tree, ``"machine"`` the whole machine.
        log_level, logger_preamble: codecarbon: level and prefix of its log messages.
        on_csv_write: codecarbon: ``"append"`` or ``"update"`` rows of its file.
        force_cpu_power: power of all visible processors at full load in watts, used if no counter can be read.
        force_ram_power: constant power of the memory in watts, instead of an estimate.
        force_carbon_intensity_g_co2e_kwh: carbon intensity in g CO2eq/kWh, instead of the region's.
        pue: power usage effectiveness of the data center, a factor of at least 1.
        wue: water usage effectiveness in L/kWh.
        allow_multiple_runs: codecarbon: allow several trackers on one machine.
        rapl_include_dram, rapl_prefer_psys: codecarbon: domains of RAPL that it counts.
    """

    project_name: str | None = None
    measure_power_secs: float | None = None
    api_call_interval: int | None = None
    api_endpoint: str | None = None
    api_key: str | None = None
    output_dir: str | None = None
    output_file: str | None = None
    output_methods: Sequence[Any] | str | None = None
    save_to_file: bool | None = None
    save_to_api: bool | None = None
    save_to_logger: bool | None = None
    save_to_prometheus: bool | None = None
    save_to_logfire: bool | None = None
    prometheus_url: str | None = None
    logging_logger: Any = None
    output_handlers: Sequence[Any] | None = None
    offline: bool | None = None
    emissions_endpoint: str | None = None
    experiment_id: str | None = None
    experiment_name: str | None = None
    country_iso_code: str | None = None
    region: str | None = None
    cloud_provider: str | None = None
    cloud_region: str | None = None
    country_2letter_iso_code: str | None = None
    gpu_ids: Sequence[int | str] | str | None = None
    electricitymaps_api_token: str | None = None
    tracking_mode: str | None = None
    log_level: str | int | None = None
    logger_preamble: str | None = None
    on_csv_write: str | None = None
    force_cpu_power: float | None = None
    force_ram_power: float | None = None
    force_carbon_intensity_g_co2e_kwh: float | None = None
    pue: float = 1.0
    wue: float | None = None
    allow_multiple_runs: bool | None = None
    rapl_include_dram: bool | None = None
    rapl_prefer_psys: bool | None = None

    def __post_init__(self) -> None:
        """Checks types and ranges; a wrong one is a ``ConfigError``."""
        for name in _POSITIVE:
            self._check_number(name, least=0.0, open_end=True)
        for name in _NOT_NEGATIVE:
            self._check_number(name, least=0.0)
        self._check_number("pue", least=1.0)
        for name in _TEXT:
            value = getattr(self, name)
            if value is not None and not isinstance(value, str):
                raise self.wrong(name, "a string")
        if self.tracking_mode is not None and self.tracking_mode not in TRACKING_MODES:
            near = did_you_mean(str(self.tracking_mode), TRACKING_MODES)
            raise self.wrong("tracking_mode", f"one of {', '.join(TRACKING_MODES)}{near}")
        if isinstance(self.log_level, str) and self.log_level.lower() not in _LOG_LEVELS:
            near = did_you_mean(self.log_level, _LOG_LEVELS)
            raise self.wrong("log_level", f"one of {', '.join(_LOG_LEVELS)}{near}")

    def _check_number(self, name: str, *, least: float, open_end: bool = False) -> None:
        value = getattr(self, name)
        if value is None:
            return
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not value == value:
            raise self.wrong(name, "a number")
        if value < least or (open_end and value == least):
            raise self.wrong(name, f"{'more than' if open_end else 'at least'} {least:g}")

    def wrong(self, name: str, valid: str) -> ConfigError:
        """Returns the error about the value of one parameter."""
        return ConfigError(
            f"track_emissions_decorator.{name} = {getattr(self, name)!r} is not valid: it must be {valid}",
            hint=f"set track_emissions_decorator.{name} in the gin file or with --gin_bindings",
        )

    @property
    def is_offline(self) -> bool:
        """Whether nothing may be asked of the network; only an explicit ``offline=False`` lifts it."""
        return self.offline is not False

    def outputs(self) -> list[str]:
        """Outputs of codecarbon: values of its ``OutputMethod``; ``csv`` by default."""
        if self.output_methods is not None:
            given = self.output_methods.split(",") if isinstance(self.output_methods, str) else self.output_methods
            return [str(getattr(method, "value", method)).strip() for method in given]
        flags = {flag: getattr(self, flag) for flag in _OUTPUT_FLAGS}
        flags["save_to_file"] = flags["save_to_file"] is not False
        return [method for flag, method in _OUTPUT_FLAGS.items() if flags[flag]]

    @property
    def wants_file(self) -> bool:
        """Whether codecarbon writes a file beside the emissions file of the run."""
        return "csv" in self.outputs() and not (self.output_dir is None and self.output_file is None)

    @property
    def wants_codecarbon(self) -> bool:
        """Whether an output is asked for that only codecarbon's own tracker gives."""
        return self.wants_file or bool(self.output_handlers) or bool({*self.outputs()} - {"csv"})

    def codecarbon_arguments(self) -> dict[str, Any]:
        """Arguments of codecarbon's tracker: only what was given, and the outputs as one list."""
        drop = {"offline", "output_methods", *_OUTPUT_FLAGS}
        if not self.is_offline:
            drop |= {"country_iso_code", "region", "cloud_provider", "cloud_region", "country_2letter_iso_code"}
        fields = {field.name: getattr(self, field.name) for field in dataclasses.fields(self) if field.name not in drop}
        # An empty string means no output.
        return {name: value for name, value in fields.items() if value is not None} | {
            "output_methods": ",".join(self.outputs())
        }


def make_tracker(offline: bool, arguments: dict[str, Any]) -> Any:
    """Makes a tracker of codecarbon; one that is offline asks nothing of the network."""
    import codecarbon

    kind = codecarbon.OfflineEmissionsTracker if offline else codecarbon.EmissionsTracker
    if "logger" in arguments["output_methods"].split(",") and arguments.get("logging_logger") is None:
        from codecarbon.output import LoggerOutput

        arguments["logging_logger"] = LoggerOutput(logging.getLogger("codecarbon"), logging.WARNING)
    return kind(**arguments)


_RESOLVE = object()


def _track_emissions_decorator(fn: Any = None, **given: Any) -> Any:
    """Runs a function under codecarbon's tracker; gin fills in what the caller leaves out.

    Used bare, with arguments, or with all arguments from gin. The tracker works offline unless ``offline=False``.
    ``default_cpu_power`` and ``co2_signal_api_token`` are the old names of ``force_cpu_power`` and
    ``electricitymaps_api_token``. The other parameters are codecarbon's, ``None`` where not given.

    Raises:
        ConfigError: a parameter has a value that it cannot have.
        TypeError: codecarbon has no such parameter.
    """
    for old, new in RENAMED.items():
        value = given.pop(old, None)
        if value is None:
            continue
        both = given.get(new) is not None
        warnings.warn(
            f"track_emissions_decorator.{old} is now called {new}" + (f"; the value of {new} counts" if both else ""),
            FutureWarning,
            stacklevel=2,
        )
        if not both:
            given[new] = value
    settings = EmissionsSettings(**given)
    if fn is _RESOLVE:
        return settings
    if fn is None:
        return functools.partial(_wrap, settings)
    return _wrap(settings, fn)


def _signature() -> inspect.Signature:
    """Returns what gin may bind: the fields of ``EmissionsSettings`` and the old names of two of them."""
    fields = {field.name: (field.type, field.default) for field in dataclasses.fields(EmissionsSettings)}
    fields |= {old: (fields[new][0], None) for old, new in RENAMED.items()}
    first = inspect.Parameter("fn", inspect.Parameter.POSITIONAL_OR_KEYWORD, default=None, annotation="Any")
    rest = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind)
        for name, (kind, default) in sorted(fields.items())
    ]
    return inspect.Signature([first, *rest], return_annotation="Any")


_track_emissions_decorator.__signature__ = _signature()  # type: ignore[attr-defined]
track_emissions_decorator: Callable[..., Any] = gin.configurable("track_emissions_decorator")(
    _track_emissions_decorator
)


def resolve_settings() -> EmissionsSettings:
    """Returns what the parsed gin configuration says about emissions.

    Raises:
        ConfigError: a parameter has a value that it cannot have, or codecarbon's folder does not exist.
    """
    settings = track_emissions_decorator(_RESOLVE)
    assert isinstance(settings, EmissionsSettings)
    if settings.wants_file and not Path(settings.output_dir or ".").is_dir():
        raise settings.wrong("output_dir", "a folder that exists")
    return settings


def _wrap(settings: EmissionsSettings, fn: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(fn)
    def tracked(*args: Any, **kwargs: Any) -> Any:
        tracker = make_tracker(settings.is_offline, settings.codecarbon_arguments())
        tracker.start()
        # codecarbon swallows its own failures; without a start time it measures and writes nothing.
        if getattr(tracker, "_start_time", None) is None:
            warnings.warn(f"codecarbon did not start; {fn.__name__} runs without it", RuntimeWarning, stacklevel=2)
        try:
            return fn(*args, **kwargs)
        finally:
            tracker.stop()

    return tracked
