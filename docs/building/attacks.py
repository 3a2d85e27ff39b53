"""The tables of attacks on a participant process, from the catalogue that the attack tests run."""

from __future__ import annotations

from docs.building.markdown import code, table
from tests.attacks.catalogue import ASSAULTS, PROBES


def block(name: str) -> str:
    """Returns the table of the "attempts" or the "assaults"."""
    if name == "attempts":
        return table(["attempt", "stopped from"], [[probe.what, code(probe.stopped_from)] for probe in PROBES])
    rows = [
        [one.what, code(one.stopped_from), code(one.outcome.value) if one.outcome else "run finishes"]
        for one in ASSAULTS
    ]
    return table(["attack", "stopped from", "outcome"], rows)
