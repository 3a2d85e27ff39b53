"""The files of Ariane: the netlist and placements that the golden tests of circuit training read."""

from __future__ import annotations

from a2perf.assets import Asset, RepositoryFile
from a2perf.domains.circuit_training import ARIANE

_INITIAL = ARIANE["initial.plc"].source
assert isinstance(_INITIAL, RepositoryFile)
ARIANE_LEGALIZED = Asset(
    name="circuit_training/ariane133_ng45/legalized.plc",
    sha256="bce97dc18c7a28ea151f4444d7d9a40b7ae9f2001ea7ea72e6a5ee925ec52a9d",
    source=RepositoryFile(
        project=_INITIAL.project,
        commit=_INITIAL.commit,
        paths=tuple(path.replace("initial.plc", "legalized.plc") for path in _INITIAL.paths),
    ),
    licence=ARIANE["initial.plc"].licence,
    summary="clustered NanGate45 Ariane-133: its legal placement",
)
ARIANE_FILES = {**ARIANE, "legalized.plc": ARIANE_LEGALIZED}
"""The files of Ariane that the golden tests read; they are not ours and are fetched by name and sha256."""
