"""`a2perf data`, `a2perf envs` and `a2perf doctor`: what they print, in words and as JSON."""

from __future__ import annotations

import json
import os

import pytest
from click.testing import CliRunner

from a2perf.api import host_probes
from a2perf.cli.data import data, envs
from a2perf.cli.doctor import doctor
from a2perf.domains.registry import all_environments, domains
from a2perf.errors import AssetUnavailable, ConfigError
from a2perf.sandbox.limits import GroupParent
from tests.commands import run_python


@pytest.fixture
def nothing_here(tmp_path, monkeypatch):
    monkeypatch.setenv("A2PERF_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("A2PERF_DATA_DIR", raising=False)


def _run(command, *arguments):
    return CliRunner().invoke(command, list(arguments), standalone_mode=False, catch_exceptions=False)


@pytest.mark.usefixtures("nothing_here")
def test_data_list_says_what_is_missing_and_its_terms():
    printed = _run(data, "list", "quadruped_locomotion").output
    assert printed.count("not here") == 6
    assert "CC BY-NC 4.0" in printed
    records = json.loads(_run(data, "list", "--json").output)
    clip = next(record for record in records if record["name"].endswith("motions/dog_pace.txt"))
    assert clip["path"] is None
    assert clip["sha256"].startswith("2ebff49c")


@pytest.mark.usefixtures("nothing_here")
def test_data_list_names_a_file_with_a_wrong_checksum(tmp_path, monkeypatch):
    wrong = tmp_path / "data" / "quadruped_locomotion" / "motions" / "dog_pace.txt"
    wrong.parent.mkdir(parents=True)
    wrong.write_text("{}")
    monkeypatch.setenv("A2PERF_DATA_DIR", str(tmp_path / "data"))
    assert "WRONG CHECKSUM" in _run(data, "list").output


@pytest.mark.usefixtures("nothing_here")
def test_data_fetch_offline_fails_with_the_ways_to_get_the_files():
    with pytest.raises(AssetUnavailable, match="A2PERF_OFFLINE"):
        _run(data, "fetch", "quadruped_locomotion")


def test_data_knows_no_such_file_but_a_near_one():
    with pytest.raises(ConfigError, match="did you mean 'quadruped_locomotion'"):
        _run(data, "fetch", "quadruped_locomotoin")


def test_envs_list_shows_every_id_and_imports_no_physics():
    records = json.loads(_run(envs, "list", "--json").output)
    assert {record["id"] for record in records} == set(all_environments())
    code = (
        "import sys\nfrom a2perf.cli import main\n"
        "try: main(['envs', 'list'])\nexcept SystemExit: pass\n"
        "heavy = {'pybullet', 'numba', 'numpy', 'gymnasium', 'matplotlib', 'codecarbon'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    done = run_python(code, check=True)
    assert "QuadrupedLocomotion-DogPace-v0" in done.stdout


def test_envs_list_of_an_unknown_domain_names_the_nearest():
    with pytest.raises(ConfigError, match="did you mean 'quadruped_locomotion'"):
        _run(envs, "list", "quadruped_locomotio")


def test_doctor_ends_well_and_names_a_mend_for_what_a_user_can_mend():
    result = _run(doctor, "--json")
    assert result.return_value == 0
    report = json.loads(result.output)
    findings = {finding["name"]: finding for finding in report["findings"]}
    assert findings["Quadruped locomotion"]["present"] is True
    assert {"RAPL counters", "NVIDIA GPU (NVML)", "control groups", "bubblewrap", "docker engine", "chromium"} <= set(
        findings
    )
    for name in ("bubblewrap", "docker engine", "chromium", "Quadruped locomotion: data files"):
        assert findings[name]["present"] or findings[name]["hint"]
    assert {row["status"] for row in report["matrix"]} == {"expected", "tested"}
    assert not [finding for finding in report["findings"] if finding["section"] == "probes"]


def test_doctor_without_any_program_says_so_and_still_ends_well(monkeypatch):
    monkeypatch.setenv("PATH", os.devnull)
    result = _run(doctor, "--missing")
    assert result.return_value == 0
    for name in ("chromium", "bubblewrap", "docker engine"):
        assert f"{name}: " in result.output


@pytest.mark.parametrize("clock", [None, "perf_event_open: Permission denied"])
def test_doctor_says_which_limits_hold_for_a_whole_tree(monkeypatch, tmp_path, clock):
    monkeypatch.setattr(host_probes.task_clock, "why_unavailable", lambda: clock)
    seen = {}
    for groups in ({}, {"memory": tmp_path}):
        monkeypatch.setattr(host_probes.limits, "place", lambda groups=groups: GroupParent(2, groups))
        seen[len(groups)] = {finding.name: finding for finding in host_probes.accounts()}
    memory, time = "memory of a whole tree", "processor time of a whole tree"
    assert seen[1][memory].present
    assert "control group" in seen[1][time].detail
    assert not seen[0][memory].present
    assert "--allow-weaker" in seen[0][memory].hint
    assert seen[0][time].present == (clock is None)
    assert clock is None or "perf_event_paranoid" in seen[0][time].hint


def test_a_probe_that_fails_does_not_hide_the_others(monkeypatch):
    def broken():
        raise RuntimeError("strange host")

    monkeypatch.setattr(host_probes, "_PROBES", (broken, host_probes._domains))
    findings = host_probes.every_finding()
    assert "strange host" in findings[0].detail
    assert len(findings) > len(domains())


def test_envs_list_names_tasks_and_the_command_for_what_is_missing(monkeypatch, tmp_path):
    monkeypatch.setenv("A2PERF_DATA_DIR", str(tmp_path))
    monkeypatch.setenv("A2PERF_CACHE_DIR", str(tmp_path))
    printed = _run(envs, "list").output
    lines = {line.split()[0]: line.split(None, 1)[1] for line in printed.splitlines() if line.startswith("  ")}
    assert lines["CircuitTraining-Ariane-v0"] == "a2perf data fetch circuit_training"
    assert lines["CircuitTraining-ArianeTwin-v0"] == "ready"
    assert lines["difficulty_level_2_num_websites_10"] == "Level 2, 10 websites"
    names = [line.split()[0] for line in printed.splitlines() if line.startswith("    ")]
    assert names[names.index("difficulty_level_2_num_websites_10") + 1] == "text_level_2"  # a view follows its task
    assert "WebNavigation-DifficultyLevel-01-v0" not in printed  # an alias is not a separate environment
    assert max(map(len, printed.splitlines())) <= 80
