"""The word list of the project: phrases that slow readers down, and what to write instead.

``python -m docs.building.words`` lists every place of a listed phrase in the tracked texts of the repository: code,
templates, pages and messages. It ends with status 1 if there is one; the test suite does the same. ``--counts`` prints
one line per phrase, to compare two versions.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import click

REPOSITORY = Path(__file__).resolve().parents[2]

SUFFIXES = frozenset(
    {".css", ".cff", ".gin", ".html", ".j2", ".jinja", ".js", ".md", ".py", ".sh", ".toml", ".txt", ".yaml", ".yml"}
)
"""Suffixes of the files that are read; a file without a suffix is read as well if it is text (``Makefile``)."""

SKIPPED = ("results/recorded/", "tests/", "third_party/", "LICENSE", "requirements")
"""Beginnings of tracked paths that are not read: recorded data, tests (of distributions too), texts of other people."""

_UNIT = (
    "(?:bundle|call|design|domain|environment|episode|file|folder|group|line|metric|minute|mode|page|process|row|run|"
    "second|seed|step|submission|task|test|version|website|worker)"
)
_AFTER = (
    r"(?=[.,;:)]|\s+(?:is|was|has|that|which|of|on|in|with|may|can|must|under|and|or|to|takes|starts|ends|fails|needs|"
    r"costs|resumes|stops|writes|logs|from|until|for|at|by|without)\b)"
)


@dataclass(frozen=True)
class Phrase:
    """A phrase that is not used.

    Attributes:
        name: how a report of this check calls it.
        pattern: a regular expression, searched in whole files; white space stands for any white space.
        instead: what to write.
    """

    name: str
    pattern: str
    instead: str

    def places(self, text: str) -> Iterator[tuple[int, str]]:
        """Yields line number and matched words of each place in ``text``."""
        for match in re.finditer(self.pattern.replace(" ", r"[\s#]+"), text):
            yield text.count("\n", 0, match.start()) + 1, " ".join(match.group().split())


PHRASES = (
    Phrase("m-e-n-d", r"\b[Mm]end(?:s|ed|ing)?\b", "fix; the argument of errors is hint="),
    Phrase(
        "is no",
        r"(?<!here\s)\b(?:is|are|was|were) no\b(?! (?:longer|more|less|better|worse|larger|smaller|one)\b)",
        "is not a",
    ),
    Phrase(
        "says whether",
        r"\b(?:[Ss]ay|[Ss]ays|said|[Ss]aying) (?:whether|what|which|how|where|who|why|so)\b|"
        r"(?<![.\"])\btold\b(?![\"':=])",  # as a key, the word belongs to the task files of competitions
        "returns whether, describes, reports",
    ),
    Phrase("where it is", r"\b[Ww]here (?:it|they|one|there) (?:is|are|was|were|has|have|had)\b", "if it ..."),
    Phrase(
        "one a",
        r"\b(?:one|a|an|each) (?!(?:as|by|for|has|in|is|needs|of|on|per|runs|that|to|with)\b)[a-z]+ "
        rf"an? {_UNIT}\b(?!-)",
        "one ... per ...",
    ),
    Phrase(
        "units a",
        rf"\b(?:bytes|calls|dots|episodes|files|frames|joules|kWh|lines|MB|microseconds|milliseconds|ms|points|runs|"
        rf"seconds|seeds|steps|times|us|watts) an? {_UNIT}\b(?!-)",
        "... per ...",
    ),
    Phrase("l-a-c-k", r"\b[Ll]ack(?:s|ed|ing)?\b", "is missing"),
    Phrase("w-a-n-t-s", r"\b[Ww]ants\b", "requires, needs"),
    Phrase("a-n-e-w", r"\b[Aa]new\b", "again, from scratch"),
    Phrase(
        "a training",
        rf"\b[Tt]rainings\b|\b(?:[Aa]|[Oo]ne|[Ee]very|[Ee]ach|per|no|another|this|that) training\b{_AFTER}",
        "a training run",
    ),
    Phrase("data s-e-t", r"\b[Dd]ata(?: |-)sets?\b", "dataset"),
    Phrase("a-r-t-e-fact", r"\b[Aa]rtefact", "artifact"),
    Phrase(
        "connectives",
        r"\b(?:[Ll]ikewise|[Mm]eanwhile|[Hh]ence|[Ww]hose|of (?:its|their|his|her|our|your|my|one's) own|"
        r"[Bb]y which|[Ss]o that|[Ss]hortly)\b",
        "drop it, or split the sentence",
    ),
    Phrase("g-o on", r"\b(?:[Gg]o|[Gg]oes|[Gg]oing|[Ww]ent) on\b", "resume, continue"),
    Phrase("p-u-t aside", r"\b(?:put|puts|putting) aside\b", "archive"),
    Phrase(
        "found a competition", r"\b[Ff]ound(?:s|ing)? (?:a|the) (?:competition|benchmark)\b", "create a competition"
    ),
    Phrase(
        "free relatives",
        r"(?:^|[.:;(] )[Ww]ho (?:finish|has|have|is|was|run|read|look|use|need|only)\w*\b|\b[Ww]hat was met\b|"
        r"\b[Ww]ho finished\b",
        "entries that ..., warnings raised ...",
    ),
    Phrase(
        "metaphors",
        r"\b(?:[Aa]utopsy|[Ll]eash|[Ll]ede|[Ff]ounding|[Jj]ourneys?|[Cc]ohorts?)\b|"
        r"\b(?:the|this|a|each|other|another) rooms?\b",
        "failure diagnosis, die-with-parent, summary, creation, path, seed group, package",
    ),
    Phrase(
        "class names",
        r"\bclass (?:Asked|Conducted|Happening|Ended|Made|Shown|Cohort|Setting|Owner|Player|Worlds|Course)\b",
        "SubmitRequest, ExperimentResult, Event, ExitStatus, SeedGroup, TaskResults, ...",
    ),
    Phrase("module names", r"\breference_control\b", "residual_control"),
)


@dataclass(frozen=True)
class Place:
    """A place of a listed phrase: file relative to the repository, line, matched words and the phrase."""

    path: str
    line: int
    words: str
    phrase: Phrase

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.words!r}: {self.phrase.instead}"


def texts(names: Iterable[str] = (), *, skipped: tuple[str, ...] = SKIPPED) -> list[str]:
    """Returns the tracked files that are read, below ``names`` or all, as paths relative to the repository."""
    listed = subprocess.run(
        ["git", "ls-files", "--", *names], cwd=REPOSITORY, check=True, capture_output=True, text=True
    ).stdout.splitlines()
    read = [name for name in listed if (Path(name).suffix in SUFFIXES or not Path(name).suffix) and name.strip()]
    own = Path(__file__).resolve().relative_to(REPOSITORY).as_posix()
    if "tests/" in skipped:
        read = [name for name in read if not (name.startswith("packages/") and "/tests/" in name)]
    return [name for name in read if not name.startswith(skipped) and name != own and (REPOSITORY / name).is_file()]


def places(files: Iterable[str]) -> Iterator[Place]:
    """Yields every place of a listed phrase in ``files``, relative to the repository."""
    for name in files:
        try:
            text = (REPOSITORY / name).read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        found: list[Place] = []
        for phrase in PHRASES:
            found += [Place(name, line, words, phrase) for line, words in phrase.places(text)]
        yield from sorted(found, key=lambda place: place.line)


@click.command()
@click.argument("paths", nargs=-1)
@click.option("--counts", is_flag=True, help="Print one line per phrase instead of one per place.")
@click.option("--tests", is_flag=True, help="Read the tests as well.")
def main(paths: tuple[str, ...], counts: bool, tests: bool) -> None:
    """List the places of phrases that are not used, in PATHS or in the whole repository."""
    skipped = tuple(start for start in SKIPPED if not (tests and start == "tests/"))
    found = list(places(texts(paths, skipped=skipped)))
    if counts:
        for phrase in PHRASES:
            click.echo(f"{sum(place.phrase is phrase for place in found):6} {phrase.name}")
        click.echo(f"{len(found):6} in all")
    else:
        for place in found:
            click.echo(str(place))
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
