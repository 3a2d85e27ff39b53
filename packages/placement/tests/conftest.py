"""Designs and engines are those of the core's tests."""

from __future__ import annotations

from tests.domains.circuit_training.conftest import (  # noqa: F401
    ariane,
    engine,
    golden_netlists,
    write_netlist,
)
