"""Gin files: found, parsed, and their errors turned into sentences that name file, line and the nearest valid name.

Parsing happens in the process that uses the configuration, never at import.
"""

from __future__ import annotations

import hashlib
import re
import tokenize
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import gin

from a2perf.domains.registry import get_domain
from a2perf.errors import ConfigError, did_you_mean

CONFIGS = Path(__file__).parent / "configs"


def find_gin_file(given: str, *, submission: Path | None, domain: str | None) -> Path:
    """Finds a gin file: the caller's folder, the submission's folder, then the packaged files of the domain.

    Args:
        given: the path or name as it was typed.
        submission: the submission's folder.
        domain: name of the domain whose packaged files are searched.

    Raises:
        ConfigError: found nowhere (every place is listed), or several packaged files match.
    """
    path = Path(given).expanduser()
    places = [path if path.is_absolute() else Path.cwd() / path]
    if submission is not None and not path.is_absolute():
        places.append(submission / path)
    for place in places:
        if place.is_file():
            return place.resolve()
    packaged: list[Path] = []
    if domain is not None and not path.is_absolute():
        folder = CONFIGS / get_domain(domain).name
        exact = folder / path
        if exact.is_file():
            return exact
        packaged = sorted(found for found in folder.rglob(path.name) if found.match(str(path)))
        places.append(folder)
    if len(packaged) == 1:
        return packaged[0]
    if packaged:
        names = ", ".join(str(found.relative_to(CONFIGS / get_domain(str(domain)).name)) for found in packaged)
        raise ConfigError(
            f"{given!r} matches {len(packaged)} packaged files of {domain}: {names}",
            mend="name one of them with its folder, `--gin_config FOLDER/FILE`",
        )
    raise ConfigError(
        f"the gin file {given!r} does not exist; looked at {', '.join(str(place) for place in places)}",
        mend="give an existing file, or a packaged one with `--domain NAME`",
    )


def parse(files: Sequence[Path], bindings: Sequence[str]) -> None:
    """Parses gin files and then bindings into gin's global configuration, which is cleared first.

    Raises:
        ConfigError: a syntax error, an unknown name or a module that cannot be imported; with file and line.
    """
    gin.clear_config()
    for path in files:
        _parse_one(lambda path=path: gin.parse_config_file(str(path)), str(path))
    for binding in bindings:
        if "=" not in binding:
            raise ConfigError(f"the gin binding {binding!r} has no '='", mend="write `Name.parameter = value`")
        _parse_one(lambda binding=binding: gin.parse_config(binding), f"--gin_bindings {binding!r}")


def clear() -> None:
    """Forgets every binding."""
    gin.clear_config()


def restore(text: str) -> None:
    """Parses a whole configuration that ``text()`` returned, in another process."""
    gin.clear_config()
    gin.parse_config(text)


def finalise() -> None:
    """Checks that every macro that a binding names exists.

    Raises:
        ConfigError: an unknown ``%Name``, with the nearest known one.
    """
    try:
        gin.finalize()
        # Domains make their own names configurable when they are imported, which a locked configuration forbids.
        gin.config._set_config_is_locked(False)
    except ValueError as error:
        macro = re.search(r"for '([^/']+)/gin.macro'", str(error))
        if macro is None:
            raise ConfigError(_first_line(error)) from error
        raise _unknown_macro(macro.group(1)) from error


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


def digest() -> str:
    """Returns a SHA-256 over the configuration in force."""
    return hashlib.sha256(text().encode()).hexdigest()


def _parse_one(action: Any, source: str) -> None:
    try:
        action()
    except ConfigError:
        raise
    except tokenize.TokenError as error:
        line = error.args[1][0] if len(error.args) > 1 else "?"
        raise ConfigError(
            f"{source}, line {line}: {error.args[0]}", mend="close the bracket or quotation mark"
        ) from error
    except SyntaxError as error:
        raise ConfigError(f"{source}, line {error.lineno}: {error.msg}") from error
    except ImportError as error:
        raise ConfigError(
            f"{_where(error, source)}: {_first_line(error)}", mend="mend or remove the import line"
        ) from error
    except (ValueError, TypeError, OSError) as error:
        raise _readable(error, source) from error


def _readable(error: Exception, source: str) -> ConfigError:
    message = str(error)
    where = _where(error, source)
    if unknown := re.search(r"No configurable matching (?:reference )?'@?([^'()]+)(?:\(\))?'", message):
        name = unknown.group(1)
        known = sorted(set(_configurables()))
        return ConfigError(
            f"{where}: nothing configurable is called {name!r}{did_you_mean(name, known)}",
            mend=f"known names: {', '.join(known)}",
        )
    if misspelt := re.search(r"Configurable '([^']+)' doesn't have a parameter named '([^']+)'", message):
        owner, name = misspelt.groups()
        known = _parameters(owner)
        return ConfigError(
            f"{where}: {owner} has no parameter {name!r}{did_you_mean(name, known)}",
            mend=f"its parameters are: {', '.join(known)}",
        )
    if macro := re.search(r"for '([^/']+)/gin.macro'", message):
        return _unknown_macro(macro.group(1), where)
    return ConfigError(f"{where}: {_first_line(error)}")


def _unknown_macro(name: str, where: str = "the configuration") -> ConfigError:
    constants = [key.removeprefix("a2perf.constants.") for key in gin.config._CONSTANTS._selector_map]
    return ConfigError(
        f"{where}: %{name} is not defined{did_you_mean(name, constants)}",
        mend=f"known constants: {', '.join(sorted(key for key in constants if key.startswith('Benchmark')))}",
    )


def _where(error: BaseException, source: str) -> str:
    found = re.search(r'In file "([^"]+)", line (\d+)', str(error))
    return f"{found.group(1)}, line {found.group(2)}" if found else source


def _first_line(error: BaseException) -> str:
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__


def _configurables() -> Iterator[str]:
    for selector in gin.config._REGISTRY._selector_map:
        if not selector.startswith("gin."):
            yield selector.split(".")[-1]


def _parameters(owner: str) -> list[str]:
    import inspect

    configurable = gin.config._REGISTRY.get_match(owner)
    return [
        name
        for name, item in inspect.signature(configurable.wrapped).parameters.items()
        if item.kind not in (item.VAR_KEYWORD, item.VAR_POSITIONAL) and name != "self"
    ]
