"""Configurations of performance tests in both languages, and what is wrong with bad ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from a2perf.errors import ConfigError
from a2perf.experiments.performance_test.configuration import find_tests, is_test, read_test

DOCUMENT = Path("conf/performance/FetchReach/sac_her-test.yaml")
GOOD = """
env: 'E-v1'
defaults: [override /algorithm: sac]
performance_testing_conditions:
  total_runs: 3
  succ_runs: 2
  eval_columns: eval/success_rate
  eval_value: 0.9
  max_steps: 10_000
"""


def test_the_test_of_the_document(repository: Path):
    conf = repository / "compatibility" / "conf" / "performance"
    (path,) = find_tests(["FetchReach/sac_her-test"], conf=conf)
    test = read_test(path, conf=conf)
    assert (test.name, test.env, test.study_name) == (
        "FetchReach/sac_her-test",
        "FetchReach-v2",
        "sac_her_FetchReach-test",
    )
    assert (test.condition.total_runs, test.condition.succ_runs, test.condition.max_steps) == (3, 2, 10_000)
    assert (test.condition.columns, test.condition.values) == (("eval/success_rate",), (0.9,))
    assert (test.n_jobs, test.seeds, test.max_duration_minutes) == (3, (0, 1, 2), 10_080)
    assert test.notices == ()
    training = test.training
    assert training is not None
    assert (training.algorithm, training.n_epochs, training.eval_after_n_steps) == ("sac", 5, 2000)
    assert training.parameters["policy_kwargs"] == {"n_critics": 1, "net_arch": [256, 256, 256]}
    # the early stop follows the condition
    assert (training.early_stop_column, training.early_stop_threshold) == ("eval/success_rate", 0.9)


def write(tmp_path: Path, text: str, name: str = "x.yaml") -> Path:
    path = tmp_path / name
    path.write_text(text)
    return path


def test_numbers_as_people_write_them_and_seeds_of_their_own(tmp_path: Path):
    text = (
        GOOD + "  base_seed: 40\nalgorithm: {learning_rate: 1e-3, gamma: .96, policy: MlpPolicy}\nseed: 3\nextra: 1\n"
    )
    test = read_test(write(tmp_path, text))
    assert test.training is not None
    assert test.training.parameters == {"learning_rate": 0.001, "gamma": 0.96, "policy": "MlpPolicy"}
    assert test.seeds == (40, 41, 42)
    assert test.notices == ("extra is not known and was left out",)


def test_lists_of_columns(tmp_path: Path):
    text = GOOD.replace("eval_columns: eval/success_rate", "eval_columns: [a, b]")
    assert read_test(write(tmp_path, text)).condition.values == (0.9, 0.9)
    text = text.replace("eval_value: 0.9", "eval_value: [0.9, -3]")
    assert read_test(write(tmp_path, text)).condition.values == (0.9, -3.0)


@pytest.mark.parametrize(
    ("changed", "to", "words"),
    [
        ("max_steps: 10_000", "max_steps: 1999", r"max_steps = 1999 is less than one evaluation"),
        ("succ_runs: 2", "succ_runs: 4", "can never be met"),
        ("total_runs: 3", "total_runs: three", "total_runs = 'three' is not a whole number"),
        ("max_steps: 10_000", "max_steps: [1]", r"max_steps = \[1\] is not a whole number"),
        ("eval_value: 0.9", "eval_value: high", "eval_value = 'high' is not a number"),
        ("total_runs: 3", "total_runs: 3\n  seeds: [1, 2, x]", "seeds = 'x' is not a whole number"),
        ("eval_value: 0.9", "eval_valu: 0.9", "eval_valu is not known; did you mean 'eval_value'"),
        ("  eval_value: 0.9\n", "", "eval_value is missing"),
        ("env: 'E-v1'", "", "env is missing"),
        ("defaults: [override /algorithm: sac]", "", "no algorithm is chosen"),
        ("performance_testing_conditions:", "conditions:", "no block performance_testing_conditions"),
        ("total_runs: 3", "total_runs: 3\n  on_crash: ignore", "on_crash = 'ignore'"),
        ("total_runs: 3", "total_runs: 3\n  seeds: [1, 1, 2]", "2 different seeds for 3 runs"),
        ("env: 'E-v1'", "env: ['E-v1'", r"x\.yaml:\d+: not a YAML file"),
        ("env: 'E-v1'", "env: 'E-v1'\ncommand: a\nsubmission: b", "command and submission are both given"),
    ],
)
def test_what_is_wrong_is_said_with_the_file(tmp_path: Path, changed: str, to: str, words: str):
    assert changed in GOOD
    with pytest.raises(ConfigError, match=words) as caught:
        read_test(write(tmp_path, GOOD.replace(changed, to)))
    assert "x.yaml" in caught.value.message
    assert int(caught.value.exit_code) == 2


def test_tests_are_found_by_name_path_and_glob(tmp_path: Path):
    for name in ("A/one-test.yaml", "A/two-test.yml", "B/three-test.yaml"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        write(tmp_path, GOOD, name)

    def names(*given: str) -> list[str]:
        return [path.relative_to(tmp_path).as_posix() for path in find_tests(given, conf=tmp_path)]

    assert names("A/one-test") == ["A/one-test.yaml"]
    assert names("A/*") == ["A/one-test.yaml", "A/two-test.yml"]
    assert names("B/three-test", "*/*") == ["B/three-test.yaml", "A/one-test.yaml", "A/two-test.yml"]
    assert find_tests([str(tmp_path / "A" / "two-test.yml")], conf=tmp_path) == [tmp_path / "A" / "two-test.yml"]
    with pytest.raises(ConfigError, match="did you mean 'A/one-test'"):
        names("A/on-test")


SCILAB = """
defaults:
  - override /algorithm: {}
env: CartPole-v1
algorithm: {{gamma: 0.96, policy_kwargs: {{n_critics: 1}}}}
performance_testing_conditions: {{total_runs: 1, succ_runs: 1, eval_columns: eval/mean_reward, eval_value: 1}}
"""


def _scilab(tmp_path: Path, algorithm: str) -> Path:
    conf = tmp_path / "conf" / "performance"
    conf.mkdir(parents=True)
    (conf.parent / "algorithm").mkdir()
    (conf / "a-test.yaml").write_text(SCILAB.format(algorithm))
    return conf


@pytest.mark.parametrize("is_nested", [False, True])
def test_the_defaults_of_an_algorithm_lie_below_what_a_test_gives(tmp_path: Path, is_nested: bool):
    conf = _scilab(tmp_path, "sac")
    keys = "name: sac\ngamma: 0.9\ntau: 0.01\npolicy_kwargs:\n  net_arch: [8]\n"
    if is_nested:
        keys = "# @package _global_\nalgorithm:\n" + "".join(f"  {line}\n" for line in keys.splitlines())
    (conf.parent / "algorithm" / "sac.yaml").write_text(keys)
    training = read_test(conf / "a-test.yaml", conf=conf).training
    assert training is not None
    assert training.algorithm == "sac"
    assert training.parameters == {"gamma": 0.96, "tau": 0.01, "policy_kwargs": {"n_critics": 1, "net_arch": [8]}}


@pytest.mark.parametrize("defaults", [None, "name: cleanppo\n"])
def test_an_algorithm_of_another_project_is_refused_and_not_exchanged(tmp_path: Path, defaults: str | None):
    conf = _scilab(tmp_path, "cleanppo" if defaults is None else "ppo")
    if defaults is not None:
        (conf.parent / "algorithm" / "ppo.yaml").write_text(defaults)
    with pytest.raises(ConfigError, match="'cleanppo' is an implementation of Scilab-RL"):
        read_test(conf / "a-test.yaml", conf=conf)


def test_a_search_for_parameters_is_not_a_test(tmp_path: Path):
    conf = _scilab(tmp_path, "sac")
    (conf / "sac-opti.yaml").write_text("env: CartPole-v1\n")
    (conf / "own.yaml").write_text(SCILAB.format("sac"))
    (conf / "typing_error-test.yaml").write_text("performance_testing_condition: {}\n")
    assert {path.name: is_test(path) for path in find_tests(["*"], conf=conf)} == {
        "a-test.yaml": True,
        "own.yaml": True,
        "sac-opti.yaml": False,
        "typing_error-test.yaml": True,
    }
