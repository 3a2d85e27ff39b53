"""Makes a release: checks, version, changelog, distributions, commit and tag. Nothing is pushed.

    make release VERSION=1.1.0            or  python scripts/release.py 1.1.0
    make release VERSION=1.1.0 DRY_RUN=1  or  python scripts/release.py 1.1.0 --dry-run

Versions are semantic (https://semver.org): a release that changes or removes a name, an output or a number is major.
``a2perf/_version.py`` and every ``pyproject.toml`` contain the version; ``CITATION.cff`` repeats it for citations.
"""

from __future__ import annotations

import datetime
import difflib
import re
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import click
from packaging.version import InvalidVersion, Version

from a2perf.errors import UserError

ROOT = Path(__file__).resolve().parents[1]
BRANCH = "main"
VERSION_FILE, PROJECT, CHANGELOG, CITATION = "a2perf/_version.py", "pyproject.toml", "CHANGELOG.md", "CITATION.cff"
UNRELEASED = "## [Unreleased]\n"
_SEMANTIC = re.compile(r"\d+\.\d+\.\d+(?:rc\d+)?")
_CURRENT = re.compile(r'^__version__ = "(?P<version>[^"]+)"$', re.MULTILINE)


@dataclass(frozen=True)
class Release:
    """A release of the checkout in ``root``.

    Attributes:
        root: top folder of the repository.
        version: the new version, such as ``1.1.0`` or ``1.1.0rc1``.
        date: the day that the changelog and the citation state, as ``2026-11-22``.
    """

    root: Path
    version: str
    date: str

    @property
    def tag(self) -> str:
        """The git tag."""
        return f"v{self.version}"

    def git(self, *arguments: str) -> str:
        """Returns the output of a git command.

        Raises:
            UserError: git ended with an error.
        """
        done = subprocess.run(["git", *arguments], cwd=self.root, capture_output=True, text=True, check=False)
        if done.returncode:
            raise UserError(f"git {' '.join(arguments)} failed: {done.stderr.strip()}")
        return done.stdout.strip()

    def check(self) -> None:
        """Checks version, branch, working tree, tag and changelog.

        Raises:
            UserError: the release cannot be made.
        """
        if not _SEMANTIC.fullmatch(self.version):
            raise UserError(
                f"{self.version!r} is not a version", hint="give MAJOR.MINOR.PATCH, such as 1.2.0 or 1.2.0rc1"
            )
        current = _CURRENT.search(self._read(VERSION_FILE))
        if current is None:
            raise UserError(f'{VERSION_FILE} has no line __version__ = "..."', hint=f"git checkout {VERSION_FILE}")
        try:
            newer = Version(self.version) > Version(current["version"])
        except InvalidVersion as error:
            raise UserError(f"{VERSION_FILE}: {error}", hint="write a version such as 1.2.0") from error
        if not newer:
            raise UserError(
                f"{self.version} does not come after the current version {current['version']}",
                hint="give a higher version",
            )
        if (branch := self.git("branch", "--show-current")) != BRANCH:
            raise UserError(
                f"releases are made on {BRANCH}, not on {branch or 'a detached commit'}", hint=f"git switch {BRANCH}"
            )
        if changed := self.git("status", "--porcelain").splitlines():
            shown = "\n".join(f"  {line.strip()}" for line in changed[:5])
            more = f"\n  and {len(changed) - 5} more" if len(changed) > 5 else ""
            raise UserError(f"the working tree has changes:\n{shown}{more}", hint="git commit or git stash")
        if self.git("tag", "--list", self.tag):
            raise UserError(f"the tag {self.tag} exists", hint="give a higher version")
        if not self._unreleased():
            raise UserError(
                f"{CHANGELOG} lists nothing under Unreleased", hint="describe the changes of this release there"
            )

    def edits(self) -> dict[str, str]:
        """Returns the new text of every file that the release changes, by path."""
        changelog = self._read(CHANGELOG).replace(UNRELEASED, f"{UNRELEASED}\n## [{self.version}] - {self.date}\n", 1)
        citation = re.sub(r"(?m)^version: .*$", f"version: {self.version}", self._read(CITATION))
        citation = re.sub(r"(?m)^date-released: .*$", f"date-released: {self.date}", citation)
        version = _CURRENT.sub(f'__version__ = "{self.version}"', self._read(VERSION_FILE))
        distributions = sorted(str(path.relative_to(self.root)) for path in self.root.glob(f"packages/*/{PROJECT}"))
        projects = {
            path: re.sub(r'(?m)^version = ".*"$', f'version = "{self.version}"', self._read(path), count=1)
            for path in (PROJECT, *distributions)
        }
        return {VERSION_FILE: version, **projects, CHANGELOG: changelog, CITATION: citation}

    def make(self, tests: Sequence[str], build: Sequence[str]) -> None:
        """Runs the tests, writes the files, builds both distributions, commits and tags.

        The files are restored if the build fails, so a failed release leaves the checkout as it was.

        Raises:
            UserError: a step failed.
        """
        if tests:
            self._run(tests)
        old = {path: self._read(path) for path in self.edits()}
        try:
            for path, text in self.edits().items():
                (self.root / path).write_text(text, encoding="utf-8")
            self._run(build)
            self._check_distributions()
            self.git("commit", "--quiet", "--message", f"Release {self.version}", "--", *old)
        except BaseException:
            for path, text in old.items():
                (self.root / path).write_text(text, encoding="utf-8")
            raise
        self.git("tag", "--annotate", self.tag, "--message", f"Release {self.version}")

    def _check_distributions(self) -> None:
        for name in (f"a2perf-{self.version}-py3-none-any.whl", f"a2perf-{self.version}.tar.gz"):
            if not (self.root / "dist" / name).is_file():
                raise UserError(f"the build made no dist/{name}", hint="python -m build --no-isolation")

    def _run(self, command: Sequence[str]) -> None:
        click.echo(f"$ {' '.join(command)}")
        if status := subprocess.run(command, cwd=self.root, check=False).returncode:
            raise UserError(f"{' '.join(command)} ended with status {status}; nothing was released")

    def _read(self, path: str) -> str:
        return (self.root / path).read_text(encoding="utf-8")

    def _unreleased(self) -> str:
        _, found, after = self._read(CHANGELOG).partition(UNRELEASED)
        if not found:
            raise UserError(f"{CHANGELOG} has no heading {UNRELEASED.strip()}", hint="add it above the newest version")
        return after.partition("\n## ")[0].strip()


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("version")
@click.option("--dry-run", is_flag=True, help="Check, print the edits, and change nothing.")
@click.option("--skip-tests", is_flag=True, help="Do not run `make test test-attacks` first.")
@click.option(
    "--root",
    default=ROOT,
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="The checkout to release.",
)
def release(version: str, dry_run: bool, skip_tests: bool, root: Path) -> None:
    """Release VERSION of a2perf from a clean checkout of the main branch."""
    today = datetime.datetime.now(tz=datetime.UTC).date().isoformat()
    made = Release(root, version.removeprefix("v"), today)
    try:
        made.check()
        if dry_run:
            for path, text in made.edits().items():
                old = (root / path).read_text(encoding="utf-8").splitlines(keepends=True)
                click.echo(
                    "".join(difflib.unified_diff(old, text.splitlines(keepends=True), path, path, n=1)), nl=False
                )
            click.echo(f"dry run: would run the tests, build dist/, commit, and tag {made.tag}")
            return
        tests = () if skip_tests else ("make", "--no-print-directory", "test", "test-attacks")
        made.make(tests, (sys.executable, "-m", "build", "--no-isolation"))
    except UserError as error:
        click.echo(f"release: {error}", err=True)
        sys.exit(2)
    click.echo(f"tagged {made.tag}; publish it with: git push origin {BRANCH} {made.tag}")


if __name__ == "__main__":
    release()
