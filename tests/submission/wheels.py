"""Wheels made on the spot, so that environments are built without a network.

Toy packages of any version, hollow stand-ins for a2perf's own requirements (small, so that a build takes a moment), and
real packages, packed again from the files that are installed beside the tests.
"""

from __future__ import annotations

import base64
import hashlib
import importlib.metadata
import os
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path

from packaging.requirements import Requirement

from a2perf.submission.evaluator import python_env
from a2perf.submission.evaluator.python_env.index_settings import organizer_settings
from a2perf.submission.evaluator.python_env.own_wheel import base_requirements

WHEEL = "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: {tag}\n"


def write_wheel(
    folder: Path,
    name: str,
    version: str,
    files: Mapping[str, str | bytes] | None = None,
    *,
    needs: Iterable[str] = (),
    script: str | None = None,
) -> Path:
    """Writes a pure wheel; ``script`` names a console script that calls ``main`` of the module ``name``."""
    module = name.replace("-", "_")
    info = f"{module}-{version}.dist-info"
    metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
    metadata += "".join(f"Requires-Dist: {need}\n" for need in needs)
    members: dict[str, str | bytes] = {
        f"{module}/__init__.py": f"VERSION = {version!r}\ndef main():\n    print({name!r}, VERSION)\n",
        **(files or {}),
        f"{info}/METADATA": metadata,
        f"{info}/WHEEL": WHEEL.format(tag="py3-none-any"),
    }
    if script:
        members[f"{info}/entry_points.txt"] = f"[console_scripts]\n{script} = {module}:main\n"
    return _zip(folder / f"{module}-{version}-py3-none-any.whl", members, info)


def hollow_base(folder: Path, extra: str = "web-navigation") -> None:
    """Writes empty packages under the names of all that a2perf's part of a participant process needs."""
    for text in base_requirements([extra]):
        write_wheel(folder, Requirement(text).name, "99.0")


def toy_wheelhouse(folder: Path) -> Path:
    """Writes two versions of a toy package, which has a script, and hollow stand-ins for everything else."""
    hollow_base(folder)
    for version in ("1.0", "2.0"):
        write_wheel(folder, "toy", version, script="toy-says")
    return folder


def real_base(folder: Path, extra: str = "web-navigation") -> None:
    """Packs what a2perf's part of a participant process needs, with its dependencies, from what is installed here."""
    waiting, seen = [Requirement(text) for text in base_requirements([extra])], set()
    while waiting:
        requirement = waiting.pop()
        distribution = importlib.metadata.distribution(requirement.name)
        key = (distribution.name, *sorted(requirement.extras))
        if key in seen:
            continue
        seen.add(key)
        repack(folder, distribution)
        for needed in map(Requirement, distribution.requires or []):
            extras = requirement.extras or {""}
            if needed.marker is None or any(needed.marker.evaluate({"extra": extra}) for extra in extras):
                waiting.append(needed)


def repack(folder: Path, distribution: importlib.metadata.Distribution) -> Path:
    """Writes the wheel that an installed package came from, byte code and scripts left out."""
    members: dict[str, str | bytes] = {}
    info, tag = "", "py3-none-any"
    for file in distribution.files or []:
        name = str(file)
        if name.startswith("..") or "__pycache__" in name:
            continue
        if name.partition("/")[0].endswith(".dist-info"):  # setuptools carries further ones inside
            info = name.partition("/")[0]
            if name.endswith(("/INSTALLER", "/REQUESTED", "/RECORD", "/direct_url.json", "/uv_cache.json")):
                continue
        data = Path(str(distribution.locate_file(file))).read_bytes()
        if name == f"{info}/WHEEL":
            tag = _common_tag([line[5:] for line in data.decode().splitlines() if line.startswith("Tag: ")])
        members[name] = data
    return _zip(folder / f"{info.removesuffix('.dist-info')}-{tag}.whl", members, info)


def _common_tag(tags: list[str]) -> str:
    """Joins tags such as ``py2-none-any`` and ``py3-none-any`` into the one that stands in a file's name."""
    columns = [list(dict.fromkeys(parts)) for parts in zip(*(tag.split("-") for tag in tags), strict=True)]
    return "-".join(".".join(parts) for parts in columns)


def _zip(path: Path, members: Mapping[str, str | bytes], info: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    record = []
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        for name, content in members.items():
            data = content.encode() if isinstance(content, str) else content
            archive.writestr(name, data)
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            record.append(f"{name},sha256={digest},{len(data)}\n")
        archive.writestr(f"{info}/RECORD", "".join([*record, f"{info}/RECORD,,\n"]))
    return path


def recipe(
    folder: Path, requirements: str, wheelhouse: Path, *, overrides: str | None = None, **sources: object
) -> python_env.Recipe:
    """Writes a submission's requirements and returns the recipe of its environment."""
    folder.mkdir(exist_ok=True)
    for name, text in {"requirements.txt": requirements, "overrides.txt": overrides}.items():
        if text is not None:
            (folder / name).write_text(text)
    settings = organizer_settings({**os.environ, "UV_FIND_LINKS": str(wheelhouse)})
    return python_env.Recipe(
        python_env.read_requirements(folder / "requirements.txt"),
        ("web-navigation",),
        python_env.find_interpreter(),
        python_env.Sources(**{"offline": True, "settings": settings, **sources}),
        overrides=python_env.read_requirements(folder / "overrides.txt"),
    )
