"""Creates a competition from a profile: terms, tasks, organizer's designs, reference results, guide and template."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from a2perf.domains.competition_profile import CompetitionProfile
from a2perf.domains.registry import HeldOutTask
from a2perf.errors import ConfigError
from a2perf.experiments.competition.creation import create
from a2perf.experiments.competition.records import Competition, CompetitionTerms, ProfileTerms, PublicTask
from a2perf.records import Record
from a2perf.storage import read_record, sha256_of, write_atomic, write_record
from a2perf.submission.templates import create_submission

DESIGNS, TEMPLATE, GUIDE, REFERENCES = "designs", "template", "README.md", "references.json"


class References(Record, kw_only=True):
    """``references.json`` in ``public`` and ``private``: return of each reference entry, by task and by its name."""

    schema: int = 1
    returns: dict[str, dict[str, float]] = msgspec.field(default_factory=dict)


@dataclass(frozen=True)
class ProfileRequest:
    """What an organizer asks for.

    Attributes:
        terms: fields of ``CompetitionTerms`` that differ from the profile's.
        settings: settings of the profile, as text.
        designs: sources of further public designs.
        references: compute the results of the reference entries.
        progress: called with one line per step that takes long.
    """

    name: str
    terms: Mapping[str, Any] = field(default_factory=dict)
    settings: Mapping[str, str] = field(default_factory=dict)
    designs: Sequence[str] = ()
    references: bool = True
    progress: Callable[[str], None] = lambda line: None


def create_from_profile(folder: Path, profile: CompetitionProfile, request: ProfileRequest) -> Competition:
    """Creates a competition of a profile in an empty or new folder.

    Args:
        folder: its folder; ``public`` then also has a guide, a template and the reference results.

    Raises:
        ConfigError: the folder is in use, or a term, a setting or a design is wrong.
        UserError: a design cannot be read.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ConfigError(f"{folder} is not empty", hint="choose a new folder; a competition is created once")
    terms = CompetitionTerms(
        name=request.name, domain=profile.domain, public_task=profile.public_task,
        **{**profile.terms, **request.terms},
    )  # fmt: skip
    settings = {**profile.settled(request.settings), "time_limit_s": terms.call_timeout_s}
    with tempfile.TemporaryDirectory(prefix="a2perf-designs-") as work:
        tasks = [_public(task) for task in profile.public_tasks(settings)]
        home = folder.resolve() / "public" / DESIGNS
        tasks += [_imported(profile, source, Path(work), home, settings, request) for source in request.designs]
        names = [terms.public_task, *(task.name for task in tasks)]
        if repeated := sorted({name for name in names if names.count(name) > 1}):
            raise ConfigError(f"two tasks are named {repeated[0]}", hint="rename the folder or file of the design")
        terms.profile = ProfileTerms(name=profile.name, settings=profile.arguments(settings), tasks=tasks)
        made = create(folder, terms, lambda count, seed: profile.held_out(count, seed, settings))
        if any(Path(work).iterdir()):
            shutil.copytree(work, home)
    create_submission(made.public / TEMPLATE, profile.template)
    results = _references(made, profile, settings, request.progress) if request.references else {}
    write_atomic(made.public / GUIDE, profile.guide(terms.name, settings, results))
    return made


def read_references(competition: Competition) -> dict[str, dict[str, float]]:
    """Returns the returns of the reference entries on public and secret tasks, by task and by name."""
    found: dict[str, dict[str, float]] = {}
    for folder in (competition.public, competition.private):
        if (folder / REFERENCES).is_file():
            found |= read_record(folder / REFERENCES, References).returns
    return found


def _public(task: HeldOutTask, files: Mapping[str, str] | None = None) -> PublicTask:
    return PublicTask(
        name=task.name, env_id=task.env_id, kwargs=dict(task.kwargs), told=dict(task.told), files=dict(files or {})
    )


def _imported(
    profile: CompetitionProfile, source: str, work: Path, home: Path, settings: Mapping[str, Any],
    request: ProfileRequest,
) -> PublicTask:  # fmt: skip
    request.progress(f"importing {source}")
    try:
        name = profile.import_design(source, work)
    except FileExistsError:
        raise ConfigError(f"two designs have the name of {source}", hint="rename the folder or file") from None
    files = {
        f"public/{DESIGNS}/{path.relative_to(work).as_posix()}": sha256_of(path)
        for path in sorted((work / name).rglob("*"))
        if path.is_file()
    }
    return _public(profile.design_task(name, home / name, settings), files)


def _references(
    made: Competition, profile: CompetitionProfile, settings: Mapping[str, Any], progress: Callable[[str], None]
) -> dict[str, dict[str, float]]:
    """Writes the results of the reference entries; returns those on public tasks."""
    from a2perf.domains.registry import get_domain

    terms = made.terms
    first = get_domain(terms.domain).task(terms.public_task)
    arguments = {**first.kwargs, **terms.environment_settings}
    public = [
        (first.name, first.env_id, arguments),
        *((one.name, one.env_id, one.kwargs) for one in terms.further_tasks),
    ]
    secret = [(one.name, one.env_id, one.kwargs) for one in made.secret.tasks]
    results: list[dict[str, dict[str, float]]] = []
    for tasks, folder in ((public, made.public), (secret, made.private)):
        found = {}
        for name, env_id, kwargs in tasks:
            progress(f"reference placements of {name}")
            found[name] = profile.references(env_id, kwargs, settings)
        write_record(folder / REFERENCES, References(returns=found))
        results.append(found)
    (made.private / REFERENCES).chmod(0o600)
    return results[0]
