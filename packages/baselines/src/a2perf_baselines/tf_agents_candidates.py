"""A TF-Agents policy that chooses rows of candidate tables (`a2perf_baselines.candidates`), as a submission.

    from a2perf_baselines import tf_agents_candidates

    load_policy, preprocess_observation, infer_once = tf_agents_candidates.contract("policies")

The training run calls ``record_candidates``, which writes ``candidates.json`` next to the policies: the domain, and the
rows and features of the tables. One policy works on all tasks of its domain that do not have more candidates than rows.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from a2perf.submission.participant.adapters import tf_agents
from a2perf.submission.participant.adapters.contract import Contract, find
from a2perf.submission.participant.signatures import ContractError

FILE = "candidates.json"
_KEYS = ("domain", "rows", "features", "arguments")


def record_candidates(
    folder: Path, env_id: str, rows: int, features: int, arguments: Mapping[str, Any] | None = None
) -> Path:
    """Records the tables of a policy in its training run.

    Args:
        folder: the training run's artifacts.
        arguments: arguments of the domain's reader.

    Returns:
        The file.
    """
    from a2perf.domains.registry import find_environment

    record = (find_environment(env_id)[0].name, rows, features, dict(arguments or {}))
    (folder / FILE).write_text(json.dumps(dict(zip(_KEYS, record, strict=True)), indent=1), encoding="utf-8")
    return folder / FILE


def contract(folder: str = "policies", *, policy_name: str = "greedy_policy") -> Contract:
    """Returns the three functions of the contract for a policy over candidates.

    ``load_policy`` takes the participant arguments ``root_dir``, ``policy_name`` and ``checkpoint``.

    Args:
        folder: folder of the policies, relative to ``ROOT_DIR`` or to the submission.
    """
    from a2perf_baselines.candidates import CandidateChoice

    choice = CandidateChoice()
    saved = tf_agents.contract(folder, policy_name=policy_name, observation=choice.table, action=choice.action)

    def load_policy(env: Any, root_dir: str | None = None, **given: str) -> Any:
        rows, features, arguments = _tables(find(FILE, "description of the candidates", root_dir), env)
        choice.arguments = arguments
        reader = choice.read_from(env, rows)
        _require_fit(env, (rows, features), reader)
        return saved.load_policy(env, root_dir=root_dir, **given)

    return Contract(load_policy, saved.preprocess_observation, saved.infer_once)


def _tables(file: Path, env: Any) -> tuple[int, int, dict[str, Any]]:
    from a2perf.domains.registry import find_environment

    try:
        record = json.loads(file.read_text(encoding="utf-8"))
        domain, rows, features, arguments = (record[key] for key in _KEYS)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ContractError(f"{FILE} cannot be read: {type(error).__name__}: {error}", "train again") from error
    spec = env.unwrapped.spec
    here = find_environment(spec.id)[0].name
    if here != domain:
        raise ContractError(
            f"the policy was trained on {domain}, but {spec.id} belongs to {here}", f"use a policy trained on {here}"
        )
    return int(rows), int(features), dict(arguments)


def _require_fit(env: Any, shape: tuple[int, int], reader: Any) -> None:
    rows, features = shape
    if reader.features != features:
        raise ContractError(
            f"the policy expects {features} features per candidate, but this version of a2perf has {reader.features}",
            "train again with this version",
        )
    if reader.size > rows:
        raise ContractError(
            f"the policy reads tables of {rows} candidates, but {env.unwrapped.spec.id} has {reader.size}",
            f"train it with tables of at least {reader.size} rows, or on this task",
        )
