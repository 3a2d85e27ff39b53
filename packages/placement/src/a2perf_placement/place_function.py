"""Submissions of the form ``place(benchmark) -> positions``: what the function may return, and the three functions that
the evaluator calls. Runs in the participant process.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from a2perf.domains.circuit_training.netlists.netlist import ORIENTATIONS
from a2perf.errors import UserError, did_you_mean
from a2perf_placement.benchmark import Benchmark

CLAIMS_FILE = "claims.json"
NO_CLAIM = -1.0
_MOST_CLAIM_BYTES = 1 << 20
_KEYS = ("positions", "orientations", "claimed_cost")
Place = Callable[[Benchmark], Any]


class PlaceResultError(UserError, ValueError):
    """``place`` returned something that is not a placement."""


class LoadedPlacer(NamedTuple):
    """The function, and the claimed cost by name of the design."""

    place: Place
    claims: Mapping[str, float]


class PlaceContract(NamedTuple):
    """The functions of a submission, made of one ``place(benchmark)``."""

    load_policy: Callable[..., LoadedPlacer]
    preprocess_observation: Callable[[Any], Any]
    infer_once: Callable[[LoadedPlacer, Any], Any]


def contract(place: Place) -> PlaceContract:
    """Returns ``load_policy``, ``preprocess_observation`` and ``infer_once`` for a function that places a design.

    For an ``inference.py`` beside a ``train.py``; a folder with ``placer.py`` alone needs none.

    Args:
        place: takes a `Benchmark`; see `as_action` for what it may return.
    """

    def load_policy(env: Any, **participant_args: str) -> LoadedPlacer:
        file = getattr(sys.modules.get(place.__module__), "__file__", None)
        return LoadedPlacer(place, read_claims(os.path.dirname(os.path.abspath(file))) if file else {})

    return PlaceContract(load_policy, _benchmark, _infer_once)


def as_action(benchmark: Benchmark, result: Any, claims: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Returns the action for what ``place`` returned.

    Args:
        result: the positions, an array of shape (nodes, 2) or anything that NumPy converts into one, such as a tensor;
            or ``(positions, orientations)``; or a dict with ``positions`` and optionally ``orientations`` and
            ``claimed_cost``; or a dict from each node's name to ``(x, y)`` or ``(x, y, orientation)``. Orientations are
            names such as ``"FN"``, one per node or one per hard macro. Shapes and numbers are checked by the evaluator.
        claims: cost by name of the design, of the submission's ``claims.json``; used if the result claims none.

    Raises:
        PlaceResultError: a name is unknown, missing or given twice, an orientation is unknown, or the result has
            another form.
    """
    orientations: Any = None
    claimed: Any = None
    positions = result
    if isinstance(result, Mapping) and "positions" in result:
        if unknown := [key for key in result if key not in _KEYS]:
            raise PlaceResultError(
                f"place() returned a dict with {unknown[0]!r}{did_you_mean(str(unknown[0]), _KEYS)}",
                hint=f"valid keys: {', '.join(_KEYS)}",
            )
        positions = result["positions"]
        orientations, claimed = result.get("orientations"), result.get("claimed_cost")
    elif isinstance(result, Mapping):
        positions, orientations = _by_name(benchmark, result)
    elif isinstance(result, tuple) and len(result) == 2 and np.ndim(result[0]) == 2:
        positions, orientations = result
    if result is None:
        raise PlaceResultError("place() returned None", hint="return an array of shape (benchmark.num_nodes, 2)")
    if claimed is None and claims is not None:
        claimed = claims.get(benchmark.name)
    return {
        "positions": np.ascontiguousarray(np.asarray(_on_host(positions), np.float64)),
        "orientations": _codes(benchmark, orientations),
        "claimed_cost": np.array([NO_CLAIM if claimed is None else float(claimed)]),
    }


def read_claims(folder: str | os.PathLike[str]) -> dict[str, float]:
    """Returns the ``claims.json`` of a submission, the claimed cost by name of the design; empty without the file.

    Raises:
        PlaceResultError: the file is not a JSON object of numbers, or is larger than 1 MiB.
    """
    path = os.path.join(folder, CLAIMS_FILE)
    if not os.path.isfile(path):
        return {}
    try:
        with open(path, encoding="utf-8-sig") as stream:
            found = json.loads(stream.read(_MOST_CLAIM_BYTES))
        if not isinstance(found, dict):
            raise ValueError(f"it holds a {type(found).__name__}")
        return {str(name): float(value) for name, value in found.items()}
    except (ValueError, TypeError, RecursionError) as error:
        raise PlaceResultError(
            f"{CLAIMS_FILE} cannot be read: {error}", hint='write an object such as {"ariane_twin": 1.31}'
        ) from error


def _benchmark(observation: Any) -> Benchmark:
    return Benchmark.from_observation(observation, seed=int(os.environ.get("SEED", "0")))


def _infer_once(placer: LoadedPlacer, benchmark: Benchmark) -> dict[str, Any]:
    return as_action(benchmark, placer.place(benchmark), placer.claims)


def _on_host(value: Any) -> Any:
    """Returns a tensor as an array: of one that needs gradients, or is on a device, NumPy takes none."""
    for step in ("detach", "cpu"):
        if callable(getattr(value, step, None)):
            value = getattr(value, step)()
    return value


def _index(benchmark: Benchmark, what: str, given: Mapping[Any, Any]) -> dict[str, int]:
    """Returns the index of each node by name, after a check of the given names."""
    index = {name: k for k, name in enumerate(benchmark.node_names)}
    for name in given:
        if name not in index:
            raise PlaceResultError(
                f"place() returned {what} for {name!r}, which is not a node of {benchmark.name}"
                f"{did_you_mean(str(name), index)}",
                hint="use the names in benchmark.node_names",
            )
    return index


def _by_name(benchmark: Benchmark, result: Mapping[Any, Any]) -> tuple[NDArray[np.float64], list[str]]:
    index = _index(benchmark, "a position", result)
    if absent := [name for name in index if name not in result and not benchmark.fixed[index[name]]]:
        raise PlaceResultError(
            f"place() returned no position for {len(absent)} of {benchmark.num_nodes} nodes, such as {absent[0]!r}",
            hint="return a position for every node that is not fixed",
        )
    positions, orientations = benchmark.positions.copy(), list(benchmark.orientations)
    for name, value in result.items():
        positions[index[name]] = value[:2]
        if len(value) > 2:
            orientations[index[name]] = value[2]
    return positions, orientations


def _codes(benchmark: Benchmark, orientations: Sequence[Any] | Mapping[str, Any] | None) -> NDArray[np.int64]:
    names = list(benchmark.orientations)
    if isinstance(orientations, Mapping):
        index = _index(benchmark, "an orientation", orientations)
        for name, value in orientations.items():
            names[index[name]] = value
    elif orientations is not None:
        if len(orientations) not in (benchmark.num_nodes, benchmark.num_hard):
            raise PlaceResultError(
                f"place() returned {len(orientations)} orientations",
                hint=f"return one per node ({benchmark.num_nodes}) or per hard macro ({benchmark.num_hard})",
            )
        names[: len(orientations)] = orientations
    codes = []
    for name in names:
        if str(name) not in ORIENTATIONS:
            raise PlaceResultError(
                f"{name!r} is not an orientation{did_you_mean(str(name), ORIENTATIONS)}",
                hint=f"choose one of: {', '.join(ORIENTATIONS)}",
            )
        codes.append(ORIENTATIONS.index(str(name)))
    return np.array(codes, np.int64)
