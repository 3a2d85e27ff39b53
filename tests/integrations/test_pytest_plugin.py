"""The pytest plug-in, in real inner runs of pytest."""

from __future__ import annotations

import re
import subprocess
import sys
import textwrap
from pathlib import Path
from xml.etree import ElementTree

import junitparser
import pytest

from a2perf.errors import ConfigError
from a2perf.integrations.performance_mark import folder_name, performance, read_mark

pytest_plugins = "pytester"

HEAD = """
import pytest

TASK = "difficulty_level_1_num_websites_1"
CHEAP = {
    "bindings": (
        "Submission.num_inference_steps = 3", "Submission.num_warmup_steps = 1", "Submission.record_frames = 0",
    ),
    "sandbox": "process",
}
"""


def run(pytester: pytest.Pytester, code: str, *arguments: str) -> pytest.RunResult:
    pytester.makepyfile(test_mine=HEAD + textwrap.dedent(code))
    return pytester.runpytest_subprocess("-p", "no:cacheprovider", "--strict-markers", *arguments)


def properties(path: Path) -> dict[str, str]:
    return {item.attrib["name"]: item.attrib["value"] for item in ElementTree.parse(path).getroot().iter("property")}


def test_k_of_n_seeds_decide(pytester: pytest.Pytester) -> None:
    result = run(
        pytester,
        """
        calls = []

        @pytest.mark.a2perf(reaches=0.5, seeds=3, passing=2)
        def test_numbers(seed, tmp_path):
            calls.append(seed)
            return [0.4, 0.6, 0.9][seed]

        def test_every_seed_ran():
            assert calls == [0, 1, 2]
        """,
        "--junitxml=junit.xml",
    )
    result.assert_outcomes(passed=2)
    text = result.stdout.str()
    assert "a2perf performance tests" in text
    assert "passed: 2 of 3 seeds reached value >= 0.5; 2 of 3 required" in text
    assert re.search(r"1 +0\.6000 +reached", text)
    assert "PytestReturnNotNone" not in text
    found = properties(pytester.path / "junit.xml")
    assert found["a2perf_condition"] == "value >= 0.5 in 2 of 3 seeds"
    assert found["a2perf_verdict"] == "passed"
    assert found["a2perf_value_seed_2"] == "0.9"
    suite = junitparser.JUnitXml.fromfile(str(pytester.path / "junit.xml"))
    assert [case.name for one in suite for case in one] == ["test_numbers", "test_every_seed_ran"]


def test_no_seed_runs_after_the_verdict_is_certain(pytester: pytest.Pytester) -> None:
    result = run(
        pytester,
        """
        calls = []

        @pytest.mark.a2perf(reaches=0.5, seeds=[7, 8, 9, 10], passing=2)
        def test_fails_early(seed):
            calls.append(seed)
            return 0.1

        @pytest.mark.a2perf(reaches=0.5, seeds=4, passing=1)
        def test_passes_early(seed):
            calls.append(seed)
            return [1.0, 2.0]

        def test_the_rest_did_not_run():
            assert calls == [7, 8, 9, 0]
        """,
        "--junitxml=junit.xml",
    )
    result.assert_outcomes(passed=2, failed=1)
    text = result.stdout.str()
    assert "0 of 3 seeds reached value >= 0.5 (1 not run, the verdict was certain); 2 of 4 required" in text
    assert re.search(r"10 +– +not run", text)
    assert re.search(r"0 +1\.500 +reached", text)
    (failure,) = ElementTree.parse(pytester.path / "junit.xml").getroot().iter("failure")
    assert "0 of 3 seeds reached" in failure.attrib["message"]


def test_lower_can_be_better(pytester: pytest.Pytester) -> None:
    code = """
        @pytest.mark.a2perf(reaches=0.5, direction="<=")
        def test_error():
            return 0.4
        """
    run(pytester, code).assert_outcomes(passed=1)
    assert performance("dog_pace", reaches=1.0, metric="latency_infer_once_median").condition.direction == "<="
    assert performance("dog_pace", reaches=1.0).condition.direction == ">="


def test_a_policy_is_evaluated_and_recorded(pytester: pytest.Pytester) -> None:
    result = run(
        pytester,
        """
        @pytest.fixture
        def action():
            return 0

        @pytest.mark.a2perf(task=TASK, reaches=-20.0, seeds=2, passing=1, episodes=1, options=CHEAP)
        def test_policy(seed, action):
            return lambda observation: action

        @pytest.mark.a2perf(task=TASK, reaches=-20.0, episodes=1, options=CHEAP)
        def test_crash():
            def policy(observation):
                raise RuntimeError("the policy broke")
            return policy
        """,
        "--a2perf-root=runs",
        "--junitxml=junit.xml",
    )
    result.assert_outcomes(passed=1, failed=1)
    text = result.stdout.str()
    assert "the policy broke" in text
    assert "0 of 1 seed reached returns >= -20 on difficulty_level_1_num_websites_1" in text
    bundle = pytester.path / "runs" / "test_mine.py-test_policy" / "seed_0" / "inference"
    assert (bundle / "manifest.json").is_file()
    assert str(bundle) in text
    found = properties(pytester.path / "junit.xml")
    assert found["a2perf_bundle_seed_0"].endswith("seed_0/inference")
    assert float(found["a2perf_energy_kwh_seed_0"]) > 0


def test_runs_without_a_root_lie_in_the_temporary_folder(pytester: pytest.Pytester) -> None:
    result = run(
        pytester,
        """
        @pytest.mark.a2perf(task=TASK, reaches=-20.0, episodes=1, options=CHEAP)
        def test_policy():
            return lambda observation: 0
        """,
        "--basetemp=temporary",
    )
    result.assert_outcomes(passed=1)
    assert list(pytester.path.glob("temporary/a2perf-test_policy0/seed_0/inference/manifest.json"))
    assert not (pytester.path / "runs").exists()


@pytest.mark.parametrize(
    ("mark", "message"),
    [
        ('task="dog_pce", reaches=1.0', "dog_pace"),
        ('task="dog_pace"', "needs the threshold `reaches`"),
        ("reaches=1.0, seds=3", "no argument 'seds'; did you mean 'seeds'?"),
        ("reaches=1.0, seeds=[1, 1]", "is not a list of different seeds"),
        ("reaches=1.0, seeds=3, passing=4", "passing = 4 of 3 seeds can never be met"),
        ('reaches="high"', "reaches = 'high' is not a number"),
        ("reaches=1.0, episodes=0", "episodes = 0 leaves no episode"),
        ('task="dog_pace", reaches=1.0, metric="latancy_infer_once_mean"', "did you mean 'latency_infer_once_mean'?"),
    ],
)
def test_a_wrong_mark_is_an_error_of_collection(pytester: pytest.Pytester, mark: str, message: str) -> None:
    pytester.makepyfile(
        f"""
        import pytest

        @pytest.mark.a2perf({mark})
        def test_it():
            raise SystemExit("ran")
        """
    )
    result = pytester.runpytest_inprocess("-p", "no:cacheprovider")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    text = result.stderr.str()
    assert message in text
    assert "test_it" in text
    assert "Hint: " in text


def test_what_a_function_may_not_return(pytester: pytest.Pytester) -> None:
    result = run(
        pytester,
        """
        @pytest.mark.a2perf(reaches=1.0)
        def test_nothing():
            pass

        @pytest.mark.a2perf(reaches=1.0)
        def test_without_a_task():
            return lambda observation: 0

        @pytest.mark.a2perf(task=TASK, reaches=1.0, options=CHEAP)
        def test_signature():
            return lambda: 0

        @pytest.mark.a2perf(reaches=1.0)
        def test_nan():
            return float("nan")

        @pytest.mark.a2perf(reaches=1.0)
        def test_own_error():
            raise ZeroDivisionError("mine")
        """,
    )
    result.assert_outcomes(failed=5)
    text = result.stdout.str()
    assert "the test function returned None" in text
    assert "the mark names no task" in text
    assert "cannot be called with one observation" in text
    assert re.search(r"0 +not a number +missed", text)
    assert "ZeroDivisionError: mine" in text


def test_the_number_of_seeds_can_be_overridden(pytester: pytest.Pytester) -> None:
    code = """
        @pytest.mark.a2perf(reaches=0.5, seeds=[10, 11, 12], passing=2)
        def test_numbers(seed):
            return float(seed)
        """
    result = run(pytester, code, "--a2perf-seeds=5")
    result.assert_outcomes(passed=1)
    assert "4 of 5 seeds reached value >= 0.5; 4 of 5 required" in result.stdout.str()
    result = pytester.runpytest_subprocess("--a2perf-seeds=0")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert "--a2perf-seeds 0 leaves no run" in result.stderr.str()
    mark = read_mark((), {"reaches": 1.0, "seeds": 3, "passing": 2}, seeds=6)
    assert (mark.seeds, mark.condition.succ_runs) == ((0, 1, 2, 3, 4, 5), 4)


def test_workers_of_xdist_report_the_same(pytester: pytest.Pytester) -> None:
    code = """
        @pytest.mark.a2perf(reaches=0.5, seeds=2)
        def test_first(seed):
            return 1.0

        @pytest.mark.a2perf(reaches=0.5)
        def test_second():
            return 0.0
        """
    result = run(pytester, code, "-n", "2", "--junitxml=junit.xml")
    result.assert_outcomes(passed=1, failed=1)
    text = result.stdout.str()
    assert "passed: 2 of 2 seeds reached value >= 0.5" in text
    assert "failed: 0 of 1 seed reached value >= 0.5" in text
    assert properties(pytester.path / "junit.xml")["a2perf_value_seed_1"] == "1.0"


def test_a_parameter_and_a_class_keep_working(pytester: pytest.Pytester) -> None:
    result = run(
        pytester,
        """
        @pytest.mark.parametrize("offset", [0.0, 1.0])
        @pytest.mark.a2perf(reaches=0.5, seeds=2, passing=1)
        def test_numbers(seed, offset):
            return seed + offset

        class TestAll:
            @pytest.mark.a2perf(reaches=0.5)
            def test_method(self, seed):
                return 1
        """,
        "-v",
    )
    result.assert_outcomes(passed=3)
    assert "test_mine.py::test_numbers[0.0] PASSED" in result.stdout.str()
    assert "test_mine.py::TestAll::test_method PASSED" in result.stdout.str()


def test_the_plugin_can_be_switched_off(pytester: pytest.Pytester) -> None:
    code = """
        @pytest.mark.a2perf(reaches=0.5)
        def test_first():
            assert True
        """
    pytester.makepyfile(HEAD + textwrap.dedent(code))
    result = pytester.runpytest_subprocess("-p", "no:a2perf")
    result.assert_outcomes(passed=1, warnings=1)
    assert "a2perf performance tests" not in result.stdout.str()
    result = pytester.runpytest_subprocess("--markers")
    assert "@pytest.mark.a2perf(task, reaches, seeds=1" in result.stdout.str()


def test_the_plugin_imports_nothing_heavy() -> None:
    code = (
        "import sys, pytest\nbefore = set(sys.modules)\nimport a2perf.integrations.pytest_plugin\n"
        "print(sorted({name.partition('.')[0] for name in set(sys.modules) - before}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "['a2perf']"


def test_names_of_folders_are_safe() -> None:
    assert folder_name("tests/a.py::test_b[../x y]") == "tests-a.py-test_b-..-x-y"
    assert folder_name("::") == "test"
    with pytest.raises(ConfigError, match="task = 3 is not a name"):
        performance(3, reaches=1.0)  # type: ignore[arg-type]
