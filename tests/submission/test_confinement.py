"""From the configuration to the sandbox: what is asked for, what is seen, and what the manifest says."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from a2perf.errors import ConfigError
from a2perf.sandbox import strongest_level
from a2perf.sandbox.limits import LEAST_SHARE_BYTES, PARALLEL_RUNS_VARIABLE, participants_bytes
from a2perf.submission.evaluator.process.confinement import confinement
from a2perf.submission.submission_util import Submission
from tests.commands import bindings, flags
from tests.made_submissions import STANDS, policy


@pytest.fixture
def settings(tmp_path: Path):
    def make(**changes) -> Submission:
        return Submission(
            mode="inference",
            domain="quadruped_locomotion",
            root_dir=str(tmp_path / "root"),
            participant_module_path=str(tmp_path),
            **changes,
        )

    return make


def test_default_is_the_strongest_level_without_network(settings) -> None:
    chosen = confinement(settings(), {})
    assert (chosen.record.level, chosen.record.asked) == (strongest_level(), "strongest")
    assert (chosen.network, chosen.record.network) == (False, False)
    assert chosen.limits.processes == 512
    assert chosen.record.limits["processes"] == 512
    assert chosen.record.guarantees


@pytest.mark.parametrize("level", ["process", pytest.param("bubblewrap", marks=pytest.mark.group("bwrap"))])
def test_memory_is_limited_by_a_share_of_the_host_unless_the_organizer_says_otherwise(
    settings, level: str, monkeypatch
) -> None:
    alone = confinement(settings(sandbox=level), {})
    assert alone.limits.memory_bytes == participants_bytes() < os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    assert alone.record.limits["memory_bytes"] == alone.limits.memory_bytes
    monkeypatch.setenv(PARALLEL_RUNS_VARIABLE, "2")
    shared = confinement(settings(sandbox=level, concurrent_episodes=2), {}).limits.memory_bytes
    assert shared == max(LEAST_SHARE_BYTES, participants_bytes() // 4)
    free = confinement(settings(sandbox=level, memory_limit_bytes=0, artifact_limit_bytes=None), {})
    assert free.limits.memory_bytes is None
    missing = " ".join(free.record.missing)
    assert all(name in missing for name in ("memory_limit_bytes = 0", "cpu_limit is not", "artifact_limit_bytes is"))


@pytest.mark.group("bwrap")
def test_network_is_a_word_of_the_configuration_and_of_the_record(settings) -> None:
    alone, connected = (confinement(settings(sandbox="bubblewrap", network=given), {}) for given in (False, True))
    assert any("no network" in sentence for sentence in alone.record.guarantees)
    assert not any("no network" in sentence for sentence in connected.record.guarantees)
    assert connected.record.network
    assert any("network" in sentence for sentence in connected.record.missing)


def test_given_folders_are_seen_and_private_files_hidden(settings, tmp_path: Path) -> None:
    for name in ("trained", "datasets", "weights"):
        (tmp_path / name).mkdir()
    variables = {"ROOT_DIR": str(tmp_path / "trained"), "MINARI_DATASETS_PATH": str(tmp_path / "datasets"), "SEED": "3"}
    private = tmp_path / "seeds.txt"
    given = settings(readable_paths=[str(tmp_path / "weights")], evaluation_seeds_file=str(private))
    chosen = confinement(given, variables)
    assert set(chosen.readable) == {tmp_path / name for name in ("trained", "datasets", "weights")}
    assert {tmp_path / "root", private} <= set(chosen.hidden)
    with pytest.raises(ConfigError, match=r"readable_paths: .* does not exist"):
        confinement(settings(readable_paths=[str(tmp_path / "nothing")]), {})


CURIOUS = policy(
    top="import os, pathlib",
    load="""
    found = [path for path in (pathlib.Path(os.environ["ROOT_DIR"]).parents[1], pathlib.Path(__file__).parents[1])
             if path.is_dir() for path in path.rglob("manifest.json")]
    print("found", found, flush=True)
    print("weights", os.path.exists(kwargs["weights"]), flush=True)
    return np.zeros(env.action_space.shape, np.float32)
    """,
)


@pytest.mark.group("bwrap")
def test_run_in_a_folder_of_the_submission_hides_its_bundle(submission, launch, tmp_path: Path) -> None:
    weights = tmp_path / "weights"
    weights.write_text("1")
    path = submission(inference=CURIOUS)
    outcome = launch(
        path,
        "inference.gin",
        *flags(participant_args=f"weights={weights}"),
        *bindings(f"Submission.readable_paths = ['{weights}']", "Submission.time_participant_code = False"),
        root=path / "runs" / "one",
    )
    assert outcome.status == 0, outcome.output
    said = (outcome.root / "inference" / "logs" / "stdout.log").read_text()
    assert "found []" in said
    assert "weights True" in said
    record = outcome.manifest("inference")["sandbox"]
    assert (record["level"], record["asked"], record["network"]) == ("bubblewrap", "strongest", False)


FALSE_CLOCK = policy(
    top="""
    import time
    import a2perf.submission.participant.worker
    ticks = iter(range(10**9))
    time.perf_counter_ns = lambda: next(ticks)
    """,
    load=STANDS,
    infer="time.sleep(0.02)\nreturn policy",
)


def test_clock_that_runs_slow_is_named_in_the_manifest(submission, launch) -> None:
    flags = bindings("Submission.num_inference_episodes = 1", "Submission.num_warmup_steps = 1")
    outcome = launch(submission(inference=FALSE_CLOCK), "inference.gin", *flags)
    assert outcome.status == 0, outcome.output
    (warning,) = [words for words in outcome.manifest("inference")["warnings"] if "the participant reports" in words]
    assert "rank by round_trip" in warning
