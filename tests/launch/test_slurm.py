"""The slurm launcher on a real cluster: ends, limits, logs, lost nodes, preemption, and a launcher that died."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from a2perf.errors import InfrastructureError
from a2perf.launch import ExitStatus, Queue, Resources, RunEvent, State, drive, get_launcher
from a2perf.launch.run_spec import RunSpec
from a2perf.launch.slurm import SlurmLauncher
from tests.launch.slurm_cluster import SlurmCluster
from tests.launch.toy_run import check_same_returns
from tests.launch.waiting import SMALL, check_log_and_status, end_of, left_job, shell, text_of
from tests.waiting import until

pytestmark = pytest.mark.group("slurm")


@pytest.fixture
def launcher(slurm_cluster: SlurmCluster) -> SlurmLauncher:
    made = get_launcher("slurm", poll_s=0.1, grace_s=1.0)
    assert isinstance(made, SlurmLauncher)
    return made


def _jobs(cluster: SlurmCluster, state: str = "all") -> list[str]:
    return cluster.call("squeue", "--noheader", f"--states={state}", "--format=%A").split()


def test_a_job_writes_its_log_as_it_runs_and_its_status_comes_back(launcher: SlurmLauncher, tmp_path: Path) -> None:
    first, second = check_log_and_status(launcher, tmp_path)
    assert first != second
    assert list((tmp_path / "job" / ".slurm").iterdir()) == []


def test_what_a_run_may_use_is_what_slurm_gives_it(slurm_cluster: SlurmCluster, tmp_path: Path) -> None:
    resources = Resources(cpus=1.5, memory_bytes=300 * 2**20, wall_s=600)
    launcher = SlurmLauncher(partition="tests", sbatch="comment=night run;exclusive", poll_s="0.1", grace_s="1")
    job = launcher.start(shell(tmp_path, "exec sleep 60", resources=resources))
    shown = slurm_cluster.call("scontrol", "show", "job", json.loads(job.identity)[0])
    assert "NumCPUs=2" in shown
    assert "MinMemoryNode=300M" in shown
    assert "TimeLimit=00:12:00" in shown  # ten minutes and the margin in which the node itself ends the run
    assert "Requeue=0" in shown
    assert "Comment=night run" in shown
    assert "OverSubscribe=NO" in shown
    job.cancel()
    ended = end_of(job)
    assert not ended.lost


def test_a_run_that_slurm_refuses_says_slurms_words(launcher: SlurmLauncher, tmp_path: Path) -> None:
    with pytest.raises(InfrastructureError, match="node configuration is not available"):
        launcher.start(shell(tmp_path, "true", resources=Resources(memory_bytes=2**50)))


def test_a_run_that_slurm_takes_but_no_node_can_hold_does_not_wait_forever(
    launcher: SlurmLauncher, slurm_cluster: SlurmCluster, tmp_path: Path
) -> None:
    ended = end_of(launcher.start(shell(tmp_path, "true", resources=Resources(cpus=64))))
    assert ended.lost
    assert "PartitionConfig" in ended.reason
    assert _jobs(slurm_cluster, "running,pending") == []


def test_a_run_whose_wall_time_is_over_is_ended_and_not_lost(launcher: SlurmLauncher, tmp_path: Path) -> None:
    resources = Resources(cpus=1, memory_bytes=2**28, wall_s=0.5)
    job = launcher.start(shell(tmp_path, "echo up; exec sleep 60", resources=resources))
    ended = end_of(job)
    assert (ended.timed_out, ended.lost) == (True, False)
    assert "0.5 s" in ended.reason
    assert (tmp_path / "job" / "run.log").read_text() == "up\n"


def test_a_job_that_the_cluster_takes_back_is_lost_and_runs_again(
    launcher: SlurmLauncher, slurm_cluster: SlurmCluster, tmp_path: Path
) -> None:
    command = shell(tmp_path, "echo up; until test -e go; do sleep 0.05; done", resources=SMALL)
    job = launcher.start(command)
    until(lambda: "up" in text_of(tmp_path / "job" / "run.log"))
    slurm_cluster.call("scancel", json.loads(job.identity)[0])  # what preemption does to a job that is not requeued
    ended = end_of(job)
    assert ended.lost
    assert ended.exit_code is None
    (tmp_path / "go").touch()
    assert end_of(launcher.start(command)) == ExitStatus(0)


def test_a_run_of_a_node_that_is_lost_is_lost_and_finishes_on_another(
    launcher: SlurmLauncher, slurm_cluster: SlurmCluster, tmp_path: Path
) -> None:
    command = shell(tmp_path, "echo $SLURMD_NODENAME; until test -e go; do sleep 0.05; done", resources=SMALL)
    job = launcher.start(command)
    log = tmp_path / "job" / "run.log"
    first = until(lambda: text_of(log).strip())
    slurm_cluster.lose_node(first)
    ended = end_of(job)
    assert ended.lost
    assert "NODE_FAIL" in ended.reason
    (tmp_path / "go").touch()
    assert end_of(launcher.start(command)) == ExitStatus(0)
    second = log.read_text().split()[-1]
    assert {first, second} == {"alpha", "beta"}


@pytest.mark.parametrize("known", [True, False], ids=["identity stored", "killed before it was stored"])
def test_a_job_outlives_a_launcher_that_is_killed_and_never_runs_twice(
    known: bool, launcher: SlurmLauncher, slurm_cluster: SlurmCluster, tmp_path: Path
) -> None:
    command, identity = left_job(tmp_path, "slurm")
    job = launcher.adopt(identity) if known else launcher.start(command)
    assert job is not None
    assert job.poll() is None
    (tmp_path / "go").touch()
    assert end_of(job) == ExitStatus(5)
    assert (tmp_path / "job" / "run.log").read_text() == "started\n"


def test_the_end_of_a_job_is_found_by_a_later_launcher(launcher: SlurmLauncher, tmp_path: Path) -> None:
    identity = launcher.start(shell(tmp_path, "exit 4", resources=SMALL)).identity
    until(lambda: Path(json.loads(identity)[1]).exists())
    later = get_launcher("slurm", poll_s=0.1)
    adopted = later.adopt(identity)
    assert adopted is not None
    assert adopted.poll() == ExitStatus(4)
    assert not Path(json.loads(identity)[1]).exists()
    assert later.adopt(json.dumps(["999999", str(tmp_path / "none.json")])) is None


def test_an_end_that_another_job_wrote_is_not_believed(launcher: SlurmLauncher, tmp_path: Path) -> None:
    job = launcher.start(shell(tmp_path, "exec sleep 60", resources=SMALL))
    number, status = json.loads(job.identity)
    end = {"job": str(int(number) + 1), "host": "x", "exit_code": 0, "timed_out": False, "reason": ""}
    Path(status).write_text(json.dumps(end))
    assert job.poll() is None
    job.cancel()
    assert not end_of(job).lost


def test_the_queue_repeats_what_the_cluster_took_back_and_only_that(
    launcher: SlurmLauncher, slurm_cluster: SlurmCluster, tmp_path: Path
) -> None:
    preempted = 'echo "$SLURM_JOB_ID" >> jobs; test "$(wc -l < jobs)" -gt 1 || exec sleep 600'
    scripts = {"preempted": preempted, "good": "true", "bad": "exit 1"}
    entries = [RunSpec(name, shell(tmp_path, script, name, SMALL)) for name, script in scripts.items()]
    taken: list[str] = []

    def take_back(event: RunEvent) -> None:
        if not taken and (jobs := text_of(tmp_path / "jobs").split()):
            taken.extend(jobs)
            slurm_cluster.call("scancel", jobs[0])

    with Queue(tmp_path / "queue.sqlite", retry_delay_s=0.1) as queue:
        queue.add(entries)
        summary = drive(queue, launcher, 2, on_event=take_back)
        found = {entry.key: (entry.state, entry.retries) for entry in queue.entries()}
    assert found == {"preempted": (State.FINISHED, 1), "good": (State.FINISHED, 0), "bad": (State.FAILED, 0)}
    assert summary.attempts == 4
    assert len((tmp_path / "jobs").read_text().split()) == 2


def test_the_evaluator_runs_on_the_cluster_as_it_does_here(slurm_cluster: SlurmCluster, tmp_path: Path) -> None:
    check_same_returns(tmp_path, "slurm")
