r"""Reads requirement files into a form that can be compared, installed and blamed line by line.

The format is pip's: one requirement or option a line, ``#`` comments, ``\`` continuations, ``-r`` and ``-c`` files.
What is read is content alone: comments, spacing and the order of lines make no other environment.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from a2perf.errors import ConfigError, SubmissionError

OWN_NAME = "a2perf"
_NESTED = re.compile(r"^(-r|--requirement|-c|--constraint)(?:\s+|=|(?<=-[rc]))(.+)$")
_EDITABLE = re.compile(r"^(-e|--editable)(?:\s+|=)(.+)$")
_COMMENT = re.compile(r"(^|\s)#.*$")
_OPTIONS_OF_A_REQUIREMENT = re.compile(r"\s--(?:hash|config-settings?|global-option|install-option)\b.*$")
_MAX_DEPTH = 10
_UNREAD = ("__pycache__", ".git", ".venv", "build", "dist")


@dataclass(frozen=True)
class Line:
    """One logical line of a requirements file.

    Attributes:
        text: the line without comment, with single spaces; local paths are absolute.
        source: name of the file, relative to the first one's folder.
        number: line number, from 1.
        constraint: whether it comes from a ``-c`` file.
        name: the package's normalised name; empty for an option.
        content: hash of the local file or folder that it names; empty where it names none.
        builds: installing it runs code of its own (an editable install, a folder, a source archive, version control).
    """

    text: str
    source: str
    number: int
    constraint: bool = False
    name: str = ""
    content: str = ""
    builds: bool = False

    @property
    def place(self) -> str:
        """Where the line stands, ``"requirements.txt:3"``."""
        return f"{self.source}:{self.number}"


@dataclass(frozen=True)
class Requirements:
    """What a submission asks for.

    Attributes:
        lines: requirements and options, without those for a2perf itself.
        own_extras: the extras of a2perf that it asks for.
    """

    lines: tuple[Line, ...] = ()
    own_extras: tuple[str, ...] = ()

    def normalised(self) -> list[str]:
        """Returns the content in an order that does not depend on the file's: what a key is made of."""
        return sorted(f"{'-c ' if line.constraint else ''}{line.text} {line.content}".rstrip() for line in self.lines)

    def unsatisfied_here(self) -> list[Line]:
        """Returns the lines that the packages beside this process do not satisfy, and those that cannot be compared."""
        return [line for line in self.lines if line.name and not line.constraint and not _is_satisfied(line)]


def read_requirements(file: Path) -> Requirements:
    """Reads a requirements file with those that it names; a missing file asks for nothing.

    Raises:
        SubmissionError: a line is no requirement, or names a file that does not exist; the place is in the message.
        ConfigError: the file cannot be read.
    """
    if not file.exists():
        return Requirements()
    lines: list[Line] = []
    extras: set[str] = set()
    for line in _lines(file, file.parent, constraint=False, depth=0):
        if line.name == OWN_NAME:
            extras |= _requirement(line).extras
        else:
            lines.append(line)
    return Requirements(tuple(lines), tuple(sorted(extras)))


def _is_satisfied(line: Line) -> bool:
    try:
        requirement = _requirement(line)
        if requirement.marker is not None and not requirement.marker.evaluate():
            return True
        version = importlib.metadata.version(requirement.name)
    except (InvalidRequirement, importlib.metadata.PackageNotFoundError):
        return False
    return requirement.url is None and requirement.specifier.contains(version, prereleases=True)


def _lines(file: Path, top: Path, *, constraint: bool, depth: int) -> Iterator[Line]:
    source = os.path.relpath(file, top)
    if depth > _MAX_DEPTH:
        raise SubmissionError(f"{source}: requirement files name each other in a circle", mend="remove one -r line")
    try:
        text = file.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{file} cannot be read: {error}", mend="make it a UTF-8 text file") from error
    for number, words in _logical(text):
        place = f"{source}:{number}"
        nested = _NESTED.match(words)
        if nested:
            other = file.parent / nested[2].strip().strip("'\"")
            if not other.is_file():
                raise SubmissionError(
                    f"{place}: {words}: there is no file {nested[2]}", mend="add it, or remove the line"
                )
            is_constraint = constraint or nested[1] in ("-c", "--constraint")
            yield from _lines(other, top, constraint=is_constraint, depth=depth + 1)
            continue
        yield _line(words, file.parent, source, number, constraint)


def _logical(text: str) -> Iterator[tuple[int, str]]:
    """Yields the number and the text of every line that says something, continuations joined."""
    pending, start = "", 0
    for number, raw in enumerate([*text.splitlines(), ""], start=1):
        start = start if pending else number
        continued = raw.endswith("\\") and not raw.lstrip().startswith("#")
        pending += raw[:-1] + " " if continued else raw
        if continued:
            continue
        words = " ".join(_COMMENT.sub("", pending).split())
        if words:
            yield start, words
        pending = ""


def _line(words: str, folder: Path, source: str, number: int, constraint: bool) -> Line:
    editable = _EDITABLE.match(words)
    target = editable[2] if editable else words
    if local := _local(target, folder):
        path, suffix = local
        name = path.name.split("-")[0] if path.suffix == ".whl" else path.name
        builds = editable is not None or path.suffix != ".whl"
        text = f"{'-e ' if editable else ''}{path}{suffix}"
        return Line(text, source, number, constraint, canonicalize_name(name), _content(path), builds)
    if words.startswith("-") and not editable:
        return Line(_option(words, folder), source, number, constraint)
    plain = _OPTIONS_OF_A_REQUIREMENT.sub("", target)
    if re.match(r"^(git|hg|svn|bzr)\+|^https?://", plain):
        named = re.search(r"#egg=([\w.-]+)", plain) or re.search(r"/([\w.]+)[^/]*$", plain)
        builds = not plain.partition("#")[0].endswith(".whl")
        return Line(words, source, number, constraint, canonicalize_name(named[1]) if named else plain, "", builds)
    try:
        requirement = Requirement(plain)
    except InvalidRequirement as error:
        reason = str(error).splitlines()[0]
        raise SubmissionError(
            f"{source}:{number}: {words!r} is not a requirement: {reason}", mend="write one `name==version` a line"
        ) from error
    builds = bool(requirement.url and not requirement.url.partition("#")[0].endswith(".whl"))
    return Line(words, source, number, constraint, canonicalize_name(requirement.name), "", builds)


def _option(words: str, folder: Path) -> str:
    """Makes the folder of a ``--find-links`` absolute: what is installed from stands elsewhere."""
    found = re.match(r"^(?:-f|--find-links)(?:\s+|=)(.+)$", words)
    if found and "://" not in found[1]:
        return f"--find-links {(folder / os.path.expanduser(found[1])).resolve()}"
    return words


def _local(target: str, folder: Path) -> tuple[Path, str] | None:
    """Returns the path and the extras of a requirement that is a local file or folder."""
    plain = target.removeprefix("file://")
    path, bracket, extras = plain.partition("[")
    looks_local = target.startswith("file://") or re.match(r"^(\.|/|~)", path) or path.endswith((".whl", ".tar.gz"))
    if not looks_local or "://" in plain or " @ " in plain:
        return None
    found = (folder / os.path.expanduser(path.strip())).resolve()
    if not found.exists():
        raise SubmissionError(
            f"{target}: there is no such file or folder", mend="add it, or name a package of the index"
        )
    return found, f"{bracket}{extras}"


def _requirement(line: Line) -> Requirement:
    return Requirement(_OPTIONS_OF_A_REQUIREMENT.sub("", line.text))


def _content(path: Path) -> str:
    digest = hashlib.sha256()
    if path.is_file():
        digest.update(path.read_bytes())
        return digest.hexdigest()
    for root, folders, names in os.walk(path):
        folders[:] = sorted(name for name in folders if name not in _UNREAD and not name.endswith(".egg-info"))
        for name in sorted(names):
            found = Path(root) / name
            if found.is_file():
                digest.update(
                    str(found.relative_to(path)).encode() + b"\0" + hashlib.sha256(found.read_bytes()).digest()
                )
    return digest.hexdigest()
