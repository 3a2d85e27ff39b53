"""Compiles the kernels of the engine on the host, before a placer runs in a sandbox.

A sandbox sees a private copy of the kernel cache, so what a placer compiles there is lost with the sandbox. The
evaluator itself calls few kernels: without this step, every sandboxed run compiles the others again.
"""

from __future__ import annotations

from a2perf.domains.compilation import NUMBA_AVAILABLE
from a2perf_placement.environment import MacroPlacementEnv
from a2perf_placement.placers import annealed_placement, coordinate_descent_placement


def compile_engine() -> None:
    """Calls every kernel that `Benchmark.engine` and incremental evaluation reach, on the toy circuit.

    Kernels that the cache holds are loaded. Without Numba there is nothing to compile.
    """
    if not NUMBA_AVAILABLE:
        return
    benchmark = MacroPlacementEnv(design="toy_macro_stdcell").benchmark
    coordinate_descent_placement(benchmark, sweeps=1)
    annealed_placement(benchmark, max_moves=20)
    engine = benchmark.engine()
    engine.optimize_stdcells(False, True, True, False, False, 1.0, [2], [1.0], [1.0], [1.0])
    engine.get_cost(), engine.get_density_cost(), engine.get_congestion_cost()
    engine.get_macro_and_clustered_port_adjacency()
