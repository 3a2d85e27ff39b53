"""The part of Croissant metadata about responsible AI, from the record of a dataset.

Vocabulary: https://docs.mlcommons.org/croissant/docs/croissant-rai-spec.html. What was not recorded is stated as such.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from a2perf.datasets.plan import RANDOM
from a2perf.datasets.reader import Dataset
from a2perf.domains.registry import domains
from a2perf.plain_text import plain_text
from a2perf.report.numbers_text import rounded
from a2perf.report.score_tables import ESTIMATED_MARK
from a2perf.report.tables import ESTIMATED

_NOT_RECORDED = "Not recorded: the dataset was not made by a2perf."


def responsible_ai(data: Dataset) -> dict[str, Any]:
    """Returns the fields ``rai:...`` of a dataset.

    Args:
        data: the dataset; the record of a2perf is optional.
    """
    record = data.record
    found: dict[str, Any] = {
        "rai:dataCollection": _collection(data) if record else _NOT_RECORDED,
        "rai:dataCollectionType": ["Software Collection", "Experiments"],
        "rai:dataCollectionTimeframe": record.get("made_at"),
        "rai:dataCollectionMissingData": "None. Every step of every collected episode is stored." if record else None,
        "rai:dataCollectionRawData": _raw_data(data),
        "rai:dataPreprocessingProtocol": _preprocessing(record) if record else None,
        "rai:dataAnnotationProtocol": [
            "Rewards and ends of episodes come from the environment. Nobody annotated data."
        ],
        "rai:dataBiases": _biases(record),
        "rai:dataLimitations": _limitations(record),
        "rai:dataUseCases": ["Offline reinforcement learning", "Imitation learning", "Off-policy evaluation"],
        "rai:dataSocialImpact": _impact(record),
        "rai:personalSensitiveInformation": ["None. All values are outputs of a simulated environment and of policies."]
        if record
        else ["Not recorded."],
        "rai:dataReleaseMaintenancePlan": "A version never changes: a correction gets the next version number. "
        "`a2perf datasets validate` checks the files against their recorded hashes.",
    }
    return {name: value for name, value in found.items() if value is not None}


def _collection(data: Dataset) -> str:
    record = data.record
    seed = (
        "" if record.get("seed") is None else f" Every episode has a seed derived from the root seed {record['seed']}."
    )
    sources = [
        f"{plain_text(str(source.get('dataset_id')))} ({source.get('episodes')} episodes)"
        for source in record.get("sources") or []
    ]
    arguments = plain_text(json.dumps(data.env_kwargs, sort_keys=True)) if data.env_kwargs else "none"
    fingerprint = record.get("env_fingerprint")
    sandbox = record.get("sandbox") or {}
    return " ".join(
        part
        for part in (
            f"a2perf {plain_text(str(record.get('a2perf_version')))} ran {_policies(record)} in the environment "
            f"{plain_text(data.env_id)} (arguments: {arguments}).",
            "The evaluator owned the environment, the seeds and the rewards; policies only chose actions.",
            f"Policies were confined by the sandbox {plain_text(str(sandbox['level']))}."
            if sandbox.get("level")
            else "",
            f"Combined from {', '.join(sources)}." if sources else "",
            seed.strip(),
            f"Fingerprint of the environment's behaviour: {plain_text(str(fingerprint))}." if fingerprint else "",
            f"Energy of collecting the episodes: {_energy((record.get('cost') or {}).get('generation') or {})}.",
        )
        if part
    )


def _policies(record: Mapping[str, Any]) -> str:
    found = []
    for policy in record.get("policies") or []:
        name = plain_text(str(policy.get("submission")))
        checkpoint = policy.get("checkpoint_number")
        parts = [f"{policy.get('episodes')} episodes"]
        parts += [f"checkpoint {checkpoint}"] if checkpoint is not None else []
        parts += [f"files {str(policy['submission_sha256'])[:16]}"] if policy.get("submission_sha256") else []
        what = "uniformly random actions" if name == RANDOM else f"the policy {name}"
        found.append(f"{what} ({', '.join(parts)})")
    return "; ".join(found) or "a policy that is not recorded"


def _raw_data(data: Dataset) -> str | None:
    """Returns the data files that the environment needs, with their terms; None without any."""
    terms = {
        asset.name: asset.licence
        for domain in domains().values()
        for environment in domain.environments
        if environment.id == data.env_id
        for asset in domain.assets
        if asset.name in environment.assets
    }
    if not terms:
        return None
    return "The environment reads these files: " + "; ".join(f"{name} ({licence})" for name, licence in terms.items())


def _preprocessing(record: Mapping[str, Any]) -> list[str]:
    noise = record.get("action_noise") or 0.0
    if not noise:
        return ["None. Observations, actions and rewards are stored as the environment and the policies gave them."]
    return [
        f"Actions were disturbed with noise {noise:g} before they were executed. The executed actions are stored as "
        "actions, and those of the policy as infos.policy_action."
    ]


def _biases(record: Mapping[str, Any]) -> list[str]:
    level = record.get("skill_level")
    found = ["The states are those that these policies visit. States that they avoid are rare or missing."]
    if level:
        found.append(f"The policies were selected for the skill level {plain_text(str(level))}.")
    returns = record.get("returns") or {}
    if returns.get("min") is not None:
        found.append(
            f"Episode returns are {returns['min']:.4g} to {returns['max']:.4g} (mean {returns['mean']:.4g}); "
            "a learned policy is rarely much better than the best of them."
        )
    return found


def _limitations(record: Mapping[str, Any]) -> list[str]:
    found = ["All data is simulated. Nothing shows how a policy behaves outside of the simulation."]
    cost = record.get("cost") or {}
    energies = [cost.get("generation") or {}, cost.get("training") or {}]
    if any(energy.get("kwh") is None for energy in energies):
        found.append("The energy of training or of collection is not known.")
    if any(energy.get("provenance") in ESTIMATED for energy in energies):
        found.append("Energies are estimates of a model, not measurements.")
    return found


def _impact(record: Mapping[str, Any]) -> str:
    cost = record.get("cost") or {}
    return (
        f"Energy of training the policies: {_energy(cost.get('training') or {})}. "
        f"Energy of collecting the episodes: {_energy(cost.get('generation') or {})}. "
        "Reuse of the dataset saves both."
    )


def _energy(energy: Mapping[str, Any]) -> str:
    """Returns an energy of a record with its provenance; estimates have the mark ≈."""
    if energy.get("kwh") is None:
        return "not known"
    number = rounded(float(energy["kwh"]), "kWh")
    provenance = plain_text(str(energy.get("provenance") or "unknown"))
    mark = f"{ESTIMATED_MARK} " if provenance in ESTIMATED else ""
    method = plain_text(str(energy.get("method") or ""))
    return f"{mark}{number.value} {number.unit} ({provenance}{', ' + method if method else ''})"
