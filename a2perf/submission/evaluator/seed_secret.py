"""The evaluator's secret, from which the seeds of its runs are keyed: 32 random bytes in the user's configuration.

Made by the first run that needs it. Hosts that are to evaluate on the same episodes share one file, which
``A2PERF_SEED_SECRET_FILE`` names. It is never copied into a bundle and never visible in a sandbox that hides files.
"""

from __future__ import annotations

import os
import secrets
import stat
import tempfile
from contextlib import suppress
from pathlib import Path

from a2perf.errors import ConfigError

VARIABLE = "A2PERF_SEED_SECRET_FILE"
BYTES = 32
_ELSEWHERE = f"name a file that this user may write or read in {VARIABLE}, or use --public-seeds"


def place() -> Path:
    """Returns where the secret lies, or will lie."""
    given = os.environ.get(VARIABLE)
    if given:
        return Path(given).expanduser().absolute()
    import platformdirs

    return Path(platformdirs.user_config_dir("a2perf", appauthor=False)) / "seed_secret"


def read() -> bytes:
    """Returns the secret; the first call on a host makes it.

    Raises:
        ConfigError: the file cannot be made or read, others may read it, or it does not hold ``BYTES`` bytes or more.
    """
    file = place()
    try:
        if not file.exists():
            _make(file)
        descriptor = os.open(file, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        with open(descriptor, "rb") as opened:
            status = os.fstat(descriptor)
            data = opened.read(2**16) if stat.S_ISREG(status.st_mode) else b""
    except OSError as error:
        raise ConfigError(f"the seed secret {file} cannot be used: {error.strerror}", hint=_ELSEWHERE) from error
    if status.st_mode & 0o077:
        raise ConfigError(f"the seed secret {file} can be read by others", hint=f"chmod 600 {file}")
    if len(data) < BYTES:
        raise ConfigError(
            f"the seed secret {file} holds {len(data)} bytes, not {BYTES} or more",
            hint="delete it, and the next run makes another; seeds then differ from those of earlier runs",
        )
    return data


def _make(file: Path) -> None:
    """Writes the secret under another name first: a link appears at once and whole, and never replaces a file."""
    file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    descriptor, name = tempfile.mkstemp(prefix=f".{file.name}-", dir=file.parent)  # mode 0600
    try:
        with open(descriptor, "wb") as opened:
            opened.write(secrets.token_bytes(BYTES))
            opened.flush()
            os.fsync(descriptor)
        with suppress(FileExistsError):  # another run was faster; its secret counts
            os.link(name, file)
    finally:
        os.unlink(name)
