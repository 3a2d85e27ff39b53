"""A submission's folder: what must be in it, what is wrong with it, and its functions ready to call.

``problems`` reads the source and runs nothing of it, so the evaluator may call it. ``Participant`` imports the code and
belongs into the participant process; it imports only what the mode needs. Standard library only.
"""

from __future__ import annotations

import ast
import importlib
import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from a2perf.submission import importer
from a2perf.submission.signatures import (
    INFER_ONCE,
    LOAD_POLICY,
    PREPROCESS,
    ROLES,
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

FILES = {
    "train.py": "write train.py with `def train(**participant_args):`",
    "inference.py": "write inference.py with load_policy, preprocess_observation and infer_once",
    "requirements.txt": "list what the submission needs in requirements.txt; it may be empty",
    "__init__.py": "add an empty __init__.py",
}
"""The files of a submission and how to mend the lack of each."""

_MAX_SOURCE_BYTES = 10 * 1024 * 1024


@dataclass(frozen=True)
class Problem:
    """One thing that keeps a folder from being a submission.

    Attributes:
        file: the file's name within the folder, or the folder.
        line: line number, where there is one.
        message: what is wrong.
        mend: what to do about it.
    """

    file: str
    message: str
    line: int | None = None
    mend: str | None = None

    def __str__(self) -> str:
        place = self.file if self.line is None else f"{self.file}:{self.line}"
        return f"{place}: {self.message}" + ("" if self.mend is None else f"\n  mend: {self.mend}")


def problems(folder: Path, mode: str | None = None) -> list[Problem]:
    """Returns everything that is statically wrong with a submission, without running any of it.

    Args:
        folder: the submission.
        mode: ``"train"`` looks into train.py only, other modes into inference.py only, ``None`` into both. All four
            files must exist in every mode.
    """
    if not folder.is_dir():
        kind = "is not a folder" if folder.exists() else "does not exist"
        return [Problem(str(folder), f"the submission {kind}", mend="give the folder that holds train.py")]
    if not any(item.name != "__pycache__" for item in folder.iterdir()):
        return [Problem(str(folder), "the submission is empty", mend=f"`a2perf init {folder}` fills it")]
    found = [
        Problem(name, "is missing" if not (folder / name).exists() else "is not a file", mend=mend)
        for name, mend in FILES.items()
        if not (folder / name).is_file()
    ]
    for name in ("train.py", "inference.py", "__init__.py"):
        wanted = mode is None or name == "__init__.py" or (name == "train.py") == (mode == "train")
        if wanted and (folder / name).is_file():
            found.extend(_source_problems(folder / name))
    return found


def _source_problems(file: Path) -> Iterator[Problem]:
    try:
        if file.stat().st_size > _MAX_SOURCE_BYTES:
            yield Problem(file.name, f"is larger than {_MAX_SOURCE_BYTES // 2**20} MiB")
            return
        tree = ast.parse(file.read_bytes(), str(file))
    except SyntaxError as error:
        shown = f": {error.text.strip()}" if error.text else ""
        yield Problem(file.name, f"syntax error: {error.msg}{shown}", error.lineno, "mend the syntax")
        return
    except (OSError, ValueError, RecursionError, MemoryError) as error:
        yield Problem(file.name, f"cannot be read as Python: {error}")
        return
    defined, complete = _definitions(tree.body)
    for role in ROLES:
        if role.file == file.name:
            yield from _role_problems(role, defined, complete)


def _role_problems(role: Role, defined: Mapping[str, ast.stmt], complete: bool) -> Iterator[Problem]:
    name = next((name for name in role.names if name in defined), None)
    if name is None:
        if complete:
            yield Problem(
                role.file, f"has no function {role.names[0]}", mend=f"write `def {role.expected}:` in {role.file}"
            )
        return
    node = defined[name]
    if isinstance(node, ast.AsyncFunctionDef):
        yield Problem(role.file, f"{name} is a coroutine; a2perf calls plain functions", node.lineno, "remove `async`")
    elif isinstance(node, ast.FunctionDef) and not node.decorator_list:
        try:
            role.check(_signature(node.args))
        except ContractError as error:
            yield Problem(role.file, error.message, node.lineno, error.mend)


def _definitions(body: list[ast.stmt]) -> tuple[dict[str, ast.stmt], bool]:
    """Returns the top-level names with the statement that binds each, and whether that is all of them."""
    names: dict[str, ast.stmt] = {}
    complete = True
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names[node.name] = node
        elif isinstance(node, ast.Import | ast.ImportFrom):
            for alias in node.names:
                complete = complete and alias.name != "*"
                names[alias.asname or alias.name.partition(".")[0]] = node
        elif isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            for target in targets:
                for part in ast.walk(target):
                    if isinstance(part, ast.Name):
                        names[part.id] = node
        elif isinstance(node, ast.If | ast.Try | ast.With | ast.For | ast.While):
            for block in ("body", "orelse", "finalbody"):
                inner, whole = _definitions(getattr(node, block, []))
                names.update(inner)
                complete = complete and whole
            for handler in getattr(node, "handlers", []):
                inner, whole = _definitions(handler.body)
                names.update(inner)
                complete = complete and whole
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            complete = complete and _call_name(node.value) not in ("exec", "setattr", "update")
    return names, complete and "__getattr__" not in names


def _call_name(call: ast.Call) -> str:
    function = call.func
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def _signature(arguments: ast.arguments) -> inspect.Signature:
    kinds = inspect.Parameter
    positional = [*arguments.posonlyargs, *arguments.args]
    without_default = len(positional) - len(arguments.defaults)
    parameters = []
    for index, item in enumerate(positional):
        kind = kinds.POSITIONAL_ONLY if index < len(arguments.posonlyargs) else kinds.POSITIONAL_OR_KEYWORD
        parameters.append(kinds(item.arg, kind, default=kinds.empty if index < without_default else ...))
    if arguments.vararg:
        parameters.append(kinds(arguments.vararg.arg, kinds.VAR_POSITIONAL))
    for item, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        parameters.append(kinds(item.arg, kinds.KEYWORD_ONLY, default=kinds.empty if default is None else ...))
    if arguments.kwarg:
        parameters.append(kinds(arguments.kwarg.arg, kinds.VAR_KEYWORD))
    return inspect.Signature(parameters)


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
        self.package = importer.install(folder)

    def require_files(self) -> None:
        """Checks that the four files are there.

        Raises:
            ContractError: the folder or some of its files are missing; every one is named.
        """
        missing = [] if self.folder.is_dir() else [f"the submission {self.folder} does not exist"]
        mends = []
        for name, mend in FILES.items():
            if self.folder.is_dir() and not (self.folder / name).is_file():
                missing.append(f"{name} is missing")
                mends.append(mend)
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
            mends = "; ".join(error.mend for error in errors if error.mend)
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
