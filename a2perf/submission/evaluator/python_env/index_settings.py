"""Where packages come from: only the organizer's configuration of uv.

Settings come from uv's variables and its user and system files. They are passed to uv in a file written here, not in
variables: uv expands ``${VARIABLES}`` in the metadata of packages, so its environment must not contain credentials.
Files in the working directory, in the submission or of a project are ignored.
"""

from __future__ import annotations

import json
import os
import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote, urlsplit

from a2perf.errors import ConfigError

_SOURCES = ("index-url", "extra-index-url", "find-links", "no-index", "index")
_KEYS = (*_SOURCES, "index-strategy", "allow-insecure-host", "native-tls", "system-certs", "exclude-newer")
_LISTS = ("extra-index-url", "find-links", "allow-insecure-host")
_BOOLEANS = ("no-index", "native-tls", "system-certs")
_CERTIFICATES = ("SSL_CERT_FILE", "SSL_CERT_DIR", "SSL_CLIENT_CERT", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")
PASSED_ON = (
    *_CERTIFICATES,
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "ALL_PROXY",
    "NO_PROXY",
    "http_proxy",
    "https_proxy",
    "all_proxy",
    "no_proxy",
    "UV_HTTP_TIMEOUT",
    "UV_HTTP_RETRIES",
)
"""Variables of the evaluator that uv gets: certificates, proxies and timeouts, no credentials of an index."""

SYSTEM = Path("/etc")


@dataclass(frozen=True)
class IndexSettings:
    """The organizer's settings: those of a ``uv.toml``, and variables."""

    uv: Mapping[str, object] = field(default_factory=dict)
    variables: Mapping[str, str] = field(default_factory=dict)

    def write_uv(self, path: Path) -> None:
        """Writes a ``uv.toml``."""
        lines = [f"{key} = {json.dumps(value, default=str)}" for key, value in self.uv.items() if key != "index"]
        for table in _tables(self.uv):
            plain = {key: value for key, value in table.items() if isinstance(value, str | bool)}
            lines += ["[[index]]", *(f"{key} = {json.dumps(value)}" for key, value in plain.items())]
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")

    @property
    def local_paths(self) -> tuple[Path, ...]:
        """Folders and files of this machine that the settings name: indexes, links and certificates."""
        named = [*_texts(self.uv.values()), *(self.variables.get(name, "") for name in _CERTIFICATES)]
        paths = [path for text in named if (path := _as_path(text)) is not None]
        # A local index is often `simple/` with links to `../files/`, so the parent folder has to be readable as well.
        above = [path.parent for path in paths if path.name == "simple"]
        return tuple(dict.fromkeys(path for path in [*paths, *above] if path.exists() and path != Path("/")))

    @property
    def wheel_folders(self) -> tuple[Path, ...]:
        """Folders of wheels on this machine."""
        paths = map(_as_path, _texts([self.uv.get("find-links", [])]))
        return tuple(path for path in paths if path is not None and path.is_dir())

    @property
    def has_index(self) -> bool:
        """Whether the settings name an index beside links."""
        return any(key in self.uv for key in ("index-url", "extra-index-url", "index"))

    @property
    def secrets(self) -> tuple[str, ...]:
        """User names and passwords in addresses; they stay out of logs."""
        texts = [*_texts(self.uv.values()), *self.variables.values()]
        found = [part for text in texts for part in re.findall(r"://([^/@\s]+)@", text)]
        pieces = {piece for part in found for piece in (part, *part.split(":"))}
        words = {word for piece in pieces for word in (piece, unquote(piece)) if len(word) > 3}
        return tuple(sorted(words, key=len, reverse=True))

    def identity(self) -> list[str]:
        """Returns what determines the content of an environment: the addresses without user names and passwords."""
        texts = _texts(value for key, value in self.uv.items() if key in (*_SOURCES, "exclude-newer"))
        return sorted({re.sub(r"://[^/@\s]+@", "://", text) for text in texts})


def organizer_settings(variables: Mapping[str, str] | None = None) -> IndexSettings:
    """Reads the configuration of the user who runs the evaluator.

    Raises:
        ConfigError: a configuration file is not valid.
    """
    env = os.environ if variables is None else variables
    found: dict[str, object] = {}
    for file in reversed([file for file in _files(env) if file.is_file()]):
        try:
            content = tomllib.loads(file.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise ConfigError(f"{file} is not a valid uv.toml: {error}", hint="correct or delete it") from error
        for place in (content.get("pip", {}), content):
            found.update({key: value for key, value in place.items() if key in _KEYS})
    for key in _KEYS:
        name = "UV_INSECURE_HOST" if key == "allow-insecure-host" else f"UV_{key.upper().replace('-', '_')}"
        if key != "index" and (text := env.get(name)):
            found[key] = _value(key, text)
    tables = _tables(found)
    for name in ("UV_INDEX", "UV_DEFAULT_INDEX"):
        for word in env.get(name, "").split():
            label, _, url = word.partition("=") if re.match(r"[\w.-]+=", word) else ("", "", word)
            tables.append({"url": url, **({"name": label} if label else {}), "default": name == "UV_DEFAULT_INDEX"})
    if tables:
        found["index"] = tables
    return IndexSettings(found, {name: env[name] for name in PASSED_ON if env.get(name)})


def _files(env: Mapping[str, str]) -> list[Path]:
    if given := env.get("UV_CONFIG_FILE"):
        return [Path(given)]
    if env.get("UV_NO_CONFIG"):
        return []
    home = Path(env.get("XDG_CONFIG_HOME") or Path(env.get("HOME", "/")) / ".config")
    system = [Path(folder) for folder in env.get("XDG_CONFIG_DIRS", "/etc/xdg").split(":") if folder]
    return [folder / "uv/uv.toml" for folder in (home, *system, SYSTEM)]


def _tables(settings: Mapping[str, object]) -> list[dict[str, object]]:
    tables = settings.get("index", [])
    return [dict(table) for table in tables if isinstance(table, dict)] if isinstance(tables, list) else []


def _value(key: str, text: str) -> object:
    if key in _BOOLEANS:
        return text.strip().lower() in ("1", "true", "yes", "on", "t", "y")
    separator = r"[,\s]+" if key == "find-links" else r"\s+"
    return [word for word in re.split(separator, text) if word] if key in _LISTS else text.strip()


def _texts(values: Iterable[object]) -> list[str]:
    found: list[str] = []
    for value in values:
        if isinstance(value, str):
            found.append(value)
        elif isinstance(value, dict):
            found += _texts(value.values())
        elif isinstance(value, list):
            found += _texts(value)
    return found


def _as_path(text: str) -> Path | None:
    if text.startswith("file://"):
        return Path(unquote(urlsplit(text).path))
    return Path(text).expanduser() if text.startswith(("/", "~")) else None
