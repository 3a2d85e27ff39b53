"""Competitions: secret tasks and seeds by commit and reveal, many submissions, one outcome per run.

``create`` draws the secrets and writes the hash to publish, ``enter_all`` seals the list of entrants, ``run`` runs
entrants on the public and the secret tasks, ``reveal`` publishes the secrets and the bundles, and ``check_reveal``
recomputes every claim from them.
"""

from a2perf_competition.creation import create, create_from_profile, read_references
from a2perf_competition.draw import draw_seeds
from a2perf_competition.entrants import Entrants, close, enter_all, read_entrants
from a2perf_competition.records import Commitment, Competition, CompetitionTerms, Secret, load
from a2perf_competition.run_entrants import run, run_specs
from a2perf_competition.verification import Checked, check_reveal, check_runs, reveal

__all__ = [
    "Checked",
    "Commitment",
    "Competition",
    "CompetitionTerms",
    "Entrants",
    "Secret",
    "check_reveal",
    "check_runs",
    "close",
    "create",
    "create_from_profile",
    "draw_seeds",
    "enter_all",
    "load",
    "read_entrants",
    "read_references",
    "reveal",
    "run",
    "run_specs",
]
