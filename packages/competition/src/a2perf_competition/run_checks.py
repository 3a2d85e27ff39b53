"""Checks one run of a competition against the commitment, from its bundle and not from summaries."""

from __future__ import annotations

import datetime
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from a2perf.errors import UserError
from a2perf.experiments.planning import recorded_bindings
from a2perf.records import Episode, Manifest, RolloutResults, RunState
from a2perf.runs.bundles.agreement import integrity
from a2perf.runs.bundles.files import configuration_name, files_of
from a2perf.runs.bundles.layout import ROLLOUTS
from a2perf.storage import parse_record
from a2perf.stranger_files import printable
from a2perf.submission.evaluator.playing.seeds import RunSeeds
from a2perf_competition.entrants import Entrant, Round
from a2perf_competition.records import CompetitionTerms, Evaluator, Secret
from a2perf_competition.required_runs import RequiredRun, bindings_of

UNPUBLISHED = ("artifacts", "logs", "media")
"""Folders of a bundle that are not published: they contain the entrant's files. The manifest has their hashes."""

_MAX_BYTES = 1 << 30
_CLOCK_S = 60.0
_FLAGS = {
    "--participant-module-path",
    "--submission-gin-config-path",
    "--root-dir",
    "--seed",
    "--sandbox",
    "--python-env",
    "--python-env-find-links",
    "--extra-gin-bindings",
    "--allow-weaker",
}


@dataclass(frozen=True)
class Promise:
    """The committed inputs that all runs are checked against."""

    terms: CompetitionTerms
    secret: Secret
    evaluator: Evaluator
    gin: Mapping[str, bytes]
    seed_secret: bytes

    def seeds_of(self, run: RequiredRun) -> dict[str, Any]:
        """Returns the required entries of ``seeds`` in a run's manifest."""
        evaluates, count, domain = run.mode == "inference", self.terms.episodes, self.terms.domain
        drawn = RunSeeds.keyed(self.seed_secret, run.seed, domain=domain, env_id=run.task.env_id, evaluates=evaluates)
        found = {**drawn.record(), "participant": drawn.draw("participant", 1)[0]}
        if evaluates:
            found |= {"episodes": drawn.draw("episodes", count), "evaluation": "root seed"}
            found["latency"] = drawn.draw("latency", 1)[0]
        return found


def check_run(
    bundle: Path,
    manifest: Manifest,
    run: RequiredRun,
    entrant: Entrant,
    sealed: Round,
    promise: Promise,
    *,
    published: bool = False,
) -> list[str]:
    """Compares one run with the commitment.

    Args:
        published: whether the folders of ``UNPUBLISHED`` were left out.
    """
    found = integrity(files_of(bundle), manifest, unpublished=UNPUBLISHED if published else ())
    found += _fields(manifest, run, entrant, promise)
    found += _confinement(manifest, entrant, sealed, promise)
    found += _times(manifest, sealed)
    try:
        found += _configuration(bundle, manifest, run, entrant, promise)
    except UserError as error:
        found.append(error.message)
    return found


def _fields(manifest: Manifest, run: RequiredRun, entrant: Entrant, promise: Promise) -> list[str]:
    terms, code = promise.terms, promise.evaluator
    python = f"{manifest.python.get('implementation')} {manifest.python.get('version')}"
    pairs: list[tuple[str, Any, Any]] = [
        ("mode", manifest.mode, run.mode),
        ("domain", manifest.domain, terms.domain),
        ("task", manifest.task, run.task.name),
        ("environment", manifest.env_id, run.task.env_id),
        ("arguments of the environment", manifest.env_kwargs, run.task.kwargs),
        ("root seed", manifest.root_seed, run.seed),
        ("hash of the submission", manifest.submission.sha256, entrant.sha256),
        ("participant arguments", manifest.participant_args, {}),
        ("version of a2perf", manifest.a2perf_version, code.a2perf_version),
        ("code of a2perf", manifest.a2perf_sha256, code.a2perf_sha256),
        ("Python", python, code.python),
    ]
    pairs += [(f"seeds.{name}", manifest.seeds.get(name), value) for name, value in promise.seeds_of(run).items()]
    found = [
        f"its {name} is {_shown(actual)}, committed {_shown(expected)}"
        for name, actual, expected in pairs
        if actual != expected
    ]
    if manifest.submission.changed:
        found.append("the submission's files changed while it ran")
    words = [word for word in manifest.command if word.startswith("--")]
    extra = sorted({word.partition("=")[0] for word in words} - _FLAGS)
    found += [f"it was started with {_shown(word)}, which the competition does not use" for word in extra]
    if words.count("--seed") > 1 or words.count("--sandbox") > 1:
        found.append("a flag of its command is repeated")
    return found


def _confinement(manifest: Manifest, entrant: Entrant, sealed: Round, promise: Promise) -> list[str]:
    found = []
    kind = None if manifest.python_env is None else manifest.python_env.kind
    if kind not in (None, "isolated" if entrant.isolated else "shared"):
        found.append(f"its packages were {_shown(kind)}, unlike at entering")
    sandbox = manifest.sandbox
    if sandbox is None:  # the run failed before the participant was started
        return [*found, "it records no sandbox"] if manifest.state is RunState.FINISHED else found
    if not sealed.allow_weaker and sandbox.level != sealed.sandbox:
        found.append(f"it was confined at the level {_shown(sandbox.level)}, not {_shown(sealed.sandbox)}")
    if sandbox.network:
        found.append("it could reach the network")
    for name, committed in promise.terms.limits.items():
        if sandbox.limits.get(name) != committed:
            found.append(f"its limit {name} was {_shown(sandbox.limits.get(name))}, committed {_shown(committed)}")
    return found


def _times(manifest: Manifest, sealed: Round) -> list[str]:
    try:
        entered = datetime.datetime.fromisoformat(sealed.at)
        early = [
            attempt.started_at
            for attempt in manifest.attempts
            if (entered - datetime.datetime.fromisoformat(attempt.started_at)).total_seconds() > _CLOCK_S
        ]
    except (ValueError, TypeError):
        return ["its times cannot be read"]
    return [f"it was started at {_shown(early[0])}, before its entrant entered at {sealed.at}"] if early else []


def _configuration(bundle: Path, manifest: Manifest, run: RequiredRun, entrant: Entrant, promise: Promise) -> list[str]:
    files = files_of(bundle)
    name = configuration_name(files)
    text = files.read(name, _MAX_BYTES)
    found = []
    if hashlib.sha256(text).hexdigest() != manifest.config_sha256:
        found.append(f"{name} is not the configuration that the manifest names")
    file = manifest.configuration
    if file is not None and file.sha256 != hashlib.sha256(promise.gin[run.gin_file]).hexdigest():
        found.append(f"its gin file is not the committed {run.gin_file}")
    actual = recorded_bindings(text, name)
    expected = recorded_bindings(promise.gin[run.gin_file], run.gin_file)
    given = bindings_of(run, Path("/cup"), Path("/cup/runs") / entrant.place)
    for name in sorted({*actual, *expected, *given}):
        if name in given:
            found += _path(name, actual.get(name), given[name])
        elif name not in actual:
            found.append(f"{name} was not set, committed {_shown(expected[name])}")
        elif name not in expected:
            found.append(f"{name} was set to {_shown(actual[name])}, which {run.gin_file} does not set")
        elif actual[name] != expected[name]:
            found.append(f"{name} was {_shown(actual[name])}, committed {_shown(expected[name])}")
    return found


def _path(name: str, actual: Any, expected: Any) -> list[str]:
    """Compares a path of the organizer's host with the expected one; the folder of the competition may differ."""
    if isinstance(expected, list):
        return [] if isinstance(actual, list) and len(actual) == len(expected) else [f"{name} was not as for all runs"]
    inside = str(expected).removeprefix("/cup/")
    if isinstance(actual, str) and actual.endswith(f"/{inside}"):
        return []
    return [f"{name} was {_shown(actual)}, which is not {inside} of the competition"]


def read_episodes(bundle: Path) -> list[Episode]:
    """Returns the episodes of a finished evaluation.

    Raises:
        UserError: they cannot be read.
    """
    return parse_record(files_of(bundle).read(ROLLOUTS, _MAX_BYTES), RolloutResults, ROLLOUTS).episodes


def _shown(value: Any) -> str:
    return printable(repr(value))[:120]
