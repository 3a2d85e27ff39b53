"""Patches a worker process that a wrapped script starts with ``multiprocessing``, before it executes anything.

A forked worker inherits the patched classes. A spawned one imports the main module of its parent again, which is
``child``; that calls ``listen_in_worker``. Such a worker finds the script as a module with its SEED replaced.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_loader
from pathlib import Path
from types import ModuleType
from typing import Any

VARIABLE = "A2PERF_WRAP_ORDER"
"""Environment variable with the path of the order, for processes that the script starts."""

PRIVATE_NAME = "_a2perf_script"
"""Module name of the script if the name of its file is taken."""


def listen_in_worker() -> None:
    """Patches a spawned process; after an error the process runs unpatched."""
    path = os.environ.get(VARIABLE)
    if not path:
        return
    import msgspec

    from a2perf.experiments.script_wrapper.episode_journal import EpisodeJournal
    from a2perf.experiments.script_wrapper.episodes import Episodes, listen, listen_to
    from a2perf.experiments.script_wrapper.order import ScriptOrder

    try:
        order = msgspec.json.decode(Path(path).read_bytes(), type=ScriptOrder)
        script = Path(order.script)
        episodes = Episodes(f"{script.parent}{os.sep}", EpisodeJournal(Path(order.folder)), worker=True)
    except (OSError, msgspec.DecodeError):
        return
    listen(episodes)

    def execute(module: ModuleType) -> None:
        from a2perf.experiments.script_wrapper.instrument import LISTEN, SEED, instrument

        vars(module).update({SEED: order.seed, LISTEN: lambda kind: listen_to(kind, episodes)})
        exec(instrument(script, captures=False).code, vars(module))

    sys.meta_path.insert(0, _ScriptFinder((script.stem, PRIVATE_NAME), script, execute))


class _ScriptFinder(MetaPathFinder, Loader):
    def __init__(self, names: Sequence[str], script: Path, execute: Callable[[ModuleType], None]) -> None:
        self._names, self._script, self._execute = names, script, execute

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        """Finds the script, unless a module of the standard library has its name."""
        if fullname not in self._names or fullname in sys.stdlib_module_names:
            return None
        return spec_from_loader(fullname, self, origin=str(self._script))

    def exec_module(self, module: ModuleType) -> None:
        """Executes the script."""
        module.__file__ = str(self._script)
        self._execute(module)
