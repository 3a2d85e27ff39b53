"""The request to run a script, which its child process reads, and the report that comes back."""

from __future__ import annotations

from pathlib import Path

import msgspec

from a2perf.records import SCHEMA, Record

ORDER = "order.json"
REPORT = "wrap.json"


class ScriptOrder(Record, kw_only=True):
    """The request; the child process gets absolute paths.

    Attributes:
        test_episodes: episodes after the training.
        videos: rollout videos after the training.
        mirror: project of Weights & Biases to mirror the values to; empty for none.
    """

    script: str
    env: str
    seed: int
    arguments: list[str] = msgspec.field(default_factory=list)
    folder: str = ""
    sandbox: str = "process"
    test_episodes: int = 25
    videos: int = 5
    time_limit_s: float | None = None
    mirror: str = ""
    mirror_entity: str = ""

    @property
    def path(self) -> Path:
        """Path of the script."""
        return Path(self.script)

    def command(self) -> list[str]:
        """Returns a command that repeats the run."""
        limit = [] if self.time_limit_s is None else ["--run-time-limit-s", f"{self.time_limit_s:g}"]
        return [
            *("a2perf", "wrap", self.script, "--env", self.env, "--seed", str(self.seed), "--sandbox", self.sandbox),
            *("--test-episodes", str(self.test_episodes), "--videos", str(self.videos), *limit),
            *(["--", *self.arguments] if self.arguments else []),
        ]


class ScriptReport(Record, kw_only=True):
    """``wrap.json``: the report of a wrapped script by its own process; nothing in it was measured from outside.

    Attributes:
        phase: last phase: ``"start"``, ``"import"``, ``"main"``, ``"collecting"``, ``"done"``.
        kind: ``"exception"`` or ``"exit"``, if there is an error.
        train_wall_s: seconds of importing the script and running ``main``.
        episodes: number of episodes in the environment of the training.
        steps: environment steps of these episodes.
        episodes_of: which environment that is and why, and the other environments.
        refused: values by tag that were not a single number.
        collected: the result of each collector, or why it has none.
    """

    schema: int = SCHEMA
    phase: str
    error: str | None = None
    kind: str | None = None
    traceback: str | None = None
    train_wall_s: float = 0.0
    seeded: list[str] = msgspec.field(default_factory=list)
    logger: list[str] = msgspec.field(default_factory=list)
    episodes: int = 0
    steps: int = 0
    episodes_of: list[str] = msgspec.field(default_factory=list)
    values: dict[str, int] = msgspec.field(default_factory=dict)
    refused: dict[str, int] = msgspec.field(default_factory=dict)
    collected: dict[str, str] = msgspec.field(default_factory=dict)
    notes: list[str] = msgspec.field(default_factory=list)
