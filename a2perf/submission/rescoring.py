"""Offline re-scoring: recomputes the metric files from recorded bundles without running the participant.

The classic files of the configured mode are rewritten. ``scores.json`` next to them gets the metrics of every mode
recorded under the root directory, as ``a2perf score`` computes them.
"""

from __future__ import annotations

import os
from pathlib import Path

from a2perf.constants import BenchmarkMode, ExitCode
from a2perf.errors import ConfigError, UserError, command_line
from a2perf.records import LatencyResults, RolloutResults, RunState
from a2perf.runs.bundles.agreement import integrity
from a2perf.runs.bundles.files import files_of
from a2perf.runs.bundles.inventory import read_manifest
from a2perf.runs.bundles.layout import JOURNAL, LATENCY_FILE, MANIFEST, METRICS, ROLLOUTS_FILE, SCORES
from a2perf.runs.run import EARLIER
from a2perf.runs.stores.finding import find_runs
from a2perf.storage import Journal, read_record, write_json
from a2perf.submission.evaluator.playing import results
from a2perf.submission.evaluator.playing.episode_records import write_rollouts
from a2perf.submission.evaluator.progress import RunProgress
from a2perf.submission.settings import Submission


def run(settings: Submission, *, progress: RunProgress | None = None) -> int:
    """Recomputes the metric files of the bundle of the configured mode.

    Raises:
        ConfigError: there is no bundle of that mode under the root directory.
    """
    from a2perf.metrics.scores import score_runs

    progress = progress or RunProgress()
    mode = BenchmarkMode(settings.mode).value
    path, values = settings.root / mode, settings.values
    if os.path.lexists(path / MANIFEST):
        _restore(settings, path, progress)
        done = f"re-scored {path}; the result files are in {values}"
    elif _is_earlier(settings.root):  # it consists of the classic files already
        values.mkdir(parents=True, exist_ok=True)
        done = f"re-scored {settings.root} (recorded by the earlier platform); the scores are in {values / SCORES}"
    else:
        raise ConfigError(
            f"{path} is not a recorded run", hint="run the mode first, or give the --root-dir of a recorded run"
        )
    write_json(values / SCORES, score_runs([settings.root]))
    progress.say(f"{done}; `{command_line('a2perf', 'score', settings.root)}` prints them")
    return int(ExitCode.SUCCESS)


def _restore(settings: Submission, path: Path, progress: RunProgress) -> None:
    """Writes the result files of a bundle again, those of a run that did not end from its journal."""
    progress.opened(path)
    manifest = read_manifest(path)
    for problem in integrity(files_of(path), manifest):
        progress.say(f"CHANGED: {path}: {problem}")
    # The files of an ended run are listed with their hashes in its manifest and must not be rewritten.
    ended = manifest.state in (RunState.FINISHED, RunState.FAILED)
    for journal in [] if ended else sorted(path.rglob(JOURNAL)):
        folder = journal.parent if path.name == "generalization" else path / METRICS
        rollouts = folder / ROLLOUTS_FILE
        if rollouts.exists():
            write_rollouts(rollouts, read_record(rollouts, RolloutResults), Journal(journal))
    if (path / METRICS / LATENCY_FILE).exists():
        read_record(path / METRICS / LATENCY_FILE, LatencyResults)
    results.publish_from(path, path.name, settings)


def _is_earlier(root: Path) -> bool:
    try:
        return any(run.layout == EARLIER for run in find_runs([root]))
    except UserError:  # no run is recorded there
        return False
