"""Evaluate, score and compare reinforcement-learning agents, with their energy, time and memory.

    import a2perf

    result = a2perf.evaluate(policy, task="dog_pace", episodes=20, seed=0)   # a callable, a model, or a folder
    print(result)                                                            # return, interval, latency, energy
    runs = a2perf.read_runs("runs/")
    frame = runs.scores().to_pandas()
    a2perf.compare(runs, baseline="v1", candidate="v2").plot()

Environments   tasks, make, make_vec
Run            evaluate, train, submit, check, track, reproduce
Read           read_run, read_runs, score, compare
Write          write_report, write_leaderboard

`help(a2perf.evaluate)` describes a function. Errors are ``a2perf.UserError`` with the text that the commands print.

Importing this package loads no large dependency: each public name is imported on first use. It registers the
environments with Gymnasium; ``gymnasium.make("a2perf:NAME-v0")`` imports it automatically.
"""

from a2perf._register_environments import register_with_gymnasium
from a2perf._version import __version__ as __version__

TYPE_CHECKING = False
if TYPE_CHECKING:  # not from `typing`, which would slow down every import of a2perf
    from typing import Any

    from a2perf.api.arguments import RunSettings
    from a2perf.api.checking import CheckReport, check
    from a2perf.api.comparing import Comparison, compare
    from a2perf.api.environments import TaskInfo, Tasks, make, make_vec, tasks
    from a2perf.api.evaluation import evaluate, train
    from a2perf.api.pages import write_leaderboard, write_report
    from a2perf.api.reproducing import Reproduced, reproduce
    from a2perf.api.results import Result, Runs, read_run, read_runs
    from a2perf.api.scoring import Scores, score
    from a2perf.api.submitting import Submitted, submit
    from a2perf.api.tracking import Tracked, track
    from a2perf.api.views.table import Table
    from a2perf.errors import RunFailed, UserError

_HOMES = {
    "CheckReport": "api.checking",
    "Comparison": "api.comparing",
    "Reproduced": "api.reproducing",
    "Result": "api.results",
    "RunFailed": "errors",
    "RunSettings": "api.arguments",
    "Runs": "api.results",
    "Scores": "api.scoring",
    "Submitted": "api.submitting",
    "Table": "api.views.table",
    "TaskInfo": "api.environments",
    "Tasks": "api.environments",
    "Tracked": "api.tracking",
    "UserError": "errors",
    "check": "api.checking",
    "compare": "api.comparing",
    "evaluate": "api.evaluation",
    "make": "api.environments",
    "make_vec": "api.environments",
    "read_run": "api.results",
    "read_runs": "api.results",
    "reproduce": "api.reproducing",
    "score": "api.scoring",
    "submit": "api.submitting",
    "tasks": "api.environments",
    "track": "api.tracking",
    "train": "api.evaluation",
    "write_leaderboard": "api.pages",
    "write_report": "api.pages",
}
"""The module of each public name."""
_BROUGHT_BY = {"OfflineDataset": "datasets", "open_dataset": "datasets"}
"""The distribution ``packages/NAME`` that brings a name."""

__all__ = [
    "CheckReport",
    "Comparison",
    "Reproduced",
    "Result",
    "RunFailed",
    "RunSettings",
    "Runs",
    "Scores",
    "Submitted",
    "Table",
    "TaskInfo",
    "Tasks",
    "Tracked",
    "UserError",
    "__version__",
    "check",
    "compare",
    "evaluate",
    "make",
    "make_vec",
    "read_run",
    "read_runs",
    "reproduce",
    "score",
    "submit",
    "tasks",
    "track",
    "train",
    "write_leaderboard",
    "write_report",
]

register_with_gymnasium()


def __getattr__(name: str) -> "Any":
    """Imports a public name on first use."""
    import importlib
    import sys

    if name in _BROUGHT_BY:
        from a2perf.plugins import name_of_distribution

        return name_of_distribution(_BROUGHT_BY[name], name)
    home = _HOMES.get(name)
    if home is None:
        # with these two arguments Python adds "Did you mean"
        raise AttributeError(f"module 'a2perf' has no attribute {name!r}", name=name, obj=sys.modules[__name__])
    value = getattr(importlib.import_module(f"a2perf.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})
