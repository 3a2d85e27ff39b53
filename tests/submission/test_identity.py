"""A stored result answers only the question that was asked: every setting that can change a number identifies a run."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import MISSING, Field, fields
from pathlib import Path
from typing import Any

import pytest

import a2perf
from a2perf.errors import ConfigError
from a2perf.submission import configuration, main_submission
from a2perf.submission.run_options import OPTIONS, RunOptions
from a2perf.submission.settings import NEUTRAL, Submission
from tests.api.evaluate_runs import BINDINGS, INFERENCE, TASK, evaluate, write_submission
from tests.commands import launch, run_a2perf

GIVEN = (*BINDINGS, "Submission.num_inference_episodes = 2", "Submission.measure_emissions = False")

IN_MANIFEST = {"seed": "root_seed", "domain": "domain"}
"""Settings whose field in the manifest has another name."""

NOT_STARTED = ("root_dir", "participant_module_path", "run_offline_metrics_only", "mode")
"""Settings that select another bundle or start no run."""

ELSEWHERE = {"services": "test_run_services.py has a package with a service"}
"""Settings that need more than a value, with the test that covers them."""


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The root of a finished inference run at sandbox level ``process``, beside its submission ``entry``."""
    folder = tmp_path_factory.mktemp("identity")
    write_submission(folder / "entry", INFERENCE)
    evaluate(folder / "entry", folder / "root", episodes=None, bindings=GIVEN)
    return folder / "root"


@pytest.fixture(autouse=True)
def own_configuration() -> Iterator[None]:
    yield
    configuration.clear()


def again(root: Path, *flags: str) -> int:
    """Parses the flags of the evaluator's command line and evaluates; the run is finished already."""
    words = ["--sandbox", "process", "--seed", "0", "--task", TASK, *flags]
    given = ["--gin-config", "inference.gin", "--submission", str(root.parent / "entry"), "--root-dir", str(root)]
    bindings = [word for binding in GIVEN for word in ("--gin-bindings", binding)]
    context = main_submission.main.make_context("evaluator", [*given, *bindings, *words])
    parameters = {name: value for name, value in context.params.items() if name != "verbosity"}
    return main_submission.run(options=RunOptions.taken_from(parameters), **parameters)


def other(entry: Field[Any], root: Path) -> Any:
    """Returns a valid value of a setting that differs from the one of the finished run."""
    files = {
        "held_out_task": json.dumps(
            {"name": "secret", "env_id": "WebNavigation-Difficulty-02-v0", "kwargs": {"num_websites": 1}, "told": {}}
        ),
        "evaluation_seeds_file": "7\n8\n",
    }
    chosen = {
        "participant_args": {"action": "1"},
        "inference_data": "sampled",
        "fresh_policy": "episode",
        "python_env": "isolated",
        "sandbox": "none",
        "perturbations": ["all"],
        "seeds_from": str(root / "inference"),
        "generalization_tasks": [TASK],
        "measure_emissions": True,
        "pass_environment": ["PATH"],
        "participant_python": sys.executable,
        "domain": "toy_macro_stdcell",
    }
    if entry.name in files:
        place = root.parent / entry.name
        place.write_text(files[entry.name])
        return str(place)
    if entry.name in chosen:
        return chosen[entry.name]
    default = None if entry.default is MISSING else entry.default
    kind = str(entry.type)
    if "bool" in kind:
        return not default
    if "Sequence" in kind:
        return ["other"]
    if "int" in kind or "float" in kind:
        return (default or 0) + 2
    return str(root.parent)


def flags_of(name: str, value: Any) -> list[str]:
    """Returns the words that give a setting on the command line: its option, else a gin binding."""
    if name == "domain":
        return ["--task", value]
    if name == "seed":
        return ["--seed", str(value)]
    if name == "participant_args":
        return ["--participant-args", ",".join(f"{key}={one}" for key, one in value.items())]
    if name in OPTIONS:
        return OPTIONS[name].words(value)
    return ["--gin-bindings", f"Submission.{name} = {value!r}"]


@pytest.mark.parametrize("entry", [pytest.param(entry, id=entry.name) for entry in fields(Submission)])
def test_every_setting_identifies_a_run_or_cannot_change_a_number(entry: Field[Any], finished: Path) -> None:
    if entry.name in ELSEWHERE:
        return
    if entry.name in NOT_STARTED:
        assert entry.name == "mode" or NEUTRAL[entry.name]
        return
    flags = flags_of(entry.name, other(entry, finished))
    if entry.name in NEUTRAL:
        assert again(finished, *flags) == 0
        return
    name = IN_MANIFEST.get(entry.name, entry.name)
    with pytest.raises(ConfigError, match=rf"holds another run: .*\b{name}\b.* was .*, now "):
        again(finished, *flags)


def test_the_same_question_returns_the_stored_result(finished: Path) -> None:
    assert set(NEUTRAL) < {entry.name for entry in fields(Submission)}
    before = (finished / "inference" / "manifest.json").read_bytes()
    assert again(finished) == 0
    assert (finished / "inference" / "manifest.json").read_bytes() == before


def test_python_refuses_the_result_of_a_weaker_run(finished: Path) -> None:
    with pytest.raises(ConfigError, match=r"holds another run: sandbox was process, now none") as caught:
        evaluate(finished.parent / "entry", finished, episodes=None, bindings=GIVEN, sandbox="none")
    assert "root_dir" in str(caught.value)
    assert "force" in str(caught.value)


@pytest.mark.parametrize(
    ("flags", "change"),
    [
        (["--sandbox", "none"], "sandbox was process, now none"),
        (["--sandbox", "process", "--launcher", "local:cpus=1"], "cpus was not given, now 1.0"),
        (["--sandbox", "process", "--memory-limit-bytes", "3G"], f"memory_limit_bytes was not given, now {3 * 2**30}"),
    ],
)
def test_the_command_refuses_a_changed_setting(flags: list[str], change: str, finished: Path) -> None:
    given = ("--submission", finished.parent / "entry", "--gin_config", "inference.gin", "--root_dir", finished)
    done = launch(*given, "--task", TASK, "--seed", "0", "--gin_bindings", *GIVEN, *flags, cwd=finished)
    assert done.returncode == 2
    assert f"holds another run: {change}\n" in done.stderr
    assert "--force" in done.stderr
    assert len(done.stderr.strip().splitlines()) <= 5


def test_flags_in_the_form_of_absl(finished: Path, tmp_path: Path) -> None:
    """On the finished run: a flag file, ``--noflag``, ``--flag=false``, and a verbosity that silences progress."""
    inner, outer = tmp_path / "inner.txt", tmp_path / "outer.txt"
    inner.write_text(f"# the run\n--submission={finished.parent / 'entry'}\n--task={TASK}\n--seed=0\n--force\n")
    bindings = "".join(f"--gin_bindings={binding}\n" for binding in GIVEN)
    outer.write_text(
        f"--flagfile={inner}\n--gin_config=inference.gin\n{bindings}--sandbox=process\n--public_seeds=true\n"
    )

    def ended(*words: str) -> tuple[int, str]:
        done = launch("--root_dir", finished, *words, cwd=tmp_path)
        return done.returncode, done.stdout + done.stderr

    status, output = ended(f"--flagfile={outer}", "--noforce", "-public_seeds=false")
    assert (status, "is already finished" in output) == (0, True), output
    assert ended("--flagfile", str(outer), "--noforce", "--nopublic_seeds", "--verbosity=-1") == (0, "")
    status, output = ended("--flagfile", str(outer), "--noforce")
    assert (status, "public_seeds was false, now true" in output) == (2, True), output
    status, output = ended("--flagfile", str(tmp_path / "nowhere"))
    assert (status, "flag file cannot be read" in output) == (2, True), output
    assert ended("--helpfull")[0] == 0


def test_a_run_that_reaches_its_time_limit_has_failed(tmp_path: Path) -> None:
    entry = write_submission(tmp_path / "entry", train="def train():\n    import time\n    time.sleep(600)\n")
    given = ("--gin_config", "training.gin", "--task", TASK, "--sandbox", "process", "--run-time-limit-s", "4")
    done = run_a2perf("run", "--submission", entry, "--root_dir", tmp_path / "root", *given, cwd=tmp_path)
    manifest = json.loads((tmp_path / "root" / "train" / "manifest.json").read_text())
    assert (done.returncode, manifest["state"], manifest["failure"]["kind"]) == (1, "failed", "timeout")
    assert "limit of 4 s" in manifest["failure"]["message"]
    assert "resume" not in done.stdout + done.stderr
    assert manifest["settings"]["run_time_limit_s"] == 4.0


def test_files_count_by_their_content(tmp_path: Path) -> None:
    """The same path with another content is another question."""
    entry, root, seeds = write_submission(tmp_path / "entry"), tmp_path / "root", tmp_path / "seeds.txt"
    bindings = (*BINDINGS, f"Submission.evaluation_seeds_file = {str(seeds)!r}")
    seeds.write_text("5\n6\n")
    first = evaluate(entry, root, bindings=bindings)
    assert first.run.manifest.settings["packages"].keys() == {"gymnasium", "numpy"}
    seeds.write_text("7\n8\n")
    with pytest.raises(ConfigError, match=r"evaluation_seeds_file was sha256:\w{12}, now sha256:\w{12}"):
        evaluate(entry, root, bindings=bindings)
    seeds.write_text("5\n6\n")
    a2perf.train(entry, TASK, root_dir=root, progress=False, sandbox="process")
    with pytest.raises(ConfigError, match=r"training_artifacts was not given, now sha256:\w{12}"):
        evaluate(entry, root, bindings=bindings)


def test_a_bundle_without_settings_stays_readable_and_is_not_returned(tmp_path: Path) -> None:
    entry, root = write_submission(tmp_path / "entry"), tmp_path / "root"
    result = evaluate(entry, root)
    file = root / "inference" / "manifest.json"
    older = {name: value for name, value in json.loads(file.read_text()).items() if name != "settings"}
    file.write_text(json.dumps(older))
    assert list(a2perf.read_run(root / "inference").returns) == list(result.returns)
    with pytest.raises(ConfigError, match="did not record its settings"):
        evaluate(entry, root)
