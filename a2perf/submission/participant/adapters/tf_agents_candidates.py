"""A policy of TF-Agents that chooses rows of tables of candidates (`a2perf.domains.candidates`), as a submission.

    from a2perf.submission.participant.adapters import tf_agents_candidates

    load_policy, preprocess_observation, infer_once = tf_agents_candidates.contract("policies")

The training writes ``candidates.json`` with ``record_candidates`` beside its policies: the domain, and the rows and
features of the tables. One policy serves all tasks of its domain whose candidates fit into its tables.
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
    """Writes down, in a training run, which tables its policy reads.

    Args:
        folder: the training run's artifacts.
        env_id: the environment.
        rows: of a table.
        features: its columns.
        arguments: of the domain's reader.

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
        folder: what holds the policies, relative to ``ROOT_DIR`` or else to the submission.
        policy_name: the SavedModel in it.
    """
    from a2perf.domains.candidates import CandidateChoice

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
            f"the policy was trained on {domain}, and {spec.id} is of {here}", "give artifacts trained on it"
        )
    return int(rows), int(features), dict(arguments)


def _require_fit(env: Any, shape: tuple[int, int], reader: Any) -> None:
    rows, features = shape
    if reader.features != features:
        raise ContractError(
            f"the policy reads {features} features of a candidate, and this version of a2perf shows {reader.features}",
            "train again with this version",
        )
    if reader.size > rows:
        raise ContractError(
            f"the policy reads tables of {rows} candidates, and {env.unwrapped.spec.id} has {reader.size}",
            f"train it with tables of at least {reader.size} rows, or on this task",
        )
