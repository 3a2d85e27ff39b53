"""Imports a submission's code and makes it callable.

Runs in the participant process. Ordinary submissions need the standard library only.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from a2perf.submission.participant import loader
from a2perf.submission.participant.forms import form_of
from a2perf.submission.participant.signatures import (
    BATCH_ATTRIBUTE,
    FILES,
    INFER_BATCH,
    INFER_ONCE,
    LOAD_POLICY,
    PREPROCESS,
    REPORT_CONFIDENCE,
    TRAIN,
    ContractError,
    Role,
    accepted_args,
    check_infer_once,
    check_load_policy,
    check_preprocess,
    find,
    signature_of,
)


@dataclass(frozen=True)
class InferenceFunctions:
    """The functions of inference.py. Calls are kept as direct as possible, because they are timed.

    Attributes:
        report_confidence: called with the policy after an episode; None if the submission does not define it.
        infer_batch: called with the policy and the observations of several episodes; None without it.
    """

    load_policy: Callable[[Any, Mapping[str, str]], Any]
    report_confidence: Callable[[Any], Any] | None
    infer_batch: Callable[[Any, Any], Any] | None
    _preprocess: Callable[..., Any]
    _takes_time_step_spec: bool
    _infer_once: Callable[..., Any]
    _infer_keywords: tuple[str, str] | None

    def bind(self, policy: Any) -> tuple[Callable[[Any], Any], Callable[[Any], Any], Callable[[Any], Any] | None]:
        """Returns the functions of one argument for a loaded policy.

        They are ``preprocess(observation)``, ``infer(preprocessed_observation)`` and ``infer_batch(observations)``.
        """
        preprocess, infer_once = self._preprocess, self._infer_once
        if self._takes_time_step_spec:
            plain, spec = preprocess, getattr(policy, "time_step_spec", None)

            def preprocess(observation: Any) -> Any:
                return plain(observation, time_step_spec=spec)

        batch = None if self.infer_batch is None else functools.partial(self.infer_batch, policy)
        if self._infer_keywords is None:
            return preprocess, lambda observation: infer_once(policy, observation), batch
        policy_name, observation_name = self._infer_keywords
        return preprocess, lambda observation: infer_once(**{policy_name: policy, observation_name: observation}), batch


class SubmissionCode:
    """A submission's code, imported on demand."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.package = loader.install(folder)
        self.form = form_of(folder)

    def require_files(self) -> None:
        """Checks that the four files exist, or the one of another form.

        Raises:
            ContractError: the folder or files are missing; the message lists all of them.
        """
        if self.form is not None:
            return
        missing = [] if self.folder.is_dir() else [f"the submission {self.folder} does not exist"]
        hints = []
        for name, hint in FILES.items():
            if self.folder.is_dir() and not (self.folder / name).is_file():
                missing.append(f"{name} is missing")
                hints.append(hint)
        if missing:
            raise ContractError("; ".join(missing), "; ".join(hints) or "give the folder that contains train.py")

    def train(self, args: Mapping[str, str]) -> Callable[[], Any]:
        """Imports train.py and returns ``train`` with its arguments bound; other forms have nothing to train.

        Raises:
            ContractError: the function is missing or does not accept the arguments.
        """
        if self.form is not None:
            return lambda: None
        function = find(importlib.import_module("train"), TRAIN)
        keywords = accepted_args("train", signature_of(function), args)
        return lambda: function(**keywords)

    def inference(self) -> InferenceFunctions:
        """Imports inference.py, or the file of another form with its adapter, and returns the functions.

        Raises:
            ContractError: functions are missing or have a wrong signature; the message lists all of them.
        """
        module = importlib.import_module("inference") if self.form is None else self._adapted()
        found: dict[str, Callable[..., Any]] = {}
        errors: list[ContractError] = []
        optional = [role for role in (REPORT_CONFIDENCE, INFER_BATCH) if hasattr(module, role.names[0])]
        for role in (LOAD_POLICY, PREPROCESS, INFER_ONCE, *optional):
            try:
                found[role.names[0]] = find(module, role)
            except ContractError as error:
                errors.append(error)
        if errors:
            hints = "; ".join(error.hint for error in errors if error.hint)
            raise ContractError("; ".join(error.message for error in errors), hints)
        load, infer_once = found["load_policy"], found["infer_once"]
        signature = signature_of(load)
        env_name = check_load_policy(signature)
        infer_keywords = check_infer_once(signature_of(infer_once))

        def load_policy(env: Any, args: Mapping[str, str]) -> Any:
            keywords = accepted_args(load.__name__, signature, args, env=True)
            return load(env, **keywords) if env_name is None else load(**{env_name: env}, **keywords)

        preprocess = found["preprocess_observation"]
        return InferenceFunctions(
            load_policy,
            found.get(REPORT_CONFIDENCE.names[0]),
            found.get(INFER_BATCH.names[0], getattr(infer_once, BATCH_ATTRIBUTE, None)),
            preprocess,
            check_preprocess(signature_of(preprocess)),
            infer_once,
            infer_keywords,
        )

    def _adapted(self) -> Any:
        """Imports the file of another form and returns what its adapter makes of the function."""
        assert self.form is not None
        from a2perf.domains.registry import load_attribute  # ordinary submissions do without it

        role = Role(self.form.file, (self.form.function,), self.form.expected)
        function = find(importlib.import_module(self.form.file.removesuffix(".py")), role)
        return load_attribute(self.form.adapter)(function)
