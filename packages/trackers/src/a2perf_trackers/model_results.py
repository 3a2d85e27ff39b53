"""The results of one submission as a model hub lists them: one entry per task, mode and metric.

Plain values without any hub library. The keys are the arguments of ``huggingface_hub.EvalResult``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from a2perf._version import PROJECT_URL
from a2perf.errors import UserError, command_line, did_you_mean
from a2perf.metrics import registry
from a2perf.metrics.scores import SeedGroup
from a2perf.metrics.values import NORMALISED, MetricValue, Profile, profile_named
from a2perf.plain_text import plain_text
from a2perf.report.names import metric_title, submission_title
from a2perf.report.references import scored_task
from a2perf.report.task_results import TaskResults, results_by_task
from a2perf.runs.reading import AnyRuns, read_runs
from a2perf.runs.run import Run
from a2perf.runs.tracking_record import recorded
from a2perf_trackers.description import has_public_seeds

TASK = "reinforcement-learning"
_TYPES = {"returns": "mean_reward"}
"""Types of metrics that hubs know under another name."""
_MODES = ("inference", "generalization", "train")
"""Order of the entries: a hub shows the first ones, and evaluation comes before training."""
_GRAMS_PER_KG = 1000.0


@dataclass(frozen=True)
class ModelResults:
    """What a card says about one submission.

    Attributes:
        runs: its runs, all of one version of its files.
    """

    title: str
    runs: tuple[Run, ...]
    settings: tuple[TaskResults, ...]
    profile: Profile

    @property
    def version(self) -> str:
        """Hash of the submission's files, of each of several trained policies; empty if it was not recorded."""
        recorded = {run.manifest.submission.sha256 for run in self.runs if run.manifest is not None}
        return ", ".join(sorted(recorded))


def model_results(given: AnyRuns, *, algorithm: str | None, profile: Profile) -> ModelResults:
    """Returns the results of one submission.

    Args:
        given: runs, results or paths.
        algorithm: name of the submission; may be None if all runs have the same one.

    Raises:
        UserError: no run was found, the runs have several submissions or versions, a run is not finished or was changed
            after it ended, or no run has a score.
        ConfigError: the profile is unknown.
    """
    runs = _of_one_version(_of_one_submission(read_runs(given), algorithm))
    for run in runs:
        if run.state in ("running", "unfinished", "interrupted", "unreadable"):
            raise UserError(
                f"the run {run.key} is not finished (state: {run.state})", hint="resume it with its command, or omit it"
            )
        if run.changed:
            raise UserError(
                f"the run {run.key} was changed after it ended",
                hint=command_line("a2perf", "validate", run.folder.path),
            )
    settings = results_by_task(runs, profile_named(profile))
    groups = [group for setting in settings for group in setting.groups]
    if not any(value.value is not None for group in groups for value in group.scores.values()):
        raise UserError("no run has a score", hint="give runs with episodes or a learning curve; see `a2perf score`")
    info = next((run.info for run in runs if run.info.title), runs[0].info)
    return ModelResults(submission_title(runs[0].algorithm, info), tuple(runs), tuple(settings), profile_named(profile))


def eval_results(results: ModelResults) -> list[dict[str, Any]]:
    """Returns one entry per task, mode and metric with a value, for the metrics of the short table of a report."""
    found = []
    leading = {name for name, metric in registry.all_metrics().items() if metric.leads()}
    for setting in results.settings:
        for group in sorted(setting.groups, key=lambda group: _MODES.index(group.mode)):
            if group.mode == "inference":
                where = _dataset(setting, group, setting.task)
                found += [where | entry for entry in _normalised(setting, group, results.profile)]
            for task, values in [(setting.task, group.scores), *group.tasks.items()]:
                where = _dataset(setting, group, task)
                found += [
                    where | _metric(value, results.profile)
                    for name, value in values.items()
                    if value.value is not None and name in leading
                ]
    return found


def training_emissions(results: ModelResults) -> dict[str, Any] | None:
    """Returns the emissions of all training runs for the metadata of a card, in grams of CO2 equivalent.

    None unless every training run recorded its emissions: a part of them would be too low.
    """
    reports = [run.tracking for run in results.runs if "train" in run.modes()]
    grams = [recorded(report.emissions.kg_co2eq) for report in reports]
    if not grams or any(value is None for value in grams):
        return None
    methods = dict.fromkeys(f"{r.emissions.method} ({r.emissions.quality})" for r in reports if r.emissions.method)
    places = dict.fromkeys(r.emissions.factor_source or r.emissions.country_name for r in reports)
    hosts = dict.fromkeys(_hardware(run) for run in results.runs if "train" in run.modes())
    found = {
        "emissions": sum(value for value in grams if value is not None) * _GRAMS_PER_KG,
        "source": plain_text("; ".join(methods)),
        "training_type": "reinforcement learning",
        "geographical_location": plain_text("; ".join(place for place in places if place)),
        "hardware_used": plain_text("; ".join(host for host in hosts if host)),
    }
    return {name: value for name, value in found.items() if value not in ("", None)}


def _of_one_submission(runs: Sequence[Run], algorithm: str | None) -> list[Run]:
    names = sorted({run.algorithm for run in runs})
    if algorithm is not None:
        if algorithm not in names:
            raise UserError(
                f"no run of {algorithm!r}{did_you_mean(algorithm, names)}", hint=f"use one of {', '.join(names)}"
            )
        return [run for run in runs if run.algorithm == algorithm]
    if len(names) > 1:
        raise UserError(
            f"runs of {len(names)} submissions, and a card describes one: {', '.join(names)}",
            hint="choose one with algorithm= or --algorithm",
        )
    return list(runs)


def _of_one_version(runs: list[Run]) -> list[Run]:
    versions = sorted({run.identity.version[:8] for run in runs if run.identity.version})
    if len(versions) > 1:
        raise UserError(
            f"runs of {len(versions)} versions of {runs[0].algorithm}, and a card describes one: {', '.join(versions)}",
            hint="give the folders of one version",
        )
    return runs


def _dataset(setting: TaskResults, group: SeedGroup, task: str) -> dict[str, Any]:
    run = group.runs[0]
    manifest = run.manifest
    env_id = (manifest.env_id if manifest is not None else None) or task or setting.domain
    arguments = manifest.env_kwargs if manifest is not None and has_public_seeds(manifest) else {}
    return {
        "task_type": TASK,
        "task_name": "reinforcement learning",
        "dataset_type": plain_text(env_id or "unknown"),
        "dataset_name": setting.title if task == setting.task else plain_text(task),
        "dataset_config": plain_text(task) or None,
        "dataset_split": group.mode,
        "dataset_revision": plain_text(run.identity.fingerprint) or None,
        "dataset_args": _plain(arguments) or None,
        "source_name": "a2perf",
        "source_url": PROJECT_URL,
    }


def _metric(value: MetricValue, profile: Profile) -> dict[str, Any]:
    given = {
        "unit": value.unit,
        "spread": value.spread,
        "spread_kind": value.spread_kind,
        "interval": None if value.interval is None else list(value.interval),
        "interval_level": None if value.interval is None else 0.95,
        "runs": value.n,
        "provenance": value.provenance,
        "method": value.method,
        "direction": value.direction,
        "rules": registry.RULES,
    }
    return {
        "metric_type": _TYPES.get(value.name, value.name),
        "metric_name": metric_title(value.name),
        "metric_value": value.value,
        "metric_config": profile,
        "metric_args": {name: _plain(entry) for name, entry in given.items() if entry not in (None, "")},
        "verified": False,
    }


def _normalised(setting: TaskResults, group: SeedGroup, profile: Profile) -> list[dict[str, Any]]:
    found = scored_task(setting)
    returns = group.scores.get("returns")
    score = None if found is None else found.normalised(returns)
    if score is None or returns is None:
        return []
    value = MetricValue(name=NORMALISED, value=score.value, interval=score.interval, n=returns.n, direction="max")
    return [_metric(value, profile) | {"metric_name": f"Normalised score ({score.scale})"}]


def _hardware(run: Run) -> str:
    host = {} if run.manifest is None else run.manifest.host
    parts = [str(host["cpu_model"])] if host.get("cpu_model") else []
    parts += [f"{host['cpu_count']} processors"] if host.get("cpu_count") else []
    parts += [run.tracking.gpu.model] if run.tracking.gpu.model else []
    return ", ".join(parts)


def _plain(value: Any) -> Any:
    """Returns a value with control characters removed from every text in it."""
    if isinstance(value, str):
        return plain_text(value)
    if isinstance(value, dict):
        return {plain_text(str(name)): _plain(entry) for name, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in value]
    return value
