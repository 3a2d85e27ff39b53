"""A training ends at its energy budget; what it had written by then is its result."""

from __future__ import annotations

BUSY = """
def train():
    import os
    {write}
    total = 0
    while True:
        total += 1
"""
WRITE = "open(os.environ['A2PERF_ARTIFACTS'] + '/weights', 'w').write('1')"
LIMIT_KWH = 3e-7  # about a joule: a busy processor uses it within seconds
LIMIT = ("--gin_bindings", f"Submission.train_energy_limit_kwh = {LIMIT_KWH}")


def test_training_is_ended_at_its_energy_budget_and_keeps_what_it_wrote(submission, launch, tmp_path) -> None:
    outcome = launch(submission("busy", train=BUSY.format(write=WRITE)), "training.gin", *LIMIT, root=tmp_path / "kept")
    assert outcome.status == 0, outcome.output
    manifest = outcome.manifest("train")
    assert manifest["exit_reason"] == "energy limit"
    # the account is made once per sampling interval, here a second of at most a few hundred watts
    assert LIMIT_KWH <= manifest["tracking"]["energy"]["net_kwh"] < LIMIT_KWH + 300 * 3 / 3.6e6


def test_training_that_used_up_its_energy_for_nothing_has_failed(submission, launch, tmp_path) -> None:
    outcome = launch(submission("idle", train=BUSY.format(write="pass")), "training.gin", *LIMIT, root=tmp_path / "no")
    assert outcome.status == 1
    failure = outcome.manifest("train")["failure"]
    assert failure["kind"] == "timeout"
    assert "reached its limit of 3e-07 kWh" in failure["message"]


def test_training_within_its_energy_budget_returns(submission, launch) -> None:
    outcome = launch(submission(), "training.gin", "--gin_bindings", "Submission.train_energy_limit_kwh = 1.0")
    assert outcome.status == 0, outcome.output
    assert outcome.manifest("train")["exit_reason"] == "returned"
