"""A policy object as a submission folder: ``inference.py``, the policy's files, and what a submission needs besides.

The evaluator runs the folder like any other submission. It never loads the policy; the participant process does.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.metadata
import json
import re
import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from a2perf.errors import ConfigError

_DIGEST_DIGITS = 8
_MOST_NAME = 60
_TRAIN = '''"""There is nothing to train: the policy was given to a2perf.evaluate."""


def train(**participant_args: str) -> None:
    """Returns at once; inference.py loads the policy of this folder."""
'''
_INFERENCE = '''"""Loads the policy that was given to a2perf.evaluate."""

from a2perf.submission.participant.adapters import {adapter}

load_policy, preprocess_observation, infer_once = {adapter}.contract({arguments})
'''


@dataclass(frozen=True)
class LivePolicy:
    """A policy that is ready to be written as a submission.

    Attributes:
        name: name of the submission, valid as the name of a folder.
        title: name as it was given.
        identity: hash of the policy's code and state.
        adapter: module of ``participant.adapters`` that loads it.
        arguments: Python source of the arguments of the adapter's ``contract``.
        write: writes the policy's files into a folder.
        packages: lines of ``requirements.txt``.
        framework: name of the library, for the submission's description.
    """

    name: str
    title: str
    identity: str
    adapter: str
    arguments: str
    write: Callable[[Path], object]
    packages: Sequence[str] = ()
    framework: str = ""

    @property
    def inference(self) -> str:
        """Source of ``inference.py``."""
        return _INFERENCE.format(adapter=self.adapter, arguments=self.arguments)

    @property
    def digest(self) -> str:
        """Identifies the content of the submission; different policies have different digests."""
        parts = (self.identity, self.inference, self.title, *self.packages)
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:_DIGEST_DIGITS]

    def written_to(self, place: Path) -> Path:
        """Writes the submission as ``<place>/<name>``, unless it is there.

        Raises:
            ConfigError: the folder cannot be written.
            UserError: the policy's library cannot save it.
        """
        folder = place / self.name
        if folder.is_dir():
            return folder
        try:
            place.mkdir(parents=True, exist_ok=True)
            # Another thread may write the same policy: the folder appears complete or not at all.
            with tempfile.TemporaryDirectory(dir=place, prefix=".writing-") as temporary:
                written = Path(temporary) / self.name
                written.mkdir()
                self._write_files(written)
                written.rename(folder)
        except OSError as error:
            if folder.is_dir():
                return folder
            raise ConfigError(
                f"the submission cannot be written to {place}: {error.strerror}", hint="give a root_dir you can write"
            ) from error
        return folder

    def _write_files(self, folder: Path) -> None:
        self.write(folder)
        (folder / "__init__.py").touch()
        (folder / "train.py").write_text(_TRAIN, encoding="utf-8")
        (folder / "inference.py").write_text(self.inference, encoding="utf-8")
        (folder / "requirements.txt").write_text("".join(f"{line}\n" for line in self.packages), encoding="utf-8")
        described = {"title": self.title[:_MOST_NAME], "framework": self.framework}
        lines = [f"{key} = {json.dumps(value, ensure_ascii=False)}\n" for key, value in described.items() if value]
        (folder / "a2perf.toml").write_text("".join(lines), encoding="utf-8")


def folder_name(title: str) -> str:
    """Returns a name that is valid as the name of a folder and of a submission.

    Raises:
        ConfigError: it has no letter or digit.
    """
    plain = re.sub(r"[^A-Za-z0-9._-]+", "_", title).strip("._-")[:_MOST_NAME]
    if not plain:
        raise ConfigError(f"the name {title!r} has no letter or digit", hint="name='my_policy'")
    return plain


def pinned(packages: Iterable[str]) -> list[str]:
    """Returns lines of ``requirements.txt`` with the versions that are installed; other packages are left out."""
    lines = []
    for package in sorted(set(packages)):
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            lines.append(f"{package}=={importlib.metadata.version(package)}")
    return lines
