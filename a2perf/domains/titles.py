"""Names of domains, tasks and environments for people.

A title stands beside each registration; these functions look it up and never fail, because reports also show runs of
tasks that this installation does not know. They import nothing of a domain but its record.
"""

from __future__ import annotations

import re

from a2perf.domains.registry import ANY, Environment, Task, all_environments, domains

_ENVIRONMENT_ID = re.compile(r"-v\d+$")
_HELD_OUT = re.compile(r"held_out_(\d+)_(.+)")
_ALL_TASKS = "all"


def domain_title(domain: str) -> str:
    """Returns the title of a domain, ``"Web navigation"``; an unknown name is made readable."""
    known = domains().get(domain)
    return known.title if known is not None else _readable(domain)


def task_title(domain: str, task: str) -> str:
    """Returns the title of a task, ``"Level 2, 10 websites"``.

    Args:
        domain: name of its domain; tasks of an unknown domain are made readable.
        task: name of a task, id of an environment, or ``"all"`` (the generalization mode).
    """
    if task == _ALL_TASKS:
        return "All tasks"
    if domain == ANY:
        return task
    record = _record(domain, task)
    return (record.title if record is not None else "") or _readable(task)


def task_summary(domain: str, task: str) -> str:
    """Returns the one-line description of a task or environment, or "" if it has none."""
    record = _record(domain, task)
    return record.summary if record is not None else ""


def view_title(domain: str, view: str) -> str:
    """Returns what a run observed, ``"text"``.

    Args:
        view: of the run; ``""`` stands for the default of the domain.

    Returns:
        The view or the name of the default one, ``"arrays"``; ``""`` if the domain has one view only.
    """
    known = domains().get(domain)
    return view or (", ".join(map(str, known.views.values())) if known is not None else "")


def environment_title(env_id: str) -> str:
    """Returns the title of an environment, ``"Dog, pace"``; an unknown id is returned as it is."""
    found = all_environments().get(env_id)
    return found[1].title or env_id if found is not None else env_id


def _record(domain: str, task: str) -> Task | Environment | None:
    known = domains().get(domain)
    if known is None:
        return None
    of_name = (one for one in known.tasks if one.name == task)
    return next(of_name, None) or next((one for one in known.environments if task in (one.id, *one.aliases)), None)


def _readable(name: str) -> str:
    """Returns ``"Held-out 3, level 2"`` for ``"held_out_3_level_2"``; environment ids stay as they are."""
    if _ENVIRONMENT_ID.search(name):
        return name
    if match := _HELD_OUT.fullmatch(name):
        return f"Held-out {match[1]}, {match[2].replace('_', ' ')}"
    words = " ".join(name.replace("_", " ").split())
    return words[:1].upper() + words[1:]
