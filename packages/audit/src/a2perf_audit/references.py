"""``a2perf references``: measures floor and expert of an environment once, and writes them as a protocol's file."""

from __future__ import annotations

import contextlib
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from a2perf.errors import ConfigError, UserError
from a2perf.submission.options import normalised
from a2perf.submission.run_options import run_options
from a2perf_audit.command import arguments

if TYPE_CHECKING:  # the help lists this command: importing it must not import Gymnasium
    from a2perf.metrics.protocol import ProtocolTask, Reference
    from a2perf_audit.bench import Bench

FIRST_SEED = 1_000_000
"""Of the episodes that measure the random and the best trivial policy; others choose the latter."""
MOST_STORED = 8
"""Trivial policies in the file."""


@click.command(context_settings=normalised())
@click.argument("environment", metavar="ENV")
@click.option("--expert", metavar="SUBMISSION", required=True, help="Folder of a submission that solves it.")
@click.option("--env-kwargs", metavar="JSON", default="{}", help="Arguments of the environment.")
@click.option("--seeds", metavar="SEED,...", default="0,1,2,3,4", show_default=True, help="One expert run per seed.")
@click.option("--episodes", type=click.IntRange(5), default=20, show_default=True, help="Episodes per seed.")
@click.option(
    "--root-dir", metavar="DIR", help="Folder of the expert's runs; default: runs/<submission>/<environment>."
)
@click.option("--key", type=click.Path(path_type=Path), metavar="FILE", help="Private key that signs the file.")
@click.option("-o", "--output", type=click.Path(path_type=Path), metavar="FILE", help="Default: ENV-references.json.")
@run_options("sandbox", "allow_weaker")
def references(
    environment: str,
    expert: str,
    env_kwargs: str,
    seeds: str,
    episodes: int,
    root_dir: str | None,
    key: Path | None,
    output: Path | None,
    **options: Any,
) -> None:
    """Measure the scores that normalise returns of an environment: 0 is the best trivial policy, 1 the expert.

    \b
    Example:
      a2perf references CartPole-v1 --expert my_expert --key my_key
      A2PERF_PROTOCOLS=CartPole-v1-references.json a2perf report runs

    The expert runs as in `a2perf run`, and a finished run is not repeated. The trivial policies are those of `a2perf
    audit`; they act on the environment in this process. The file is a protocol: `A2PERF_PROTOCOLS` names it.
    """  # noqa: D301
    import msgspec

    from a2perf.metrics import protocol
    from a2perf.runs.signing import read_private_key, signed
    from a2perf.storage import json_text, write_atomic

    place = output or Path(f"{environment.replace('/', '-').replace(':', '-')}-references.json")
    if place.exists() or place.stem in protocol.names():
        raise ConfigError(f"{place} is a protocol that exists", hint="choose another name with --output")
    private = None if key is None else read_private_key(key)  # before minutes of runs
    words = ["a2perf", "references", environment, "--expert", expert, "--seeds", seeds, "--episodes", str(episodes)]
    words += ["--env-kwargs", env_kwargs] if env_kwargs != "{}" else []
    task = measured(
        environment,
        Path(expert),
        arguments(env_kwargs),
        _numbers(seeds),
        episodes,
        command=shlex.join(words),
        root_dir=root_dir,
        **options,
    )
    found = protocol.Protocol(
        schema=1,
        name=place.stem,
        summary=f"References of {environment}; no training run and no track.",
        tracks={},
        quick=protocol.Quick(seeds=1, episodes=1, timed_calls=1, warmup_calls=0, train_time_limit_s=0.0),
        tasks={task.name: task},
        generalization={},
    )
    if private is not None:
        covered = protocol.signed_bytes(json_text(msgspec.to_builtins(found)).encode())
        found = msgspec.structs.replace(found, signature=signed(private, covered))
    write_atomic(place, json_text(msgspec.to_builtins(found)).encode())
    for kind in ("random", "floor", "expert"):
        one = task.references[kind]
        click.echo(f"{kind:6}  {one.mean:.6g} [{one.low:.6g}, {one.high:.6g}]  {one.n} episodes of {one.policy}")
    click.echo(f"{place}: {'not signed' if private is None else 'signed'}; name it in {protocol.VARIABLE}")


def measured(
    environment: str,
    expert: Path,
    kwargs: dict[str, Any],
    seeds: Sequence[int],
    episodes: int,
    *,
    command: str,
    root_dir: str | None = None,
    **options: Any,
) -> ProtocolTask:
    """Measures random actions, the best trivial policy and an expert on equally many episodes.

    Args:
        expert: folder of a submission.
        episodes: per seed of the expert's runs.
        command: repeats the measurement.
        options: of the expert's runs, as ``a2perf.evaluate`` takes them.

    Raises:
        UserError: the expert is not better than the best trivial policy, or something cannot run.
    """
    import a2perf
    from a2perf.constants import LONGEST_EPISODE
    from a2perf.domains.any_environment import qualified_id
    from a2perf.metrics.protocol import Budget, Evaluation, ProtocolTask, Trivial
    from a2perf_audit.bench import Bench, Subject
    from a2perf_audit.policies import random_policy, trivial

    runs = a2perf.evaluate(
        expert, env=environment, env_kwargs=kwargs, seeds=seeds, episodes=episodes, root_dir=root_dir, **options
    )
    manifest = runs[0].run.manifest
    assert manifest is not None
    returns = [float(value) for run in runs for value in run.returns]
    bench = Bench(Subject(environment, kwargs, cap=LONGEST_EPISODE))
    with contextlib.closing(bench.env):
        known = bench.trivial
        random = _reference(_returns(bench, random_policy(bench.env), len(returns)), "random actions", command)
        best = _reference(
            _returns(bench, dict(trivial(bench.env))[known[0].name], len(returns)), known[0].name, command
        )
    floor = max(best, random, key=lambda reference: reference.mean)
    reference = _reference(returns, f"{runs[0].name} ({manifest.submission.sha256[:12]})", command, seeds)
    if reference.mean <= floor.mean:
        raise UserError(
            f"the expert's mean return {reference.mean:.6g} is not above {floor.mean:.6g} of {floor.policy}",
            hint="give a submission that solves the environment",
        )
    return ProtocolTask(
        name=manifest.task,
        domain=manifest.domain,
        env_id=qualified_id(str(manifest.env_id)),
        env_kwargs=kwargs,
        train_kwargs={},
        fingerprint=manifest.env_identity,
        core=True,
        training_seeds=list(seeds),
        budget=Budget(steps=0, energy_kwh=0.0, reason="no training"),
        evaluation=Evaluation(episodes=episodes, seeds="", seeds_sha256="", warmup_calls=0, timed_calls=0),
        thresholds=[0.5, 0.9],
        references={"random": random, "floor": floor, "expert": reference},
        trivial={
            mean.name: Trivial(mean.value, mean.value - mean.half, mean.value + mean.half, bench.subject.episodes)
            for mean in known[:MOST_STORED]
        },
    )


def _returns(bench: Bench, made: Any, count: int) -> list[float]:
    from a2perf_audit.episodes import play

    played = [play(bench.env, made(seed), seed, bench.cap) for seed in range(FIRST_SEED, FIRST_SEED + count)]
    if problem := next((one.problem for one in played if one.problem), ""):
        raise UserError(f"the environment fails with a trivial policy: {problem}", hint="correct the environment")
    return [one.total for one in played]


def _reference(returns: Sequence[float], policy: str, command: str, seeds: Sequence[int] = (FIRST_SEED,)) -> Reference:
    import numpy as np

    from a2perf.metrics.bootstrap import mean_interval
    from a2perf.metrics.protocol import Reference

    values = np.asarray(returns, np.float64)
    low, high = mean_interval(values)
    return Reference(
        mean=float(values.mean()),
        low=low,
        high=high,
        spread=float(values.std(ddof=1)),
        n=values.size,
        of="episodes",
        policy=policy,
        command=command,
        seeds=list(seeds),
    )


def _numbers(given: str) -> list[int]:
    try:
        return [int(word) for word in given.split(",")]
    except ValueError:
        raise ConfigError(f"--seeds: {given!r} is not a list of seeds", hint="write --seeds 0,1,2") from None
