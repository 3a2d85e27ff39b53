r"""Reads requirement files line by line.

The format is a subset of pip's: one requirement per line, ``#`` comments, ``\`` continuations, ``-r`` and ``-c`` files,
``--hash`` and ``--pre``. The files are untrusted data: every file has to be inside the submission's folder and is
opened without following links, sizes and depths are bounded, variables are not expanded, and a line may not contain an
index, a server, a path outside of the folder or any other installer option. Comments, spacing and the order of lines do
not change the environment.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import os
import posixpath
import re
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
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
"""Total size of all local packages of a file; a package that is listed twice counts twice."""

MAX_LOCAL_ENTRIES = 20_000

_NESTED = re.compile(r"^(-r|--requirement|-c|--constraint)(?:\s+|=|(?<=-[rc]))(.+)$")
_EDITABLE = re.compile(r"^(?:-e|--editable)(?:\s+|=|(?<=-e))(.+)$")
_COMMENT = re.compile(r"(^|\s)#.*$")
_HASHES = re.compile(r"(?:\s+--hash[= ]sha(?:256|384|512):[0-9a-fA-F]{64,128})+$")
_URL = re.compile(r"^[A-Za-z][A-Za-z0-9+.-]*:|\s@\s|://")
_LOCAL = re.compile(r"^[./~\\]|\.(?:whl|zip|tar\.gz|tgz|tar\.bz2|tar\.xz)(?:\[[^\]]*\])?$|^[^\s\[;=<>!~]*/")
_WITH_EXTRAS = re.compile(r"^(?P<path>[^\[\];]+?)\s*(?P<extras>\[[A-Za-z0-9._, -]*\])?$")
_UNREAD = ("__pycache__", ".git", ".venv", "build", "dist")
_ONE_PER_LINE = "write one `name==version` per line"
_OWN_SOURCES = "remove it; only the organizer's settings decide where packages come from"


@dataclass(frozen=True)
class RequirementLine:
    """One logical line of a requirements file.

    Attributes:
        text: the line without comment, with single spaces; a local path is relative to the submission's folder.
        source: name of the file, relative to the folder of the first file.
        name: the package's normalised name; empty for an option.
        content: hash of the local file or folder in the line; empty without one.
        builds: whether installing it runs its code (a folder or a source archive).
        folder: the submission's folder, if the line refers to a file or folder in it.
        local: that file or folder, relative to ``folder``.
    """

    text: str
    source: str
    number: int
    constraint: bool = False
    name: str = ""
    content: str = ""
    builds: bool = False
    folder: Path | None = field(default=None, compare=False)
    local: str = ""
    extras: str = ""

    @property
    def place(self) -> str:
        """File and line number, ``"requirements.txt:3"``."""
        return f"{self.source}:{self.number}"


@dataclass(frozen=True)
class Requirements:
    """The requirements of a submission."""

    lines: tuple[RequirementLine, ...] = ()
    own_extras: tuple[str, ...] = ()

    def normalised(self) -> list[str]:
        """Returns the lines in sorted order with normalised names (PEP 503), for the key of an environment."""
        return sorted(
            f"{'-c ' if line.constraint else ''}{_normalised(line)} {line.content}".rstrip() for line in self.lines
        )

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
        if line.name == OWN_NAME and not line.local:
            extras |= _requirement(line).extras
        else:
            lines.append(line)
    return Requirements(tuple(lines), tuple(sorted(extras)))


def _normalised(line: RequirementLine) -> str:
    if not line.name or line.local:
        return line.text
    requirement = _requirement(line)
    requirement.name = line.name
    requirement.extras = {canonicalize_name(extra) for extra in requirement.extras}
    return f"{requirement}{hashes_of(line)}"


def _unsatisfied(line: RequirementLine) -> str | None:
    if line.local:
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
        self._locals = 0
        self._local_bytes = 0

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
        editable = _EDITABLE.match(words)
        target = editable[1].strip() if editable else words
        if words == PRE_RELEASES:
            return RequirementLine(words, shown(source), number, constraint)
        if target.startswith("-"):
            raise SubmissionError(f"{place}: the option {shown(target)} is not allowed", hint=_OWN_SOURCES)
        plain = _HASHES.sub("", target)
        if re.search(r"\s--?[a-z]", plain):
            raise SubmissionError(
                f"{place}: {shown(target)} has an option that is not allowed", hint="remove it; only --hash is allowed"
            )
        if _URL.search(plain.partition(";")[0]):
            raise SubmissionError(f"{place}: {shown(plain)} contains a URL, which is not allowed", hint=_OWN_SOURCES)
        if editable or _LOCAL.search(plain):
            return self._local(plain, target[len(plain) :], source, number, constraint)
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

    def _local(self, words: str, hashes: str, source: str, number: int, constraint: bool) -> RequirementLine:
        place = f"{shown(source)}:{number}"
        found = _WITH_EXTRAS.match(words)
        if found is None:
            raise SubmissionError(
                f"{place}: {shown(words)} is not the path of a file in the submission",
                hint="give the relative path of a wheel, without a marker",
            )
        path, extras = self._inside(found["path"], source, place), found["extras"] or ""
        self._locals += 1
        if self._locals > MAX_FILES:
            raise SubmissionError(f"{place}: more than {MAX_FILES} local packages", hint="remove some")
        try:
            content, is_folder, size = content_of(self._folder, path, max_bytes=MAX_LOCAL_BYTES - self._local_bytes)
            self._local_bytes += size
        except stranger_files.StrangerFileError as error:
            missing = isinstance(error.__cause__, FileNotFoundError)
            reason = f"{shown(path)} does not exist" if missing else error.message
            raise SubmissionError(f"{place}: {reason}", hint="add a wheel, or use a package of the index") from error
        name = posixpath.basename(path)
        wheel = not is_folder and name.endswith(".whl")
        if constraint and not wheel:
            raise SubmissionError(f"{place}: {shown(path)} is not a constraint", hint=_ONE_PER_LINE)
        if wheel:
            try:
                name = str(parse_wheel_filename(name)[0])
            except InvalidWheelFilename as error:
                raise SubmissionError(
                    f"{place}: {shown(path)} is not a valid wheel file name", hint="keep the file name from the build"
                ) from error
        return RequirementLine(
            f"./{path}{extras}{hashes}", shown(source), number, constraint, canonicalize_name(name), content, not wheel,
            self._folder, path, extras,
        )  # fmt: skip


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


def hashes_of(line: RequirementLine) -> str:
    """Returns the ``--hash`` options of a line, with the space before them."""
    found = _HASHES.search(line.text)
    return found[0] if found else ""


def _requirement(line: RequirementLine) -> Requirement:
    return Requirement(_HASHES.sub("", line.text))


def content_of(folder: Path, path: str, *, max_bytes: int, copy: Path | None = None) -> tuple[str, bool, int]:
    """Returns the hash of a file or folder of the submission, whether it is a folder, and its size.

    Raises:
        StrangerFileError: it contains links or special files, is too large, or does not exist.
    """
    with _open_local(folder, path) as descriptor:
        status = os.fstat(descriptor)
        if stranger_files.Kind.of(status.st_mode) is stranger_files.Kind.FILE:
            return _hash(descriptor, path, max_bytes, copy).hex(), False, status.st_size
        if copy is not None:
            copy.mkdir()
        digest, size = hashlib.sha256(), 0
        for entry in _files_of_package(descriptor, max_bytes=max_bytes):
            file = entry.open()
            try:
                place = None if copy is None else copy / entry.path
                digest.update(os.fsencode(entry.path) + b"\0" + _hash(file, entry.path, max_bytes, place))
            finally:
                os.close(file)
            size += entry.status.st_size
        return digest.hexdigest(), True, size


def _hash(descriptor: int, path: str, max_bytes: int, copy: Path | None) -> bytes:
    if copy is not None:
        copy.parent.mkdir(parents=True, exist_ok=True)
    digest = hashlib.sha256()
    with nullcontext() if copy is None else copy.open("xb") as stream:
        for data in stranger_files.chunks(descriptor, path, max_bytes=max_bytes):
            digest.update(data)
            if stream is not None:
                stream.write(data)
    return digest.digest()


@contextmanager
def _open_local(folder: Path, path: str) -> Iterator[int]:
    """Yields a descriptor of a file or folder in the submission; ``"."`` is the submission's folder.

    Raises:
        StrangerFileError: it is neither a file nor a folder, a part of its path is a link, or it does not exist.
    """
    with stranger_files.opened(folder) as top:
        descriptor = os.dup(top) if path == "." else stranger_files.open_beneath(top, path)
    try:
        kind = stranger_files.Kind.of(os.fstat(descriptor).st_mode)
        if kind not in (stranger_files.Kind.FILE, stranger_files.Kind.FOLDER):
            raise stranger_files.NotRegular(path, f"is a {kind}, not a file or folder")
        yield descriptor
    finally:
        os.close(descriptor)


def _files_of_package(folder: int, *, max_bytes: int) -> Iterator[stranger_files.FolderEntry]:
    """Yields the files of a source folder that is built, except those that builds do not read.

    Raises:
        StrangerFileError: it contains links or special files, or is too large.
    """
    bounds = stranger_files.Bounds(entries=MAX_LOCAL_ENTRIES, depth=50, bytes=max_bytes)
    for entry in stranger_files.walk(folder, bounds):
        above, _, name = entry.path.rpartition("/")
        parts = [*above.split("/"), name] if entry.kind is stranger_files.Kind.FOLDER else above.split("/")
        if any(part in _UNREAD or part.endswith(".egg-info") for part in parts):
            continue
        if entry.kind is stranger_files.Kind.FILE:
            yield entry
        elif entry.kind is not stranger_files.Kind.FOLDER:
            raise stranger_files.NotRegular(entry.path, f"is a {entry.kind}, which a package may not contain")
