"""Images of the domains: named by content and built once."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import pytest

from a2perf.errors import InfrastructureError, UserError
from a2perf.launch import images
from tests.launch.docker_engine import DockerEngine

BUILD = """
import io, os, sys, docker
name, content = sys.argv[1], os.environ["CONTENT"]
text = f"FROM {os.environ['SKELETON']}\\nLABEL a2perf.content={content}\\n"
print("building", name)
client = docker.from_env()
client.images.build(fileobj=io.BytesIO(text.encode()), tag=f"a2perf:{name}-{content}")
open(os.environ["BUILDS"], "a").write(content + "\\n")
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout with an immediate build."""
    folder = tmp_path / "checkout"
    for name in ("docker", "a2perf/__pycache__", "tests"):
        (folder / name).mkdir(parents=True)
    (folder / ".dockerignore").write_text("# all but\n*\n!a2perf\n!docker\n!requirements.lock\n**/__pycache__\n")
    for name in ("base", "toy", "other"):
        (folder / "docker" / f"{name}.Dockerfile").write_text(f"FROM {name}\n")
    (folder / "docker" / "build.py").write_text(BUILD)
    (folder / "docker" / "build.sh").write_text(f'exec {shlex.quote(sys.executable)} "$(dirname "$0")/build.py" "$@"\n')
    (folder / "a2perf" / "code.py").write_text("x = 1\n")
    (folder / "requirements.lock").write_text("numpy==2.1.3\n")
    return folder


@pytest.mark.parametrize(
    ("changed", "matters"),
    [
        ("a2perf/code.py", True),
        ("requirements.lock", True),
        ("docker/base.Dockerfile", True),
        ("docker/toy.Dockerfile", True),
        ("docker/other.Dockerfile", False),
        ("docker/README.md", False),
        ("tests/test_x.py", False),
        ("a2perf/__pycache__/code.pyc", False),
    ],
)
def test_an_image_is_named_by_what_enters_its_build(
    changed: str, matters: bool, checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = images.content_of("toy", checkout)
    with monkeypatch.context() as patch:
        patch.setenv("BASE_IMAGE", "debian:bookworm-slim")
        assert images.content_of("toy", checkout) != before
    assert images.content_of("toy", checkout) == before
    (checkout / changed).write_text("changed")
    assert (images.content_of("toy", checkout) != before) is matters


def test_without_a_checkout_or_a_dockerfile_the_user_names_an_image(checkout: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="this installation is not a checkout") as caught:
        images.content_of("toy", tmp_path)
    assert "image=NAME" in str(caught.value)
    with pytest.raises(UserError, match="no Dockerfile for toyy; did you mean 'toy'"):
        images.content_of("toyy", checkout)


def test_this_checkout_has_a_content_for_each_of_its_domains() -> None:
    names = ("circuit_training", "quadruped_locomotion", "web_navigation")
    assert len({images.content_of(name) for name in names}) == 3


@pytest.mark.group("docker")
def test_an_image_is_built_once_per_content_and_has_its_label(
    checkout: Path, tmp_path: Path, docker_engine: DockerEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    builds = tmp_path / "builds"
    monkeypatch.setenv("BUILDS", str(builds))
    monkeypatch.setenv("SKELETON", docker_engine.image)
    client = docker_engine.client()
    first = images.ensure(client, "toy", checkout)
    assert images.ensure(client, "toy", checkout) == first
    assert builds.read_text().splitlines() == [images.content_of("toy", checkout)]
    (checkout / "a2perf" / "code.py").write_text("x = 2\n")
    second = images.ensure(client, "toy", checkout)
    assert second != first
    labelled = client.images.list(filters={"label": "a2perf.content"})  # as docs/reference/launchers.md says
    assert {first, second} <= {tag for image in labelled for tag in image.tags}


@pytest.mark.group("docker")
def test_a_build_that_fails_shows_the_end_of_its_log(checkout: Path, docker_engine: DockerEngine) -> None:
    (checkout / "docker" / "build.sh").write_text("echo no route to the index; exit 1\n")
    with pytest.raises(InfrastructureError, match="no route to the index"):
        images.ensure(docker_engine.client(), "toy", checkout)
