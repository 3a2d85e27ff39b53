"""What a confined program sees: its interpreter, what was given, and nothing else."""

import os
import sys
from pathlib import Path

import pytest

import a2perf
from a2perf.sandbox import Limits, SandboxSpec, view
from a2perf.sandbox.view import VisiblePath, installation, places


def seen(folder: Path, **changes) -> dict[str, VisiblePath]:
    spec = SandboxSpec(argv=(sys.executable,), cwd=folder, env={}, **changes)
    return {place.path: place for place in places(spec)}


def test_given_paths_are_seen_as_given(tmp_path: Path) -> None:
    for name in ("data", "results", "home"):
        (tmp_path / name).mkdir()
    found = seen(tmp_path, readable=[tmp_path / "data"], writable=[tmp_path / "results"])
    assert found[str(tmp_path / "data")].kind == "read"
    assert found[str(tmp_path / "results")].kind == "write"
    assert str(tmp_path / "home") not in found
    assert "/etc/shadow" not in found
    assert "/home" not in found
    assert str(Path.home()) not in found


def test_link_is_seen_under_its_own_name(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "name").symlink_to("real")
    found = seen(tmp_path, readable=[tmp_path / "name"])
    assert found[str(tmp_path / "name")].source == str(tmp_path / "real")


def test_path_that_is_missing_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        seen(tmp_path, readable=[tmp_path / "nothing"])


def test_writing_wins_over_reading(tmp_path: Path) -> None:
    assert seen(tmp_path, readable=[tmp_path], writable=[tmp_path])[str(tmp_path)].kind == "write"


def test_hidden_folder_is_empty_where_it_would_be_seen(tmp_path: Path) -> None:
    run = tmp_path / "entry" / "runs"
    (run / "artifacts").mkdir(parents=True)
    (tmp_path / "seeds.txt").write_text("1")
    found = seen(
        tmp_path, readable=[tmp_path / "entry"], writable=[run / "artifacts"], hidden=[run, tmp_path / "seeds.txt"]
    )
    assert found[str(run)].kind == "tmpfs"
    assert found[str(run / "artifacts")].kind == "write"
    assert str(tmp_path / "seeds.txt") not in found  # nobody sees it anyway
    inside = seen(tmp_path, readable=[tmp_path], hidden=[tmp_path / "seeds.txt"])
    assert inside[str(tmp_path / "seeds.txt")].kind == "nothing"


def test_hidden_stays_hidden_through_links(tmp_path: Path) -> None:
    for name in ("data", "cup"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "secret").touch()
    for name, target in (("alias", "data"), ("second", "data/secret"), ("inner", "cup/../data")):
        (tmp_path / name).symlink_to(target)
    secret = tmp_path / "data" / "secret"
    for hidden in (secret, tmp_path / "alias" / "secret", tmp_path / "second", tmp_path / "inner" / "secret"):
        for given in (tmp_path / "data", tmp_path / "alias", tmp_path / "inner"):
            assert seen(tmp_path, readable=[given], hidden=[hidden])[str(given / "secret")].kind == "nothing"
        for given in (secret, tmp_path / "second"):
            assert seen(tmp_path, readable=[given], hidden=[hidden])[str(given)].kind == "nothing"
    found = seen(tmp_path, readable=[tmp_path], hidden=[tmp_path / "alias"])
    assert found[str(tmp_path / "data")].kind == "tmpfs"


def test_link_into_a_hidden_folder_shows_nothing(tmp_path: Path) -> None:
    (tmp_path / "cup" / "public").mkdir(parents=True)
    (tmp_path / "entry").mkdir()
    (tmp_path / "way").symlink_to("cup/public")
    found = seen(
        tmp_path / "entry",
        readable=[tmp_path / "entry", tmp_path / "way", tmp_path / "cup" / "public"],
        hidden=[tmp_path / "cup"],
    )
    assert found[str(tmp_path / "way")].kind == "tmpfs"
    assert found[str(tmp_path / "cup" / "public")].kind == "read"  # given openly
    assert found[str(tmp_path / "entry")].kind == "read"


def test_temporary_folder_becomes_a_private_one_with_the_same_links(tmp_path: Path) -> None:
    home = tmp_path / "home"
    (home / ".cache").mkdir(parents=True)
    (home / ".cache" / "clip").symlink_to("/somewhere/clip.txt")
    found = seen(tmp_path, writable=[home], temporary=[home], limits=Limits(scratch_bytes=12345))
    assert found[str(home)].kind in ("folder", "tmpfs")
    assert found[str(home / ".cache")].kind == "folder"
    assert found[str(home / ".cache" / "clip")] == VisiblePath(
        str(home / ".cache" / "clip"), "link", "/somewhere/clip.txt"
    )
    assert found["/tmp"] == VisiblePath("/tmp", "tmpfs", size=12345)


def test_network_brings_the_names_of_the_network(tmp_path: Path) -> None:
    alone, connected = (seen(tmp_path, network=given)["/etc/hosts"] for given in (False, True))
    assert (alone.kind, connected.kind) == ("text", "text")
    assert all("127.0.0.1" in place.source and view.HOST_NAME in place.source for place in (alone, connected))
    assert connected.source.endswith(Path("/etc/hosts").read_text())
    assert "/etc/resolv.conf" in seen(tmp_path, network=True)
    assert "/etc/resolv.conf" not in seen(tmp_path)


def test_folder_comes_before_what_lies_in_it(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    order = list(seen(tmp_path, writable=[tmp_path / "a" / "b"], readable=[tmp_path / "a"]))
    assert order.index(str(tmp_path / "a")) < order.index(str(tmp_path / "a" / "b"))


@pytest.fixture
def own_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path, Path]:
    """The Python below the virtual environment of this process, that environment, and the folder of its path file."""
    base, env, extra = tmp_path / "python-3.11", tmp_path / "venv", tmp_path / "checkout"
    for folder in (base / "bin", env / "bin", env / "lib/python3.11/site-packages", extra):
        folder.mkdir(parents=True)
    (base / "bin" / "python3.11").touch()
    (env / "bin" / "python3").symlink_to(base / "bin" / "python3.11")
    (env / "bin" / "python").symlink_to("python3")
    (env / "lib/python3.11/site-packages/checkout.pth").write_text(f"# comment\nimport os\n{extra}\n/missing\n")
    monkeypatch.setattr(sys, "prefix", str(env))
    return base, env, extra


def test_own_virtual_environment_brings_the_python_below_it_and_its_path_files(own_environment) -> None:
    base, env, extra = own_environment
    assert installation(env / "bin" / "python") == [env, base, extra]
    (env / "bin" / "python").unlink()
    (env / "bin" / "python").touch()  # as `python -m venv --copies` makes it
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(sys, "base_prefix", str(base))
        assert installation(env / "bin" / "python") == [env, base, extra]


def test_path_file_of_a_checkout_brings_the_package_alone(own_environment) -> None:
    base, env, checkout = own_environment
    (checkout / "a2perf").mkdir()
    (checkout / "a2perf" / "__init__.py").touch()
    (checkout / "pyproject.toml").touch()
    (checkout / "runs").mkdir()
    assert installation(env / "bin" / "python") == [env, base, checkout / "a2perf"]


def test_editable_installation_with_an_import_hook_brings_the_package(own_environment) -> None:
    base, env, extra = own_environment
    (env / "lib/python3.11/site-packages/__editable___a2perf_1_0_0_finder.py").touch()
    assert installation(env / "bin" / "python") == [env, base, extra, Path(a2perf.__file__).parent]


def test_path_files_of_another_environment_bring_nothing(own_environment, monkeypatch) -> None:
    base, env, _ = own_environment
    monkeypatch.undo()
    assert installation(env / "bin" / "python") == [env, base]


def test_home_is_never_shown_for_an_interpreter_in_it(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python").touch()
    assert installation(tmp_path / "bin" / "python") == [tmp_path / "bin"]


def test_interpreter_of_the_system_needs_nothing_more() -> None:
    if not os.path.exists("/usr/bin/env"):
        pytest.skip("no /usr/bin/env")
    assert installation(Path("/usr/bin/env")) == []
