"""The folder of a wrapped script's run in the experiment store, and its record there."""

from __future__ import annotations

import hashlib
import os
import sys
from pathlib import Path

from a2perf.experiments.autotag import autotag
from a2perf.experiments.script_wrapper.run import Wrapping
from a2perf.runs.bundle import now
from a2perf.runs.conditions import packages_of
from a2perf.runs.run_record import RUN_FILE, ExperimentRun, config_of, folder_name, user_name
from a2perf.runs.store import store_folder
from a2perf.storage import sha256_of, write_record


def new_run_folder(wanted: Wrapping, store: str | None) -> Path:
    """Returns the folder of the run with these arguments, which is always the same, and writes its record there.

    The version is that of the script's repository; the six digits after it distinguish scripts and arguments within
    one version.

    Raises:
        UserError: the script does not exist, or the folder cannot be written.
    """
    from a2perf.experiments.script_wrapper.instrument import instrument

    instrument(wanted.script)
    tagged = autotag(wanted.script.resolve().parent, os.environ)
    words = "\0".join([sha256_of(wanted.script), *wanted.arguments])
    version = f"{folder_name(tagged.tag)}-{_digest(words)}"
    root = (
        store_folder(store)
        / folder_name(wanted.script.stem)
        / folder_name(wanted.env)
        / version
        / f"seed_{wanted.seed}"
    )
    if not (root / RUN_FILE).exists():
        root.mkdir(parents=True, exist_ok=True)
        record = ExperimentRun(
            experiment=wanted.script.stem,
            env_id=wanted.env,
            seed=wanted.seed,
            tags=[tagged.tag, *([tagged.pull_request] if tagged.pull_request else [])],
            user=user_name(),
            config=config_of(wanted.arguments),
            source="script",
            command=wanted.command(),
            version=version,
            autotag=tagged,
            created_at=now(),
            packages=packages_of([sys.executable]),
        )
        write_record(root / RUN_FILE, record)
    return root


def _digest(words: str) -> str:
    return hashlib.sha256(words.encode()).hexdigest()[:6]
