"""Repeats recorded evaluations and writes a verdict about each; the same call again keeps existing verdicts.

Every bundle is repeated once, with the recorded seeds. Evaluations that are not bit-equal then get the further episodes
that the caller asked for, and one comparison at the end. An interrupted call resumes with the bundles of its
repetitions.
"""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import get_args

import msgspec

from a2perf._version import __version__
from a2perf.constants import ExitCode
from a2perf.domains.package_code import package_sha256
from a2perf.errors import UserError
from a2perf.experiments.reproduce.comparison import (
    EpisodeComparison,
    changed_conditions,
    compare_episodes,
    offline_checks,
    same_host,
)
from a2perf.experiments.reproduce.rebuild import (
    RebuiltRun,
    ReproduceRequest,
    current_fingerprint,
    present_conditions,
    rebuild,
)
from a2perf.experiments.reproduce.selection import find_bundles, forged, manifest_of, of_entry, sample
from a2perf.experiments.reproduce.statement import (
    by_training,
    compare_trainings,
    episodes_needed,
    looks_for,
    margin_of,
    returns_of,
    verdict_of,
)
from a2perf.experiments.reproduce.statement import compare_episodes as compare_returns
from a2perf.launch import QUEUE_FILE, Conductor, QueueEntry, Restart, RunEvent, State
from a2perf.launch.queue_entry import INFRASTRUCTURE
from a2perf.metrics.trackers.host import describe_host
from a2perf.records import RunState
from a2perf.runs.bundles.layout import REPRODUCTION_SUFFIX
from a2perf.runs.packed.packed_archive import packed_place
from a2perf.runs.reading import read_run
from a2perf.runs.reproduction import (
    Outcome,
    RepeatedRun,
    Reproduction,
    ReturnComparison,
    place_of,
    read_reproduction,
    write_reproduction,
)
from a2perf.runs.run import BUNDLE, Run, RunFolder
from a2perf.runs.signing import manifest_sha256, read_private_key

RERUNS = ".reruns"
"""Folder of the repetitions in the output folder; hidden, so reports and leaderboards do not count them."""


FAIL_ON: dict[str, tuple[Outcome, ...]] = {
    "refuted": ("REFUTED", "REFUSED"),
    "inconclusive": ("REFUTED", "REFUSED", "INCONCLUSIVE"),
    "unchecked": ("REFUTED", "REFUSED", "INCONCLUSIVE", "NOT CHECKED"),
}
"""The verdicts that fail, by value of ``--fail-on``."""


@dataclass(frozen=True)
class Reproductions:
    """The result of a call.

    Attributes:
        interrupted: whether the call was stopped before every bundle had a verdict.
        replaced: bundles that a sample drew and that cannot be repeated here, with the first reason; others took their
            place.
    """

    verdicts: tuple[Reproduction, ...]
    bundles: int
    kept: int = 0
    interrupted: bool = False
    infrastructure: bool = False
    replaced: tuple[str, ...] = ()

    def counts(self) -> dict[str, int]:
        """Returns the number of verdicts by outcome."""
        found = Counter(one.verdict for one in self.verdicts)
        return {name: found[name] for name in get_args(Outcome) if found[name]}

    def exit_code(self, fail_on: Sequence[str]) -> int:
        """Returns 130 if interrupted, 3 if the host failed, 1 for a verdict in ``fail_on``, otherwise 0."""
        if self.interrupted:
            return 130
        if self.infrastructure:
            return int(ExitCode.INFRASTRUCTURE)
        unchecked = bool(self.replaced) and "NOT CHECKED" in fail_on
        return 1 if unchecked or any(one.verdict in fail_on for one in self.verdicts) else 0


@dataclass
class _Open:
    """A bundle that is being repeated.

    Attributes:
        look: number of the look at which its episodes are compared; ``2 ** (look - 1)`` repetitions are played.
        repeated: the repetitions; the first has the recorded seeds.
        episodes: the comparison with the first one.
    """

    place: Path
    rebuilt: RebuiltRun
    look: int
    runs: list[RepeatedRun] = field(default_factory=list)
    repeated: list[Run] = field(default_factory=list)
    episodes: EpisodeComparison | None = None

    @property
    def recorded(self) -> Run:
        """The recorded run."""
        return self.rebuilt.recorded

    @property
    def equal(self) -> bool:
        """Whether every recorded value was repeated bit for bit."""
        return self.episodes is not None and self.episodes.bit_equal

    @property
    def settled(self) -> bool:
        """Whether no further repetition is played."""
        return self.equal or len(self.repeated) >= 2 ** (self.look - 1)

    def take(self, bundle: Path, number: int, folder: Path) -> None:
        """Adds a repetition below ``folder``."""
        repeated = read_run(RunFolder(BUNDLE, bundle, f"run_{number}"))
        self.repeated.append(repeated)
        self.runs.append(
            RepeatedRun(
                path=bundle.relative_to(folder).as_posix(),
                seeds="recorded" if number == 0 else "fresh",
                state=repeated.state,
                manifest_sha256=manifest_sha256(bundle),
            )
        )
        if number == 0:
            self.episodes = compare_episodes(self.recorded, repeated)


def reproduce(
    request: ReproduceRequest,
    conductor: Conductor,
    *,
    on_verdict: Callable[[Reproduction], None] = lambda found: None,
    on_plan: Callable[[str], None] = lambda text: None,
) -> Reproductions:
    """Repeats the evaluations of a request and writes the verdicts.

    Args:
        on_verdict: receives each verdict as soon as it is written.
        on_plan: receives, before a bundle is repeated, how many episodes a statement takes if it is not bit-equal.

    Raises:
        ConfigError: a path, the sample or the key is wrong.
        UserError: nothing recorded was found.
    """
    if request.key is not None:
        read_private_key(request.key)  # before hours of runs
    found, broken = find_bundles(request.paths)
    name, _, task = (request.entry or "").partition(":")
    found = of_entry(found, name, task)
    skipped: list[str] = []

    def repeatable(bundle: Run) -> bool:
        missing = rebuild(bundle, request.folder, request)[1]
        skipped.extend(f"{bundle.folder.label}: {missing[0]}" for _ in missing[:1])
        return not missing

    chosen = sample(found, request.sample_size, request.sample_seed, repeatable)
    verdicts: dict[str, Reproduction] = {}
    kept = 0
    open_runs: dict[str, _Open] = {}

    def write(label: str, place: Path, record: Reproduction) -> None:
        write_reproduction(place, record, request.key)
        verdicts[label] = record
        on_verdict(record)

    if broken and request.sample_size is None:
        raise UserError(
            f"{next(iter(broken))} is not a bundle that can be read: {next(iter(broken.values()))}",
            hint="see `a2perf validate`, or give the other bundles",
        )
    for bundle in chosen:
        beside = request.output is None and packed_place(bundle.folder.path) is None
        elsewhere = request.folder / f"{_unique_name(bundle)}{REPRODUCTION_SUFFIX}"
        place = place_of(bundle.folder.path) if beside else elsewhere
        prepared = _prepare(request, bundle, place)
        if isinstance(prepared, Reproduction):
            if prepared.verdict == "NOT CHECKED" and _verdict_at(place, bundle) is not None:
                verdicts[bundle.folder.label] = prepared  # the verdict of an earlier call stays on the disk
                on_verdict(prepared)
            else:
                write(bundle.folder.label, place, prepared)
            continue
        existing = None if request.force else _existing(request, prepared)
        if existing is not None:
            verdicts[bundle.folder.label] = existing
            kept += 1
            continue
        open_runs[bundle.folder.label] = prepared
        if text := _plan_text(prepared, request):
            on_plan(text)
    trained = {label: one for label, one in open_runs.items() if request.trains(one.recorded)}
    infrastructure, number = False, 0
    while open_runs:
        stopped, failed_by_host = _round(request, number, open_runs, write, conductor)
        infrastructure |= failed_by_host
        if stopped:
            break
        number += 1
    for label, record in _judged_trainings(trained, verdicts, request):
        write(label, trained[label].place, record)
    ordered = tuple(verdicts[bundle.folder.label] for bundle in chosen if bundle.folder.label in verdicts)
    return Reproductions(ordered, len(found), kept, len(ordered) < len(chosen), infrastructure, tuple(skipped))


def _plan_text(one: _Open, request: ReproduceRequest) -> str:
    """Returns how many episodes a statement takes if the repetition is not bit-equal; ``""`` if those asked for do."""
    values, margin = returns_of(one.recorded), margin_of(one.recorded)
    if request.trains(one.recorded) or values.size < 2:
        return ""
    needed = episodes_needed(values.size, float(values.std(ddof=1)), margin)
    asked = max(values.size, request.episodes or 0)
    if needed is None or needed <= asked:
        return ""
    return (
        f"{one.recorded.folder.label}: if it is not bit-equal, a statement within {margin:.3g} takes about {needed}"
        f" episodes: --episodes {needed}"
    )


def _round(
    request: ReproduceRequest,
    number: int,
    open_runs: dict[str, _Open],
    write: Callable[[str, Path, Reproduction], None],
    conductor: Conductor,
) -> tuple[bool, bool]:
    """Repeats every open bundle once; returns whether it was stopped, and whether the host failed a repetition.

    Args:
        number: 0 repeats the recorded seeds.
        open_runs: the open bundles by label; those with a verdict are removed.
    """
    specs = {label: one.rebuilt.specs(number) for label, one in open_runs.items()}
    last_of = {every[-1].key: label for label, every in specs.items()}

    def on_event(event: RunEvent) -> None:
        # at once: a later interrupt must not delay the verdict
        if event.entry is not None and event.state is State.FINISHED:
            take(event.entry)

    def take(entry: QueueEntry) -> None:
        if entry.bundle is None or entry.key not in last_of:
            return
        label = last_of.pop(entry.key)
        one = open_runs[label]
        one.take(entry.bundle, number, request.folder)
        if one.settled:
            del open_runs[label]
            if one.equal or not request.trains(one.recorded):
                write(label, one.place, _judged(one, request))

    result = conductor.run(
        [spec for every in specs.values() for spec in every],
        request.folder / RERUNS / QUEUE_FILE,
        restart=Restart(force=request.force, failed=True),
        on_event=on_event,
    )
    by_key = {entry.key: entry for entry in result.entries}
    failed_by_host = False
    for label, every in specs.items():
        entries = [by_key[spec.key] for spec in every]
        if failed := [entry for entry in entries if entry.state is State.FAILED]:
            failed_by_host |= failed[0].kind == INFRASTRUCTURE
            one = open_runs.pop(label)
            write(label, one.place, _failed(one, failed[0], request))
        elif entries[-1].state is State.FINISHED:
            take(entries[-1])
    return result.stopped, failed_by_host


def _prepare(request: ReproduceRequest, bundle: Run, place: Path) -> _Open | Reproduction:
    """Returns the rebuilt run, or the verdict about a bundle that cannot be repeated."""
    if changed := forged(bundle):
        reason = f"it was changed after the run: {changed[0]}"
        return _record(bundle, "REFUSED", reason)
    state = manifest_of(bundle).state
    if state is not RunState.FINISHED:
        return _record(bundle, "NOT CHECKED", f"the recorded run is {state.value}: it claims no result")
    count = returns_of(bundle).size
    if not count:
        return _record(bundle, "NOT CHECKED", "the bundle has no episodes", checked=offline_checks(bundle))
    work = request.folder / RERUNS / _unique_name(bundle)
    rebuilt, missing = rebuild(bundle, work, request)
    if rebuilt is None:
        checked = offline_checks(bundle)
        return _record(bundle, "NOT CHECKED", f"missing: {missing[0]}", missing=missing, checked=checked)
    return _Open(place, rebuilt, 1 if request.trains(bundle) else looks_for(request.episodes, count))


def _judged(one: _Open, request: ReproduceRequest, training: ReturnComparison | None = None) -> Reproduction:
    """Returns the verdict about a repeated bundle.

    Args:
        training: the comparison of all training runs that this one belongs to, if they were repeated.
    """
    episodes = one.episodes
    assert episodes is not None
    if episodes.bit_equal:
        found = _of(one, request, "CONFIRMED", f"all {episodes.episodes} episodes are bit-equal")
        found.checked = [f"bit-equal in every episode: {', '.join(episodes.values)}"]
        found.method = "bit-equal"
    else:
        statement = training or compare_returns(one.recorded, one.repeated, one.look)
        found = _of(one, request, *verdict_of(statement))
        found.method, found.statement = "statistical", statement
        if found.other_environment:
            found.verdict, found.reason = "INCONCLUSIVE", "no statement: the repetition had another environment"
    found.episodes, found.equal_episodes = episodes.episodes, episodes.equal
    found.first_difference = episodes.first
    return found


def _judged_trainings(
    trained: dict[str, _Open], verdicts: Mapping[str, Reproduction], request: ReproduceRequest
) -> Iterator[tuple[str, Reproduction]]:
    """Yields the verdicts about repeated training runs that are not bit-equal: one comparison per group of seeds.

    A group with a repetition that is still missing gets none: its bundles stay open.
    """
    done = {label: (one.recorded, one.repeated[0]) for label, one in trained.items() if one.repeated}
    waiting = {label: (one.recorded, one.recorded) for label, one in trained.items() if label not in done}
    waiting = {label: pair for label, pair in waiting.items() if label not in verdicts}
    stopped = set(by_training(waiting))
    for key, labels in by_training(done).items():
        if key in stopped:
            continue
        statement = compare_trainings([done[label] for label in labels])
        for label in labels:
            if label not in verdicts:
                yield label, _judged(trained[label], request, statement)


def _failed(one: _Open, entry: QueueEntry, request: ReproduceRequest) -> Reproduction:
    why = entry.reason.removeprefix("a2perf: ")
    found = _of(one, request, "NOT CHECKED", f"the repetition failed: {entry.kind}: {why}")
    found.missing = [*found.missing, why]
    found.checked = offline_checks(one.recorded)
    return found


def _of(one: _Open, request: ReproduceRequest, verdict: Outcome, reason: str) -> Reproduction:
    recorded = one.recorded
    manifest = manifest_of(recorded)
    found = _record(recorded, verdict, reason)
    found.runs, found.trained = one.runs, request.trains(recorded)
    found.conditions = present_conditions(manifest, one.rebuilt.submission)
    fingerprint = current_fingerprint(manifest)
    repeated = one.repeated[0].manifest if one.repeated else None
    if repeated is not None:
        found.host = {name: value for name, value in repeated.host.items() if name != "hostname"}
        found.same_host = same_host(manifest, repeated)
        submission = repeated.submission.sha256
        fingerprint = repeated.env_fingerprint or fingerprint
    else:
        submission = found.conditions["submission"]
        repeated = msgspec.structs.replace(
            manifest,
            host=msgspec.to_builtins(describe_host()),
            a2perf_version=__version__,
            a2perf_sha256=package_sha256(),
        )
    found.changed = changed_conditions(manifest, repeated, submission, fingerprint)
    found.missing += one.rebuilt.notes
    return found


def _record(
    bundle: Run, verdict: Outcome, reason: str, *, missing: Sequence[str] = (), checked: Sequence[str] = ()
) -> Reproduction:
    manifest = manifest_of(bundle)
    host = msgspec.to_builtins(describe_host())
    host.pop("hostname", None)
    return Reproduction(
        a2perf_version=__version__,
        a2perf_sha256=package_sha256(),
        bundle=bundle.folder.label,
        manifest_sha256=manifest_sha256(bundle.folder.path),
        submission=manifest.submission.name,
        submission_sha256=manifest.submission.sha256,
        domain=manifest.domain,
        task=manifest.task,
        mode=manifest.mode,
        root_seed=manifest.root_seed,
        verdict=verdict,
        reason=reason,
        missing=list(missing),
        checked=list(checked),
        host=host,
        finished_at=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    )


def _unique_name(bundle: Run) -> str:
    """Returns a path below the output folder; calls about other folders may share it, and their labels may be equal."""
    return f"{bundle.folder.label}-{manifest_sha256(bundle.folder.path)[:8]}"


def _existing(request: ReproduceRequest, one: _Open) -> Reproduction | None:
    """Returns the verdict of an earlier call about the same bundle, under the same conditions and at the same look."""
    bundle = one.recorded
    found = _verdict_at(one.place, bundle)
    if found is None or found.conditions != present_conditions(manifest_of(bundle), one.rebuilt.submission):
        return None
    same_look = found.statement is None or found.statement.look == one.look
    return found if same_look and found.trained == request.trains(bundle) else None


def _verdict_at(place: Path, bundle: Run) -> Reproduction | None:
    """Returns the verdict of an earlier call about the same bundle, under any conditions."""
    try:
        found = read_reproduction(place)
    except (UserError, OSError):
        return None
    same = found.manifest_sha256 == manifest_sha256(bundle.folder.path)
    return found if same and found.verdict not in ("NOT CHECKED", "REFUSED") else None
