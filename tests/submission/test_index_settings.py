"""Where packages come from: the organizer's configuration of uv and pip."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

from a2perf.errors import ConfigError
from a2perf.submission.evaluator.python_env import index_settings
from a2perf.submission.evaluator.python_env.blame import clean
from a2perf.submission.evaluator.python_env.index_settings import IndexSettings, organizer_settings

Settings = Callable[..., IndexSettings]


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """Reads the settings of a user whose home is a folder of the test, and of a system without any."""
    monkeypatch.setattr(index_settings, "SYSTEM", tmp_path / "etc")

    def read(**variables: str) -> IndexSettings:
        return organizer_settings({"HOME": str(tmp_path), "XDG_CONFIG_DIRS": str(tmp_path / "system"), **variables})

    return read


def configure(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def written(given: IndexSettings, folder: Path) -> dict[str, object]:
    given.write_uv(folder / "written.toml")
    return tomllib.loads((folder / "written.toml").read_text())


def test_files_and_variables_of_uv_count_and_nothing_else_of_them(tmp_path: Path, settings: Settings) -> None:
    configure(tmp_path / "system/uv/uv.toml", 'index-url = "https://system.example/simple"\nno-index = false\n')
    configure(
        tmp_path / ".config/uv/uv.toml",
        'index-url = "https://user.example/simple"\ncache-dir = "/x"\n[[index]]\nname = "own"\nurl = "https://own.example"\n',
    )
    found = settings(
        UV_FIND_LINKS="/a,/b", UV_INDEX_OWN_USERNAME="me", UV_INDEX_OWN_PASSWORD="s3cret", SSL_CERT_FILE="/c"
    )
    assert written(found, tmp_path) == {
        "index-url": "https://user.example/simple", "no-index": False, "find-links": ["/a", "/b"],
        "index": [{"name": "own", "url": "https://me:s3cret@own.example"}],
    }  # fmt: skip
    assert found.variables == {"SSL_CERT_FILE": "/c"}
    assert found.addresses() == {("user.example", 443), ("own.example", 443)}


def test_the_configuration_of_pip_counts_where_uv_has_none(tmp_path: Path, settings: Settings) -> None:
    (tmp_path / "links").mkdir()
    configure(
        tmp_path / ".config/pip/pip.conf",
        f"[global]\nextra-index-url = file://{tmp_path}/links https://two.example:8443/simple\n"
        f"find-links =\n    {tmp_path}/links\n    {tmp_path}/missing\n[install]\nno-index = no\n",
    )
    found = settings(PIP_INDEX_URL="http://one.example/simple", PIP_CERT="/ca.pem", PIP_TARGET="/elsewhere")
    assert {key: value for key, value in written(found, tmp_path).items() if key != "no-index"} == {
        "index-url": "http://one.example/simple", "find-links": [f"{tmp_path}/links"],
        "extra-index-url": [f"file://{tmp_path}/links", "https://two.example:8443/simple"],
        "index-strategy": "unsafe-best-match",
    }  # fmt: skip
    assert found.variables["SSL_CERT_FILE"] == "/ca.pem"
    assert found.addresses() == {("one.example", 80), ("two.example", 8443)}
    assert tmp_path / "links" in found.local_paths
    assert "index-url" not in settings(UV_FIND_LINKS="/a", PIP_INDEX_URL="http://one.example").uv


def test_without_a_configuration_the_public_index_is_meant(settings: Settings) -> None:
    found = settings(SECRET="s3cret")
    assert not {**found.uv, **found.variables}
    addresses = found.addresses()
    assert len(addresses) == 2
    assert {port for _, port in addresses} == {443}
    assert settings(UV_NO_INDEX="1").addresses() == set()


def test_credentials_stay_out_of_logs_and_keys(settings: Settings) -> None:
    found = settings(
        UV_INDEX_URL="https://me:p%40ssword@one.example/simple", HTTPS_PROXY="http://you:hunter22@proxy:8080"
    )
    said = clean("GET https://me:p%40ssword@one.example p@ssword hunter22 \x1b[31mred\x07\n", found.secrets)
    assert said == "GET https://***@one.example *** *** \\x1b[31mred\\x07\n"
    assert found.identity() == ["https://one.example/simple"]
    assert found.upstream == "http://you:hunter22@proxy:8080"


@pytest.mark.parametrize("name", [".config/uv/uv.toml", ".config/pip/pip.conf"])
def test_a_broken_configuration_is_named(tmp_path: Path, settings: Settings, name: str) -> None:
    configure(tmp_path / name, "[[[")
    with pytest.raises(ConfigError, match=name.rpartition("/")[2]):
        settings()
