"""Reads logs of inspect_ai (``.eval`` and JSON) as runs: one log is one run, one sample in one epoch one episode.

Facts of the format (version 2): a zip with ``header.json``, ``samples/<id>_epoch_<n>.json`` and, while the evaluation
runs, ``_journal/start.json``; or one JSON document with the fields of the header and ``samples``. Scores are the value
of the headline scorer, else of the first one; ``C`` is 1, ``P`` 0.5, ``I`` and ``N`` 0, as inspect_ai counts them.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Collection, Iterable, Iterator
from typing import Annotated, Any

import msgspec
import numpy as np

from a2perf.records import Episode
from a2perf.runs.inspect_archive import InspectArchive, InspectArchiveError
from a2perf.runs.model_record import ModelUsage, Percentiles, ScopeUsage, UsageCounts
from a2perf.runs.model_use import ModelUse
from a2perf.runs.run import Run, RunFolder, RunIdentity
from a2perf.runs.seed_groups import env_arguments

NAME = "inspect_ai log"
MAX_LOG_BYTES = 4 << 30
"""Bytes of a log after decompression."""
MAX_JSON_LOG_BYTES = 512 << 20
_MAX_SAMPLES = 100_000
_MAX_CONDITIONS = 20
_JSON_LOG = re.compile(r"\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d\S*_\S+_\w+\.json")
_SAMPLE = re.compile(r"samples/[^/\\]+_epoch_\d+\.json")
_STATES = {"success": "finished", "error": "failed", "cancelled": "interrupted", "started": "unfinished"}
_LETTERS = {"C": 1.0, "P": 0.5, "I": 0.0, "N": 0.0}


_Count = Annotated[int, msgspec.Meta(ge=0, le=1 << 53)]


class _Tokens(msgspec.Struct):
    input_tokens: _Count = 0
    output_tokens: _Count = 0
    input_tokens_cache_write: _Count | None = None
    input_tokens_cache_read: _Count | None = None
    total_cost: float | None = None


class _Output(msgspec.Struct):
    time: float | None = None


class _Event(msgspec.Struct):
    event: str = ""
    output: _Output | None = None
    error: str | None = None
    retries: _Count | None = None


class _Error(msgspec.Struct):
    message: str = ""


class _Score(msgspec.Struct):
    value: Any = None


class _Sample(msgspec.Struct):
    id: int | str = ""
    epoch: _Count = 1
    scores: dict[str, _Score] | None = None
    model_usage: dict[str, _Tokens] | None = None
    events: list[_Event] = msgspec.field(default_factory=list)
    error: _Error | None = None
    total_time: float | None = None
    limit: Any = None
    turn_count: _Count | None = None


class _Dataset(msgspec.Struct):
    name: str | None = None
    sample_ids: list[int | str] | None = None


class _Eval(msgspec.Struct):
    task: str = ""
    task_version: int | str = 0
    task_args: dict[str, Any] = msgspec.field(default_factory=dict)
    model: str = ""
    dataset: _Dataset = msgspec.field(default_factory=_Dataset)
    scorers: list[Any] | None = None


class _Plan(msgspec.Struct):
    steps: list[Any] = msgspec.field(default_factory=list)
    config: dict[str, Any] = msgspec.field(default_factory=dict)


class _Headline(msgspec.Struct):
    scorer: str = ""
    score: str = ""


class _Results(msgspec.Struct):
    headline: _Headline | None = None


class _Header(msgspec.Struct):
    version: int = 0
    status: str = ""
    eval: _Eval = msgspec.field(default_factory=_Eval)
    plan: _Plan = msgspec.field(default_factory=_Plan)
    results: _Results | None = None
    error: _Error | None = None


class _JsonLog(_Header):
    samples: list[msgspec.Raw] | None = None


_HEADER = msgspec.json.Decoder(_Header)
_JSON = msgspec.json.Decoder(_JsonLog)
_DECODER = msgspec.json.Decoder(_Sample)


def is_log(name: str) -> bool:
    """Returns whether a file is a log of inspect_ai, from its name."""
    return name.endswith(".eval") or _JSON_LOG.fullmatch(name) is not None


def matches(names: Collection[str]) -> bool:
    """Returns False: a folder of logs is not one run."""
    return False


def read(folder: RunFolder) -> Run:
    """Reads a log; a damaged sample becomes a condition.

    Raises:
        ValueError: the log cannot be read at all.
    """
    name = folder.path.name
    if not name.endswith(".eval"):
        log = _decoded(_JSON, folder.files().read(name, MAX_JSON_LOG_BYTES), name)
        return _run(folder, log, ((f"sample {at}", bytes(raw)) for at, raw in enumerate(log.samples or (), 1)), [])
    conditions: list[str] = []
    with folder.files().open(name) as stream:
        archive = InspectArchive(stream, MAX_LOG_BYTES)
        names = archive.names()
        header = next((held for held in ("header.json", "_journal/start.json") if held in names), None)
        if header is None:
            raise InspectArchiveError("neither header.json nor _journal/start.json is in it")
        log = _decoded(_HEADER, archive.read(header), header)
        if header != "header.json":
            conditions.append("the evaluation did not end: header.json is missing")
        return _run(folder, log, _members(archive, names, conditions), conditions)


def _members(archive: InspectArchive, names: Iterable[str], conditions: list[str]) -> Iterator[tuple[str, bytes]]:
    for name in names:
        if _SAMPLE.fullmatch(name) is None:
            continue
        try:
            yield name, archive.read(name)
        except InspectArchiveError as error:
            conditions.append(str(error))


def _run(folder: RunFolder, log: _Header, members: Iterable[tuple[str, bytes]], conditions: list[str]) -> Run:
    samples: list[_Sample] = []
    for name, data in members:
        if len(samples) == _MAX_SAMPLES:
            conditions.append(f"only the first {_MAX_SAMPLES} samples are read")
            break
        try:
            samples.append(_decoded(_DECODER, data, name))
        except ValueError as error:
            conditions.append(str(error))
    order = {str(known): place for place, known in enumerate(log.eval.dataset.sample_ids or ())}
    for sample in samples:
        order.setdefault(str(sample.id), len(order))
    samples.sort(key=lambda sample: (sample.epoch, order[str(sample.id)]))
    task = log.eval.task or "task"
    run = Run(_identity(log, task), folder)
    scorer = _scorer(log, samples)
    values = [_value(sample, scorer) for sample in samples]
    scored = [(sample, value) for sample, value in zip(samples, values, strict=True) if value is not None]
    if len(scored) < len(samples):
        conditions.append(f"{len(samples) - len(scored)} of {len(samples)} samples have no score; left out of returns")
    if scored:
        of_zero_and_one = all(value in (0.0, 1.0) for _, value in scored)
        run.episodes[task] = [
            _episode(index, sample, value, order[str(sample.id)], success=bool(value) if of_zero_and_one else None)
            for index, (sample, value) in enumerate(scored)
        ]
        run.returns["inference"] = {task: np.array([value for _, value in scored], np.float64)}
        if of_zero_and_one:
            run.successes["inference"] = {task: run.returns["inference"][task]}
    run.models = _models(log, task, samples, {id(sample): at for at, (sample, _) in enumerate(scored)})
    if log.error is not None:
        conditions.append(f"the evaluation failed: {log.error.message[:500]}")
    shown = conditions[:_MAX_CONDITIONS]
    more = len(conditions) - len(shown)
    run.conditions = [*shown, *([f"{more} further conditions"] if more else [])]
    return run


def _identity(log: _Header, task: str) -> RunIdentity:
    config = {**log.plan.config}
    seed = config.pop("seed", None)
    dataset = log.eval.dataset
    environment = [task, log.eval.task_version, dataset.name, dataset.sample_ids, log.eval.scorers]
    return RunIdentity(
        domain="inspect_ai",
        task=task,
        algorithm=log.eval.model or "model",
        version=_digest([log.plan.steps, config]),
        fingerprint=_digest(environment),
        mode="inference",
        seed=seed if isinstance(seed, int) and not isinstance(seed, bool) else None,
        state=_STATES.get(log.status, "recorded"),
        env_kwargs=env_arguments(log.eval.task_args),
    )


def _digest(value: object) -> str:
    return hashlib.sha256(msgspec.json.encode(value, order="sorted")).hexdigest()


def _scorer(log: _Header, samples: Iterable[_Sample]) -> tuple[str, str]:
    """Returns the scorer that gives the return, and the key if it gives several values."""
    headline = None if log.results is None else log.results.headline
    if headline is not None and headline.scorer:
        return headline.scorer, headline.score
    return next((name for sample in samples for name in sample.scores or ()), ""), ""


def _value(sample: _Sample, scorer: tuple[str, str]) -> float | None:
    score = (sample.scores or {}).get(scorer[0])
    if score is None:
        return None
    value = score.value
    if isinstance(value, dict):
        value = value.get(scorer[1], next(iter(value.values()), None))
    if isinstance(value, str):
        if value in _LETTERS:
            return _LETTERS[value]
        value = {"yes": 1.0, "true": 1.0, "no": 0.0, "false": 0.0}.get(value.lower(), value)
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def _episode(index: int, sample: _Sample, value: float, place: int, *, success: bool | None) -> Episode:
    limited = sample.limit is not None
    return Episode(
        index=index, seed=0, episode_return=value, length=max(sample.turn_count or len(_calls(sample)), 0),
        terminated=not limited, truncated=limited, wall_s=_seconds(sample.total_time), success=success,
        task_index=place, repeat=max(sample.epoch - 1, 0),
    )  # fmt: skip


def _calls(sample: _Sample) -> list[_Event]:
    return [event for event in sample.events if event.event == "model"]


def _models(log: _Header, task: str, samples: list[_Sample], episodes: dict[int, int]) -> ModelUse:
    usages = [_usage(sample) for sample in samples]
    answers = [_answer_times(sample) for sample in samples]
    every = np.array([second for held in answers for second in held], np.float64)
    counts = UsageCounts(total=_percentiles(every))
    for usage in usages:
        for name in ("calls", "answered", "retries", "tokens_in", "tokens_out", "calls_without_usage", "call_s"):
            setattr(counts, name, getattr(counts, name) + getattr(usage, name))
        counts.cost = usage.cost if counts.cost is None else counts.cost + (usage.cost or 0.0)
        for kind, number in usage.errors.items():
            counts.errors[kind] = counts.errors.get(kind, 0) + number
    scopes = [
        ScopeUsage(task=task, phase="episode", episode=episodes.get(id(sample)), usage=usage)
        for sample, usage in zip(samples, usages, strict=True)
    ]
    names = dict.fromkeys([log.eval.model, *(name for sample in samples for name in sample.model_usage or ())])
    summary = ModelUsage(
        models=[name for name in names if name][:100], currency="USD" if counts.cost is not None else "", total=counts,
        scopes=scopes,
    )  # fmt: skip
    return ModelUse(summary, np.empty(0), every)


def _answer_times(sample: _Sample) -> list[float]:
    return [
        _seconds(call.output.time)
        for call in _calls(sample)
        if call.output is not None and call.output.time is not None and call.error is None
    ]


def _usage(sample: _Sample) -> UsageCounts:
    calls = _calls(sample)
    used = list((sample.model_usage or {}).values())
    costs = [tokens.total_cost for tokens in used if tokens.total_cost is not None]
    failed = sum(call.error is not None for call in calls)
    errors = {"model_error": failed} if failed else {}
    if sample.error is not None:
        errors["sample_error"] = 1
    times = [_seconds(call.output.time) for call in calls if call.output is not None]
    return UsageCounts(
        calls=len(calls),
        answered=len(calls) - failed,
        retries=sum(call.retries or 0 for call in calls),
        tokens_in=sum(
            tokens.input_tokens + (tokens.input_tokens_cache_read or 0) + (tokens.input_tokens_cache_write or 0)
            for tokens in used
        ),
        tokens_out=sum(tokens.output_tokens for tokens in used),
        calls_without_usage=len(calls) - failed if calls and not used else 0,
        cost=math.fsum(costs) if costs else None,
        call_s=math.fsum(times),
        errors=errors,
    )


def _percentiles(values: Any) -> Percentiles | None:
    if not values.size:
        return None
    middle, p90, p99 = np.percentile(values, (50, 90, 99))
    return Percentiles(
        count=values.size, median_s=float(middle), p90_s=float(p90), p99_s=float(p99), max_s=float(values.max())
    )


def _seconds(value: float | None) -> float:
    return value if value is not None and math.isfinite(value) and value >= 0 else 0.0


def _decoded(decoder: msgspec.json.Decoder[Any], data: bytes, name: str) -> Any:
    try:
        return decoder.decode(data)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise ValueError(f"{name} is not part of a log of inspect_ai: {error}") from error
