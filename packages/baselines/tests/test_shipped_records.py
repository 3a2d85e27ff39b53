"""The records of the baselines: they name the present files, and play their recorded episodes again."""

from __future__ import annotations

from pathlib import Path

import pytest

import a2perf
from tests.launch.test_shipped_results import OF_THE_CORE, PACKED, changed_files

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
OWN = sorted(set(PACKED) - set(OF_THE_CORE))


def test_every_recorded_submission_has_a_folder() -> None:
    assert {path.stem.partition("-")[0] for path in OWN} <= {path.name for path in EXAMPLES.iterdir()}


@pytest.mark.parametrize("packed", OWN, ids=lambda packed: packed.stem)
def test_a_record_that_can_be_repeated_names_the_present_files_of_its_submission(packed: Path, tmp_path: Path) -> None:
    """`python results/record.py --confirm NAME` renews a record whose submission has changed."""
    missing = changed_files(packed, EXAMPLES, tmp_path)
    if packed.stem.startswith("mujoco_ppo"):  # its training has changed since
        assert all("are different" in reason for reason in missing)
    else:
        assert missing == []


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
