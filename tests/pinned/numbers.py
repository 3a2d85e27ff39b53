"""Numbers over the shipped results: scores, the report's tables, the leaderboard, comparisons of groups."""

from __future__ import annotations

import contextlib
import csv
import json
from pathlib import Path
from typing import Any

import a2perf
from tests.commands import call_a2perf
from tests.pinned.condense import signature
from tests.shipped_runs import PARTS, copy_parts


def _measure(score: dict[str, Any]) -> list[Any]:
    """Value, number of runs, and what every other number of the score adds up to."""
    others = {key: score.get(key) for key in ("interval", "spread", "per_run")}
    return [score["value"], score["n"], signature(others)]


def scores(folder: Path) -> dict[str, Any]:
    """Every score of every group, what each measure is, and where each run stands."""
    groups, measures = {}, {}
    for part in (None, "learning"):
        source = copy_parts(folder / f"parts_{part}", PARTS if part is None else [part])
        profile = "corrected" if part is None else "a2perf"
        document = call_a2perf("score", source, "-o", folder / profile, "--profile", profile, "--json").json()
        assert document == json.loads((folder / profile / "scores.json").read_text())
        for group in document["groups"]:
            label = f"{profile} {group['runs'][0]}"
            groups[label] = {
                "measures": {name: _measure(score) for name, score in group["scores"].items()},
                "seeds": group["seeds"],
                "identity": [group["algorithm"], group["task"], group["version"][:8], str(group["fingerprint"])[:8]],
            }
            for name, score in group["scores"].items():
                known = measures.setdefault(f"{profile} {name}", set())
                known.add(f"{score['unit']}|{score['direction']}|{score['provenance']}|{score['method']}")
        if part is None:
            runs = {
                run["run"]: [run["layout"], run["state"], run["seed"], len(run["conditions"])]
                for run in document["runs"]
            }
            keys = {key: sorted(document[key][0]) for key in ("groups", "runs")}
    counted: dict[str, int] = {}
    for entry in runs.values():
        counted[json.dumps(entry[:2])] = counted.get(json.dumps(entry[:2]), 0) + 1
    return {
        "groups": groups,
        "measures": {name: sorted(known) for name, known in measures.items()},
        "runs": {
            "count": counted,
            "conditions": sum(entry[3] for entry in runs.values()),
            "labels": sorted(runs)[::30],
        },
        "keys": keys | {"document": sorted(document)},
    }


def report(folder: Path) -> dict[str, Any]:
    """The numbers of the report of the learning curves: JSON, CSV, and the names of its files."""
    source = copy_parts(folder / "runs", ["learning"])
    document = call_a2perf("report", source, "-o", folder / "report", "--json").json()
    assert document == json.loads((folder / "report" / "report.json").read_text())
    rows: dict[str, Any] = {}
    with (folder / "report" / "tables.csv").open(newline="") as stream:
        reader = csv.DictReader(stream)
        columns = reader.fieldnames
        for row in reader:
            value = float(row["value"]) if row["value"] else None
            if row["level"] == "run":
                label = f"run {row['run'] or row['submission']} {row['seed']} {row['mode']}"
                rows.setdefault(label, []).append(value)
            else:
                rest = [float(row[name]) for name in ("spread", "low", "high") if row[name]]
                label = " ".join((row["level"], row["submission"], row["mode"], row["task"], row["measure"]))
                rows[label] = [value, row["n"], signature(rest)]
    return {
        "columns": columns,
        "rows": {
            label: [len(entry), signature(entry)] if label.startswith("run ") else entry
            for label, entry in rows.items()
        },
        "files": sorted(
            path.relative_to(folder / "report").as_posix() for path in (folder / "report").rglob("*") if path.is_file()
        ),
        "keys": {"document": sorted(document), "run": sorted(document["runs"][0])},
        "runs": {
            f"{run['submission']} {run['mode']} {run['root_seed']}": [
                run["state"],
                run["layout"],
                len(run["measures"]),
                signature(run["measures"]),
                len(run["conditions"]),
            ]
            for run in document["runs"]
        },
    }


def leaderboard(folder: Path) -> dict[str, Any]:
    """Boards, places and scores of two parts of the shipped results."""
    source = copy_parts(folder / "runs", ["learning", "quadruped_locomotion", "circuit_training"])
    document = call_a2perf("leaderboard", source, "-o", folder / "site", "--no-reports", "--json").json()
    boards: dict[str, Any] = {}
    for board in document["boards"]:
        rows = boards.setdefault(f"{board['task']} {board['track']} {board['protocol']} {board['provenance']}", [])
        for row in board["rows"]:
            entry = row["entry"]
            score = entry["score"]
            rows.append(
                [
                    row["place"],
                    row["best"],
                    row["worst"],
                    entry["name"],
                    score["value"],
                    score["low"],
                    score["high"],
                    score["n"],
                    score["normalised"],
                    signature(score["per_run"]),
                    len(entry["runs"]),
                    len(entry["not_ranked"]),
                    signature(entry["scores"]),
                ]
            )
    entry = document["boards"][0]["rows"][0]["entry"]
    return {
        "boards": {
            label: {f"{place}": row for place, row in enumerate(rows)} for label, rows in sorted(boards.items())
        },
        "keys": {
            "document": sorted(document),
            "board": sorted(document["boards"][0]),
            "entry": sorted(entry),
            "run": sorted(entry["runs"][0]),
        },
        "numbers": {key: signature(document[key]) for key in ("overall", "others", "invalid")},
        "counts": {key: len(document[key]) for key in ("overall", "others", "invalid", "boards")},
    }


_COMPARISONS = {
    "test episodes": ("inference", ("numpy_ars", "motion_imitation", "minimal"), ("dog_pace", "dog_trot")),
    "learning curves": ("train", ("sb3_ppo", "numpy_ars"), ("dog_pace",)),
}


def comparisons(folder: Path) -> dict[str, Any]:
    """Verdicts and intervals of groups of recorded runs."""
    found = {}
    store = copy_parts(folder / "runs", ["small"])
    for name, (mode, groups, tasks) in _COMPARISONS.items():
        stem = folder / "compared" / name.replace(" ", "_")
        with contextlib.chdir(folder):
            compared = a2perf.compare(
                store / "small" if (store / "small").is_dir() else store,
                baseline=groups[-1],
                candidate=list(groups[:-1]),
                mode=mode,
                tasks=tasks,
            )
            compared.write(stem, figures=False, page=False)
        document = json.loads(stem.with_suffix(".json").read_text())
        found[name] = {
            "keys": sorted(document),
            "verdict": document["verdict"],
            "baseline": document["baseline"],
            "candidates": {
                f"{one['group']} {panel['panel']}": [
                    *(panel[key] for key in ("difference", "low", "high", "p_regression", "candidate_n", "baseline_n")),
                    signature(panel),
                ]
                for one in document["candidates"]
                for panel in one["panels"]
            },
            "runs": {
                f"{group} {run['run']} {index}": [
                    run[key] for key in ("score", "seed", "version", "wall_s", "energy_kwh")
                ]
                for index, panel in enumerate(document["panels"])
                for group, members in panel["groups"].items()
                for run in members["runs"]
            },
            "panels": [signature(document["panels"])],
            "notices": len(document["notices"]),
            "files": sorted(path.name for path in stem.parent.glob(f"{stem.name}*")),
        }
    return found
