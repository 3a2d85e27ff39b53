"""Texts about datasets, as ``a2perf datasets`` prints them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from a2perf.datasets.assembly import DatasetResult
from a2perf.datasets.inspection import sparkline
from a2perf.datasets.skill_levels import LEVELS, SkillLevels, returns_of


def result_text(made: DatasetResult) -> str:
    """Describes a new dataset and its cost."""
    record, cost = made.record, made.record.cost
    lines = [
        f"{record.dataset_id}: {record.episodes} episodes, {record.steps} steps, mean return {record.returns.mean:.4g}"
        + (" (already complete)" if made.already else ""),
        f"  generating: {energy_text(msgspec_dict(cost.generation))}",
        f"  training the policies: {energy_text(msgspec_dict(cost.training))}",
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
        energy = energy_text(msgspec_dict(checkpoint.training_energy))
        lines.append(f"  {checkpoint.mean:>10.4g}{spread:<10} {checkpoint.level or '-':<13} {name}  {energy}")
    lines += [f"! {remark}" for remark in levels.remarks]
    return "\n".join(lines)


def energy_text(energy: Mapping[str, Any]) -> str:
    """Returns an energy with its provenance."""
    if energy.get("kwh") is None:
        return "not known"
    way = energy.get("provenance", "unknown")
    return f"{_kwh(energy['kwh'])} ({'none was needed' if way == 'none' else way})"


def msgspec_dict(record: Any) -> dict[str, Any]:
    """Returns a record as a dict."""
    import msgspec

    found: dict[str, Any] = msgspec.to_builtins(record)
    return found


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
    yield f"                {edges[0]:.4g} |{sparkline(found['return_histogram']['counts'])}| {edges[-1]:.4g}"
    for name in ("observations", "actions"):
        for path, words in found[name].items():
            yield f"  {path:<34} {words}"
    if found["infos"]:
        yield f"  infos         {', '.join(found['infos'])}"
    yield f"  size          {found['file_bytes'] / 1e6:.2f} MB on disk, {found['array_bytes'] / 1e6:.2f} MB in memory"
    for policy in found["policies"]:
        name = policy["submission"] + (f" {policy['checkpoint']}" if policy.get("checkpoint") else "")
        energy = energy_text(policy["training_energy"])
        yield f"  policy        {name}: {policy['episodes']} episodes, training {energy}"
    for source in found["sources"]:
        yield f"  from          {source['dataset_id']}: {source['episodes']} episodes, {source['steps']} steps"
    cost = found["cost"]
    if cost:
        yield f"  generating    {energy_text(cost.get('generation', {}))}"
        yield f"  training      {energy_text(cost.get('training', {}))}"
        yield f"  sample cost   {_kwh(cost.get('per_sample_kwh'))} a step; training sample cost " + _kwh(
            found["training_sample_cost_kwh"]
        )
    if found["content_sha256"]:
        yield f"  content       sha256 {found['content_sha256']}"


def _kwh(value: float | None) -> str:
    return "not known" if value is None else f"{value:.4g} kWh"
