"""The child process: executes one instrumented script and writes down what it did.

``python -P -m a2perf.rlops.script_wrapper.child ORDER.json``. Everything it writes goes into the folder of the order,
the script's own output goes where standard output goes. How it ended is in ``wrap.json``; when the process dies before,
that file says how far it came.
"""

from __future__ import annotations

import asyncio
import functools
import importlib.util
import inspect
import json
import os
import random
import sys
import time
import traceback
from pathlib import Path
from types import GeneratorType, ModuleType
from typing import Any

import msgspec

from a2perf.rlops.script_wrapper.collectors import Captured, gather
from a2perf.rlops.script_wrapper.episodes import Episodes, listen
from a2perf.rlops.script_wrapper.import_hooks import after_import
from a2perf.rlops.script_wrapper.instrument import CAPTURE, LOCALS, Instrumented, instrument
from a2perf.rlops.script_wrapper.live_values import LiveValues
from a2perf.rlops.script_wrapper.loggers import Loggers
from a2perf.rlops.script_wrapper.order import REPORT, Order, Report

_PRIVATE_NAME = "_a2perf_script"


def main() -> int:
    """Executes the order and returns the exit status: 0, or 1 when the script failed."""
    order = msgspec.json.decode(Path(sys.argv[1]).read_bytes(), type=Order)
    folder = Path(order.folder)
    report = Report(phase="start")
    _write(folder, report)
    values = LiveValues(folder)
    if order.mirror:
        _open_mirror(order, values, report)
    episodes, loggers = Episodes(values), Loggers(values)
    listen(episodes)
    loggers.listen()
    seed_everything(order.seed, report, first=True)
    script = instrument(Path(order.script))
    captured = _run(order, script, values, loggers, report)
    report.phase = "collecting"
    report.logger = loggers.found
    _write(folder, report)
    values.training = False
    report.collected = gather(captured)
    report.summary = captured.summary
    report.environment = _spec_of(captured)
    report.episodes = report.episodes or episodes.count
    report.steps = episodes.steps
    report.values, report.refused = dict(values.counts), dict(values.refused)
    values.close()
    report.notes += values.failures
    report.phase = "done"
    _write(folder, report)
    _tell(report)
    return 0 if report.error is None else 1


def seed_everything(seed: int, report: Report, *, first: bool) -> None:
    """Seeds ``random`` and NumPy, and the frameworks now or as soon as they are imported."""
    import numpy as np

    random.seed(seed)
    np.random.seed(seed % 2**32)
    for name, apply in (("torch", "manual_seed"), ("tensorflow", "random.set_seed")):
        if first:
            after_import(name, functools.partial(_seed_framework, seed, apply, report))
        elif name in sys.modules:
            _seed_framework(seed, apply, report, sys.modules[name])
    report.seeded = sorted({*report.seeded, "random", "numpy"})


def _seed_framework(seed: int, function: str, report: Report, module: ModuleType) -> None:
    target: Any = module
    for part in function.split("."):
        target = getattr(target, part)
    target(seed)
    report.seeded = sorted({*report.seeded, module.__name__})


def _run(order: Order, script: Instrumented, values: LiveValues, loggers: Loggers, report: Report) -> Captured:
    """Executes the module and calls ``main``; whatever it raises is in the report."""
    path = Path(order.script)
    module = _module_for(path)
    local: dict[str, Any] = {}

    def capture(found: dict[str, Any]) -> None:
        local.clear()
        local.update(found)

    module.__dict__.update({CAPTURE: capture, LOCALS: locals})
    sys.argv = [order.script, *order.arguments]
    sys.path.insert(0, str(path.parent))
    started = time.perf_counter()
    report.phase = "import"
    try:
        exec(script.code, module.__dict__)
        loggers.look_in(vars(module).values())
        if "SEED" in module.__dict__:
            module.__dict__["SEED"] = order.seed
            report.seeded = sorted({*report.seeded, "SEED"})
        seed_everything(order.seed, report, first=False)
        report.phase = "main"
        _write(Path(order.folder), report)
        print("Benchmarks: Started training.", flush=True)
        _call(module.__dict__.get("main"), order.env)
    except SystemExit as error:
        if error.code not in (None, 0):
            report.error, report.kind = f"the script ended itself with status {error.code}", "exit"
    except BaseException as error:
        report.error, report.kind = f"{type(error).__name__}: {error}", "exception"
        report.traceback = _own_traceback(error)
        print(report.traceback, file=sys.stderr, flush=True)
    report.train_wall_s = time.perf_counter() - started
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
        say=lambda line: print(line, flush=True),
    )


def _call(function: Any, env: str) -> None:
    if not callable(function):
        raise TypeError("main is not a function")
    result = function(env=env)
    if inspect.iscoroutine(result):
        asyncio.run(result)
    elif inspect.isasyncgen(result):
        asyncio.run(_exhaust(result))
    elif isinstance(result, GeneratorType):
        for _ in result:
            pass


async def _exhaust(generator: Any) -> None:
    async for _ in generator:
        pass


def _module_for(path: Path) -> ModuleType:
    """Makes the module: under the file's own name, so that what it defines can be pickled, unless that is taken."""
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


def _spec_of(captured: Captured) -> dict[str, Any]:
    env = captured.names.get("env")
    spec = None if isinstance(env, str) else getattr(env, "spec", None)
    found: dict[str, Any] = {"name": captured.env_name}
    if spec is None and "gymnasium" in sys.modules:
        spec = sys.modules["gymnasium"].registry.get(captured.env_name)
    for name in ("id", "entry_point", "max_episode_steps", "reward_threshold", "kwargs"):
        if hasattr(spec, name):
            found[name] = json.loads(json.dumps(getattr(spec, name), default=str))
    return found


def _open_mirror(order: Order, values: LiveValues, report: Report) -> None:
    try:
        from a2perf.rlops.script_wrapper.wandb_mirror import open_mirror

        values.add_mirror(open_mirror(order))
    except Exception as error:  # a tracker that fails never takes the run down
        report.notes.append(f"Weights & Biases is not mirrored to: {type(error).__name__}: {error}")


def _tell(report: Report) -> None:
    logger = ", ".join(report.logger) if report.logger else "not found: no Logger with log(key, value)"
    print(f"Benchmarks: logger: {logger}")
    print(f"Benchmarks: seeded: {', '.join(report.seeded)}")
    for name, said in report.collected.items():
        print(f"Benchmarks: {name}: {said}")
    for note in report.notes:
        print(f"Benchmarks: note: {note}")
    sys.stdout.flush()


def _write(folder: Path, report: Report) -> None:
    temporary = folder / f".{REPORT}"
    temporary.write_bytes(msgspec.json.format(msgspec.json.encode(report), indent=2))
    os.replace(temporary, folder / REPORT)


if __name__ == "__main__":
    status = main()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)  # threads and workers that a script left behind do not hold the run
