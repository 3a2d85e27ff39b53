"""Macro placement: a design is placed with one action, exact verdict and cost, reference placers, and the competition
profile ``macro_placement``.

This file only describes the domain; importing it loads neither Numba nor Gymnasium.
"""

from __future__ import annotations

from pathlib import Path

from a2perf.domains.circuit_training import ARIANE
from a2perf.domains.host_support import with_wheels
from a2perf.domains.registry import Domain, Environment, SubmissionForm, Task

_FOLDER = Path(__file__).parent
ENV_ID = "CircuitTraining-MacroPlacement-v0"

DOMAIN = Domain(
    name="macro_placement",
    title="Macro placement",
    summary="A function places a whole chip design; scored by the public evaluator's conventions.",
    extra="",
    environments=(
        Environment(
            id=ENV_ID,
            entry_point="a2perf_placement.environment:MacroPlacementEnv",
            kwargs={"design": "toy_macro_stdcell"},
            title="Macro placement",
            summary="place a whole design with one action, scored by the public evaluator's conventions",
            ranking="macro_placement",
            max_episode_steps=1,
        ),
    ),
    tasks=tuple(
        Task(f"place_{name}", ENV_ID, {"design": name}, title, summary)
        for name, title, summary in (
            ("toy_macro_stdcell", "Place the toy circuit", "one placement of the toy circuit"),
            ("ariane_twin", "Place the Ariane twin", "one placement of all macros of the Ariane twin"),
            ("ariane", "Place Ariane", "one placement of all macros of Ariane-133"),
        )
    ),
    generalization_tasks=("place_toy_macro_stdcell", "place_ariane"),
    assets=tuple(ARIANE.values()),
    requires=("numba",),
    path_arguments=("netlist_file", "init_placement"),
    support=with_wheels("circuit_training"),
    forms=(
        SubmissionForm(
            file="placer.py",
            function="place",
            expected="place(benchmark)",
            adapter="a2perf_placement.place_function:contract",
            prepare="a2perf_placement.compiling:compile_engine",
            template=_FOLDER / "template",
        ),
    ),
    competition_profiles={"macro_placement": "a2perf_placement.competition:PROFILE"},
    folder=_FOLDER,
)
