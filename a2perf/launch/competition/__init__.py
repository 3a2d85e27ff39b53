"""Competitions: secret tasks and seeds by commit and reveal, many strangers' submissions, one honest outcome each.

``found`` makes a competition and publishes the hash of its secrets, ``conduct`` runs entrants on the public and on the
secret split, ``reveal`` publishes the secrets and proves that they are those of the hash.
"""

from a2perf.launch.competition.conducting import Outcomes, conduct, entries_of
from a2perf.launch.competition.founding import found
from a2perf.launch.competition.records import Commitment, Competition, Secret, Terms, load
from a2perf.launch.competition.revealing import check_reveal, check_runs, reveal

__all__ = [
    "Commitment",
    "Competition",
    "Outcomes",
    "Secret",
    "Terms",
    "check_reveal",
    "check_runs",
    "conduct",
    "entries_of",
    "found",
    "load",
    "reveal",
]
