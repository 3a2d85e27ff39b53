"""Competitions: secret tasks and seeds by commit and reveal, many strangers' submissions, one honest outcome each.

``found`` makes a competition and publishes the hash of everything that decides results, ``enter`` seals who takes part,
``conduct`` runs entrants on the public and on the secret split, ``reveal`` publishes the secrets with the bundles, and
``check_reveal`` recomputes every claim from them.
"""

from a2perf.experiments.competition.conducting import Entrants, Outcomes, conduct, enter_all, entries_of
from a2perf.experiments.competition.entrants import close, read_entrants
from a2perf.experiments.competition.founding import found
from a2perf.experiments.competition.records import Commitment, Competition, Secret, Terms, load
from a2perf.experiments.competition.revealing import reveal
from a2perf.experiments.competition.verification import Checked, check_reveal, check_runs

__all__ = [
    "Checked",
    "Commitment",
    "Competition",
    "Entrants",
    "Outcomes",
    "Secret",
    "Terms",
    "check_reveal",
    "check_runs",
    "close",
    "conduct",
    "enter_all",
    "entries_of",
    "found",
    "load",
    "read_entrants",
    "reveal",
]
