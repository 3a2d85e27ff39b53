"""A record of the baselines: its policy plays the recorded episodes again."""

from __future__ import annotations

from pathlib import Path

import a2perf


def test_a_shipped_policy_plays_its_recorded_episodes_again(tmp_path: Path) -> None:
    repository = Path(__file__).resolve().parents[3]
    found = a2perf.reproduce(
        repository / "results" / "recorded" / "small" / "torch_ppo_web.zip",
        tmp_path,
        submissions=[repository / "packages" / "baselines" / "examples"],
        allow_changed=True,  # a later change of its text is no other policy
        entry="torch_ppo_web:difficulty_level_1_num_websites_10",
        sample=1,
        progress=False,
    )
    (record,) = found.verdicts
    assert (record.verdict, record.method, record.equal_episodes) == ("CONFIRMED", "bit-equal", 100)
