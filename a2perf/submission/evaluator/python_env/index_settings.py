"""Where packages come from: only the organizer's configuration of uv and pip.

Settings come from uv's variables and its user and system files; if these define no index and no links, from those of
pip. They are passed to uv in a file written here, not in variables: an installer expands ``${VARIABLES}`` in the
metadata of packages, so its environment must not contain credentials. Files in the working directory, in the submission
or of a project are ignored.
"""

from __future__ import annotations

import configparser
import importlib
import json
import os
import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote, urlsplit

from a2perf.errors import ConfigError

_UV_KEYS = (
    "index-url", "extra-index-url", "find-links", "no-index", "index-strategy", "keyring-provider",
    "allow-insecure-host", "native-tls", "system-certs", "exclude-newer", "index",
)  # fmt: skip
_UV_VARIABLES = {
    "UV_INDEX_URL": "index-url", "UV_EXTRA_INDEX_URL": "extra-index-url", "UV_FIND_LINKS": "find-links",
    "UV_NO_INDEX": "no-index",
    "UV_INDEX_STRATEGY": "index-strategy", "UV_INSECURE_HOST": "allow-insecure-host", "UV_NATIVE_TLS": "native-tls",
    "UV_SYSTEM_CERTS": "system-certs", "UV_EXCLUDE_NEWER": "exclude-newer", "UV_KEYRING_PROVIDER": "keyring-provider",
}  # fmt: skip
_PIP_KEYS = ("index-url", "extra-index-url", "find-links", "no-index", "trusted-host", "cert", "client-cert", "proxy")
_LISTS = ("extra-index-url", "find-links", "allow-insecure-host", "trusted-host")
_BOOLEANS = ("no-index", "native-tls", "system-certs")
_SOURCES = ("index-url", "extra-index-url", "find-links", "no-index", "index")

PASSED_ON = (
    "SSL_CERT_FILE", "SSL_CERT_DIR", "SSL_CLIENT_CERT", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "HTTP_PROXY",
    "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "all_proxy", "no_proxy", "UV_HTTP_TIMEOUT",
    "UV_HTTP_RETRIES",
)  # fmt: skip
"""Variables of the evaluator that an installer gets: certificates, proxies and timeouts, no credentials of an index."""

SYSTEM = Path("/etc")

Value = str | bool | list[str] | list[dict[str, object]]


@dataclass(frozen=True)
class IndexSettings:
    """The organizer's settings."""

    uv: Mapping[str, Value] = field(default_factory=dict)
    variables: Mapping[str, str] = field(default_factory=dict)

    def write_uv(self, path: Path) -> None:
        """Writes a ``uv.toml``."""
        lines = [f"{key} = {json.dumps(value, default=str)}" for key, value in self.uv.items() if key != "index"]
        for table in self._tables:
            plain = {key: value for key, value in table.items() if isinstance(value, str | bool)}
            lines += ["[[index]]", *(f"{key} = {json.dumps(value)}" for key, value in plain.items())]
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")

    @property
    def _tables(self) -> list[dict[str, object]]:
        tables = self.uv.get("index", [])
        return [table for table in tables if isinstance(table, dict)] if isinstance(tables, list) else []

    @property
    def local_paths(self) -> tuple[Path, ...]:
        """Folders and files of this machine that the settings name: indexes, links and certificates."""
        named = _texts(self.uv.values())
        for name in ("SSL_CERT_FILE", "SSL_CERT_DIR", "SSL_CLIENT_CERT", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"):
            named.append(self.variables.get(name, ""))
        paths = [_as_path(text) for text in named]
        # A local index is often `simple/` with links to `../files/`, so the parent folder has to be readable as well.
        above = [path.parent for path in paths if path and path.name == "simple"]
        return tuple(dict.fromkeys(path for path in [*paths, *above] if path and path.exists() and path != Path("/")))

    @property
    def wheel_folders(self) -> tuple[Path, ...]:
        """Folders of wheels on this machine."""
        paths = map(_as_path, _texts([self.uv.get("find-links", [])]))
        return tuple(path for path in paths if path is not None and path.is_dir())

    @property
    def has_index(self) -> bool:
        """Whether the settings name an index beside links."""
        return any(key in self.uv for key in ("index-url", "extra-index-url", "index"))

    def addresses(self) -> set[tuple[str, int]]:
        """Returns the hosts and ports of the indexes and links, including the public index if it is the default."""
        texts = _texts(value for key, value in self.uv.items() if key in _SOURCES)
        own = "index-url" in self.uv or any(table.get("default") for table in self._tables)
        index, files = _public_index()
        if not own and not self.uv.get("no-index", False):
            texts.append(index)
        parts = [urlsplit(text) for text in texts if text.startswith(("http://", "https://"))]
        found = {(str(part.hostname), part.port or (443 if part.scheme == "https" else 80)) for part in parts}
        return found | {(files, 443)} if (urlsplit(index).hostname, 443) in found else found

    @property
    def upstream(self) -> str | None:
        """The organizer's proxy."""
        names = ("HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy", "HTTP_PROXY", "http_proxy")
        return next((self.variables[name] for name in names if name in self.variables), None)

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


def _public_index() -> tuple[str, str]:
    """Returns the address of the default index and the host of its files, read from pip.

    Both are empty if this Python has no pip; a build then reaches only the addresses in the organizer's settings.
    """
    try:
        known = importlib.import_module("pip._internal.models.index").PyPI
    except (ImportError, AttributeError):
        return "", ""
    return str(known.simple_url), str(known.file_storage_domain)


def organizer_settings(variables: Mapping[str, str] | None = None) -> IndexSettings:
    """Reads the configuration of the user who runs the evaluator.

    Raises:
        ConfigError: a configuration file is not valid.
    """
    env = os.environ if variables is None else variables
    uv, pip = _uv_settings(env), _pip_settings(env)
    if not any(key in uv for key in _SOURCES):
        uv.update({key: _without_missing(value) for key, value in pip.items() if key in _SOURCES})
        if any(key in pip for key in _SOURCES):
            uv.setdefault("index-strategy", "unsafe-best-match")  # pip's behaviour with several indexes
        if "trusted-host" in pip:
            uv.setdefault("allow-insecure-host", pip["trusted-host"])
    passed = {name: env[name] for name in PASSED_ON if env.get(name)}
    if isinstance(cert := pip.get("cert"), str):
        passed.setdefault("SSL_CERT_FILE", cert)
    if isinstance(proxy := pip.get("proxy"), str):
        passed.setdefault("ALL_PROXY", proxy)
    return IndexSettings(uv, passed)


def _without_missing(value: Value) -> Value:
    """Drops folders that do not exist: pip only warns about them, uv fails."""
    if not isinstance(value, list):
        return value
    texts = [text for text in value if isinstance(text, str)]
    return [text for text in texts if (path := _as_path(text)) is None or path.exists()]


def _uv_settings(env: Mapping[str, str]) -> dict[str, Value]:
    home = Path(env.get("XDG_CONFIG_HOME") or Path(env.get("HOME", "/")) / ".config")
    system = [Path(folder) / "uv/uv.toml" for folder in env.get("XDG_CONFIG_DIRS", "/etc/xdg").split(":") if folder]
    files = [home / "uv/uv.toml", *system, SYSTEM / "uv/uv.toml"]
    if given := env.get("UV_CONFIG_FILE"):
        files = [Path(given)]
    elif env.get("UV_NO_CONFIG"):
        files = []
    found: dict[str, Value] = {}
    for file in reversed([file for file in files if file.is_file()]):
        try:
            content = tomllib.loads(file.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise ConfigError(f"{file} is not a valid uv.toml: {error}", hint="correct or delete it") from error
        for place in (content.get("pip", {}), content):
            found.update({key: value for key, value in place.items() if key in _UV_KEYS})
    for name, key in _UV_VARIABLES.items():
        if value := env.get(name):
            found[key] = _value(key, value, r"[,\s]+" if name == "UV_FIND_LINKS" else r"\s+")
    given_tables = found.get("index", [])
    tables = [dict(one) for one in given_tables if isinstance(one, dict)] if isinstance(given_tables, list) else []
    for name in ("UV_INDEX", "UV_DEFAULT_INDEX"):
        for word in env.get(name, "").split():
            named = re.match(r"(?:([\w.-]+)=)?(.+)", word)
            if named is not None:
                label = {"name": named[1]} if named[1] else {}
                tables.append({**label, "url": named[2], **({"default": True} if name == "UV_DEFAULT_INDEX" else {})})
    for table in tables:
        _add_credentials(table, env)
    return {**found, "index": tables} if tables else found


def _add_credentials(table: dict[str, object], env: Mapping[str, str]) -> None:
    """Adds the credentials of a named index, which uv would read from variables, to its address."""
    name = re.sub(r"[^A-Z0-9]", "_", str(table.get("name", "")).upper())
    user, password = env.get(f"UV_INDEX_{name}_USERNAME"), env.get(f"UV_INDEX_{name}_PASSWORD")
    address = urlsplit(str(table.get("url", "")))
    if name and (user or password) and "@" not in address.netloc:
        table["url"] = address._replace(netloc=f"{user or ''}:{password or ''}@{address.netloc}").geturl()


def _pip_settings(env: Mapping[str, str]) -> dict[str, Value]:
    home = Path(env.get("HOME", "/"))
    folders = [Path(folder) / "pip" for folder in env.get("XDG_CONFIG_DIRS", "/etc/xdg").split(":") if folder]
    files = [*(folder / "pip.conf" for folder in folders), SYSTEM / "pip.conf", home / ".pip/pip.conf"]
    files.append(Path(env.get("XDG_CONFIG_HOME") or home / ".config") / "pip/pip.conf")
    if given := env.get("PIP_CONFIG_FILE"):
        files = [] if given == os.devnull else [*files, Path(given)]
    found: dict[str, Value] = {}
    for file in files:
        if not file.is_file():
            continue
        parser = configparser.RawConfigParser(strict=False)
        try:
            parser.read_string(file.read_text(encoding="utf-8"), str(file))
        except (OSError, ValueError, configparser.Error) as error:
            raise ConfigError(f"{file} is not a valid pip.conf: {error}", hint="correct or delete it") from error
        for section in ("global", "install"):
            if parser.has_section(section):
                found.update({key: _value(key, value) for key, value in parser.items(section) if key in _PIP_KEYS})
    for key in _PIP_KEYS:
        if value := env.get(f"PIP_{key.upper().replace('-', '_')}"):
            found[key] = _value(key, value)
    return found


def _value(key: str, text: str, separator: str = r"\s+") -> Value:
    if key in _BOOLEANS:
        return text.strip().lower() in ("1", "true", "yes", "on", "t", "y")
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
