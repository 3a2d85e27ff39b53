"""The evaluator's secret that keys the seeds of its runs: 32 random bytes in the user's configuration folder.

The first run that needs it creates it. Hosts that have to evaluate on the same episodes share one file through
``A2PERF_SEED_SECRET_FILE``. The secret is never copied into a bundle and is hidden in sandboxes that can hide files.
"""

from __future__ import annotations

import secrets
import stat
import tempfile
from contextlib import suppress
from pathlib import Path

from a2perf.errors import ConfigError, command_line
from a2perf.system import POSIX
from a2perf.system import files as os

VARIABLE = "A2PERF_SEED_SECRET_FILE"
BYTES = 32
_ELSEWHERE = f"set {VARIABLE} to a file that this user may create or read, or add --public-seeds"


def place() -> Path:
    """Returns the path of the secret, which may not exist yet."""
    given = os.environ.get(VARIABLE)
    if given:
        return Path(given).expanduser().absolute()
    import platformdirs

    return Path(platformdirs.user_config_dir("a2perf", appauthor=False)) / "seed_secret"


def read(file: Path | None = None) -> bytes:
    """Returns the secret in a file, by default the one at ``place()``; the first call on a host creates it.

    Raises:
        ConfigError: the file cannot be created or read, other users may read it, or it is shorter than ``BYTES``.
    """
    file = file or place()
    try:
        if not file.exists():
            _make(file)
        # Checked and read through one descriptor, as the name may refer to another file a moment later.
        descriptor = os.open(file, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        with open(descriptor, "rb") as opened:
            status = os.fstat(descriptor)
            data = opened.read(2**16) if stat.S_ISREG(status.st_mode) else b""
    except OSError as error:
        raise ConfigError(f"the seed secret {file} cannot be used: {error.strerror}", hint=_ELSEWHERE) from error
    if POSIX and status.st_mode & 0o077:  # elsewhere a mode says nothing about other users
        raise ConfigError(f"other users may read the seed secret {file}", hint=command_line("chmod", "600", file))
    if len(data) < BYTES:
        raise ConfigError(
            f"the seed secret {file} has {len(data)} bytes; at least {BYTES} are required",
            hint=f"{command_line('rm', file)} "
            "(the next run creates a new secret; its seeds differ from those of earlier runs)",
        )
    return data


def _make(file: Path) -> None:
    """Writes the secret under a temporary name and links it: the file appears complete and never replaces another."""
    file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    descriptor, name = tempfile.mkstemp(prefix=f".{file.name}-", dir=file.parent)  # mode 0600
    try:
        with open(descriptor, "wb") as opened:
            opened.write(secrets.token_bytes(BYTES))
            opened.flush()
            os.fsync(descriptor)
        with suppress(FileExistsError):  # another run was faster; use its secret
            os.link(name, file)
    finally:
        os.unlink(name)
