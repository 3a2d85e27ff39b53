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

    from a2perf.api.arguments import RunSettings as RunSettings
    from a2perf.api.checking import CheckReport as CheckReport
    from a2perf.api.checking import check as check
    from a2perf.api.comparing import Comparison as Comparison
    from a2perf.api.comparing import compare as compare
    from a2perf.api.environments import TaskInfo as TaskInfo
    from a2perf.api.environments import Tasks as Tasks
    from a2perf.api.environments import make as make
    from a2perf.api.environments import make_vec as make_vec
    from a2perf.api.environments import tasks as tasks
    from a2perf.api.evaluation import evaluate as evaluate
    from a2perf.api.evaluation import train as train
    from a2perf.api.pages import write_leaderboard as write_leaderboard
    from a2perf.api.pages import write_report as write_report
    from a2perf.api.reproducing import Reproduced as Reproduced
    from a2perf.api.reproducing import reproduce as reproduce
    from a2perf.api.results import Result as Result
    from a2perf.api.results import Runs as Runs
    from a2perf.api.results import read_run as read_run
    from a2perf.api.results import read_runs as read_runs
    from a2perf.api.scoring import Scores as Scores
    from a2perf.api.scoring import score as score
    from a2perf.api.submitting import Submitted as Submitted
    from a2perf.api.submitting import submit as submit
    from a2perf.api.tracking import Tracked as Tracked
    from a2perf.api.tracking import track as track
    from a2perf.api.views.table import Table as Table
    from a2perf.errors import RunFailed as RunFailed
    from a2perf.errors import UserError as UserError

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

__all__ = ["__version__", *_HOMES]

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
