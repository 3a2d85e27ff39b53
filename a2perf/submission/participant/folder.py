"""A submission's folder: what must be in it, what is wrong with it, and its functions ready to call.

``problems`` reads the source and runs nothing of it, so the evaluator may call it. ``Participant`` imports the code and
belongs into the participant process; it imports only what the mode needs. Standard library only.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from a2perf.submission.participant import loader
from a2perf.submission.participant.signatures import (
    INFER_ONCE,
    LOAD_POLICY,
    PREPROCESS,
    TRAIN,
    ContractError,
    accepted_args,
    check_infer_once,
    check_load_policy,
    check_preprocess,
    find,
    signature_of,
)

FILES = {
    "train.py": "write train.py with `def train(**participant_args):`",
    "inference.py": "write inference.py with load_policy, preprocess_observation and infer_once",
    "requirements.txt": "list what the submission needs in requirements.txt; it may be empty",
    "__init__.py": "add an empty __init__.py",
}
"""The files of a submission and how to fix the lack of each."""

_MAX_SOURCE_BYTES = 2**20


@dataclass(frozen=True)
class Problem:
    """One thing that keeps a folder from being a submission.

    Attributes:
        file: the file's name within the folder, or the folder.
        line: line number, where there is one.
        message: what is wrong.
        hint: what to do about it.
    """

    file: str
    message: str
    line: int | None = None
    hint: str | None = None

    def __str__(self) -> str:
        place = self.file if self.line is None else f"{self.file}:{self.line}"
        return f"{place}: {self.message}" + ("" if self.hint is None else f"\n  hint: {self.hint}")


def problems(folder: Path, mode: str | None = None) -> list[Problem]:
    """Returns everything that is statically wrong with a submission, without running any of it.

    Args:
        folder: the submission.
        mode: ``"train"`` looks into train.py only, other modes into inference.py only, ``None`` into both. All four
            files must exist in every mode.
    """
    top = folder.resolve()
    if not top.is_dir():
        kind = "is not a folder" if top.exists() else "does not exist"
        return [Problem(str(folder), f"the submission {kind}", hint="give the folder that holds train.py")]
    try:
        with os.scandir(top) as names:
            empty = all(item.name == "__pycache__" for item in names)
    except OSError as error:
        return [Problem(str(folder), f"the submission cannot be read: {error.strerror}", hint="change its mode")]
    if empty:
        return [Problem(str(folder), "the submission is empty", hint=f"`a2perf init {folder}` fills it")]
    found: list[Problem] = []
    for name in FILES:
        wanted = mode is None or name == "__init__.py" or (name == "train.py") == (mode == "train")
        found.extend(_file_problems(top, name, parse=wanted and name.endswith(".py")))
    return found


def _file_problems(top: Path, name: str, *, parse: bool) -> Iterator[Problem]:
    # Not needed beside the untrusted code, where this module is imported too.
    from a2perf.stranger_files import BoundExceeded, StrangerFileError, open_regular, read_regular_file
    from a2perf.submission.participant.source_problems import findings

    if not os.path.lexists(top / name):
        yield Problem(name, "is missing", hint=FILES[name])
        return
    real = Path(os.path.realpath(top / name))
    if not real.is_relative_to(top):
        yield Problem(name, "is a link that leads out of the submission", hint="copy the file into the folder")
        return
    relative = real.relative_to(top)
    try:
        os.close(open_regular(top, relative))
        source = read_regular_file(top, relative, max_bytes=_MAX_SOURCE_BYTES) if parse else b""
    except BoundExceeded:
        yield Problem(name, f"is larger than {_MAX_SOURCE_BYTES // 2**20} MiB", hint="keep data in files of its own")
    except StrangerFileError as error:
        yield Problem(name, f"is not a file that can be read: {error.message}", hint=FILES[name])
    else:
        if source or (parse and name != "__init__.py"):
            yield from (Problem(name, *finding) for finding in findings(name, source))


@dataclass(frozen=True)
class Inference:
    """The functions of inference.py behind the plainest possible calls, since they are on the timed path.

    Attributes:
        load_policy: called with the environment and the participant arguments.
    """

    load_policy: Callable[[Any, Mapping[str, str]], Any]
    _preprocess: Callable[..., Any]
    _takes_time_step_spec: bool
    _infer_once: Callable[..., Any]
    _infer_keywords: tuple[str, str] | None

    def bind(self, policy: Any) -> tuple[Callable[[Any], Any], Callable[[Any], Any]]:
        """Returns ``preprocess(observation)`` and ``infer(preprocessed_observation)`` for a loaded policy."""
        preprocess, infer_once = self._preprocess, self._infer_once
        if self._takes_time_step_spec:
            plain, spec = preprocess, getattr(policy, "time_step_spec", None)

            def preprocess(observation: Any) -> Any:
                return plain(observation, time_step_spec=spec)

        if self._infer_keywords is None:
            return preprocess, lambda observation: infer_once(policy, observation)
        policy_word, observation_word = self._infer_keywords
        return preprocess, lambda observation: infer_once(**{policy_word: policy, observation_word: observation})


class Participant:
    """A submission's code, imported on demand.

    Args:
        folder: the submission; it becomes importable in this process.

    Attributes:
        package: the folder's name as a package.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.package = loader.install(folder)

    def require_files(self) -> None:
        """Checks that the four files are there.

        Raises:
            ContractError: the folder or some of its files are missing; every one is named.
        """
        missing = [] if self.folder.is_dir() else [f"the submission {self.folder} does not exist"]
        mends = []
        for name, hint in FILES.items():
            if self.folder.is_dir() and not (self.folder / name).is_file():
                missing.append(f"{name} is missing")
                mends.append(hint)
        if missing:
            raise ContractError("; ".join(missing), "; ".join(mends) or "give the folder that holds train.py")

    def train(self, args: Mapping[str, str]) -> Callable[[], Any]:
        """Imports train.py and returns ``train`` with its arguments in place.

        Raises:
            ContractError: the function is missing or does not take the arguments.
        """
        function = find(importlib.import_module("train"), TRAIN)
        keywords = accepted_args("train", signature_of(function), args)
        return lambda: function(**keywords)

    def inference(self) -> Inference:
        """Imports inference.py and returns its functions.

        Raises:
            ContractError: the functions that are missing or have a wrong signature, all of them at once.
        """
        module = importlib.import_module("inference")
        found: dict[str, Callable[..., Any]] = {}
        errors: list[ContractError] = []
        for role in (LOAD_POLICY, PREPROCESS, INFER_ONCE):
            try:
                found[role.names[0]] = find(module, role)
            except ContractError as error:
                errors.append(error)
        if errors:
            mends = "; ".join(error.hint for error in errors if error.hint)
            raise ContractError("; ".join(error.message for error in errors), mends)
        load, infer_once = found["load_policy"], found["infer_once"]
        signature = signature_of(load)
        env_word = check_load_policy(signature)
        call = check_infer_once(signature_of(infer_once))

        def load_policy(env: Any, args: Mapping[str, str]) -> Any:
            keywords = accepted_args(load.__name__, signature, args, env=True)
            return load(env, **keywords) if env_word is None else load(**{env_word: env}, **keywords)

        preprocess = found["preprocess_observation"]
        words = None if call.policy is None or call.observation is None else (call.policy, call.observation)
        return Inference(load_policy, preprocess, check_preprocess(signature_of(preprocess)), infer_once, words)
