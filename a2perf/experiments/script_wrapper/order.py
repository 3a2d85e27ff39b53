"""What the wrapper asks of its child process, and what that says in return."""

from __future__ import annotations

from typing import Any

import msgspec

from a2perf.records import SCHEMA, Record

ORDER = "order.json"
REPORT = "wrap.json"


class ScriptOrder(Record, kw_only=True):
    """What to run.

    Attributes:
        script: absolute path of the script.
        env: name of the environment that ``main`` gets.
        seed: the seed.
        arguments: the script's own command line.
        folder: where everything is written.
        test_episodes: episodes after the training.
        videos: rollout videos after the training.
        mirror: project of Weights & Biases to mirror the values to; empty for none.
        mirror_entity: its entity.
    """

    script: str
    env: str
    seed: int
    arguments: list[str] = msgspec.field(default_factory=list)
    folder: str
    test_episodes: int = 25
    videos: int = 5
    mirror: str = ""
    mirror_entity: str = ""


class ScriptReport(Record, kw_only=True):
    """``wrap.json``: what a wrapped script did, in the words of its own process; none of it was measured from outside.

    Attributes:
        phase: how far it came: ``"start"``, ``"import"``, ``"main"``, ``"collecting"``, ``"done"``.
        error: the exception that ended the script, or None.
        kind: ``"exception"`` or ``"exit"``, where there is an error.
        traceback: of that exception, from the script on.
        train_wall_s: seconds of importing the script and running ``main``.
        seeded: what was seeded.
        logger: classes whose values were recorded.
        episodes: episodes of the environment that counts as that of the training.
        steps: environment steps of them.
        episodes_of: which environment that is and why, and what the others are.
        values: number of recorded values by tag.
        refused: values by tag that were no single number.
        collected: what each collector found, or what it looked for in vain.
        summary: numbers that collectors found.
        environment: id, entry point and limits of the environment.
        notes: what a reader should know.
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
    summary: dict[str, Any] = msgspec.field(default_factory=dict)
    environment: dict[str, Any] = msgspec.field(default_factory=dict)
    notes: list[str] = msgspec.field(default_factory=list)
