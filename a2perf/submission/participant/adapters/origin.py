"""Which environment a policy was trained on: a small file beside it, written by the training and read by the adapters.

Two environments can have the same spaces; only this file tells a policy of one from a policy of the other. A policy of
another task of the same domain is welcome, since generalization runs exactly that.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

from a2perf.submission.participant.lazy_environment import ID_VARIABLE, KWARGS_VARIABLE
from a2perf.submission.participant.signatures import ContractError

FILE = "trained_on.json"


def record_environment(folder: str | Path | None = None, env_id: str | None = None) -> Path:
    """Writes down, in a training run, what the policy in a folder is trained on.

    Args:
        folder: where the policy is written; by default ``A2PERF_ARTIFACTS``.
        env_id: the id of the environment; by default the one of the run.

    Returns:
        The file.

    Raises:
        ContractError: there is no run, and neither was given.
    """
    folder, env_id = folder or os.environ.get("A2PERF_ARTIFACTS"), env_id or os.environ.get(ID_VARIABLE)
    if not folder or not env_id:
        raise ContractError("there is no run whose environment could be recorded", "give folder and env_id")
    file = Path(folder) / FILE
    kwargs = json.loads(os.environ.get(KWARGS_VARIABLE) or "{}") if env_id == os.environ.get(ID_VARIABLE) else {}
    file.write_text(json.dumps({"schema": 1, "env_id": env_id, "env_kwargs": kwargs}, indent=1), encoding="utf-8")
    return file


def require_origin(policy: Path, what: str) -> None:
    """Refuses a policy that was trained on an environment of another domain than the run's.

    Args:
        policy: the policy's file or folder; the record is looked for in it, beside it, and one folder further up.
        what: the policy, for the message.

    Raises:
        ContractError: it was, or the record cannot be read.
    """
    here = os.environ.get(ID_VARIABLE)
    record = next((place / FILE for place in (policy, *policy.parents[:2]) if (place / FILE).is_file()), None)
    if here is None or record is None:
        return
    try:
        there = str(json.loads(record.read_text(encoding="utf-8"))["env_id"])
    except (ValueError, KeyError, TypeError, OSError) as error:
        raise ContractError(
            f"{record} cannot be read: {error}", "write it with record_environment, or remove it"
        ) from error
    if _family(there) != _family(here):
        raise ContractError(
            f"{what} was trained on {there}, and this run is on {here}",
            f"give a policy that was trained on {here} or another task of its domain",
        )


def _family(env_id: str) -> str:
    """The domain of an id; an id that belongs to none is a family of its own."""
    from a2perf.domains.registry import all_environments

    known = all_environments().get(env_id)
    return env_id if known is None else known[0].name
