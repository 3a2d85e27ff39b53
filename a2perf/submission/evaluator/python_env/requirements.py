r"""Reads requirement files line by line.

The format is a subset of pip's: one requirement per line, ``#`` comments, ``\`` continuations, ``-r`` and ``-c`` files,
``--hash``, ``--pre``, and wheels of the submission. The files are untrusted data: every file has to be inside the
submission's folder and is opened without following links, sizes and depths are bounded, variables are not expanded, and
a line may not contain an index, a server, a path outside of the folder or any other installer option.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import os
import posixpath
import re
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path

from packaging.markers import UndefinedComparison, UndefinedEnvironmentName
from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename

from a2perf import stranger_files
from a2perf.errors import SubmissionError

OWN_NAME = "a2perf"
PRE_RELEASES = "--pre"
MAX_FILE_BYTES = 256 * 1024
MAX_LINE_CHARACTERS = 2000
MAX_LINES = 5000
MAX_FILES = 50
MAX_DEPTH = 10
MAX_LOCAL_BYTES = 2 * 1024**3
"""Total size of all wheels of a submission; one that is listed twice counts twice."""

_NESTED = re.compile(r"^(-r|--requirement|-c|--constraint)(?:\s+|=|(?<=-[rc]))(.+)$")
_COMMENT = re.compile(r"(^|\s)#.*$")
_HASHES = re.compile(r"(?:\s+--hash[= ]sha(?:256|384|512):[0-9a-fA-F]{64,128})+$")
_URL = re.compile(r"^[A-Za-z][A-Za-z0-9+.-]*:|\s@\s|://")
_LOCAL = re.compile(r"^[./~\\]|\.(?:whl|zip|tar\.gz|tgz|tar\.bz2|tar\.xz)$|^[^\s\[;=<>!~]*/")
_ONE_PER_LINE = "write one `name==version` per line"
_OWN_SOURCES = "remove it; only the organizer's settings decide where packages come from"


@dataclass(frozen=True)
class RequirementLine:
    """One logical line of a requirements file.

    Attributes:
        text: the line without comment, with single spaces.
        source: name of the file, relative to the submission's folder.
        name: the package's normalised name; empty for ``--pre``.
        wheel: the wheel in the line, relative to ``folder``.
        content: hash of the wheel; empty without one.
        folder: the submission's folder.
    """

    text: str
    source: str
    number: int
    constraint: bool = False
    name: str = ""
    wheel: str = ""
    content: str = ""
    folder: Path = field(default_factory=Path, compare=False)

    @property
    def place(self) -> str:
        """File and line number, ``"requirements.txt:3"``."""
        return f"{self.source}:{self.number}"

    def for_installer(self, wheels: Path) -> str:
        """Returns the line as the installer gets it; a wheel in it lies in the folder ``wheels``."""
        if not self.wheel:
            return self.text
        hashes = _HASHES.search(self.text)
        address = (wheels / posixpath.basename(self.wheel)).as_uri()
        return f"{self.name} @ {address}{hashes[0] if hashes else ''}"


@dataclass(frozen=True)
class Requirements:
    """The requirements of a submission."""

    lines: tuple[RequirementLine, ...] = ()
    own_extras: tuple[str, ...] = ()

    def normalised(self) -> list[str]:
        """Returns the sorted lines with the hashes of wheels, for the key of an environment."""
        return sorted(f"{'-c ' if line.constraint else ''}{line.text} {line.content}".rstrip() for line in self.lines)

    def unsatisfied_here(self) -> dict[RequirementLine, str]:
        """Returns the lines that this process's packages do not satisfy or that cannot be compared, with the reason."""
        lines = [line for line in self.lines if line.name and not line.constraint]
        return {line: reason for line in lines if (reason := _unsatisfied(line)) is not None}


def read_requirements(file: Path) -> Requirements:
    """Reads a requirements file and the files that it includes; a missing file counts as empty.

    Args:
        file: a file in the submission's folder; nothing outside of that folder is read.

    Raises:
        SubmissionError: a file cannot be read safely (a link, a fifo, too large), or a line is not valid; the message
            names the place and quotes only that line.
    """
    if not os.path.lexists(file):
        return Requirements()
    lines: list[RequirementLine] = []
    extras: set[str] = set()
    for line in _Reader(file.parent.resolve()).read(file.name):
        if line.name == OWN_NAME and not line.wheel:
            extras |= _requirement(line).extras
        else:
            lines.append(line)
    return Requirements(tuple(lines), tuple(sorted(extras)))


def _unsatisfied(line: RequirementLine) -> str | None:
    if line.wheel:
        return "it is a file of the submission"
    try:
        requirement = _requirement(line)
        if requirement.marker is not None and not requirement.marker.evaluate():
            return None
        version = importlib.metadata.version(requirement.name)
        return None if requirement.specifier.contains(version, prereleases=True) else f"version {version} is installed"
    except importlib.metadata.PackageNotFoundError:
        return "it is not installed"
    except (UndefinedComparison, UndefinedEnvironmentName, ValueError) as error:
        return f"it cannot be compared ({shown(str(error))})"


class _Reader:
    """Reads one file and the files that it includes; the bounds apply to all of them together."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._files = 0
        self._lines = 0
        self._wheel_bytes = 0

    def read(
        self, source: str, *, named_by: str = "", constraint: bool = False, depth: int = 0
    ) -> Iterator[RequirementLine]:
        self._files += 1
        if depth > MAX_DEPTH or self._files > MAX_FILES:
            raise SubmissionError(
                f"{shown(source)}: requirement files include each other in a circle, more than {MAX_DEPTH} levels deep"
                f" or more than {MAX_FILES} times",
                hint="remove a -r line",
            )
        for number, words in _logical(self._text(source, named_by)):
            self._lines += 1
            if self._lines > MAX_LINES:
                raise SubmissionError(
                    f"{shown(source)}:{number}: more than {MAX_LINES} requirements", hint="remove some"
                )
            place = f"{shown(source)}:{number}"
            _check_characters(words, place)
            if nested := _NESTED.match(words):
                inner = self._inside(nested[2].strip().strip("'\""), source, place)
                is_constraint = constraint or nested[1] in ("-c", "--constraint")
                yield from self.read(inner, named_by=f"{place}: ", constraint=is_constraint, depth=depth + 1)
            else:
                yield self._line(words, source, number, constraint)

    def _text(self, source: str, named_by: str) -> str:
        try:
            data = stranger_files.read_regular_file(self._folder, source, max_bytes=MAX_FILE_BYTES)
            return data.decode("utf-8-sig")
        except stranger_files.StrangerFileError as error:
            raise SubmissionError(
                f"{named_by}{error.message}",
                hint=f"use a regular file inside the submission of at most {MAX_FILE_BYTES} bytes",
            ) from error
        except UnicodeDecodeError as error:
            raise SubmissionError(f"{shown(source)} is not UTF-8 text", hint="save it as UTF-8") from error

    def _inside(self, given: str, source: str, place: str) -> str:
        """Returns a path that a line names, relative to the submission's folder."""
        path = posixpath.normpath(posixpath.join(posixpath.dirname(source), given))
        if _URL.search(given) or given.startswith(("/", "~", "\\")) or path == ".." or path.startswith("../"):
            raise SubmissionError(
                f"{place}: {shown(given)} is outside of the submission's folder",
                hint="give the relative path of a file inside the submission",
            )
        return path

    def _line(self, words: str, source: str, number: int, constraint: bool) -> RequirementLine:
        place = f"{shown(source)}:{number}"
        if words == PRE_RELEASES:
            return RequirementLine(words, shown(source), number, constraint)
        plain = _HASHES.sub("", words)
        if re.search(r"(^|\s)--?[a-z]", plain):
            raise SubmissionError(f"{place}: {shown(words)} has an option that is not allowed", hint=_OWN_SOURCES)
        if _URL.search(plain.partition(";")[0]):
            raise SubmissionError(f"{place}: {shown(plain)} contains a URL, which is not allowed", hint=_OWN_SOURCES)
        if _LOCAL.search(plain):
            wheel = self._inside(plain, source, place)
            name, content = self._wheel(wheel, place)
            return RequirementLine(words, shown(source), number, constraint, name, wheel, content, self._folder)
        try:
            requirement = Requirement(plain)
        except (InvalidRequirement, RecursionError) as error:
            reason = (
                shown(str(error).partition("\n")[0]) if isinstance(error, InvalidRequirement) else "nested too deep"
            )
            raise SubmissionError(
                f"{place}: {shown(plain)!r} is not a requirement: {reason}", hint=_ONE_PER_LINE
            ) from error
        if requirement.url is not None:
            raise SubmissionError(f"{place}: {shown(plain)} contains a URL, which is not allowed", hint=_OWN_SOURCES)
        return RequirementLine(words, shown(source), number, constraint, canonicalize_name(requirement.name))

    def _wheel(self, path: str, place: str) -> tuple[str, str]:
        """Returns the package's name and the hash of a wheel in the submission."""
        try:
            name = canonicalize_name(parse_wheel_filename(posixpath.basename(path))[0])
        except InvalidWheelFilename as error:
            raise SubmissionError(
                f"{place}: {shown(path)} is not a wheel; packages are not built",
                hint="build it with `pip wheel`, add the wheel to the submission, and give its path",
            ) from error
        try:
            content, size = wheel_sha256(self._folder, path, max_bytes=MAX_LOCAL_BYTES - self._wheel_bytes)
        except stranger_files.StrangerFileError as error:
            missing = isinstance(error.__cause__, FileNotFoundError)
            reason = f"{shown(path)} does not exist" if missing else error.message
            raise SubmissionError(f"{place}: {reason}", hint="add a wheel, or use a package of the index") from error
        self._wheel_bytes += size
        return name, content


def shown(text: str) -> str:
    """Returns untrusted text for a message: truncated, without control characters."""
    clean = stranger_files.printable(text[:300])
    return clean if len(clean) <= 200 else f"{clean[:197]}..."


def _check_characters(words: str, place: str) -> None:
    if len(words) > MAX_LINE_CHARACTERS:
        raise SubmissionError(f"{place}: the line is longer than {MAX_LINE_CHARACTERS} characters", hint=_ONE_PER_LINE)
    if not words.isprintable():
        raise SubmissionError(f"{place}: {shown(words)} contains control characters", hint=_ONE_PER_LINE)
    if "$" in words:
        raise SubmissionError(f"{place}: {shown(words)}: variables are not allowed", hint="write the value")


def _logical(text: str) -> Iterator[tuple[int, str]]:
    """Yields number and text of every non-empty line, with continuations joined."""
    pending: list[str] = []
    start = 0
    for number, raw in enumerate([*re.split(r"\r\n|\r|\n", text), ""], start=1):
        start = start if pending else number
        continued = raw.endswith("\\") and not raw.lstrip().startswith("#")
        pending.append(raw[:-1] if continued else raw)
        if continued:
            continue
        words = re.sub(r"[ \t]+", " ", _COMMENT.sub("", " ".join(pending))).strip()
        if words:
            yield start, words
        pending = []


def _requirement(line: RequirementLine) -> Requirement:
    return Requirement(_HASHES.sub("", line.text))


def wheel_sha256(folder: Path, path: str, *, max_bytes: int, copy: Path | None = None) -> tuple[str, int]:
    """Returns the hash and the size of a wheel of the submission, and copies it.

    Raises:
        StrangerFileError: it is not a regular file, is too large, or does not exist.
    """
    digest, size = hashlib.sha256(), 0
    with (
        os.fdopen(stranger_files.open_regular(folder, path), "rb") as source,
        nullcontext() if copy is None else copy.open("xb") as target,
    ):
        for data in stranger_files.chunks(source.fileno(), path, max_bytes=max_bytes):
            digest.update(data)
            size += len(data)
            if target is not None:
                target.write(data)
    return digest.hexdigest(), size
