"""Where packages come from: the organizer's configuration of uv."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

from a2perf.errors import ConfigError
from a2perf.submission.evaluator.python_env import index_settings
from a2perf.submission.evaluator.python_env.index_settings import IndexSettings, organizer_settings
from a2perf.submission.evaluator.python_env.installer import without_secrets

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
        UV_FIND_LINKS="/a,/b",
        UV_INDEX="more=https://me:s3cret@more.example/?a=b",
        SSL_CERT_FILE="/c",
        UV_INDEX_OWN_PASSWORD="s3cret",
        PIP_INDEX_URL="https://pip.example",
    )
    assert written(found, tmp_path) == {
        "index-url": "https://user.example/simple",
        "no-index": False,
        "find-links": ["/a", "/b"],
        "index": [
            {"name": "own", "url": "https://own.example"},
            {"name": "more", "url": "https://me:s3cret@more.example/?a=b", "default": False},
        ],
    }
    assert found.variables == {"SSL_CERT_FILE": "/c"}


def test_places_on_this_machine_are_readable(tmp_path: Path, settings: Settings) -> None:
    (tmp_path / "simple").mkdir()
    found = settings(UV_INDEX_URL=f"file://{tmp_path}/simple", UV_FIND_LINKS=f"{tmp_path}/missing")
    assert found.local_paths == (tmp_path / "simple", tmp_path)
    assert found.wheel_folders == ()
    assert not {**settings(SECRET="s3cret").uv, **settings(SECRET="s3cret").variables}


def test_credentials_stay_out_of_logs_and_keys(settings: Settings) -> None:
    found = settings(
        UV_INDEX_URL="https://me:p%40ssword@one.example/simple", HTTPS_PROXY="http://you:hunter22@proxy:8080"
    )
    said = without_secrets("GET https://me:p%40ssword@one.example p@ssword hunter22 \x1b[31mred\x07\n", found.secrets)
    assert said == "GET https://***@one.example *** *** \\x1b[31mred\\x07\n"
    assert found.identity() == ["https://one.example/simple"]


def test_a_broken_configuration_is_named(tmp_path: Path, settings: Settings) -> None:
    configure(tmp_path / ".config/uv/uv.toml", "[[[")
    with pytest.raises(ConfigError, match=r"uv\.toml"):
        settings()
