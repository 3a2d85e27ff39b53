"""Records which environment a policy was trained on: a small file next to the policy, which the adapters check.

Two environments can have the same spaces; only this file distinguishes their policies. A policy of another task of the
same domain is accepted, because generalization needs it.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

from a2perf.submission.participant.lazy_environment import ID_VARIABLE, KWARGS_VARIABLE
from a2perf.submission.participant.signatures import ContractError

FILE = "trained_on.json"


def record_environment(folder: str | Path | None = None, env_id: str | None = None) -> Path:
    """Records the environment of a training run next to its policy.

    Args:
        folder: folder of the policy; by default ``A2PERF_ARTIFACTS``.
        env_id: id of the environment; by default that of the run.

    Raises:
        ContractError: called outside of a run without both arguments.
    """
    folder, env_id = folder or os.environ.get("A2PERF_ARTIFACTS"), env_id or os.environ.get(ID_VARIABLE)
    if not folder or not env_id:
        raise ContractError("record_environment was called outside of a run", "pass folder and env_id")
    file = Path(folder) / FILE
    kwargs = json.loads(os.environ.get(KWARGS_VARIABLE) or "{}") if env_id == os.environ.get(ID_VARIABLE) else {}
    file.write_text(json.dumps({"schema": 1, "env_id": env_id, "env_kwargs": kwargs}, indent=1), encoding="utf-8")
    return file


def require_origin(policy: Path, what: str) -> None:
    """Raises an error if a policy was trained on an environment of another domain.

    Args:
        policy: the policy's file or folder; the record may be in it, next to it, or one folder further up.

    Raises:
        ContractError: the policy is from another domain, or the record cannot be read.
    """
    here = os.environ.get(ID_VARIABLE)
    record = next((place / FILE for place in (policy, *policy.parents[:2]) if (place / FILE).is_file()), None)
    if here is None or record is None:
        return
    try:
        there = str(json.loads(record.read_text(encoding="utf-8"))["env_id"])
    except (ValueError, KeyError, TypeError, OSError) as error:
        raise ContractError(
            f"{record} cannot be read: {error}", "write it with record_environment, or delete it"
        ) from error
    if _family(there) != _family(here):
        raise ContractError(
            f"{what} was trained on {there}, but this run uses {here}",
            f"use a policy that was trained on {here} or on another task of its domain",
        )


def _family(env_id: str) -> str:
    """Returns the domain of an environment id, or the id itself if no domain has it."""
    from a2perf.domains.registry import all_environments

    known = all_environments().get(env_id)
    return env_id if known is None else known[0].name
