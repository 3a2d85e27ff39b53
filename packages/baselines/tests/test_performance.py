"""The performance tests of the learned baselines, conducted as `perftest run` does."""

from __future__ import annotations

from pathlib import Path

import pytest

from a2perf.experiments.performance_test.configuration import find_tests, read_test
from tests.rlops.perftest.test_own_examples import passes

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
LEARNERS = {  # with what they need
    "QuadrupedLocomotion/sb3_ppo-test": ("sb3", "clips"),
    "QuadrupedLocomotion/tf_agents_bc-test": ("tf_agents", "clips"),
    "WebNavigation/tf_agents_bc-test": ("tf_agents",),
    "CircuitTraining/tf_agents_ddqn-test": ("tf_agents",),
}


@pytest.mark.parametrize("name", LEARNERS)
def test_they_can_be_read_from_any_folder(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    conf = repository / "compatibility" / "conf" / "performance"
    (path,) = find_tests([name], conf=conf)
    test = read_test(path, conf=conf)
    assert test.notices == ()
    assert test.submission == repository / "packages" / "baselines" / "examples" / name.partition("/")[2].removesuffix(
        "-test"
    )


@pytest.mark.slow
@pytest.mark.timeout(3 * 3600)
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.group(*groups)) for name, groups in LEARNERS.items()]
)
def test_learners_learn(repository: Path, tmp_path: Path, name: str):
    passes(repository, tmp_path, name)
