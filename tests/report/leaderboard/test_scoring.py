"""An entry's score, what costs it its rank, and what is said of damaged or forged bundles."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest

from a2perf.metrics import protocol
from a2perf.metrics.bootstrap import bootstrap
from a2perf.metrics.submitted import ProtocolRecord, ProtocolScore, SubmittedRun
from a2perf.report.leaderboard import Entry, LeaderboardRecord, write_leaderboard
from a2perf.storage import sha256_of, write_record
from tests.report.leaderboard.made_entries import Field, identity, references


def _record(field: Field, tmp_path: Path) -> LeaderboardRecord:
    return write_leaderboard(field.top, tmp_path / "site", references=references, reports=False).record


def _entries(record: LeaderboardRecord) -> dict[str, Entry]:
    return {row.entry.name: row.entry for board in record.boards for row in board.rows}


def test_the_score_is_the_interquartile_mean_of_normalised_returns(field: Field, tmp_path: Path) -> None:
    levels = [2.0, 8.0, 10.0, 12.0, 30.0]
    for seed, level in enumerate(levels):
        field.evaluate("agent", [level - 1.0, level + 1.0], seed)
    field.evaluate("single", [7.0], 0)
    field.entry("trained", 7.0)
    field.entry("plain", 7.0, task="pace", train=False)
    entries = _entries(_record(field, tmp_path))
    agent, single, plain = (entries[name].score for name in ("agent", "single", "plain"))
    normalised = np.array(levels) / 20.0
    assert agent.per_run == pytest.approx(normalised)
    assert agent.value == pytest.approx(normalised[1:4].mean())  # the best and the worst quarter are left out
    estimate = bootstrap(normalised, repetitions=10_000, method="small")
    assert (agent.low, agent.high) == (pytest.approx(estimate.low), pytest.approx(estimate.high))
    assert (agent.n, agent.normalised, entries["agent"].reference, entries["agent"].not_ranked) == (5, True, "v1", [])
    # one run has no interval; without references the return itself is the score
    assert (single.value, single.low, single.high) == (pytest.approx(0.35), None, None)
    assert (plain.value, plain.normalised) == (pytest.approx(7.0), False)
    page = (tmp_path / "site" / "index.html").read_text()
    assert "Scores are plain returns" in page
    assert "1 run, no interval" in page
    # 0.1 a point: the mean of five points reaches 4.0 at point 42, half a second each; 50 W
    values = entries["trained"].scores["train"]
    assert values["time_to_threshold"].value == pytest.approx(21.0)
    assert values["energy_to_threshold"].value == pytest.approx(50.0 * 21.0 / 3.6e6)


def test_a_failed_changed_or_repeated_run_costs_the_rank_but_not_the_listing(field: Field, tmp_path: Path) -> None:
    field.entry("failed", 7.0, train=False, seeds=2)
    field.fail(field.evaluate("failed", [100.0], 2))
    field.entry("changed", 7.0, train=False)
    rollouts = field.top / "changed-7" / "trot" / "seed_1" / "inference" / "metrics" / "rollouts.json"
    rollouts.write_text(rollouts.read_text().replace("7.0", "9.0"))
    field.entry("twice", 7.0, train=False)
    field.seal(field.evaluate("twice", [9.0], 7), root_seed=0)
    entries = _entries(_record(field, tmp_path))
    assert (entries["failed"].score.n, entries["failed"].score.value) == (2, pytest.approx(6.9 / 20))
    (reason,) = entries["failed"].not_ranked
    assert reason.startswith("1 of 3 runs not finished: failed-6/trot/seed_2/inference: timeout in train: took longer")
    assert entries["changed"].score.n == 2
    assert entries["changed"].not_ranked == [
        "1 of 3 runs invalid: changed-7/trot/seed_1/inference: metrics/rollouts.json was changed after the run"
    ]
    assert entries["twice"].not_ranked == ["two evaluations share a seed"]


def test_bundles_without_a_readable_manifest_are_listed_as_invalid(field: Field, tmp_path: Path) -> None:
    field.entry("agent", 7.0, train=False)
    torn, newer, moved, linked, empty = (field.evaluate(name, [1.0], 0) for name in "abcde")
    (torn / "manifest.json").write_text('{"schema": 1, "a2')
    document = json.loads((newer / "manifest.json").read_text())
    (newer / "manifest.json").write_text(json.dumps({**document, "schema": 99}))
    moved.rename(moved.parent / "train")
    (linked / "manifest.json").rename(linked / "real.json")
    (linked / "manifest.json").symlink_to("real.json")
    (empty / "manifest.json").rename(empty / "config.gin")
    (field.top / "notes").mkdir()
    (field.top / "notes" / "progress.csv").write_text("steps,return\n1,2\n")
    record = _record(field, tmp_path)
    assert list(_entries(record)) == ["agent"]
    reasons = {broken.run[0]: broken.reason for broken in record.invalid}
    assert "is not a valid Manifest record" in reasons["a"]
    assert "schema 99" in reasons["b"]
    assert reasons["c"] == "the manifest is of a run in mode 'inference', its folder is train/"
    assert reasons["d"] == "manifest.json is a symbolic link"
    assert reasons["e"] == "manifest.json is missing"
    assert record.others == ["notes"]
    page = (tmp_path / "site" / "index.html").read_text()
    assert "1 recorded run has no manifest" in page


def _under_protocol(field: Field, seeds: list[int], **changes: object) -> None:
    """Writes an entry with the record of a submission under protocol v1 above it."""
    task = protocol.load("v1").tasks["dog_pace"]
    runs = []
    for seed in seeds:
        path = field.evaluate("agent", [5.0], seed, task="dog_pace", env_fingerprint=task.fingerprint)
        inside = path.relative_to(field.top / "agent-5").as_posix()
        digest = sha256_of(path / "manifest.json")
        runs.append(
            SubmittedRun(
                task="dog_pace",
                seed=seed,
                mode="inference",
                path=inside,
                state="finished",
                manifest_sha256=digest,
            )
        )
    fields = {
        "a2perf_version": "1",
        "protocol": "v1",
        "protocol_sha256": protocol.sha256("v1"),
        "submission": identity("agent"),
        "track": "fixed_samples",
        "asked_track": "fixed_samples",
        "quick": False,
        "complete": True,
        "rankable": True,
        "not_rankable": [],
        "tasks": ["dog_pace"],
        "runs": runs,
        "scores": {},
        "overall": ProtocolScore(),
        "core": False,
        "recorded_at": "",
        "citation": "",
        **changes,
    }
    write_record(field.top / "agent-5" / "protocol.json", ProtocolRecord(**fields))  # type: ignore[arg-type]


def _stored(field: Field, tmp_path: Path) -> Entry:
    found = write_leaderboard(field.top, tmp_path / "site", reports=False)
    return _entries(found.record)["agent"]


def test_terms_of_the_protocol_are_read_and_its_seeds_are_asked_for(field: Field, tmp_path: Path) -> None:
    seeds = protocol.load("v1").tasks["dog_pace"].training_seeds
    _under_protocol(field, seeds)
    whole = _stored(field, tmp_path)
    assert (whole.protocol, whole.track, whole.not_ranked) == ("v1", "fixed samples", [])
    _, *others = seeds
    for seed in others:
        (field.top / "agent-5" / "dog_pace" / f"seed_{seed}").rename(tmp_path / f"away_{seed}")
    short = _stored(field, tmp_path)
    assert short.not_ranked == [f"{len(others)} of the protocol's {len(seeds)} seeds missing"]


def test_a_reduced_budget_is_never_ranked(field: Field, tmp_path: Path) -> None:
    reason = "made with --quick, a reduced protocol"
    _under_protocol(field, [0, 1], quick=True, not_rankable=[reason, "dog_pace/seed_1/inference: missing"])
    assert _stored(field, tmp_path).not_ranked == [reason]


def test_a_protocol_of_another_content_is_another_protocol(field: Field, tmp_path: Path) -> None:
    _under_protocol(field, [0, 1, 2], protocol_sha256="0" * 64)
    found = _stored(field, tmp_path)
    assert (found.protocol, found.reference) == ("v1 of hash 00000000", "")


def test_a_manifest_that_was_swapped_is_invalid(field: Field, tmp_path: Path) -> None:
    _under_protocol(field, protocol.load("v1").tasks["dog_pace"].training_seeds)
    path = next(field.top.glob("agent-5/dog_pace/*/inference"))
    field.seal(path, warnings=["added later"])
    (reason,) = _stored(field, tmp_path).not_ranked
    assert "manifest.json is not the one that protocol.json names" in reason


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_records_made_to_break_the_reader_cost_only_themselves(field: Field, tmp_path: Path) -> None:
    field.entry("honest", 7.0, seeds=2, train=False)
    deep = field.evaluate("deep", [1.0], 0) / "manifest.json"
    deep.write_text(deep.read_text().replace("{", '{"x":' + "[" * 100_000 + "]" * 100_000 + ",", 1))
    (field.evaluate("record", [1.0], 0).parents[2] / "protocol.json").write_text("[" * 100_000)
    field.evaluate("huge", [1e308, 1e308], 0)
    field.seal(field.evaluate("seeds", [1.0], 0), seeds={"episodes": [[1], [1]]})
    name = field.evaluate("bytes", [1.0], 0).parents[2]
    name.rename(Path(os.fsdecode(os.fsencode(field.top) + b"/\xff<x>")))
    record = _record(field, tmp_path)
    entries = _entries(record)
    assert {entry: bool(found.not_ranked) for entry, found in entries.items()} == {
        "honest": False,
        "record": False,
        "bytes": False,
        "huge": True,
        "seeds": True,
    }
    assert "the return 1e+308 of episode 0 is too large" in entries["huge"].not_ranked[0]
    assert "manifest.json: Expected `int`" in entries["seeds"].not_ranked[0]
    assert "<x>/trot" in entries["bytes"].runs[0].run
    assert [broken.run for broken in record.invalid] == ["deep-4/trot/seed_0/inference"]
