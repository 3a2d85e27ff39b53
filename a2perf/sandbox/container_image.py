"""The image of the level 'docker': empty folders as mount points for what the program sees."""

from __future__ import annotations

import hashlib
import io
import os
import tarfile
from typing import TYPE_CHECKING

from a2perf.sandbox import view

if TYPE_CHECKING:
    from docker import DockerClient

REPOSITORY = "a2perf-sandbox"


def empty_image(client: DockerClient) -> str:
    """Returns the name of the image of empty folders; imports it into the engine on first use."""
    import docker

    content = _skeleton()
    tag = hashlib.sha256(content).hexdigest()[:16]
    name = f"{REPOSITORY}:{tag}"
    try:
        client.images.get(name)
    except docker.errors.ImageNotFound:
        client.api.import_image_from_data(content, repository=REPOSITORY, tag=tag)
    return name


def _skeleton() -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as tar:
        for name in ("dev", "etc", "proc", "run", "sys", "tmp", "usr"):
            entry = tarfile.TarInfo(name)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o1777 if name == "tmp" else 0o755
            tar.addfile(entry)
        for name in view.SHORTCUTS:
            if os.path.islink(name):
                entry = tarfile.TarInfo(name.lstrip("/"))
                entry.type, entry.linkname = tarfile.SYMTYPE, os.readlink(name)
                tar.addfile(entry)
        for name, text in (("etc/passwd", view.PASSWD), ("etc/group", view.GROUP)):
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(text), 0o644
            tar.addfile(entry, io.BytesIO(text.encode()))
    return stream.getvalue()
