"""The ray launcher on a real cluster: ends, limits, logs, a lost node, and a launcher that died."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from a2perf.errors import InfrastructureError
from a2perf.launch import ExitStatus, Resources, get_launcher
from a2perf.launch.ray import RayLauncher
from tests.launch.ray_cluster import RayCluster
from tests.launch.toy_run import check_same_returns
from tests.launch.waiting import check_log_and_status, end_of, left_job, shell, text_of
from tests.waiting import until

pytestmark = pytest.mark.group("ray")


@pytest.fixture
def launcher(ray_cluster: RayCluster) -> Iterator[RayLauncher]:
    made = get_launcher("ray", address=ray_cluster.address, poll_s=0.1)
    assert isinstance(made, RayLauncher)
    yield made
    made.close()


def test_a_job_writes_its_log_as_it_runs_and_its_status_comes_back(launcher: RayLauncher, tmp_path: Path) -> None:
    check_log_and_status(launcher, tmp_path)


@pytest.mark.slow
def test_runs_wait_for_the_processors_they_ask_for(launcher: RayLauncher, tmp_path: Path) -> None:
    one = Resources(cpus=1)
    first = launcher.start(shell(tmp_path, "touch up; until test -e go; do sleep 0.05; done", "first", one))
    until((tmp_path / "up").exists)
    second = launcher.start(shell(tmp_path, "test -e go", "second", one))  # fails if it runs beside the first
    withdrawn = launcher.start(shell(tmp_path, "true", "withdrawn", one))
    assert second.poll() is None
    withdrawn.cancel()
    assert not end_of(withdrawn).lost
    (tmp_path / "go").touch()
    assert end_of(first) == ExitStatus(0)
    assert end_of(second) == ExitStatus(0)
    with pytest.raises(InfrastructureError, match="no node of the Ray cluster has what big asks for: CPU 64"):
        launcher.start(shell(tmp_path, "true", "big", Resources(cpus=64)))


@pytest.mark.slow
def test_a_run_whose_wall_time_is_over_is_ended_and_not_lost(launcher: RayLauncher, tmp_path: Path) -> None:
    job = launcher.start(shell(tmp_path, "echo up; exec sleep 600", resources=Resources(wall_s=0.5)))
    ended = end_of(job)
    assert (ended.timed_out, ended.lost) == (True, False)
    assert "0.5 s" in ended.reason
    cancelled = launcher.start(shell(tmp_path, "echo up again; exec sleep 600"))
    until(lambda: "again" in text_of(tmp_path / "job" / "run.log"))
    assert cancelled.poll() is None
    cancelled.cancel()
    assert not end_of(cancelled).lost


def test_a_run_of_a_node_that_is_lost_is_lost_and_finishes_on_another(
    launcher: RayLauncher, ray_cluster: RayCluster, tmp_path: Path
) -> None:
    node = ray_cluster.add_node()
    script = "echo up $$; until test -e go; do sleep 0.05; done"
    commands = [shell(tmp_path, script, name, Resources(cpus=1)) for name in ("a", "b")]
    jobs = [launcher.start(command) for command in commands]
    until(lambda: all(text_of(tmp_path / name / "run.log") for name in ("a", "b")))
    ray_cluster.lose_node(node)
    lost, ended = until(lambda: next(((job, end) for job in jobs if (end := job.poll())), None))
    assert ended.lost
    assert "gone" in ended.reason
    pid = int((tmp_path / "ab"[jobs.index(lost)] / "run.log").read_text().split()[1])
    until(lambda: not Path(f"/proc/{pid}").exists())  # no process survives on the dead node
    (tmp_path / "go").touch()
    kept = jobs[1 - jobs.index(lost)]
    assert end_of(kept) == ExitStatus(0)
    assert end_of(launcher.start(commands[jobs.index(lost)])) == ExitStatus(0)


def test_a_job_outlives_a_launcher_that_is_killed_and_never_runs_twice(
    launcher: RayLauncher, ray_cluster: RayCluster, tmp_path: Path
) -> None:
    command, identity = left_job(tmp_path, "ray", address=ray_cluster.address)
    by_name = launcher.start(command)
    assert by_name.identity == identity
    adopted = launcher.adopt(identity)
    assert adopted is not None
    assert adopted.poll() is None
    (tmp_path / "go").touch()
    assert end_of(adopted) == ExitStatus(5)
    assert (tmp_path / "job" / "run.log").read_text() == "started\n"
    until(lambda: launcher.adopt(identity) is None)


def test_the_evaluator_runs_on_the_cluster_as_it_does_here(ray_cluster: RayCluster, tmp_path: Path) -> None:
    check_same_returns(tmp_path, "ray", f"address={ray_cluster.address}")
