"""The settings that all runs of a benchmark matrix share: command or submission, version of the code, store."""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Sequence
from pathlib import Path

import msgspec

from a2perf.records import SCHEMA, Record, SubmissionIdentity
from a2perf.runs.bundle import now
from a2perf.runs.conditions import packages_of
from a2perf.runs.run_record import AutotagRecord, ExperimentRun, config_of, folder_name, user_name

PLAN_FOLDER = ".matrix"
_DIGEST_DIGITS = 6


class MatrixPlan(Record, kw_only=True):
    """Everything except environment and seed; written once to a file that the nodes of a cluster can read.

    Attributes:
        store_path: the store, absolute.
        cwd: working directory of the commands, absolute.
        words: the command, without ``--env-id`` and ``--seed``; of a submission, the flags of the evaluator.
        source: ``"command"`` or ``"submission"``.
        autotag: version of the code; None without the automatic tag.
        tags: tags of every new run.
        wandb_tags: value of ``WANDB_TAGS`` for the commands.
        alone: whether only one run executes at a time.
        resources: resources of each run that were asked for, by name.
    """

    schema: int = SCHEMA
    experiment: str
    store_path: str
    cwd: str
    words: list[str]
    source: str = "command"
    code: SubmissionIdentity
    autotag: AutotagRecord | None = None
    tags: list[str] = msgspec.field(default_factory=list)
    wandb_tags: str = ""
    alone: bool = False
    resources: dict[str, float] = msgspec.field(default_factory=dict)

    @property
    def store(self) -> Path:
        """The store's folder."""
        return Path(self.store_path)

    def digest(self) -> str:
        """Returns a hash of the command and its resources."""
        words = [*self.words, *(f"{name}={value:g}" for name, value in sorted(self.resources.items()))]
        return hashlib.sha256(shlex.join(words).encode()).hexdigest()

    def version(self) -> str:
        """Returns the name of the version's folder: the tag of the code and some digits of the command's hash."""
        code = self.autotag.tag if self.autotag is not None else f"untagged-{self.code.sha256[:12]}"
        return f"{folder_name(code)}-{self.digest()[:_DIGEST_DIGITS]}"

    def run_folder(self, env_id: str, seed: int) -> Path:
        """Returns the folder of a run."""
        return self.store / folder_name(self.experiment) / folder_name(env_id) / self.version() / f"seed_{seed}"

    def record(self, env_id: str, seed: int, words: Sequence[str]) -> ExperimentRun:
        """Returns ``rlops.json`` of a run."""
        config = {**config_of(words), "env_id": env_id, "seed": seed}
        config.setdefault("exp_name", self.experiment)
        return ExperimentRun(
            experiment=self.experiment,
            env_id=env_id,
            seed=seed,
            tags=list(self.tags),
            user=user_name(),
            config=config,
            source=self.source,
            command=list(words),
            version=self.autotag.tag if self.autotag is not None else self.version(),
            autotag=self.autotag,
            created_at=now(),
            packages=packages_of(words) if self.source == "command" else {},
        )

    def path(self) -> Path:
        """Returns the path of the plan; matrices with the same code and command share it."""
        return self.store / PLAN_FOLDER / f"{folder_name(self.experiment)}-{self.version()}.json"
