"""A dataset as numbers and as text, without loading its episodes; texts of ``a2perf datasets``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
import numpy as np
from gymnasium import spaces

from a2perf_datasets.assembly import DatasetResult
from a2perf_datasets.frames import histogram
from a2perf_datasets.reader import OfflineDataset
from a2perf_datasets.records import Returns
from a2perf_datasets.skill_levels import LEVELS, SkillLevels, returns_of
from a2perf_datasets.space_json import leaves

_BARS = " ▁▂▃▄▅▆▇█"


def describe(data: OfflineDataset) -> dict[str, Any]:
    """Returns the content of ``a2perf datasets list NAME``.

    Raises:
        UserError: the dataset is damaged.
    """
    lengths = data.lengths
    counts, edges = histogram(data.returns)
    record = data.record
    rows = {"observation": data.step_count + data.episode_count, "action": data.step_count}
    total = 0
    for name, space in (("observation", data.observation_space), ("action", data.action_space)):
        for _, leaf in leaves(space, name):
            total += rows[name] * int(np.prod(leaf.shape or (1,))) * np.dtype(leaf.dtype).itemsize
    known = [kwh for kwh in (record.get("cost") or {}).get("checkpoint_kwh", []) if kwh is not None]
    return {
        "dataset_id": data.id,
        "path": str(data.path),
        "env_id": data.env_id,
        "env_kwargs": data.env_kwargs,
        "task": record.get("task", ""),
        "skill_level": record.get("skill_level", ""),
        "thresholds": record.get("thresholds", {}),
        "episodes": data.episode_count,
        "steps": data.step_count,
        "file_bytes": data.file.stat().st_size,
        "array_bytes": total,
        "lengths": {"min": int(lengths.min()), "mean": float(lengths.mean()), "max": int(lengths.max())},
        "returns": msgspec.to_builtins(Returns.of(data.returns)),
        "return_histogram": {"counts": counts.tolist(), "edges": edges.tolist()},
        "observations": _spaces(data.observation_space, "observation"),
        "actions": _spaces(data.action_space, "action"),
        "infos": record.get("infos", []),
        "policies": record.get("policies", []),
        "sources": record.get("sources", []),
        "cost": record.get("cost", {}),
        "training_sample_cost_kwh": sum(known) / len(known) if known else None,
        "content_sha256": data.content_sha256,
        "combined": data.metadata.get("combined_datasets", []),
    }


def result_text(made: DatasetResult) -> str:
    """Describes a new dataset and its cost."""
    record, cost = made.record, made.record.cost
    lines = [
        f"{record.dataset_id}: {record.episodes} episodes, {record.steps} steps, mean return {record.returns.mean:.4g}"
        + (" (already complete)" if made.already else ""),
        f"  generating: {_energy_text(msgspec.to_builtins(cost.generation))}",
        f"  training the policies: {_energy_text(msgspec.to_builtins(cost.training))}",
        f"  a sample: {_kwh(cost.per_sample_kwh)}",
        f"  {made.folder}",
    ]
    return "\n".join(lines)


def describe_text(found: Mapping[str, Any]) -> str:
    """Describes the content of a dataset."""
    return "\n".join(_described(found))


def levels_text(levels: SkillLevels) -> str:
    """Describes the levels and their checkpoints."""
    lines = [f"{len(levels.checkpoints)} checkpoints of {levels.task}, {levels.measure} return, rule {levels.rule}"]
    for level in LEVELS:
        lines.append(f"  {level:<13} {levels.counts[level]:>4}   {returns_of(levels.bounds, level)}")
    lines.append(f"  {'discarded':<13} {levels.counts['discarded']:>4}")
    for checkpoint in sorted(levels.checkpoints, key=lambda entry: entry.mean):
        spread = "" if checkpoint.std is None else f" ± {checkpoint.std:.3g}"
        name = f"{checkpoint.training_name}/{checkpoint.path or 'final policy'}"
        energy = _energy_text(msgspec.to_builtins(checkpoint.training_energy))
        lines.append(f"  {checkpoint.mean:>10.4g}{spread:<10} {checkpoint.level or '-':<13} {name}  {energy}")
    lines += [f"! {remark}" for remark in levels.remarks]
    return "\n".join(lines)


def _spaces(space: Any, name: str) -> dict[str, str]:
    return {
        path: f"{leaf.dtype} {leaf.shape}" if isinstance(leaf, spaces.Box) else str(leaf)
        for path, leaf in leaves(space, name)
    }


def _described(found: Mapping[str, Any]) -> Iterator[str]:
    yield f"{found['dataset_id']}" + (f"  ({found['skill_level']})" if found["skill_level"] else "")
    yield f"  environment   {found['env_id']} {found['env_kwargs'] or ''}".rstrip()
    lengths, returns = found["lengths"], found["returns"]
    yield f"  episodes      {found['episodes']}, {found['steps']} steps ({lengths['min']} to {lengths['max']} each)"
    spread = "" if returns["std"] is None else f" ± {returns['std']:.4g}"
    yield (
        f"  return        {returns['mean']:.4g}{spread}, {returns['min']:.4g} to {returns['max']:.4g}, "
        f"median {returns['median']:.4g}"
    )
    edges = found["return_histogram"]["edges"]
    counts = found["return_histogram"]["counts"]
    bars = "".join(_BARS[0 if not count else 1 + (count * (len(_BARS) - 2)) // max(counts)] for count in counts)
    yield f"                {edges[0]:.4g} |{bars}| {edges[-1]:.4g}"
    for name in ("observations", "actions"):
        for path, words in found[name].items():
            yield f"  {path:<34} {words}"
    if found["infos"]:
        yield f"  infos         {', '.join(found['infos'])}"
    yield f"  size          {found['file_bytes'] / 1e6:.2f} MB on disk, {found['array_bytes'] / 1e6:.2f} MB in memory"
    for policy in found["policies"]:
        name = policy["submission"] + (f" {policy['checkpoint']}" if policy.get("checkpoint") else "")
        energy = _energy_text(policy["training_energy"])
        yield f"  policy        {name}: {policy['episodes']} episodes, training {energy}"
    for source in found["sources"]:
        yield f"  from          {source['dataset_id']}: {source['episodes']} episodes, {source['steps']} steps"
    cost = found["cost"]
    if cost:
        yield f"  generating    {_energy_text(cost.get('generation', {}))}"
        yield f"  training      {_energy_text(cost.get('training', {}))}"
        yield f"  sample cost   {_kwh(cost.get('per_sample_kwh'))} a step; training sample cost " + _kwh(
            found["training_sample_cost_kwh"]
        )
    if found["content_sha256"]:
        yield f"  content       sha256 {found['content_sha256']}"


def _energy_text(energy: Mapping[str, Any]) -> str:
    """Returns an energy with its provenance."""
    if energy.get("kwh") is None:
        return "not known"
    way = energy.get("provenance", "unknown")
    return f"{_kwh(energy['kwh'])} ({'none was needed' if way == 'none' else way})"


def _kwh(value: float | None) -> str:
    return "not known" if value is None else f"{value:.4g} kWh"
