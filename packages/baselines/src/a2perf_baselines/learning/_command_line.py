"""``python train.py --env-id ID --output FOLDER``: a training run without an evaluator."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from a2perf.constants import ExitCode
from a2perf.errors import ConfigError, UserError
from a2perf_baselines.learning._run import FOLDER_VARIABLE
from a2perf_baselines.learning._settings import ID_VARIABLE, KWARGS_VARIABLE


def main(train: Callable[..., None], arguments: Sequence[str] | None = None) -> None:
    """Runs ``train`` as a command.

    Args:
        train: ``train`` of the submission.
        arguments: command-line arguments; by default those of this process.

    Raises:
        SystemExit: always; with status 2 and no traceback for errors that the caller can fix.
    """
    parser = argparse.ArgumentParser(description="Train without an evaluator. The same command again resumes.")
    parser.add_argument("--env-id", required=True, help="registered id, see `a2perf envs list`")
    parser.add_argument("--env-kwargs", default="{}", help="its arguments, as JSON")
    parser.add_argument("--output", required=True, type=Path, help="folder for the files of the training run")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("settings", nargs="*", metavar="NAME=VALUE", help="settings that differ from the task's")
    given = parser.parse_args(arguments)
    try:
        settings = dict(_pair(text) for text in given.settings)
        _checked_json(given.env_kwargs)
        given.output.mkdir(parents=True, exist_ok=True)
        os.environ.update(
            {
                FOLDER_VARIABLE: str(given.output.absolute()),
                "ROOT_DIR": str(given.output.absolute()),
                ID_VARIABLE: given.env_id,
                KWARGS_VARIABLE: given.env_kwargs,
                "SEED": str(given.seed),
            }
        )
        train(**settings)
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        raise SystemExit(int(error.exit_code)) from None
    raise SystemExit(int(ExitCode.SUCCESS))


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise ConfigError(f"{text!r} is not a setting", hint="write NAME=VALUE")
    return name, value


def _checked_json(text: str) -> None:
    try:
        if isinstance(json.loads(text), dict):
            return
    except ValueError:
        pass
    raise ConfigError(f"--env-kwargs {text!r} is not a JSON object", hint="""write it as '{"mode": "train"}'""")
