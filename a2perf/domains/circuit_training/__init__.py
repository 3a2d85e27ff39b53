"""Circuit training: place the macros of a chip, one after the other, on a grid (Mirhoseini et al. 2021, "A graph
placement methodology for fast chip design").

This file only describes the domain: its ids, tasks and data files. Importing it loads neither Numba nor Gymnasium;
``PlacementCost``, the engine, is loaded on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from a2perf.assets import Asset, RepositoryFile, locate
from a2perf.domains.host_support import with_wheels
from a2perf.domains.registry import DemonstrationRun, Domain, Environment, HeldOutTask, Perturbation, Task

if TYPE_CHECKING:
    from a2perf.domains.circuit_training.engine.placement_cost import PlacementCost as PlacementCost

_REPOSITORY = "TILOS-AI-Institute/MacroPlacement"
_COMMIT = "20eddb6"
_FOLDER = "Flows/NanGate45/ariane133/netlist"
_ARIANE_FILES = {
    "netlist.pb.txt": "a54bc9ef70a32e2e0b19c312427a46622f5d40bf294a4b7d0594af7e4440efd3",
    "initial.plc": "6d85f1cce904ceb19ad9726b8d3eee3d17387c2552d74e67e5f9350a5e269bbe",
}

ARIANE: dict[str, Asset] = {
    file: Asset(
        name=f"circuit_training/ariane133_ng45/{file}",
        sha256=sha256,
        source=RepositoryFile(
            project=_REPOSITORY, commit=_COMMIT, paths=(f"{_FOLDER}/{file}", f"{_FOLDER}/output_CT_Grouping/{file}")
        ),
        licence="BSD-3-Clause; MacroPlacement of the TILOS AI Institute",
        summary=f"clustered NanGate45 Ariane-133: {'the netlist' if file.startswith('netlist') else 'its placement'}",
    )
    for file, sha256 in _ARIANE_FILES.items()
}


def _generated(name: str, title: str, **kwargs: Any) -> Task:
    summary = f"place the {kwargs['num_macros']} macros of a generated design"
    return Task(name=name, env_id="CircuitTraining-Generated-v0", kwargs=kwargs, title=title, summary=summary)


# Other sizes, densities and wirings than the design to train on, and seeds that no search over small seeds reaches.
_HELD_OUT = tuple(
    _generated(
        f"generated_held_out_{number}",
        f"Held-out {number}, {macros} macros",
        num_macros=macros,
        seed=810_000 + number,
        utilization=utilization,
        rent_exponent=rent_exponent,
    )
    for number, macros, utilization, rent_exponent in (
        (1, 20, 0.55, 0.55),
        (2, 40, 0.65, 0.6),
        (3, 60, 0.6, 0.7),
        (4, 100, 0.65, 0.65),
    )
)


def _environment(variant: str, design: str, title: str, summary: str, steps: int, *data_files: Asset) -> Environment:
    return Environment(
        id=f"CircuitTraining-{variant}-v0",
        entry_point="a2perf.domains.circuit_training.environment:create_circuit_environment",
        kwargs={"design": design},
        title=title,
        summary=summary,
        assets=tuple(asset.name for asset in data_files),
        ranking=design,
        max_episode_steps=steps,
    )


_ENVIRONMENTS = (
    _environment(
        "ToyMacro", "toy_macro_stdcell", "Toy circuit", "place two macros between standard cells; learned in seconds", 2
    ),
    _environment(
        "Ariane",
        "ariane",
        "Ariane",
        "place the 133 macros of the Ariane-133 processor in NanGate45 (netlist fetched on first use)",
        133,
        *ARIANE.values(),
    ),
    _environment(
        "ArianeTwin",
        "ariane_twin",
        "Ariane twin",
        "place the 133 macros of a generated design with Ariane's statistics (no data file)",
        133,
    ),
    _environment(
        "Generated",
        "generated",
        "Generated design",
        "place the macros of a design generated from num_macros, seed, utilization and rent_exponent",
        40,
    ),
)

_PERTURBATIONS = tuple(
    Perturbation(name, f"a2perf.domains.circuit_training.perturbations:{name}", summary)
    for name, summary in (
        ("rotated", "the design rotated by 90 degrees counter-clockwise"),
        ("mirrored", "the design mirrored from left to right"),
        ("rescaled", "the design with all lengths doubled and as many routes"),
    )
)

DOMAIN = Domain(
    name="circuit_training",
    title="Circuit training",
    summary="An agent places the macros of a chip one by one; reward for short wires, low congestion and even density.",
    extra="circuit-training",
    environments=_ENVIRONMENTS,
    tasks=(
        *(
            Task(name=str(one.kwargs["design"]), env_id=one.id, title=one.title, summary=one.summary)
            for one in _ENVIRONMENTS[:3]
        ),
        _generated("generated", "Generated, 40 macros", num_macros=40, seed=0),
        *_HELD_OUT,
    ),
    generalization_tasks=("toy_macro_stdcell", "ariane"),
    assets=tuple(ARIANE.values()),
    requires=("numba",),
    held_out="a2perf.domains.circuit_training:held_out_tasks",
    perturbations=_PERTURBATIONS,
    settable={"is_eval": (False,)},
    path_arguments=("netlist_file", "init_placement"),
    support=with_wheels("circuit_training"),
    demonstration="a2perf.domains.circuit_training:demonstration_runs",
)

_PLACERS = {"random": "minimal", "greedy": "greedy_placer"}
_SIZE = ("Submission.num_inference_steps = 20", "Submission.num_inference_episodes = 2")


def demonstration_runs(train_seconds: int) -> list[DemonstrationRun]:
    """Returns a run of a random and one of a greedy placer."""
    del train_seconds
    task = "ariane" if all(locate(asset) is not None for asset in ARIANE.values()) else "ariane_twin"
    return [
        DemonstrationRun(
            title=f"a {placer} placer on the circuit {task}",
            folder=f"{task}_{placer}",
            submission=submission,
            gin_file=f"{task}/inference.gin",
            bindings=_SIZE,
            first_number_s=20.0,
        )
        for placer, submission in _PLACERS.items()
    ]


_HELD_OUT_SIZES = (20, 40, 60, 100)  # hard macros; the designs cycle through them
_UTILIZATION = (0.5, 0.7)
_RENT_EXPONENT = (0.5, 0.7)
_MAX_SEED = 2**31 - 1


def held_out_tasks(count: int, seed: int) -> list[HeldOutTask]:
    """Generates tasks of increasing size."""
    import numpy as np

    random = np.random.default_rng(seed)
    tasks = []
    for number in range(count):
        macros = _HELD_OUT_SIZES[number % len(_HELD_OUT_SIZES)]
        tasks.append(
            HeldOutTask(
                name=f"held_out_{number + 1}_macros_{macros}",
                env_id="CircuitTraining-Generated-v0",
                kwargs={
                    "num_macros": macros,
                    "seed": int(random.integers(_MAX_SEED)),
                    "utilization": round(float(random.uniform(*_UTILIZATION)), 3),
                    "rent_exponent": round(float(random.uniform(*_RENT_EXPONENT)), 3),
                },
                told={"num_macros": macros, "seed": 0},
            )
        )
    return tasks


def __getattr__(name: str) -> Any:
    """Loads the engine on first use."""
    if name == "PlacementCost":
        from a2perf.domains.circuit_training.engine.placement_cost import PlacementCost

        return PlacementCost
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
