"""Bundles of other platforms, unmodified: a Codabench ``competition.yaml`` and an EvalAI ``challenge_config.yaml``.

The programs of the bundle and the code of the submission run in namespaces of bubblewrap, with the paths that the
original workers give them, without network, within the limits of the level ``process``. As there, a submission shares a
process with the ingestion program and can read its input data; the reference data are only there for scoring.
"""

from __future__ import annotations

import contextlib
import datetime
import math
import shlex
import shutil
import sys
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import yaml

from a2perf.errors import ConfigError, InfrastructureError, UserError
from a2perf.sandbox import Limits, SandboxSpec, get_sandbox
from a2perf.storage import parse_json
from a2perf.stranger_files import printable, read_regular_file
from a2perf_competition.hosted import Phase

CODABENCH, EVALAI = "competition.yaml", "challenge_config.yaml"
SCORES = "scores.json"
LIMITS = Limits(memory_bytes=4 << 30, processes=512, artifact_bytes=4 << 30, cpus=1.0)
_DATA = ("ingestion_program", "scoring_program", "input_data", "reference_data")
_MAX_BYTES = 16 << 20
_VARIABLES = {
    "$submission_program": "/app/ingested_program",
    "$ingestion_program": "/app/program",
    "$predictions": "/app/output",
    "$program": "/app/program",
    "$output": "/app/output",
}
_EVALUATE = (
    "import inspect, json, sys; sys.path.insert(0, '/app'); from program import evaluate\n"
    "found = evaluate(*sys.argv[1:4], submission_metadata={})\n"
    "json.dump(found, open('/app/output/scores.json', 'w'))"
)


@dataclass(frozen=True)
class BundleTask:
    """A task of a phase; ``parts`` holds its programs and data by the name in the bundle."""

    phase: str
    name: str
    parts: Mapping[str, Path]
    codename: str = ""
    wall_s: float = 1200.0


@dataclass(frozen=True)
class Bundle:
    """A bundle.

    Attributes:
        phases: blind ones do not show their scores.
        image: container image that the original worker uses; empty for EvalAI.
        metric: the score that ranks.
        ascending: whether a smaller score is better.
        notes: what of the bundle is not supported.
    """

    title: str
    tasks: Sequence[BundleTask]
    phases: Sequence[Phase]
    image: str = ""
    metric: str = ""
    ascending: bool = False
    notes: list[str] = field(default_factory=list)


def read_bundle(folder: Path) -> Bundle:
    """Reads a bundle and checks that its programs exist.

    Raises:
        ConfigError: it is neither kind of bundle, or a file or a part of its description is missing.
    """
    folder = folder.resolve()
    name = next((name for name in (CODABENCH, EVALAI) if (folder / name).is_file()), None)
    if name is None:
        raise ConfigError(f"{folder} holds neither {CODABENCH} nor {EVALAI}", hint="give the unpacked bundle")
    try:
        described = yaml.safe_load((folder / name).read_text(encoding="utf-8"))
        found = _codabench(folder, described) if name == CODABENCH else _evalai(folder, described)
    except (yaml.YAMLError, UnicodeDecodeError, LookupError, TypeError, AttributeError, ValueError) as error:
        text = f"{type(error).__name__}: {error}".partition("\n")[0]
        raise ConfigError(
            f"{folder / name} cannot be read: {text}", hint="see the documentation of its platform"
        ) from error
    for task in found.tasks:
        for part, path in task.parts.items():
            if not path.exists():
                raise ConfigError(f"{name}: {part} of the task {task.name!r} is missing: {path}", hint="add the file")
    for phase in found.phases:
        if phase.starts >= phase.ends:
            raise ConfigError(f"{name}: the phase {phase.name!r} ends before it starts", hint="correct its dates")
    return found


def _codabench(folder: Path, described: Mapping[str, Any]) -> Bundle:
    notes = [
        f"{key} is left out"
        for key in ("fact_sheet", "queue", "make_programs_available", "enable_detailed_results", "reward")
        if described.get(key)
    ]
    known = {task["index"]: task for task in described["tasks"]}
    tasks = []
    for phase in described["phases"]:
        for index in phase["tasks"]:
            task = known[index]
            parts = {part: folder / str(task[part]) for part in _DATA if task.get(part)}
            if "scoring_program" not in parts:
                raise ValueError(f"the task {task['name']!r} has no scoring_program")
            wall_s = float(phase.get("execution_time_limit") or 1200)
            tasks.append(BundleTask(str(phase["name"]), str(task["name"]), parts, wall_s=wall_s))
            if task.get("ingestion_only_during_scoring"):
                raise ValueError("ingestion_only_during_scoring runs two programs at the same time")
        for key in ("auto_migrate_to_this_phase", "max_submissions", "starting_kit", "public_data"):
            if phase.get(key):
                notes.append(f"{key} of the phase {phase['name']} is left out")
    board: dict[str, Any] = next(iter(described.get("leaderboards") or described.get("leaderboard") or []), {})
    column: dict[str, Any] = next(iter(board.get("columns", [])), {})
    if len(board.get("columns", [])) > 1:
        notes.append(f"the rank is that of the column {column.get('key')}; other columns stay in scores.json")
    return Bundle(
        title=str(described["title"]),
        tasks=tasks,
        phases=[_phase(one, one.get("start"), one.get("end")) for one in described["phases"]],
        image=str(described.get("docker_image", "codalab/codalab-legacy:py37")),
        metric=str(column.get("key", "")),
        ascending=column.get("sorting") == "asc",
        notes=notes,
    )


def _evalai(folder: Path, described: Mapping[str, Any]) -> Bundle:
    if described.get("remote_evaluation"):
        raise ValueError("remote_evaluation runs on machines of the organizer")
    script = folder / str(described["evaluation_script"])
    tasks, phases = [], []
    notes = ["an entry holds one file, which evaluate() gets"]
    for phase in described["challenge_phases"]:
        parts = {"scoring_program": script}
        if phase.get("test_annotation_file"):
            parts["reference_data"] = folder / str(phase["test_annotation_file"])
        tasks.append(BundleTask(str(phase["name"]), str(phase["codename"]), parts, str(phase["codename"])))
        is_blind = phase.get("leaderboard_public") is False
        phases.append(_phase(phase, phase.get("start_date"), phase.get("end_date"), is_blind=is_blind))
    schema = described["leaderboard"][0]["schema"]
    metric = str(schema["default_order_by"])
    about = schema.get("metadata", {}).get(metric, {})
    ascending = bool(about.get("sort_ascending"))
    return Bundle(str(described["title"]), tasks, phases, "", metric, ascending, notes)


def _phase(described: Mapping[str, Any], starts: Any, ends: Any, *, is_blind: bool = False) -> Phase:
    dates = {name: _date(given) for name, given in (("starts", starts), ("ends", ends)) if given is not None}
    return Phase(name=str(described["name"]), kind="blind" if is_blind else "development", **dates)


def _date(given: Any) -> datetime.datetime:
    """Returns a date of a bundle, which is in UTC if it has no time zone."""
    for pattern in ("%m-%d-%Y", "%m/%d/%Y"):
        with contextlib.suppress(ValueError):
            return datetime.datetime.strptime(str(given), pattern).replace(tzinfo=datetime.UTC)
    found = datetime.datetime.fromisoformat(str(given))
    return found if found.tzinfo else found.replace(tzinfo=datetime.UTC)


def python_of(bundle: Bundle) -> Path:
    """Returns the interpreter for a bundle that names no image: this one.

    Raises:
        ConfigError: it names an image.
    """
    if bundle.image:
        raise ConfigError(
            f"no Python environment stands for the image {bundle.image}",
            hint="name one with --python /path/to/environment/bin/python",
        )
    return Path(sys.executable)


def evaluate(task: BundleTask, submission: Path, out: Path, python: Path) -> dict[str, float]:
    """Evaluates a submission on a task and returns its scores by name; logs lie in ``out``.

    Raises:
        UserError: the submission, or for a scoring program the organizer's part, failed; the message states which.
        InfrastructureError: the host failed.
    """
    try:
        return _evaluate(task, submission, out, python)
    except (ValueError, LookupError, TypeError, AttributeError, OSError) as error:
        raise UserError(f"no scores: {type(error).__name__}: {printable(str(error))[:300]}") from error


def _evaluate(task: BundleTask, submission: Path, out: Path, python: Path) -> dict[str, float]:
    shutil.rmtree(out, ignore_errors=True)
    res, scores = out / "res", out / "output"
    res.mkdir(parents=True)
    scores.mkdir()
    parts = {part: _unzipped(path, out / part) for part, path in task.parts.items()}
    if task.codename:
        (file,) = [path for path in submission.rglob("*") if path.is_file()] or [submission]
        annotation = parts.get("reference_data", Path("/dev/null"))
        places = {"/app/program": parts["scoring_program"], "/app/annotation": annotation, "/app/submission": file}
        words = [str(python), "-c", _EVALUATE, "/app/annotation", "/app/submission", task.codename]
        _confined("the evaluation script", shlex.join(words), places, {"/app/output": scores}, out, python, task.wall_s)
        found = parse_json(read_regular_file(scores, SCORES, max_bytes=_MAX_BYTES), SCORES)
        splits = [values for one in found["result"] for values in one.values()]
        return _numbers(splits[0] if splits else {})
    result = submission
    if "ingestion_program" in parts:
        program, result = parts["ingestion_program"], res
        places = {"/app/program": program, "/app/ingested_program": submission}
        if "input_data" in parts:
            places["/app/input_data"] = parts["input_data"]
        command = _command(program, {"$input": "/app/input_data"})
        _confined("the submission", command, places, {"/app/output": res}, out, python, task.wall_s)
    program = parts["scoring_program"]
    places = {"/app/program": program, "/app/input/res": result}
    if "reference_data" in parts:
        places["/app/input/ref"] = parts["reference_data"]
    command = _command(program, {"$input": "/app/input"})
    _confined("the scoring program", command, places, {"/app/output": scores}, out, python, task.wall_s)
    if (scores / SCORES).is_file():
        return _numbers(parse_json(read_regular_file(scores, SCORES, max_bytes=_MAX_BYTES), SCORES))
    text = read_regular_file(scores, "scores.txt", max_bytes=_MAX_BYTES).decode()
    return _numbers(dict(line.split(":", 1) for line in text.splitlines() if ":" in line))


def _numbers(found: Mapping[str, Any]) -> dict[str, float]:
    numbers = {str(name).strip(): float(value) for name, value in found.items() if not isinstance(value, list | dict)}
    if not numbers or not all(map(math.isfinite, numbers.values())):
        raise ValueError("the scores hold no number, or one that is not finite")
    return numbers


def _unzipped(path: Path, folder: Path) -> Path:
    """Returns a part of the bundle as it is, or unpacked; the organizer chose the bundle."""
    if path.suffix != ".zip":
        return path
    with zipfile.ZipFile(path) as archive:
        archive.extractall(folder)
    inner = list(folder.iterdir())
    return inner[0] if len(inner) == 1 and inner[0].is_dir() and not (folder / "metadata").exists() else folder


def _command(program: Path, variables: Mapping[str, str]) -> str:
    file = next((program / name for name in ("metadata.yaml", "metadata") if (program / name).is_file()), None)
    command = None if file is None else (yaml.safe_load(file.read_text()) or {}).get("command")
    if not command:
        raise ValueError(f"{program.name} has no metadata with a command")
    for name, value in {**variables, **_VARIABLES}.items():
        command = command.replace(name, value)
    return str(command)


def _confined(
    who: str,
    command: str,
    shown: Mapping[str, Path],
    written: Mapping[str, Path],
    out: Path,
    python: Path,
    wall_s: float,
) -> None:
    program = shutil.which("bwrap")
    if program is None:
        raise InfrastructureError("the program bwrap is not on PATH", hint="install bubblewrap")
    options = [program, "--unshare-all", "--die-with-parent", "--new-session", "--cap-drop", "ALL", "--clearenv"]
    options += ["--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "--setenv", "HOME", "/tmp"]
    options += ["--setenv", "PATH", f"{python.parent}:/usr/local/bin:/usr/bin:/bin", "--setenv", "OMP_NUM_THREADS", "1"]
    installed = dict.fromkeys((str(python.parent.parent), str(python.resolve().parent.parent)))
    for path in ("/usr", "/bin", "/lib", "/lib64", "/etc/ld.so.cache", "/etc/alternatives", *installed):
        options += ["--ro-bind-try", path, path]
    for kind, places in (("--ro-bind", shown), ("--bind", written)):
        for target, source in places.items():
            options += [kind, str(source), target]
    log = out / f"{who.split()[1]}.log"
    spec = SandboxSpec(
        argv=[*options, "--chdir", "/app/program", "/bin/sh", "-c", command],
        cwd=out,
        env={},
        writable=[*written.values()],
        limits=replace(LIMITS, wall_s=wall_s),
        stdout=log,
        stderr=log.with_suffix(".err"),
    )
    ending = get_sandbox("process").start(spec).wait()
    assert ending is not None
    if ending.limit is not None:
        raise UserError(f"{who} exceeds the limit {ending.limit} of {ending.limit_value or 0:g}")
    if ending.exit_code != 0:
        lines = log.with_suffix(".err").read_text(errors="replace").strip().splitlines()[-1:] or ["no output"]
        status = f"status {ending.exit_code}" if ending.signal is None else f"signal {ending.signal}"
        raise UserError(f"{who} ended with {status}: {printable(lines[0])[:300]}")
