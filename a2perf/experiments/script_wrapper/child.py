"""The child process: executes one instrumented script and records it.

``python -P -m a2perf.experiments.script_wrapper.child ORDER.json``. It writes into the folder of the order; the
script's output goes to standard output. ``wrap.json`` records how it ended or, if the process died, its last phase.

Workers that the script starts with ``multiprocessing`` record their episodes too: a forked one inherits the patched
``gymnasium.make``, a spawned one imports this module first, and finds the script as a module with its SEED replaced.
"""

from __future__ import annotations

import functools
import importlib.util
import os
import random
import sys
import time
import traceback
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec

from a2perf._version import __version__
from a2perf.errors import MissingDependency
from a2perf.experiments.script_wrapper.acting import parameters_of
from a2perf.experiments.script_wrapper.collectors import Captured, gather
from a2perf.experiments.script_wrapper.episodes import EpisodeJournal, log_curves
from a2perf.experiments.script_wrapper.import_hooks import after_import
from a2perf.experiments.script_wrapper.instrument import CAPTURE, LOCALS, SEED, Instrumented, instrument
from a2perf.experiments.script_wrapper.live_values import LiveValues
from a2perf.experiments.script_wrapper.loggers import Loggers
from a2perf.experiments.script_wrapper.order import REPORT, ScriptOrder, ScriptReport
from a2perf.submission.participant.signatures import require_done

_ORDER = "A2PERF_WRAP_ORDER"
"""Environment variable with the path of the order, for processes that the script starts."""

_PRIVATE_NAME = "_a2perf_script"
"""Module name of the script if the name of its file is taken."""


def main() -> int:
    """Executes the order and returns the exit status: 0, or 1 if the script failed."""
    order = msgspec.json.decode(Path(sys.argv[1]).read_bytes(), type=ScriptOrder)
    folder = Path(order.folder)
    report = ScriptReport(phase="start")
    _write(folder, report)
    values = LiveValues(folder)
    if order.mirror:
        values.mirror = _open_mirror(order, report)
    # Absolute: the script may change the working directory before it starts workers.
    os.environ[_ORDER] = os.path.abspath(sys.argv[1])
    episodes, loggers = _journal_of(order), Loggers(values)
    episodes.listen()
    loggers.listen()
    seed_everything(order.seed, report, first=True)
    script = instrument(Path(order.script))
    captured = _run(order, script, values, loggers, report)
    report.phase = "collecting"
    report.logger = loggers.found
    _write(folder, report)
    values.training = episodes.training = False
    training, report.episodes_of = log_curves(folder, values.log)
    report.collected = gather(captured)
    if training is not None:
        report.episodes, report.steps = len(training.returns), sum(training.lengths)
    report.values, report.refused = dict(values.counts), dict(values.refused)
    values.close()
    report.notes += values.failures
    report.phase = "done"
    _write(folder, report)
    _tell(report)
    return 0 if report.error is None else 1


def seed_everything(seed: int, report: ScriptReport, *, first: bool) -> None:
    """Seeds ``random`` and NumPy, and the frameworks now or when they are imported."""
    import numpy as np

    random.seed(seed)
    # NumPy accepts 32 bits only.
    np.random.seed(seed % 2**32)
    for name, apply in (("torch", "manual_seed"), ("tensorflow", "random.set_seed")):
        if first:
            after_import(name, functools.partial(_seed_framework, seed, apply, report))
        elif name in sys.modules:
            _seed_framework(seed, apply, report, sys.modules[name])
    report.seeded = sorted({*report.seeded, "random", "numpy"})


def _seed_framework(seed: int, function: str, report: ScriptReport, module: ModuleType) -> None:
    target: Any = module
    for part in function.split("."):
        target = getattr(target, part)
    target(seed)
    report.seeded = sorted({*report.seeded, module.__name__})


def _run(
    order: ScriptOrder, script: Instrumented, values: LiveValues, loggers: Loggers, report: ScriptReport
) -> Captured:
    """Executes the module and calls ``main``; an exception of it becomes part of the report."""
    path = Path(order.script)
    module = _module_for(path)
    local: dict[str, Any] = {}

    def capture(found: dict[str, Any]) -> None:
        local.clear()
        local.update(found)

    module.__dict__.update({CAPTURE: capture, LOCALS: locals, SEED: order.seed})
    sys.argv = [order.script, *order.arguments]
    sys.path.insert(0, str(path.parent))
    started = time.perf_counter()
    report.phase = "import"
    try:
        exec(script.code, module.__dict__)
        loggers.look_in(vars(module).values())
        # Again: the module may have drawn numbers or set other seeds during its import.
        seed_everything(order.seed, report, first=False)
        report.phase = "main"
        _write(Path(order.folder), report)
        print("Benchmarks: Started training.", flush=True)
        _call(module.__dict__.get("main"), order.env, order.arguments)
    except SystemExit as error:
        if error.code not in (None, 0):
            report.error, report.kind = f"the script ended itself with status {error.code}", "exit"
    except BaseException as error:
        report.error, report.kind = f"{type(error).__name__}: {error}", "exception"
        report.traceback = _own_traceback(error)
        print(report.traceback, file=sys.stderr, flush=True)
    report.train_wall_s = time.perf_counter() - started
    _check_seed(module, order, report)
    if not script.captures:
        report.notes.append("main is not defined in this file, so its variables are not seen; its globals are")
    return Captured(
        names={**module.__dict__, **local},
        env_name=order.env,
        seed=order.seed,
        folder=Path(order.folder),
        values=values,
        episodes=order.test_episodes,
        videos=order.videos,
        complete=report.error is None,
    )


def _call(function: Any, env: str, arguments: list[str]) -> None:
    if not callable(function):
        raise TypeError("main is not a function")
    if hasattr(function, "params") and hasattr(function, "callback"):  # a click command parses the command line
        names = {parameter.name: parameter for parameter in function.params}
        option = names["env"].opts[-1] if "env" in names else ""
        function.main(args=[*([option] if option.startswith("-") else []), env, *arguments], standalone_mode=False)
        return
    parameter = parameters_of(function).get("env")
    is_positional = parameter is not None and parameter.kind is parameter.POSITIONAL_ONLY
    require_done("main", function(env) if is_positional else function(env=env))


def _check_seed(module: ModuleType, order: ScriptOrder, report: ScriptReport) -> None:
    """Reports whether the script kept the seed in its ``SEED``."""
    if "SEED" in vars(module):
        if vars(module)["SEED"] == order.seed:
            report.seeded = sorted({*report.seeded, "SEED"})
        else:
            report.notes.append(f"SEED is {vars(module)['SEED']!r} at the end: the script changed it")


def _module_for(path: Path) -> ModuleType:
    """Creates the module, under the file's name if that is free: pickling needs the name of the module."""
    name = path.stem
    taken = not name.isidentifier() or name in sys.modules or name in sys.stdlib_module_names
    if not taken:
        try:
            taken = importlib.util.find_spec(name) is not None
        except (ImportError, ValueError):
            taken = True
    module = ModuleType(_PRIVATE_NAME if taken else name)
    module.__file__ = str(path)
    sys.modules[module.__name__] = module
    return module


def _own_traceback(error: BaseException) -> str:
    """Returns the traceback from the script on, without the frames of this module."""
    trace = error.__traceback__
    here = os.path.abspath(__file__)
    while trace is not None and os.path.abspath(trace.tb_frame.f_code.co_filename) == here:
        trace = trace.tb_next
    return "".join(traceback.format_exception(type(error), error, trace or error.__traceback__)).rstrip()


def _open_mirror(order: ScriptOrder, report: ScriptReport) -> Any:
    """Starts a run of Weights & Biases; offline unless ``WANDB_MODE`` is set: no data leaves the host by accident."""
    os.environ.setdefault("WANDB_MODE", "offline")
    os.environ.setdefault("WANDB_SILENT", "true")
    try:
        try:
            import wandb
        except ImportError as error:
            raise MissingDependency("wandb is not installed", hint="pip install wandb") from error
        script = Path(order.script)
        return wandb.init(
            project=order.mirror,
            entity=order.mirror_entity or None,
            name=f"{script.stem}/{order.env}",
            group=str(script),
            dir=order.folder,
            config={"seed": order.seed, "env": order.env, "script": str(script), "a2perf": __version__},
        )
    except Exception as error:  # a failing tracker must not end the run
        report.notes.append(f"not mirrored to Weights & Biases: {type(error).__name__}: {error}")
        return None


def _tell(report: ScriptReport) -> None:
    logger = ", ".join(report.logger) if report.logger else "not found: no Logger with log(key, value)"
    print(f"Benchmarks: logger: {logger}")
    print(f"Benchmarks: seeded: {', '.join(report.seeded)}")
    for line in report.episodes_of:
        print(f"Benchmarks: episodes: {line}")
    for name, result in report.collected.items():
        print(f"Benchmarks: {name}: {result}")
    for note in report.notes:
        print(f"Benchmarks: note: {note}")
    sys.stdout.flush()


def _write(folder: Path, report: ScriptReport) -> None:
    temporary = folder / f".{REPORT}"
    temporary.write_bytes(msgspec.json.format(msgspec.json.encode(report), indent=2))
    # Replaced as a whole: the process may be killed at any moment, and its parent reads the last phase.
    os.replace(temporary, folder / REPORT)


def _journal_of(order: ScriptOrder) -> EpisodeJournal:
    return EpisodeJournal(Path(order.folder), f"{Path(order.script).parent}{os.sep}")


def _listen_in_worker() -> None:
    """Records the episodes of a spawned process, and gives it the script; after an error the process runs as it is."""
    try:
        order = msgspec.json.decode(Path(os.environ[_ORDER]).read_bytes(), type=ScriptOrder)
        _journal_of(order).listen()
    except (KeyError, OSError, msgspec.DecodeError):
        return
    sys.meta_path.insert(0, _ScriptFinder(Path(order.script), order.seed))


class _ScriptFinder(MetaPathFinder, Loader):
    """Imports the script in a worker."""

    def __init__(self, script: Path, seed: int) -> None:
        self._script, self._seed = script, seed

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if fullname not in (self._script.stem, _PRIVATE_NAME) or fullname in sys.stdlib_module_names:
            return None
        return importlib.util.spec_from_loader(fullname, self, origin=str(self._script))

    def exec_module(self, module: ModuleType) -> None:
        vars(module).update({"__file__": str(self._script), SEED: self._seed})
        exec(instrument(self._script, captures=False).code, vars(module))


if __name__ == "__mp_main__":  # a process that the script spawned imports this module before anything else
    _listen_in_worker()
if __name__ == "__main__":
    status = main()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)  # do not wait for threads and workers that the script left running
