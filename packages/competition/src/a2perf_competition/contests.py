"""What a host runs its entries on: the public task of a competition, or the tasks of a bundle of another platform."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

from a2perf.errors import InfrastructureError, UserError
from a2perf.experiments.planning import PlannedRun
from a2perf.launch import QueueEntry, Resources, RunCommand, RunSpec
from a2perf.launch.outcomes import mean_return, read_manifest
from a2perf.records import FailureKind, Record
from a2perf.runs.bundles.layout import LOGS
from a2perf.sandbox.interface import strongest_level
from a2perf.storage import read_record, write_record
from a2perf.submission.run_options import RunOptions
from a2perf_competition import bundles
from a2perf_competition.entrants import Entrants, level_of
from a2perf_competition.folder_check import FolderCheck
from a2perf_competition.hosted import BUNDLE, CHECK, CUP, HostedEntry, Phase, Settings, read_settings, unpacked_folder
from a2perf_competition.records import load
from a2perf_competition.required_runs import PUBLIC_GIN, TRAINING_GIN
from a2perf_competition.run_entrants import check_host

RESULT = "result.json"


class Cup:
    """A competition of a2perf. ``level`` is the sandbox in which uploads are unpacked, ``score`` heads the scores."""

    score, ascending = "Mean return", False

    def __init__(self, folder: Path, settings: Settings) -> None:
        self._folder, self._settings = folder, settings
        self.competition = load(folder / CUP)
        terms = self.competition.terms
        self.title, self.task = terms.name, f"Public task: {terms.public_task}"
        self.phases: Sequence[Phase] = settings.phases
        self.level = level_of(self.competition, settings.sandbox or None, settings.allow_weaker)
        given = Entrants((), sandbox=self.level, allow_weaker=settings.allow_weaker)
        self.workers = check_host(terms, given, settings.workers)

    def specs(self, entry: HostedEntry) -> list[RunSpec]:
        """Returns the training and the evaluation for each public seed; nothing in them depends on a secret."""
        cup, terms = self.competition, self.competition.terms
        check = self._folder / "entries" / entry.id / CHECK
        isolated = check.exists() and read_record(check, FolderCheck).needs_packages
        specs: list[RunSpec] = []
        for seed in terms.seeds:
            after = None
            for mode, gin in [("train", TRAINING_GIN)] * terms.train + [("inference", PUBLIC_GIN)]:
                planned = PlannedRun(
                    submission=unpacked_folder(self._folder / "entries" / entry.id, entry.entrant),
                    gin_file=cup.public / gin,
                    root=_runs(self._folder, entry) / f"seed_{seed}",
                    seed=seed,
                    options=RunOptions.of(
                        sandbox=self.level,
                        python_env="isolated" if isolated else "shared",
                        allow_weaker=self._settings.allow_weaker,
                        public_seeds=True,
                    ),
                    bindings=(f"Submission.hidden_paths = {[str(cup.folder), str(self._folder / 'inbox')]!r}",),
                    resources=Resources(memory_bytes=terms.memory_limit_bytes, wall_s=terms.run_time_limit_s),
                    readable=(cup.public,),
                )
                labels = {"entry": entry.id, "seed": seed}
                name = f"{entry.id}/{entry.attempt}/seed_{seed}/{mode}"
                specs.append(planned.spec(name, mode, labels, identity=[name], domain=terms.domain, after=after))
                after = specs[-1]
        return specs

    def settle(self, entry: HostedEntry, rows: Sequence[QueueEntry]) -> None:
        """Enters the mean return over the seeds."""
        manifests = [read_manifest(row.bundle) for row in rows if row.bundle is not None]
        for attempt in (attempt for one in manifests if one is not None for attempt in one.attempts):
            entry.wall_s += attempt.wall_s or 0.0
            if attempt.net_kwh is not None:
                entry.kwh = (entry.kwh or 0.0) + attempt.net_kwh
        entry.score = _mean(mean_return(row) for row in rows if row.data["mode"] == "inference")

    def logs(self, entry: HostedEntry) -> dict[str, Path]:
        """Returns the logs of each run."""
        found = sorted(_runs(self._folder, entry).glob(f"seed_*/*/{LOGS}/*.log"))
        return {"/".join((*log.parts[-4:-2], log.stem)): log for log in found}


class TaskResult(Record, kw_only=True):
    """``result.json`` of an entry on one task of a bundle; ``failed`` is the reason why it has no score."""

    score: float | None = None
    failed: str = ""
    wall_s: float = 0.0


class HostedBundle:
    """A bundle of Codabench or EvalAI: an entry runs on the tasks of the phase in which it was accepted."""

    def __init__(self, folder: Path, settings: Settings) -> None:
        self._folder = folder
        self._bundle = bundles.read_bundle(folder / BUNDLE)
        self._python = Path(settings.python) if settings.python else bundles.python_of(self._bundle)
        self.title, self.task = self._bundle.title, f"Tasks: {', '.join(task.name for task in self._bundle.tasks)}"
        self.level, self.workers = settings.sandbox or strongest_level(), settings.workers
        self.score, self.ascending = self._bundle.metric or "Score", self._bundle.ascending
        self.phases = self._bundle.phases

    def specs(self, entry: HostedEntry) -> list[RunSpec]:
        """Returns one evaluation for each task of the phase."""
        specs = []
        for number, task in enumerate(self._bundle.tasks):
            if task.phase == entry.phase:
                key, out = f"{entry.id}/{entry.attempt}/{number}", _runs(self._folder, entry) / str(number)
                words = (self._folder, entry.id, number, out, self._python)
                argv = (sys.executable, "-P", "-m", __name__, *map(str, words))
                command = RunCommand(argv, name=key, cwd=self._folder, log=out.with_suffix(".log"))
                specs.append(RunSpec(key, command, {"entry": entry.id, "mode": task.name, "task": number}))
        return specs

    def settle(self, entry: HostedEntry, rows: Sequence[QueueEntry]) -> None:
        """Enters the mean over the tasks of the score that ranks."""
        files = [(row.data["mode"], _runs(self._folder, entry) / str(row.data["task"]) / RESULT) for row in rows]
        found = [(task, read_record(file, TaskResult)) for task, file in files if file.exists()]
        entry.wall_s += sum(one.wall_s for _, one in found)
        if failed := [f"{task}: {one.failed}" for task, one in found if one.failed]:
            entry.kind, entry.reason = FailureKind.EXCEPTION.value, failed[0]
            return
        entry.score = _mean(one.score for _, one in found)

    def logs(self, entry: HostedEntry) -> dict[str, Path]:
        """Returns what the submission printed; what the programs of the organizer print may show solutions."""
        found = sorted(_runs(self._folder, entry).glob("*/submission.*"))
        return {f"{self._bundle.tasks[int(log.parent.name)].name}, {log.suffix[1:]}": log for log in found}

    def evaluate(self, entry: str, number: int, out: Path, python: Path) -> TaskResult:
        """Runs one evaluation.

        Raises:
            InfrastructureError: the host failed.
        """
        folder, began = self._folder / "entries" / entry, time.monotonic()
        result = TaskResult()
        try:
            submission = unpacked_folder(folder, entry.rpartition("-")[0])
            scores = bundles.evaluate(self._bundle.tasks[number], submission, out, python)
            ranks = self._bundle.metric or next(iter(scores))
            if ranks not in scores:
                raise UserError(f"the scores hold no {ranks}: {', '.join(scores)}")
            result.score = scores[ranks]
        except InfrastructureError:
            raise
        except UserError as error:
            result.failed = error.message
        result.wall_s = time.monotonic() - began
        return result


def _mean(values: Iterable[float | None]) -> float | None:
    kept = [value for value in values if value is not None]
    return sum(kept) / len(kept) if kept else None


def _runs(folder: Path, entry: HostedEntry) -> Path:
    return folder / "runs" / entry.id / str(entry.attempt)


Contest = Cup | HostedBundle


def contest_of(folder: Path, settings: Settings) -> Contest:
    """Returns what the folder of a host holds.

    Raises:
        ConfigError: the competition or the bundle is not valid, or cannot be run on this host.
    """
    return HostedBundle(folder, settings) if (folder / BUNDLE).is_dir() else Cup(folder, settings)


def _main(folder: str, entry: str, number: str, out: str, python: str) -> int:
    place = Path(out)
    try:
        contest = HostedBundle(Path(folder), read_settings(Path(folder)))
        write_record(place / RESULT, contest.evaluate(entry, int(number), place, Path(python)))
    except UserError as error:
        print(f"a2perf: {error.message}", file=sys.stderr)
        return 3
    for part in place.iterdir():
        if part.is_dir():
            shutil.rmtree(part)
    return 0


if __name__ == "__main__":
    sys.exit(_main(*sys.argv[1:]))
