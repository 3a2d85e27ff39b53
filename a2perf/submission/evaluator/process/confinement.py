"""Chooses the sandbox and limits of a run's participant process from its settings, and records both.

A requested level or limit is provided or refused. A weaker one is used only if the settings allow it, and the manifest
then lists what is missing.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from a2perf.constants import BenchmarkMode
from a2perf.errors import ConfigError
from a2perf.records import SandboxRecord
from a2perf.sandbox import Limits, Sandbox, choose_sandbox
from a2perf.sandbox.limits import LEAST_SHARE_BYTES, PARALLEL_RUNS_VARIABLE, participants_bytes
from a2perf.submission.evaluator import seed_secret
from a2perf.submission.evaluator.submitted.folder_content import bundle_folder
from a2perf.submission.given_paths import settled
from a2perf.submission.settings import Submission
from a2perf.system import usable_processors

_PATH_VARIABLES = ("ROOT_DIR", "MINARI_DATASETS_PATH", "PYTHONPATH")
_ACCELERATORS = ("nvidia*", "nvidia-caps/*", "dri/renderD*", "kfd")


@dataclass(frozen=True, kw_only=True)
class ProvidedConfinement:
    """How a participant process is confined.

    Attributes:
        readable: paths that the participant may read in addition to its submission, its interpreter and a2perf.
        asked: the requested level; empty if it is the one in use.
        lost: requested properties that this host cannot provide, one phrase each.
    """

    sandbox: Sandbox
    limits: Limits = field(default_factory=Limits)
    readable: tuple[Path, ...] = ()
    hidden: tuple[Path, ...] = ()
    devices: tuple[Path, ...] = ()
    network: bool = False
    asked: str = ""
    lost: tuple[str, ...] = ()

    @property
    def record(self) -> SandboxRecord:
        """The entry of the manifest."""
        limits = asdict(self.limits)
        shares = limits.pop("memory_shares")
        how = f"derived from the host: 1/{shares} of {participants_bytes():,} bytes, at least {LEAST_SHARE_BYTES:,}"
        return SandboxRecord(
            level=self.sandbox.level,
            asked=self.asked or self.sandbox.level,
            network=self.network,
            limits={name: value for name, value in limits.items() if value is not None},
            derived={} if shares is None else {"memory_bytes": how},
            guarantees=self.sandbox.guarantees(network=self.network),
            missing=[*self.lost, *self.sandbox.missing(network=self.network)],
        )


def confinement(settings: Submission, environment: Mapping[str, str]) -> ProvidedConfinement:
    """Chooses the confinement of a run.

    Args:
        environment: the participant's variables of the contract; folders in them become readable.

    Raises:
        UserError: this host cannot provide the level or a limit, or a readable path does not exist.
    """
    limits = Limits(
        cpus=settings.cpu_limit,
        memory_bytes=settings.memory_limit_bytes or None,
        processes=settings.process_limit,
        artifact_bytes=settings.artifact_limit_bytes,
    )
    sandbox, lost = choose_sandbox(settings.sandbox, limits, allow_weaker=settings.allow_weaker)
    if settings.memory_limit_bytes is None and sandbox.level != "none":
        # Not a requested limit: where no control group enforces it, the guard samples, and the record lists that.
        at_once = int(os.environ.get(PARALLEL_RUNS_VARIABLE) or 1) * settings.concurrent_episodes
        if settings.mode is BenchmarkMode.GENERALIZATION:
            at_once *= parallel_tasks()
        share = max(LEAST_SHARE_BYTES, participants_bytes() // at_once)
        limits = replace(limits, memory_bytes=share, memory_shares=at_once)
    if sandbox.level != "none":
        names = {
            "memory_bytes": "using all memory of the host (Submission.memory_limit_bytes = 0)",
            "cpus": "using all processors that the evaluator may use (Submission.cpu_limit is not set)",
            "processes": "starting any number of processes (Submission.process_limit is not set)",
            "artifact_bytes": "filling the disk with artifacts (Submission.artifact_limit_bytes is not set)",
        }
        lost += [text for name, text in names.items() if getattr(limits, name) is None]
    given = [Path(name).expanduser().absolute() for name in settings.readable_paths]
    for path in given:
        if not settled(path, settings.folder, "Submission.readable_paths").exists():
            raise ConfigError(
                f"Submission.readable_paths: {path} does not exist", hint="correct the path or remove it from the list"
            )
    named = [
        Path(name)
        for variable in _PATH_VARIABLES
        for name in environment.get(variable, "").split(os.pathsep)
        if name.startswith("/") and os.path.isdir(name)
    ]
    return ProvidedConfinement(
        sandbox=sandbox,
        limits=limits,
        readable=(*given, *named),
        hidden=tuple(_secret(settings)),
        devices=tuple(sorted(path for name in _ACCELERATORS for path in Path("/dev").glob(name) if not path.is_dir())),
        network=settings.network,
        asked=settings.sandbox,
        lost=tuple(lost),
    )


def parallel_tasks() -> int:
    """Returns how many tasks of a generalization run are evaluated at the same time: one per two processors."""
    return max(1, usable_processors() // 2)


def _secret(settings: Submission) -> Iterator[Path]:
    """Yields paths with seeds or results: the run's folder, the evaluator's secret, the organizer's files."""
    yield settings.root.absolute()
    for hidden in settings.hidden_paths:
        yield settled(hidden, settings.folder, "Submission.hidden_paths")
    yield settled(settings.root, settings.folder, "the root directory")
    if seed_secret.place().exists():
        yield seed_secret.place()
    inside = bundle_folder(settings.folder.resolve(), settings.root)
    if inside is not None:  # it also contains the bundles of other seeds and tasks
        yield settings.folder.resolve() / inside
    for name in ("metric_values_dir", "evaluation_seeds_file", "held_out_task"):
        given = getattr(settings, name)
        if given is not None:
            yield settled(given, settings.folder, f"Submission.{name}")
    for service in settings.services or ():
        for given in service.hidden_paths():
            yield settled(given, settings.folder, f"a file of the {service.name}")
