"""What a participant's gin file may set, and within which bounds; everything else belongs to the organizer.

A submission may choose its task and mode, pass arguments to its code, bound its training run, and choose how much is
measured and recorded. It may not set how it is confined, what the evaluator reads, writes or executes, which seeds are
used, or how costs are counted.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from a2perf.constants import BenchmarkDomain, BenchmarkMode, ReliabilityMetrics
from a2perf.domains.registry import ANY, Domain, Task, domains, find_environment
from a2perf.errors import ConfigError, did_you_mean
from a2perf.submission.participant_gin import Binding, to_gin
from a2perf.submission.run_options import TRUST_FLAG
from a2perf.submission.settings import RECORDS, owner_of

_MODULES = {
    **dict.fromkeys(("Submission", *RECORDS), "a2perf.submission"),
    "create_domain": "a2perf.domains.tfa.suite_gym",
    "track_emissions_decorator": "a2perf.metrics.trackers.emissions",
}
"""Module that a name may be prefixed with, in full or by its last parts: ``suite_gym.create_domain.env_name``."""

_OF_ENVIRONMENT = "create_domain."
_ENVIRONMENT = f"{_OF_ENVIRONMENT}env_name"
_ELSEWHERE = (
    "or move the line to a gin file outside of the submission, or pass it with --gin-bindings; "
    f"{TRUST_FLAG} accepts every line if you trust the submission"
)
_MAX_TEXT = 4096


@dataclass(frozen=True)
class Rule:
    """The values that a parameter may have."""

    fits: Callable[[Any], bool]
    valid: str


def _number(low: float, high: float, kind: type = float, *, none: bool = False) -> Rule:
    kinds = (int,) if kind is int else (int, float)
    valid = f"{'an integer' if kind is int else 'a number'} from {low:g} to {high:g}"
    return Rule(
        lambda value: (
            (none and value is None)
            or (isinstance(value, kinds) and not isinstance(value, bool) and low <= value <= high)
        ),
        f"{valid} or None" if none else valid,
    )


def _one_of(*values: Any) -> Rule:
    return Rule(lambda value: _among(value, values), " or ".join(to_gin(value) for value in values))


def _text(longest: int) -> Rule:
    return Rule(lambda value: _is_text(value, longest), f"a printable string of at most {longest} characters")


def _list_of(fits: Callable[[Any], bool], most: int, items: str) -> Rule:
    def all_fit(value: Any) -> bool:
        return isinstance(value, list | tuple) and len(value) <= most and all(map(fits, value))

    return Rule(all_fit, f"a list of at most {most} {items}")


def _are_arguments(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and len(value) <= 100
        and all(_is_text(key, 100) and key.isidentifier() for key in value)
        and all(_is_text(item, _MAX_TEXT) for item in value.values())
    )


def _is_text(value: Any, longest: int) -> bool:
    return isinstance(value, str) and len(value) <= longest and value.isprintable()


def _among(value: Any, values: Collection[Any]) -> bool:
    """Returns whether a value equals one of these and has the same type: ``True`` does not equal 1 here."""
    return any(type(value) is type(known) and value == known for known in values)


_FLAG = _one_of(True, False)

ALLOWED: dict[str, Rule] = {
    # mode and task
    "Submission.mode": Rule(
        lambda value: isinstance(value, BenchmarkMode) or value in [mode.value for mode in BenchmarkMode],
        "%BenchmarkMode.TRAIN, .INFERENCE or .GENERALIZATION",
    ),
    "Submission.domain": Rule(
        lambda value: (
            isinstance(value, BenchmarkDomain) or (isinstance(value, str) and value.lower() in (*domains(), ANY))
        ),
        "%BenchmarkDomain.X or the name of a domain (`a2perf envs list`)",
    ),
    "Submission.generalization_tasks": _list_of(
        lambda value: _is_text(value, 200) and ":" not in value, 100, "names of tasks without a package"
    ),
    _ENVIRONMENT: _text(200),
    # its own code and its own training run
    "Submission.participant_args": Rule(
        _are_arguments, f"a dictionary of at most 100 printable strings of at most {_MAX_TEXT} characters"
    ),
    "Submission.train_time_limit_s": _number(1e-3, 1e9, none=True),
    "Submission.train_energy_limit_kwh": _number(1e-9, 1e6, none=True),
    # how much is measured
    "Submission.time_participant_code": _FLAG,
    "Submission.num_inference_steps": _number(0, 100_000, int, none=True),
    "Submission.num_warmup_steps": _number(0, 10_000, int),
    "Submission.num_inference_episodes": _number(1, 1_000, int),
    "Submission.num_generalization_episodes": _number(1, 1_000, int),
    # how much is recorded
    "Submission.measure_emissions": _FLAG,
    "Submission.record_frames": _number(0, 64, int),
    "Submission.record_videos": _number(0, 10, int),
    "Submission.plot_metrics": _FLAG,
    "Submission.reliability_metrics": _list_of(
        lambda value: isinstance(value, ReliabilityMetrics), 20, "constants %ReliabilityMetrics.X"
    ),
    "track_emissions_decorator.project_name": _text(200),
    "track_emissions_decorator.measure_power_secs": _number(0.1, 60),
    "track_emissions_decorator.country_iso_code": _text(3),
    "track_emissions_decorator.region": _text(100),
    "track_emissions_decorator.log_level": _one_of("debug", "info", "warning", "error", "critical"),
    "track_emissions_decorator.save_to_file": _FLAG,
    # The packaged files contain these lines; any other value is reserved for the organizer.
    "Submission.run_offline_metrics_only": _one_of(False),
    "track_emissions_decorator.offline": _one_of(True),
    "track_emissions_decorator.save_to_logger": _one_of(False),
    "track_emissions_decorator.gpu_ids": _one_of(None),
}
"""Every parameter except the keyword arguments of environments; ``_check_environment`` checks these."""


def permitted(bindings: Sequence[Binding], source: str) -> dict[str, Any]:
    """Returns the values of a participant's gin file by canonical name; a later line overrides an earlier one.

    Raises:
        ConfigError: a name or value that a participant may not set; with file, line, what is valid and the fix.
    """
    found: dict[str, Binding] = {}
    for binding in bindings:
        name = _canonical(binding.name)
        found[name] = Binding(name, binding.value, binding.line)
    for name, binding in found.items():
        rule = ALLOWED.get(name)
        if rule is not None and not rule.fits(binding.value):
            raise _misfit(binding, source, rule.valid)
        if rule is None and not name.startswith(_OF_ENVIRONMENT):
            raise _refused(binding, source)
    _check_environment({name: item for name, item in found.items() if name.startswith(_OF_ENVIRONMENT)}, source)
    return {name: binding.value for name, binding in found.items()}


def gin_lines(values: Mapping[str, Any]) -> list[str]:
    """Returns permitted values as lines of gin."""
    return [f"{name} = {to_gin(value)}" for name, value in values.items()]


def defines_task(name: str) -> bool:
    """Returns whether a name such as ``"create_domain.num_macros"`` is an argument of a registered task."""
    return any(f"{_OF_ENVIRONMENT}{key}" == name for _, task in _tasks() for key in task.kwargs)


def _canonical(name: str) -> str:
    *module, configurable, parameter = ["", *name.split(".")] if "." not in name else name.split(".")
    whole = _MODULES.get(configurable, "")
    if not module or f".{whole}".endswith(f".{'.'.join(module)}"):
        return f"{owner_of(configurable, parameter)}.{parameter}"
    return name


def _check_environment(found: dict[str, Binding], source: str) -> None:
    """Checks that the arguments of ``create_domain`` belong to one registered task or are settable in its domain."""
    tasks, settable = list(_tasks()), [domain.settable for domain in domains().values()]
    environment = found.pop(_ENVIRONMENT, None)
    if environment is not None:
        try:
            owner, registered = find_environment(environment.value)
        except ConfigError as error:
            raise ConfigError(f"{source}, line {environment.line}: {error.message}", hint=error.hint) from error
        settable = [owner.settable]
        tasks = [(domain, task) for domain, task in tasks if find_environment(task.env_id)[1].id == registered.id]
    given: dict[str, Any] = {}
    for name, binding in found.items():
        argument = name.removeprefix(_OF_ENVIRONMENT)
        values = [value for mapping in settable for value in mapping.get(argument, ())]
        if values and not _among(binding.value, values):
            raise _misfit(binding, source, " or ".join(map(to_gin, values)))
        if not values:
            given[argument] = binding.value
            if not any(argument in task.kwargs for _, task in tasks):
                raise _refused(binding, source)
            if not any(_is_part(given, task.kwargs) for _, task in tasks):
                known_tasks = (
                    ", ".join(f"{key} = {to_gin(value)}" for key, value in t.kwargs.items()) for _, t in tasks
                )
                raise _misfit(
                    binding, source, f"the arguments of one registered task: {'; '.join(filter(None, known_tasks))}"
                )


def _tasks() -> Iterator[tuple[Domain, Task]]:
    return ((domain, task) for domain in domains().values() for task in domain.tasks)


def _is_part(given: Mapping[str, Any], whole: Mapping[str, Any]) -> bool:
    return all(name in whole and _among(value, [whole[name]]) for name, value in given.items())


def _misfit(binding: Binding, source: str, valid: str) -> ConfigError:
    shown = repr(binding.value)
    return ConfigError(
        f"{source}, line {binding.line}: a submission's gin file may not set {binding.name} = "
        f"{shown if len(shown) <= 80 else f'{shown[:80]}...'}",
        hint=f"use {valid}, {_ELSEWHERE}",
    )


def _refused(binding: Binding, source: str) -> ConfigError:
    owner, _, parameter = binding.name.rpartition(".")
    owners = sorted({name.rpartition(".")[0] for name in ALLOWED})
    names = [name.rpartition(".")[2] for name in sorted(ALLOWED) if name.startswith(f"{owner}.")]
    near = did_you_mean(parameter, names) if owner in owners else did_you_mean(owner, owners)
    return ConfigError(
        f"{source}, line {binding.line}: a submission's gin file may not set {binding.name[:120]}{near}",
        hint=f"remove the line, {_ELSEWHERE}",
    )
