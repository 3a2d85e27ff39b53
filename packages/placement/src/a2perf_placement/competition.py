"""The competition profile ``macro_placement``: one placement per design, one hour each, exact verdict, recomputed cost.

The conventions are those of public macro placement challenges: cost = wirelength + 0.5 density + 0.5 congestion by the
public evaluator, no overlap of hard macros, flips allowed, submissions ``place(benchmark) -> positions``.
"""

from __future__ import annotations

import gzip
import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from a2perf import assets
from a2perf.domains.arguments import refuse_unknown
from a2perf.domains.circuit_training import ARIANE, held_out_tasks
from a2perf.domains.circuit_training.errors import ArgumentError
from a2perf.domains.circuit_training.generated.designs import folder_files
from a2perf.domains.competition_profile import CompetitionProfile, ProfileSetting
from a2perf.domains.registry import HeldOutTask
from a2perf_placement.netlists.importing import NetlistSource, import_netlist

ENV_ID = "CircuitTraining-MacroPlacement-v0"
_ARGUMENTS = (
    "profile",
    "wirelength_weight",
    "density_weight",
    "congestion_weight",
    "orientations",
    "overlap_tolerance",
    "time_limit_s",
)
_PUBLIC = ("ariane_twin", "ariane", "generated")
_TOLD = {"design": "toy_macro_stdcell"}
_LIBRARY, _PLACED = (".lef", ".lef.gz"), (".def", ".def.gz")

SETTINGS = {
    "profile": ProfileSetting("tilos", "cost profile: tilos (the public evaluator) or circuit_training"),
    "wirelength_weight": ProfileSetting(1.0, "weight of the wirelength"),
    "density_weight": ProfileSetting(0.5, "weight of the density"),
    "congestion_weight": ProfileSetting(0.5, "weight of the congestion"),
    "orientations": ProfileSetting("flips", "what hard macros may be turned to: flips, fixed or all"),
    "overlap_tolerance": ProfileSetting(0.0, "overlap of hard macros that is allowed, um"),
    "designs": ProfileSetting("ariane_twin,ariane,generated", "public designs beside the toy circuit"),
    "generated_macros": ProfileSetting(40, "hard macros of the public generated design"),
    "reference_moves": ProfileSetting(50_000, "moves of the reference annealing; it stops after reference_time_s"),
    "reference_time_s": ProfileSetting(60.0, "longest reference annealing of one design, seconds"),
}


def environment_arguments(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the arguments that every task of a competition has."""
    return {name: settings[name] for name in _ARGUMENTS if name in settings}


def public_tasks(settings: Mapping[str, Any]) -> list[HeldOutTask]:
    """Returns the tasks beside the toy circuit: Ariane's twin, a generated design, and Ariane if its data are here.

    Raises:
        ArgumentError: ``designs`` names another one.
    """
    wanted = [name.strip() for name in str(settings["designs"]).split(",") if name.strip()]
    hint = f"give some of {', '.join(_PUBLIC)}, separated by commas"
    refuse_unknown(wanted, _PUBLIC, "a design of the profile", hint=hint, error=ArgumentError)
    shared, macros = environment_arguments(settings), int(settings["generated_macros"])
    tasks = []
    for name in wanted:
        if name == "generated":
            spec = {"design": name, "num_macros": macros, "seed": 0}
            tasks.append(_task(f"place_generated_{macros}", {**spec, **shared}))
        elif name != "ariane" or len(assets.available(ARIANE.values())) == len(ARIANE):
            tasks.append(_task(f"place_{name}", {"design": name, **shared}))
    return tasks


def secret_tasks(count: int, seed: int, settings: Mapping[str, Any]) -> list[HeldOutTask]:
    """Returns generated designs of increasing size; see ``held_out.held_out_tasks``."""
    arguments = environment_arguments(settings)
    return [
        _task(task.name, {"design": "generated", **task.kwargs, **arguments}) for task in held_out_tasks(count, seed)
    ]


def import_design(source: str, folder: Path) -> str:
    """Writes the netlist and the initial placement of an organizer's design into a folder, and returns its name.

    Args:
        source: a folder with ``netlist.pb.txt`` and ``initial.plc``; a netlist and a ``.plc`` file separated by a
            comma; a Bookshelf ``.aux`` file; or LEF and DEF files separated by commas.
        folder: a folder for the files; it becomes ``folder / name``.

    Raises:
        ArgumentError: the source is none of these, or a file is missing.
        UserError: a file is broken, or a package for grouping is missing.
    """
    paths = [Path(part.strip()) for part in source.split(",") if part.strip()]
    if absent := [path for path in paths if not path.exists()]:
        raise ArgumentError(f"{absent[0]} does not exist", hint="give the paths of an existing design")
    names = [path.name.lower() for path in paths]
    if len(paths) == 1 and paths[0].is_dir():
        netlist, placement = folder_files(paths[0])
        return _copied(paths[0].resolve().name, netlist, placement, folder)
    if len(paths) == 2 and names[1].endswith(".plc"):
        return _copied(paths[0].resolve().parent.name, paths[0], paths[1], folder)
    if len(paths) == 1 and names[0].endswith(".aux"):
        name = paths[0].name.partition(".")[0]
        import_netlist(NetlistSource(bookshelf=paths[0]), folder / name)
        return name
    defs = [path for path, name in zip(paths, names, strict=True) if name.endswith(_PLACED)]
    lefs = [path for path, name in zip(paths, names, strict=True) if name.endswith(_LIBRARY)]
    if len(defs) == 1 and lefs and len(defs) + len(lefs) == len(paths):
        name = defs[0].name.partition(".")[0]
        import_netlist(NetlistSource(lef=tuple(lefs), def_file=defs[0]), folder / name)
        return name
    raise ArgumentError(
        f"{source!r} is not a design",
        hint="give a folder with netlist.pb.txt and initial.plc, `NETLIST,PLC`, an .aux file, or `A.lef,B.lef,C.def`",
    )


def design_task(name: str, folder: Path, settings: Mapping[str, Any]) -> HeldOutTask:
    """Returns the task of an imported design."""
    return _task(f"place_{name}", {"netlist_file": str(folder), **environment_arguments(settings)})


def references(env_id: str, kwargs: Mapping[str, Any], settings: Mapping[str, Any]) -> dict[str, float]:
    """Returns what the reference placers reach: random, greedy and simulated annealing.

    Args:
        settings: ``reference_moves`` and ``reference_time_s``.
    """
    import gymnasium

    from a2perf_placement import placers
    from a2perf_placement.place_function import as_action

    core: Any = gymnasium.make(env_id, disable_env_checker=True, **kwargs).unwrapped
    design = core.benchmark
    moves, seconds = int(settings["reference_moves"]), float(settings["reference_time_s"])
    entries: dict[str, Callable[[], placers.PlacerResult]] = {
        "Random placement": lambda: placers.random_placement(design, np.random.default_rng(0)),
        "Greedy placement": lambda: placers.greedy_placement(design),
        "Simulated annealing": lambda: placers.annealed_placement(design, max_moves=moves, time_s=seconds),
    }
    found = {}
    for name, place in entries.items():
        core.reset(seed=0)
        found[name] = float(core.step(as_action(design, place().named()))[1])
    core.close()
    return found


def guide(name: str, settings: Mapping[str, Any], results: Mapping[str, Mapping[str, float]]) -> str:
    """Returns the page for participants."""
    rows = [
        f"| {task} | " + " | ".join(f"{-value:.4f}" for value in of_task.values()) + " |"
        for task, of_task in results.items()
    ]
    heads = list(next(iter(results.values()), {}))
    table = "\n".join([f"| task | {' | '.join(heads)} |", "| --- |" + " --- |" * len(heads), *rows]) if rows else ""
    reached = f"\n## What the reference placers reach\n\nCosts; lower is better.\n\n{table}\n" if table else ""
    turned = {"flips": "N, FN, S and FS", "fixed": "as in the initial placement", "all": "all eight"}
    return (
        inspect.cleandoc(_GUIDE).format(
            name=name, **{**settings, "orientations": turned.get(settings["orientations"], "")}, reached=reached
        )
        + "\n"
    )


_GUIDE = """
    # {name}

    Place the macros of a chip. Your submission is a folder with one file, `placer.py`:

    ```python
    def place(benchmark):
        return benchmark.positions
    ```

    `template/` holds one that runs. Start from it:

    ```sh
    cp -r template my_placer
    a2perf run --submission my_placer --gin-config inference.gin --root-dir runs/toy
    ```

    The other public designs are in `tasks/`:

    ```sh
    a2perf run --submission my_placer --gin-config secret.gin --root-dir runs/twin \
      --gin-bindings "Submission.held_out_task = 'tasks/place_ariane_twin.json'"
    ```

    ## The task

    `benchmark` holds the design as NumPy arrays: names, sizes, pins, nets, ports, fixed nodes, canvas, grid, routing
    capacities and the weights of the cost (`a2perf_placement.benchmark.Benchmark`).
    Lengths are in um from the lower left corner of the canvas; positions are centres. `benchmark.files` writes netlist
    and placement as files.

    `place` returns the positions of all nodes, shape `(benchmark.num_nodes, 2)`. It may also return
    `(positions, orientations)`, or a dict with `positions`, `orientations` and `claimed_cost`.

    | rule | |
    | --- | --- |
    | cost | {wirelength_weight:g} wirelength + {density_weight:g} density + {congestion_weight:g} congestion, cost profile `{profile}`; lower is better |
    | hard macros | inside the canvas, no overlap beyond {overlap_tolerance:g} um; touching edges are allowed |
    | fixed nodes | keep their positions |
    | other nodes | centre on the canvas |
    | orientations of hard macros | {orientations} |
    | time | {time_limit_s:g} s per design, wall time |
    | packages | list them in `requirements.txt` |

    A placement that breaks a rule counts as a failed run, as does one that is late. The return is minus the cost.

    You may state the cost that you expect: return `claimed_cost`, or add a `claims.json` such as
    `{{"ariane_twin": 0.71}}`. The evaluator recomputes every cost. Both numbers are published.
    {reached}"""  # noqa: E501


def _task(name: str, kwargs: dict[str, Any]) -> HeldOutTask:
    return HeldOutTask(name=name, env_id=ENV_ID, kwargs=kwargs, told=_TOLD)


def _copied(name: str, netlist: Path, placement: Path, folder: Path) -> str:
    target = folder / name
    target.mkdir(parents=True, exist_ok=False)
    content = netlist.read_bytes()
    (target / "netlist.pb.txt").write_bytes(gzip.decompress(content) if netlist.name.endswith(".gz") else content)
    (target / "initial.plc").write_bytes(placement.read_bytes())
    return name


PROFILE = CompetitionProfile(
    name="macro_placement",
    domain="macro_placement",
    summary="one placement per design by place(benchmark), scored by the public evaluator's conventions",
    public_task="place_toy_macro_stdcell",
    terms={
        "held_out": 3,
        "episodes": 1,
        "latency_steps": 0,
        "seeds": [0],
        "train": False,
        "call_timeout_s": 3600.0,
        "memory_limit_bytes": 8 << 30,
    },
    settings=SETTINGS,
    arguments=environment_arguments,
    public_tasks=public_tasks,
    held_out=secret_tasks,
    import_design=import_design,
    design_task=design_task,
    references=references,
    template="placer",
    guide=guide,
)
