"""Loads gin files: the organizer's are evaluated by gin, a participant's is read as data.

Errors of gin become messages with file, line and the nearest valid name. Parsing happens in the process that uses the
configuration, never at import.
"""

from __future__ import annotations

import hashlib
import os
import re
import tokenize
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

import gin

from a2perf.domains.registry import Domain, find_environment
from a2perf.errors import ConfigError, did_you_mean, names_hint
from a2perf.records import ConfigurationRecord
from a2perf.stranger_files import printable
from a2perf.submission import participant_gin
from a2perf.submission.gin_origin import GinFile, origin_of
from a2perf.submission.participant_settings import defines_task, gin_lines, permitted
from a2perf.submission.run_options import TRUST_FLAG
from a2perf.submission.run_services import brought_by
from a2perf.submission.settings import RECORDS

_IMPORT = "import a2perf.submission.submission_util"
_ENVIRONMENT = "create_domain.env_name"
_record: ConfigurationRecord | None = None


def load(file: GinFile, bindings: Sequence[str], *, trusted: bool = False, task: Sequence[str] = ()) -> list[str]:
    """Loads a gin file and then the organizer's bindings into gin's global configuration, and checks the result.

    A participant's file is read as data; ``participant_settings`` lists what it may set. The bindings override it. If
    they choose an environment, the file's arguments of another task are dropped.

    Args:
        trusted: whether gin evaluates a participant's file, and files that others include from its folder.
        task: the bindings of a task that was chosen by name; ``bindings`` override them.

    Returns:
        The names of the dropped arguments.

    Raises:
        ConfigError: a syntax error, an unknown name, or a name that a participant may not set; with file and line.
    """
    global _record
    trusts = trusted or file.origin != "participant"
    content = file.path.read_bytes() if trusts else file.participant_bytes()
    if trusts:
        with _includes_outside(None if trusted else file.submission):
            parse([file.path], [])
    else:
        values = permitted(participant_gin.parse(content, file.name), file.name)
        clear()
        _parse_one(lambda: gin.parse_config("\n".join([_IMPORT, *gin_lines(values)])), file.name)
    of_file = bound_parameters("create_domain")
    _bind([*task, *bindings])
    dropped = _drop_other_task(of_file, [*task, *bindings], whole=bool(task) or not trusts)
    finalise(file.name, content.decode(errors="replace"))
    _record = ConfigurationRecord(
        file=file.name, origin=file.origin, trusted=trusts, sha256=hashlib.sha256(content).hexdigest()
    )
    return dropped


def _drop_other_task(of_file: Mapping[str, Any], bindings: Sequence[str], *, whole: bool) -> list[str]:
    """Removes arguments of the file's environment that the bindings replace by another one, and returns their names."""
    names = (binding.partition("=")[0].strip().rpartition("/")[2].split(".") for binding in bindings)
    bound = {".".join(name[-2:]) for name in names}
    domain, before = _domain_of(parameter(_ENVIRONMENT)), _domain_of(of_file.get("env_name"))
    if _ENVIRONMENT not in bound or domain is None:
        return []
    foreign = before is not None and before.name != domain.name
    dropped = [
        name
        for name in of_file
        if f"create_domain.{name}" not in bound
        and name not in _parameters("create_domain")
        and (foreign or (whole and (defines_task(f"create_domain.{name}") or name in domain.path_arguments)))
    ]
    for (scope, selector), values in gin.config._CONFIG.items():
        if not scope and selector.split(".")[-1] == "create_domain":
            for name in dropped:
                values.pop(name, None)
    return dropped


def _domain_of(env_id: Any) -> Domain | None:
    try:
        return find_environment(str(env_id))[0]
    except ConfigError:
        return None


def record() -> ConfigurationRecord | None:
    """Returns which gin file ``load`` loaded last, or None."""
    return _record


def parse(files: Sequence[Path], bindings: Sequence[str]) -> None:
    """Clears gin's global configuration and evaluates files and then bindings.

    Only for files of the organizer: gin imports modules and calls functions. ``load`` checks that.

    Raises:
        ConfigError: a syntax error, an unknown name or a module that cannot be imported; with file and line.
    """
    clear()
    for path in files:
        _parse_one(lambda path=path: gin.parse_config_file(str(path)), str(path))
    _bind(bindings)


def _bind(bindings: Sequence[str]) -> None:
    for binding in bindings:
        if "=" not in binding:
            raise ConfigError(f"--gin-bindings {binding!r} has no '='", hint="write `Name.parameter = value`")
        _parse_one(lambda binding=binding: gin.parse_config(binding), f"--gin-bindings {binding!r}")


def clear() -> None:
    """Removes every binding."""
    global _record
    gin.clear_config()
    _record = None


def restore(text: str) -> None:
    """Parses a configuration that ``text()`` returned in another process."""
    gin.clear_config()
    gin.parse_config(text)


def finalise(source: str = "the configuration", text: str = "") -> None:
    """Checks that every macro (``%Name``) in a binding exists.

    Raises:
        ConfigError: an unknown macro, with the nearest known one.
    """
    try:
        gin.finalize()
        # Domains register their configurable names when they are imported, which a locked configuration forbids.
        gin.config._set_config_is_locked(False)
    except ValueError as error:
        macro = re.search(r"for '([^/']+)/gin.macro'", str(error))
        if macro is None:
            raise ConfigError(_first_line(error)) from error
        name = macro.group(1)
        lines = [number for number, line in enumerate(text.splitlines(), 1) if f"%{name}" in line.partition("#")[0]]
        raise _unknown_macro(name, f"{source}, line {lines[0]}" if lines else "the configuration") from error


def parameter(selector: str, default: Any = None) -> Any:
    """Returns what is bound to ``"Configurable.parameter"``, or ``default``."""
    try:
        return gin.query_parameter(selector)
    except ValueError:
        return default


def bound_parameters(configurable: str) -> dict[str, Any]:
    """Returns all parameters that are bound to one configurable, by name."""
    found: dict[str, Any] = {}
    for (scope, selector), values in gin.config._CONFIG.items():
        if not scope and selector.split(".")[-1] == configurable:
            found.update(values)
    return found


def text() -> str:
    """Returns the whole configuration in force, as a gin file."""
    return gin.config_str() or "# nothing was configured\n"


def digest(*, without: str = "") -> str:
    """Returns a SHA-256 over the configuration in force, or over its bindings of all configurables but one."""
    if not without:
        return hashlib.sha256(text().encode()).hexdigest()
    bound = sorted(
        (scope, selector, sorted((name, repr(value)) for name, value in values.items()))
        for (scope, selector), values in gin.config._CONFIG.items()
        if selector.split(".")[-1] != without and values
    )
    return hashlib.sha256(repr(bound).encode()).hexdigest()


@contextmanager
def _includes_outside(submission: Path | None) -> Iterator[None]:
    """Keeps gin from including a submission's files: it searches the working directory, which may be the submission."""

    def opened(name: str) -> TextIO:
        if submission is not None and origin_of(Path(name).absolute(), submission).origin == "participant":
            raise ConfigError(
                f"the gin file includes {printable(name)}, which is inside the submission",
                hint=f"include a file outside of the submission, or add {TRUST_FLAG} if you trust its code",
            )
        return open(name, encoding="utf-8-sig")

    readers = gin.config._FILE_READERS
    gin.config._FILE_READERS = [(opened, os.path.isfile)]
    try:
        yield
    finally:
        gin.config._FILE_READERS = readers


def _parse_one(action: Any, source: str) -> None:
    before = bound_parameters("Submission")
    try:
        action()
        _join_records(before, source)
    except ConfigError:
        raise
    except tokenize.TokenError as error:
        line = error.args[1][0] if len(error.args) > 1 else "?"
        raise ConfigError(
            f"{source}, line {line}: {error.args[0]}", hint="close the bracket or quotation mark"
        ) from error
    except SyntaxError as error:
        raise ConfigError(
            f"{source}, line {error.lineno}: {error.msg}", hint="write one `Name.parameter = value` per line"
        ) from error
    except ImportError as error:
        raise ConfigError(
            f"{_where(error, source)}: {_first_line(error)}", hint="fix or remove the import line"
        ) from error
    except (ValueError, TypeError, OSError) as error:
        raise _readable(error, source) from error


def _join_records(before: Mapping[str, Any], source: str) -> None:
    """Moves what is bound to records of the settings to ``Submission``: a later file or binding overrides both names.

    Raises:
        ConfigError: the same file binds a setting to two values.
    """
    owner, bound = "a2perf.submission.Submission", bound_parameters("Submission")
    for record in RECORDS:
        for (scope, selector), values in list(gin.config._CONFIG.items()):
            if selector != f"a2perf.submission.{record}":
                continue
            for name, value in values.items():
                if name in bound and bound[name] not in (before.get(name, value), value):
                    raise ConfigError(
                        f"{source}: {name} is set as {record}.{name} and as Submission.{name}", hint="remove one line"
                    )
            gin.config._CONFIG.setdefault((scope, owner), {}).update(values)
            del gin.config._CONFIG[scope, selector]


def _readable(error: Exception, source: str) -> ConfigError:
    message = str(error)
    where = _where(error, source)
    if unknown := re.search(r"No configurable matching (?:reference )?'@?([^'()]+)(?:\(\))?'", message):
        name = unknown.group(1)
        selectors = gin.config._REGISTRY._selector_map
        known = sorted({selector.split(".")[-1] for selector in selectors if not selector.startswith("gin.")})
        return ConfigError(
            f"{where}: {name!r} is not a configurable name{did_you_mean(name, known)}",
            hint=names_hint(name, known),
        )
    if misspelt := re.search(r"Configurable '([^']+)' doesn't have a parameter named '([^']+)'", message):
        owner, name = misspelt.groups()
        if owner.endswith("Submission") and (instead := brought_by(name, f"{where}: {owner}.{name}")):
            return instead
        known = _parameters(owner)
        return ConfigError(
            f"{where}: {owner} has no parameter {name!r}{did_you_mean(name, known)}",
            hint=names_hint(name, known),
        )
    if macro := re.search(r"for '([^/']+)/gin.macro'", message):
        return _unknown_macro(macro.group(1), where)
    return ConfigError(f"{where}: {_first_line(error)}")


def _unknown_macro(name: str, where: str = "the configuration") -> ConfigError:
    constants = sorted(key.removeprefix("a2perf.constants.") for key in gin.config._CONSTANTS._selector_map)
    kind = [key for key in constants if key.startswith(name.partition(".")[0])]
    known = kind or [key for key in constants if key.startswith("Benchmark")]
    return ConfigError(f"{where}: %{name} is not defined{did_you_mean(name, constants)}", hint=names_hint(name, known))


def _where(error: BaseException, source: str) -> str:
    found = re.search(r'In file "([^"]+)", line (\d+)', str(error))
    return f"{found.group(1)}, line {found.group(2)}" if found else source


def _first_line(error: BaseException) -> str:
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__


def _parameters(owner: str) -> list[str]:
    import inspect

    configurable = gin.config._REGISTRY.get_match(owner)
    return [
        name
        for name, item in inspect.signature(configurable.wrapped).parameters.items()
        if item.kind not in (item.VAR_KEYWORD, item.VAR_POSITIONAL) and name != "self"
    ]
