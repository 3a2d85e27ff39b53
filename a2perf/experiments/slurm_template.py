"""Slurm templates of the earlier benchmark tool: an array job over environments and seeds, filled in and submitted.

The index ``k`` of the array stands for environment ``k / len_seeds`` and seed ``k % len_seeds``. Placeholders:
``{{array}}``, ``{{env_ids}}``, ``{{seeds}}``, ``{{len_seeds}}``, ``{{command}}``, ``{{gpus_per_task}}``,
``{{cpus_per_gpu}}``, ``{{ntasks}}``, ``{{nodes}}``. The command is executed by the store's recorder, and the runs of a
cluster are stored like all others.
"""

from __future__ import annotations

import math
import re
import shlex
import subprocess
import sys
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from a2perf.errors import InfrastructureError, MissingDependency, UserError
from a2perf.experiments.benchmark_matrix import BenchmarkMatrix
from a2perf.storage import write_atomic, write_record

_PLACEHOLDER = re.compile(r"\{\{(\w+)\}\}")
_SUBMIT_TIMEOUT_S = 60.0


@dataclass(frozen=True)
class SlurmShape:
    """Resources of the array job.

    Attributes:
        gpus_per_task: graphics processors per task.
        total_cpus: processors for all graphics processors of a task.
        ntasks: number of tasks.
        nodes: number of nodes.
    """

    gpus_per_task: int | None = None
    total_cpus: int | None = None
    ntasks: int | None = None
    nodes: int | None = None


def fill_in(template: Path, matrix: BenchmarkMatrix, shape: SlurmShape, workers: int, env_ids: Sequence[str]) -> str:
    """Returns the filled-in template.

    Args:
        template: the template.
        matrix: the matrix; its plan contains the command.
        shape: resources; those that the template names are required.
        workers: maximum number of concurrent tasks; 0 for no limit.
        env_ids: the environments, in the order of the array.

    Raises:
        UserError: the template cannot be read, has an unknown placeholder, or one without a value.
    """
    try:
        text = template.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(
            f"the template {template} cannot be read ({error})", hint="check --slurm-template-path"
        ) from error
    plan = matrix.plan
    seeds = list(dict.fromkeys(run.seed for run in matrix.runs))
    recorder = [sys.executable, "-P", "-m", "a2perf.experiments.command_run", str(plan.path()), "--", *plan.words]
    values: dict[str, str | None] = {
        "array": f"0-{len(matrix.runs) - 1}" + (f"%{workers}" if workers else ""),
        "env_ids": f"({' '.join(env_ids)})",
        "seeds": f"({' '.join(map(str, seeds))})",
        "len_seeds": str(len(seeds)),
        "command": shlex.join(recorder),
        "gpus_per_task": _text(shape.gpus_per_task),
        "cpus_per_gpu": _cpus_per_gpu(shape),
        "ntasks": _text(shape.ntasks),
        "nodes": _text(shape.nodes),
    }

    def value(found: re.Match[str]) -> str:
        name = found[1]
        if name not in values:
            raise UserError(
                f"the template {template} has the unknown placeholder {{{{{name}}}}}",
                hint=f"use one of: {', '.join(values)}",
            )
        given = values[name]
        if given is None:
            needs = "--slurm-total-cpus, --slurm-gpus-per-task and --slurm-ntasks"
            flag = needs if name == "cpus_per_gpu" else f"--slurm-{name.replace('_', '-')}"
            raise UserError(f"the template {template} needs a value for {{{{{name}}}}}", hint=f"add {flag}")
        return given

    return _PLACEHOLDER.sub(value, text)


def submit(text: str, matrix: BenchmarkMatrix, folder: Path, *, really: bool) -> tuple[Path, str | None]:
    """Writes the job file ``<folder>/<uuid>.slurm`` and submits it.

    Args:
        text: the filled-in template.
        matrix: the matrix; its plan is written for the tasks.
        folder: folder for the job file.
        really: whether to submit it.

    Returns:
        The job file, and the job's id if it was submitted.

    Raises:
        MissingDependency: ``sbatch`` is not installed.
        InfrastructureError: ``sbatch`` refused the job.
    """
    path = folder / f"{uuid.uuid4()}.slurm"
    write_atomic(path, text)
    write_record(matrix.plan.path(), matrix.plan)
    if not really:
        return path, None
    try:
        done = subprocess.run(
            ["sbatch", "--parsable", str(path)], capture_output=True, text=True, timeout=_SUBMIT_TIMEOUT_S, check=False
        )
    except FileNotFoundError as error:
        raise MissingDependency(
            f"sbatch is not on PATH; {path} was written but not submitted", hint="submit it from a Slurm login node"
        ) from error
    except subprocess.TimeoutExpired as error:
        raise InfrastructureError(f"sbatch has not answered for {_SUBMIT_TIMEOUT_S:g} s") from error
    if done.returncode != 0:
        raise InfrastructureError(f"sbatch refused {path}: {done.stderr.strip()}")
    return path, done.stdout.strip()


def _cpus_per_gpu(shape: SlurmShape) -> str | None:
    if not shape.total_cpus or not shape.gpus_per_task or not shape.ntasks:
        return None
    return str(math.ceil(shape.total_cpus / (shape.gpus_per_task * shape.ntasks)))


def _text(value: int | None) -> str | None:
    return None if value is None else str(value)
