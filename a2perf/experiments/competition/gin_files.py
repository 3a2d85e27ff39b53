"""The gin files of a competition: public, part of the commitment, and the same for every entrant.

The secret task and the seeds are bound on the command line, so the files reveal nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gin import config_parser

from a2perf.domains.registry import get_domain
from a2perf.errors import UserError
from a2perf.experiments.competition.records import CompetitionTerms

TRAINING, PUBLIC, SECRET = "training.gin", "inference.gin", "secret.gin"


def texts(terms: CompetitionTerms) -> dict[str, str]:
    """Returns every gin file by name: the training run and the evaluation on the public and on a secret task."""
    evaluation = {
        "num_inference_episodes": terms.episodes,
        "num_inference_steps": terms.latency_steps,
        "call_timeout_s": terms.call_timeout_s,
    }
    files = {
        PUBLIC: _text(terms, "INFERENCE", evaluation, with_task=True),
        SECRET: _text(terms, "INFERENCE", evaluation, with_task=False),
    }
    if terms.train:
        files[TRAINING] = _text(terms, "TRAIN", {"train_time_limit_s": terms.train_time_limit_s}, with_task=True)
    return files


def settings_in(text: str) -> dict[str, Any]:
    """Returns the bindings of a gin file by name, ``{"Submission.seed": 0}``; nothing is imported or evaluated.

    Raises:
        UserError: the text is not a gin file.
    """
    found: dict[str, Any] = {}
    try:
        for statement in config_parser.ConfigParser(text, _ConfigurableNames()):
            if isinstance(statement, config_parser.BindingStatement):
                selector = statement.selector.split(".")[-1]
                prefix = f"{statement.scope}/" if statement.scope else ""
                found[f"{prefix}{selector}.{statement.arg_name}"] = statement.value
    except (SyntaxError, ValueError, RecursionError) as error:
        raise UserError(f"not a gin file: {error}") from error
    return found


class _ConfigurableNames(config_parser.ParserDelegate):  # type: ignore[misc]
    """Keeps references as names instead of resolving them; constants lose their module."""

    def configurable_reference(self, scoped_configurable_name: str, evaluate: bool) -> str:
        return f"@{scoped_configurable_name}{'()' if evaluate else ''}"

    def macro(self, macro_name: str) -> str:
        return "%" + ".".join(macro_name.split(".")[-2:])


def _text(terms: CompetitionTerms, mode: str, own: Mapping[str, object], *, with_task: bool) -> str:
    settings = {
        **own,
        "load_timeout_s": terms.load_timeout_s,
        "memory_limit_bytes": terms.memory_limit_bytes,
        "record_frames": 4 if mode == "INFERENCE" else 0,
    }
    lines = [
        f"# Competition {terms.name!r}",
        "import a2perf.submission.submission_util",
        f"Submission.mode = %BenchmarkMode.{mode}",
        f"Submission.domain = {terms.domain!r}",
        *(f"Submission.{name} = {value!r}" for name, value in settings.items() if value is not None),
    ]
    if with_task:
        task = get_domain(terms.domain).task(terms.public_task)
        lines.append(f"create_domain.env_name = {task.env_id!r}")
        arguments = {**task.kwargs, **terms.environment_settings}
        lines += [f"create_domain.{name} = {value!r}" for name, value in arguments.items()]
    return "\n".join(lines) + "\n"
