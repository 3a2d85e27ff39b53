"""Summary of a dataset as numbers and as a plot, without loading its episodes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from a2perf.datasets.reader import Dataset
from a2perf.datasets.records import Returns
from a2perf.datasets.space_json import leaves
from a2perf.plain_text import terminal_line

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_BINS = 24
_BARS = " ▁▂▃▄▅▆▇█"


def describe(data: Dataset) -> dict[str, Any]:
    """Returns the content of ``a2perf datasets inspect``.

    Raises:
        UserError: the dataset is damaged.
    """
    returns, lengths = data.returns, data.lengths
    counts, edges = np.histogram(returns, bins=min(_BINS, max(1, len(returns))))
    record = data.record
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
        "array_bytes": _array_bytes(data),
        "lengths": {"min": int(lengths.min()), "mean": float(lengths.mean()), "max": int(lengths.max())},
        "returns": _returns(data),
        "return_histogram": {"counts": counts.tolist(), "edges": edges.tolist()},
        "observations": _spaces(data.observation_space, "observation"),
        "actions": _spaces(data.action_space, "action"),
        "infos": record.get("infos", []),
        "policies": record.get("policies", []),
        "sources": record.get("sources", []),
        "cost": record.get("cost", {}),
        "training_sample_cost_kwh": _sample_cost(record),
        "content_sha256": data.content_sha256,
        "combined": data.metadata.get("combined_datasets", []),
    }


def sparkline(counts: list[int]) -> str:
    """Returns a histogram as one line of text."""
    top = max(max(counts), 1)
    return "".join(_BARS[0 if not count else 1 + (count * (len(_BARS) - 2)) // top] for count in counts)


def draw(data: Dataset, target: Path) -> None:
    """Draws the distribution of the episode returns into a file.

    Args:
        target: an SVG, PNG or PDF file.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    return_figure(data).savefig(target, dpi=150)


def return_figure(data: Dataset) -> Figure:
    """Returns the distribution of the episode returns as a figure."""
    from matplotlib.figure import Figure

    returns = data.returns
    figure = Figure(figsize=(5.0, 2.6), layout="constrained")
    axes = figure.add_subplot()
    axes.hist(returns, bins=min(_BINS, max(1, len(returns))), color="#3b6ea5")
    axes.axvline(float(returns.mean()), color="#222222", linewidth=1)
    axes.set_xlabel("episode return (line: mean)")
    axes.set_ylabel("episodes")
    axes.locator_params(axis="y", integer=True)
    title = f"{terminal_line(data.id, most=200)}\n{len(returns)} episodes, {data.step_count} steps"
    axes.set_title(title, fontsize=9, loc="left", parse_math=False)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    return figure


def _returns(data: Dataset) -> dict[str, float | None]:
    import msgspec

    found: dict[str, float | None] = msgspec.to_builtins(Returns.of(data.returns))
    return found


def _spaces(space: Any, name: str) -> dict[str, str]:
    from gymnasium import spaces

    return {
        path: f"{leaf.dtype} {leaf.shape}" if isinstance(leaf, spaces.Box) else str(leaf)
        for path, leaf in leaves(space, name)
    }


def _array_bytes(data: Dataset) -> int:
    """Returns the uncompressed size of all observations and actions, in bytes."""
    rows = {"observation": data.step_count + data.episode_count, "action": data.step_count}
    total = 0
    for name, space in (("observation", data.observation_space), ("action", data.action_space)):
        for _, leaf in leaves(space, name):
            total += rows[name] * int(np.prod(leaf.shape or (1,))) * np.dtype(leaf.dtype).itemsize
    return total


def _sample_cost(record: dict[str, Any]) -> float | None:
    known = [kwh for kwh in (record.get("cost") or {}).get("checkpoint_kwh", []) if kwh is not None]
    return sum(known) / len(known) if known else None
