"""The list of entrants: sealed before any secret run starts, published, and never rewritten.

``public/entrants.json`` holds rounds. Each round has the hashes of the folders that it adds and the hash of the round
before; closing seals the list. A changed folder becomes another entrant with the same name. Both are listed and
evaluated, so a better attempt cannot replace a worse one.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from a2perf.errors import ConfigError, UserError
from a2perf.records import Record
from a2perf.runs.bundles.attempts import now
from a2perf.sandbox import get_sandbox
from a2perf.storage import read_record, write_record
from a2perf.stranger_files import printable
from a2perf_competition.folder_check import NONCE, FolderCheck, examine
from a2perf_competition.records import ENTRANTS, REVEALED, Competition, canonical_sha256

HIDING = ("bubblewrap", "docker")
"""Levels at which an entrant can read nothing of the competition except its own artifacts."""

PYTHON_ENVS = ("auto", "shared", "isolated")
"""``auto``: a separate environment for each entrant that requires packages which this installation does not have."""

PLAIN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_RESERVED = re.compile(r"attic|queue\.sqlite.*|entrant-\d+", re.IGNORECASE)


class Entrant(Record, kw_only=True):
    """One entrant.

    Attributes:
        name: name of the folder, escaped.
        place: folder of its runs below ``runs``, and its label.
        sha256: hash of its folder; empty if it was refused.
        isolated: whether its packages are installed apart from a2perf's.
        nonce_sha256: hash of its nonce, see ``draw``; empty without one.
        refused: why it cannot run; every run of it then counts as failed.
    """

    number: int
    name: str
    place: str
    sha256: str = ""
    scheme: int = 0
    isolated: bool = False
    nonce_sha256: str = ""
    refused: str = ""


class Round(Record, kw_only=True):
    """Entrants that entered together.

    Attributes:
        at: time, ISO 8601 in UTC.
        allow_weaker: whether the organizer accepted that guarantees are missing that the host cannot enforce.
        sha256: hash over the canonical JSON of this round without this field, and the hash before it.
    """

    at: str
    sandbox: str
    allow_weaker: bool
    entrants: list[Entrant]
    sha256: str = ""

    def expected_sha256(self, before: str) -> str:
        """Returns the hash that chains this round to the one before it, or to the commitment."""
        return canonical_sha256({"before": before, "round": {**msgspec.to_builtins(self), "sha256": ""}})


class EntrantList(Record, kw_only=True):
    """``public/entrants.json``.

    Attributes:
        closed_at: when the list was closed; None while it is open.
        sha256: hash of the last round and ``closed_at``; it is published when the list is closed.
    """

    schema: int = 1
    commitment: str
    rounds: list[Round] = msgspec.field(default_factory=list)
    closed_at: str | None = None
    sha256: str = ""

    def all(self) -> list[Entrant]:
        """Returns every entrant in the order of entering."""
        return [entrant for one in self.rounds for entrant in one.entrants]

    def round_of(self, entrant: Entrant) -> Round:
        """Returns the round in which an entrant entered."""
        return next(one for one in self.rounds if any(other.number == entrant.number for other in one.entrants))

    def last_sha256(self) -> str:
        """Returns the hash of the last round, or the commitment."""
        return self.rounds[-1].sha256 if self.rounds else self.commitment

    def expected_sha256(self) -> str:
        """Returns the current hash of the list."""
        return canonical_sha256({"closed_at": self.closed_at, "last": self.last_sha256()})

    def problems(self, commitment: str) -> list[str]:
        """Returns the problems of the list: a broken chain, inconsistent numbers or folders."""
        found = [] if self.commitment == commitment else [f"{ENTRANTS} is of another competition"]
        before = self.commitment
        for number, one in enumerate(self.rounds, start=1):
            if one.sha256 != one.expected_sha256(before):
                found.append(f"{ENTRANTS}: round {number} was changed after it was sealed")
            before = one.sha256
        if self.sha256 != self.expected_sha256():
            found.append(f"{ENTRANTS} was changed after it was sealed")
        entrants = self.all()
        if [entrant.number for entrant in entrants] != list(range(1, len(entrants) + 1)):
            found.append(f"{ENTRANTS}: the numbers of the entrants are not 1 to {len(entrants)}")
        if len({entrant.place for entrant in entrants}) != len(entrants):
            found.append(f"{ENTRANTS}: two entrants share a folder")
        if any(not PLAIN_NAME.fullmatch(entrant.place.partition("@")[0]) for entrant in entrants):
            found.append(f"{ENTRANTS}: the folder of an entrant has a name that is not valid")
        return found


@dataclass(frozen=True)
class Entrants:
    """The entrants to run, and how to run them.

    Attributes:
        sandbox: replaces the level of the terms; a level that cannot hide the competition needs ``allow_weaker``.
        allow_weaker: whether guarantees that this host cannot enforce may be missing; the record contains it.
    """

    submissions: tuple[Path, ...]
    python_env: str = "auto"
    sandbox: str | None = None
    allow_weaker: bool = False


def read_entrants(competition: Competition) -> EntrantList:
    """Reads the list; it is empty before the first round.

    Raises:
        UserError: it was changed after it was sealed.
    """
    file = competition.public / ENTRANTS
    if not file.exists():
        return EntrantList(commitment=competition.commitment.commitment)
    found = read_record(file, EntrantList)
    if problems := found.problems(competition.commitment.commitment):
        raise UserError(problems[0], hint=f"restore {file}")
    return found


def enter_all(competition: Competition, entrants: Entrants) -> list[tuple[Entrant, Path]]:
    """Adds new entrants in a sealed round, and returns the entrant of each given folder, with the folder.

    They enter sorted by the names of their folders: the order in which they are given decides nothing.

    Raises:
        ConfigError: a folder is missing, two have one name, the list is closed, the level cannot hide the competition
            and that was not allowed, an entrant entered under another level, or ``python_env`` is not valid.
        UserError: the secrets were revealed, or the list was changed.
    """
    python_env, allow_weaker = entrants.python_env, entrants.allow_weaker
    if python_env not in PYTHON_ENVS:
        raise ConfigError(f"--python-env {python_env!r} is not valid", hint=f"use {', '.join(PYTHON_ENVS)}")
    _check_folders(competition, entrants.submissions)
    level = level_of(competition, entrants.sandbox, allow_weaker)
    listed = read_entrants(competition)
    known, new, found = listed.all(), list[Entrant](), list[tuple[Entrant, Path]]()
    for folder in sorted(map(_absolute, entrants.submissions), key=lambda folder: folder.name):
        check = examine(folder)
        if competition.terms.nonces_required and not (check.nonce_sha256 or check.refused):
            check.sha256, check.refused = "", f"it commits no nonce in {NONCE}, which the terms require"
        name = printable(folder.name)
        entrant = next((one for one in known if one.name == name and _is_same(one, check)), None)
        if entrant is None:
            isolated = check.needs_packages if python_env == "auto" else python_env == "isolated"
            entrant = _new(known + new, name, check, isolated)
            new.append(entrant)
        elif ((one := listed.round_of(entrant)).sandbox, one.allow_weaker) != (level, allow_weaker):
            raise ConfigError(
                f"{entrant.place} entered at the level {one.sandbox}"
                f"{', weaker guarantees allowed' if one.allow_weaker else ''}; all its runs are alike",
                hint="use the same --sandbox and --allow-weaker",
            )
        found.append((entrant, folder))
    if new and listed.closed_at is not None:
        raise ConfigError(
            f"{new[0].name} is not in the list of entrants, which was closed at {listed.closed_at}",
            hint="run only listed entrants; a changed folder counts as a new entrant",
        )
    if new:
        one = Round(at=now(), sandbox=level, allow_weaker=allow_weaker, entrants=new)
        one.sha256 = one.expected_sha256(listed.last_sha256())
        listed.rounds.append(one)
        _write(competition, listed)
    return found


def close(competition: Competition) -> EntrantList:
    """Closes the list and returns it; does nothing to a closed one.

    Raises:
        UserError: the list is empty, or was changed.
    """
    listed = read_entrants(competition)
    if not listed.rounds:
        raise UserError("there are no entrants yet", hint="add them with --submission DIR")
    if listed.closed_at is None:
        listed.closed_at = now()
        _write(competition, listed)
    return listed


def _write(competition: Competition, listed: EntrantList) -> None:
    listed.sha256 = listed.expected_sha256()
    write_record(competition.public / ENTRANTS, listed)


def _absolute(folder: Path) -> Path:
    """Returns the absolute path of a folder without links, except in the last part: the entrant may have made it."""
    above, name = os.path.split(os.path.abspath(folder))
    return Path(os.path.realpath(above), name)


def _is_same(entrant: Entrant, check: FolderCheck) -> bool:
    return entrant.sha256 == check.sha256 if check.sha256 else entrant.refused == check.refused


def _new(known: Sequence[Entrant], name: str, check: FolderCheck, isolated: bool) -> Entrant:
    number = len(known) + 1
    plain = PLAIN_NAME.fullmatch(name) and not _RESERVED.fullmatch(name)
    place = name if plain else f"entrant-{number}"
    times = sum(entrant.name == name for entrant in known) + 1
    return Entrant(
        number=number,
        name=name,
        place=place if times == 1 else f"{place}@{times}",
        sha256=check.sha256,
        scheme=check.scheme,
        isolated=isolated,
        nonce_sha256=check.nonce_sha256,
        refused=check.refused,
    )


def level_of(competition: Competition, sandbox: str | None, allow_weaker: bool) -> str:
    """Returns the level at which entrants run.

    Raises:
        ConfigError: it cannot hide the competition, and that was not allowed.
    """
    level = sandbox or competition.terms.sandbox
    if allow_weaker:
        return level
    found = get_sandbox(level).level  # raises here once for an unknown or unavailable level, not in every run
    if found not in HIDING:
        raise ConfigError(
            f"at the level {found} an entrant could read the secrets of the competition and the runs of others",
            hint=f"use --sandbox {HIDING[0]}, or add --allow-weaker; the published record then contains it",
        )
    return level


def _check_folders(competition: Competition, submissions: Sequence[Path]) -> None:
    if (competition.folder / REVEALED).exists():
        raise UserError(
            "the secrets of this competition were revealed; no entrant can be evaluated on them any more",
            hint="create a new competition with `a2perf competition init`",
        )
    names = [_absolute(folder).name for folder in submissions]
    if repeated := sorted({name for name in names if names.count(name) > 1}):
        raise ConfigError(f"two submissions are named {printable(repeated[0])}", hint="rename one of the folders")
    for folder in submissions:
        shown, real = printable(str(folder)), Path(os.path.realpath(folder))
        if not os.path.lexists(folder):
            raise ConfigError(f"the submission folder {shown} does not exist", hint="give the folder of a submission")
        if folder.is_symlink():
            continue  # the entrant may have made this link; the check of its folder refuses it
        if competition.folder.is_relative_to(real):
            raise ConfigError(
                f"the competition is inside the submission {shown}, which could read its secrets",
                hint="move the competition elsewhere",
            )
        for own in (competition.public, competition.private, competition.runs):
            if real.is_relative_to(own):
                raise ConfigError(
                    f"the submission {shown} is inside the competition's folder {own.name}",
                    hint="move the submission out of the competition's folder",
                )
