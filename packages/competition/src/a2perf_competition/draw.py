"""The draw of the seeds of all runs: the committed salt, the sorted list of entrants, and the nonces they reveal.

An entry commits a nonce by its SHA-256 in the file ``nonce.sha256``, and its entrant reveals the nonce once the list is
closed. Then neither the organizer, who knows the salt, nor an entrant can try lists or folders until the seeds suit
them. An entry of which the nonce is missing when the seeds are drawn counts as refused, and an empty text stands for
its nonce: withholding a nonce costs the entry.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import msgspec

from a2perf.errors import ConfigError
from a2perf.records import Record
from a2perf.runs.bundles.attempts import now
from a2perf.storage import read_record, write_record
from a2perf.stranger_files import printable
from a2perf_competition.entrants import EntrantList, close
from a2perf_competition.records import Competition, Secret

DRAW = "draw.json"
NOT_REVEALED = "its nonce was not revealed before the seeds were drawn"


class Draw(Record, kw_only=True):
    """``public/draw.json``: what was revealed when the seeds were drawn, which happens once.

    Attributes:
        entrants: hash of the closed list.
        nonces: the revealed nonces, sorted.
    """

    schema: int = 1
    at: str = ""
    entrants: str
    nonces: list[str] = msgspec.field(default_factory=list)

    def by_commitment(self, listed: EntrantList) -> dict[str, str]:
        """Returns the nonce of each committed hash of the list, an empty text for those that were not revealed."""
        revealed = {nonce_sha256(nonce): nonce for nonce in self.nonces}
        return {one.nonce_sha256: revealed.get(one.nonce_sha256, "") for one in listed.all() if one.nonce_sha256}

    def seed_secret(self, secret: Secret, listed: EntrantList) -> bytes:
        """Returns the secret from which all seeds of all runs derive."""
        return secret.seed_secret((entrant.sha256 for entrant in listed.all()), self.by_commitment(listed))

    def refusals(self, listed: EntrantList) -> dict[str, str]:
        """Returns why entrants cannot run, by their place: refused on entering, or without their nonce."""
        nonces = self.by_commitment(listed)
        return {
            entrant.place: entrant.refused or NOT_REVEALED
            for entrant in listed.all()
            if entrant.refused or nonces.get(entrant.nonce_sha256) == ""
        }

    def problems(self, listed: EntrantList) -> list[str]:
        """Returns how the draw does not fit the list."""
        found = [] if self.entrants == listed.sha256 else [f"{DRAW} was made for another list of entrants"]
        revealed = [nonce_sha256(nonce) for nonce in self.nonces]
        if len(set(revealed)) != len(revealed) or not {*revealed} <= {*self.by_commitment(listed)}:
            found.append(f"{DRAW} holds a nonce that no entrant committed")
        return found


def nonce_sha256(nonce: str) -> str:
    """Returns the hash that commits a nonce, as ``sha256sum`` prints it for the text."""
    return hashlib.sha256(nonce.encode()).hexdigest()


def draw_seeds(competition: Competition, nonces: Sequence[str] = ()) -> Draw:
    """Closes the list of entrants and draws the seeds once; later calls return the same draw.

    Raises:
        ConfigError: a nonce belongs to no entrant, or came after the draw.
        UserError: the list is empty, or was changed.
    """
    listed, file = close(competition), competition.public / DRAW
    committed = {entrant.nonce_sha256 for entrant in listed.all()}
    for nonce in nonces:
        if nonce_sha256(nonce) not in committed:
            hint = "an entry commits SHA-256 of its nonce in nonce.sha256"
            raise ConfigError(f"the nonce {printable(nonce[:16])}... belongs to no listed entry", hint=hint)
    if not file.exists():
        write_record(file, Draw(at=now(), entrants=listed.sha256, nonces=sorted(set(nonces))))
    found = read_record(file, Draw)
    if late := {*nonces} - {*found.nonces}:
        hint = "the entry counts as refused, as its nonce was missing"
        raise ConfigError(f"the seeds were drawn at {found.at}, before the nonce {min(late)[:16]}...", hint=hint)
    return found


def read_draw(competition: Competition, listed: EntrantList) -> Draw:
    """Returns the draw of a competition; before it was made, one without nonces."""
    file = competition.public / DRAW
    return read_record(file, Draw) if file.exists() else Draw(entrants=listed.sha256)
