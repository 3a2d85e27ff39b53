"""Errors that the user can fix, as opposed to bugs.

A ``UserError`` is shown without a traceback: what was given, what is valid, and how to fix it. Any other uncaught
exception is a bug and shows its traceback. Standard library only.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Sequence
from pathlib import Path

from a2perf._version import __version__
from a2perf.constants import ExitCode

_VERSION = re.compile(r"[-_]v(\d+)$")


class CarriedError(Exception):
    """An exception that keeps its text and attributes in a pickle, also if its constructor takes other arguments."""

    def __reduce__(self) -> tuple[object, ...]:
        # by default unpickling calls the constructor with ``args``
        return (_rebuild, (type(self), self.args, dict(self.__dict__)))


class UserError(CarriedError):
    """An input is wrong, and the user can fix it.

    Args:
        message: what was given and why it is not valid; another error gives its text and hint, because libraries that
            carry an exception to another process raise ``type(error)(error)`` there.
        hint: the command, setting or value that fixes it.
    """

    exit_code: ExitCode = ExitCode.USAGE

    def __init__(self, message: str | UserError, *, hint: str | None = None) -> None:
        if isinstance(message, UserError):
            hint, message = message.hint, message.message
        super().__init__(message)
        self.message: str = message
        self.hint: str | None = hint

    @property
    def text(self) -> str:
        """The message and the hint, without what gin adds to ``str()``: the address of the called function."""
        return with_hint(self.message, self.hint)

    def __str__(self) -> str:
        return self.text


class ConfigError(UserError):
    """A configuration file or flag is missing, misspelt or mistyped."""


class MissingDependency(UserError):
    """An optional package or program is not installed; ``hint`` is the command that installs it."""


class AssetUnavailable(UserError):
    """A data file is neither in the data folder nor in the cache and could not be fetched."""


class SubmissionError(UserError):
    """A submission violates the contract (a file or function is missing, a signature is wrong)."""

    exit_code = ExitCode.PARTICIPANT_FAILED


class IllegalAnswer(SubmissionError):
    """An answer that is well formed but breaks a rule of the task, such as a placement with overlaps."""


class RunFailed(UserError):
    """A run ended without a result: the participant failed, or the host did.

    Args:
        bundle: folder of its record; None if the run did not start.
    """

    def __init__(
        self,
        message: str,
        *,
        hint: str | None = None,
        exit_code: ExitCode = ExitCode.PARTICIPANT_FAILED,
        bundle: Path | None = None,
    ) -> None:
        super().__init__(message, hint=hint)
        self.exit_code = exit_code
        self.bundle = bundle


class InfrastructureError(UserError):
    """The host caused the failure, not the participant (disk full, process could not be started)."""

    exit_code = ExitCode.INFRASTRUCTURE


def _rebuild(kind: type[CarriedError], args: tuple[object, ...], content: dict[str, object]) -> CarriedError:
    error = kind.__new__(kind)
    error.args = args
    error.__dict__.update(content)
    return error


def with_hint(message: str, hint: str | None) -> str:
    """Returns the text of an error: the message, and below it how to fix it."""
    return message if hint is None else f"{message}\n  Hint: {hint}"


def command_line(*words: object) -> str:
    """Returns a command as a reader can paste it into a shell; every printed command with a variable part uses it."""
    return shlex.join(map(str, words))


def did_you_mean(given: str, valid: Iterable[str]) -> str:
    """Returns ``"; did you mean 'x'?"`` for the nearest valid name, or an empty string if none is similar.

    A name is near if it is written almost alike, or if all words of one of the two names are in the other. Of several
    versions of a name the newest is named, unless a version was given.
    """
    import difflib

    names = sorted(set(valid))

    def alike(name: str) -> float:
        return difflib.SequenceMatcher(None, given.lower(), name.lower()).ratio()

    words = _words(given)
    contained = [name for name in names if _words(name) and (words <= _words(name) or _words(name) <= words)]
    close = difflib.get_close_matches(given, names, n=1, cutoff=0.8)
    near = close or sorted(contained, key=alike)[-1:] or difflib.get_close_matches(given, names, n=1, cutoff=0.6)
    return f"; did you mean {_newest(near[0], given, names)!r}?" if near else ""


def install_hint(*extras: str) -> str:
    """Returns the command that installs this package with some extras.

    It names the checkout or the wheel, because the package index has another project with the name a2perf.
    """
    wanted = f"[{','.join(extras)}]" if extras else ""
    checkout = Path(__file__).resolve().parents[1]
    if not (checkout / "pyproject.toml").is_file():
        return f"pip install './a2perf-{__version__}-py3-none-any.whl{wanted}', the wheel of the release"
    # quotes keep a shell from taking the brackets as a pattern
    target = shlex.quote(f"{'.' if checkout.samefile('.') else checkout}{wanted}")
    return f"pip install -e {target}"


def names_hint(given: str, valid: Iterable[str]) -> str:
    """Returns a short hint for an unknown name: correct it if a valid one is near, else the first valid names."""
    names = list(valid)
    if near := did_you_mean(given, names):
        return "write " + near.removeprefix("; did you mean ").strip("?'")
    return f"choose one of: {names_text(names)}"


def names_text(names: Sequence[str], most: int = 12) -> str:
    """Returns names for a message; the first of them if there are many."""
    rest = f" and {len(names) - most} more" if len(names) > most else ""
    return f"{', '.join(names[:most])}{rest}"


def _newest(name: str, given: str, valid: Iterable[str]) -> str:
    if _VERSION.search(given):
        return name
    stem = _VERSION.sub("", name)
    versions = [other for other in valid if _VERSION.sub("", other) == stem]
    return max(versions, key=lambda other: int(found[1]) if (found := _VERSION.search(other)) else -1)


def _words(name: str) -> set[str]:
    return set(filter(None, re.split(r"[^a-z0-9]+", name.lower())))
