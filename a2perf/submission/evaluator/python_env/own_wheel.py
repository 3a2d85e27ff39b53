"""The running a2perf as a wheel, and what its part inside a participant's process needs.

The wheel is made of the files of the package that is imported right now, whether they lie in a checkout or in a site
folder, so no build tool, no network and no second copy of the version is needed. It goes into an environment without
its dependencies: most of them are the evaluator's alone.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import importlib.metadata
import importlib.util
import os
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import a2perf
from a2perf.domains.registry import Domain, domains, load_attribute
from a2perf.errors import ConfigError, MissingDependency
from a2perf.submission.evaluator.python_env.requirements import OWN_NAME

WORKER_PACKAGES = ("absl-py", "gin-config", "gymnasium", "msgpack", "numpy", "pillow")
"""What the participant process imports of others, beside the extra of the domain; pillow measures text on web pages."""

_PACKAGE = Path(a2perf.__file__).parent
_FIXED_TIME = (1980, 1, 1, 0, 0, 0)
_WHEEL = "Wheel-Version: 1.0\nGenerator: a2perf\nRoot-Is-Purelib: true\nTag: py3-none-any\n"


def base_requirements(extras: Iterable[str]) -> list[str]:
    """Returns the requirements of a2perf's part in a participant's process, with those of some of its extras.

    Raises:
        ConfigError: a2perf has no such extra.
    """
    every = [Requirement(text) for text in importlib.metadata.requires("a2perf") or []]
    wanted = _with_nested(set(extras), every)
    found = [requirement for requirement in every if requirement.name != OWN_NAME and _is_wanted(requirement, wanted)]
    return sorted({f"{canonicalize_name(one.name)}{_extras_of(one)}{one.specifier}" for one in found})


def requirements_of_domain(domain: Domain) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Returns what a domain needs in a participant's environment.

    Returns:
        Extras of a2perf, and further requirements: a domain of another package needs that package, as installed here.
    """
    for entry in importlib.metadata.entry_points(group="a2perf.domains"):
        if entry.name == domain.name and entry.dist is not None and canonicalize_name(entry.dist.name) != OWN_NAME:
            extra = f"[{domain.extra}]" if domain.extra else ""
            return (), (f"{canonicalize_name(entry.dist.name)}{extra}=={entry.dist.version}",)
    return (domain.extra,), ()


def _is_wanted(requirement: Requirement, extras: set[str]) -> bool:
    marker = requirement.marker
    if marker is None or marker.evaluate({"extra": ""}):
        return canonicalize_name(requirement.name) in WORKER_PACKAGES
    return any(marker.evaluate({"extra": extra}) for extra in extras)


def _extras_of(requirement: Requirement) -> str:
    return f"[{','.join(sorted(requirement.extras))}]" if requirement.extras else ""


def _with_nested(extras: set[str], every: list[Requirement]) -> set[str]:
    """Adds the extras that an extra such as ``all`` stands for."""
    known = {canonicalize_name(name) for name in importlib.metadata.metadata("a2perf").get_all("Provides-Extra") or []}
    wanted: set[str] = {canonicalize_name(extra) for extra in extras}
    if unknown := wanted - known:
        raise ConfigError(f"a2perf has no extra {sorted(unknown)[0]!r}", hint=f"it has: {', '.join(sorted(known))}")
    for requirement in every:
        marker = requirement.marker
        if requirement.name == OWN_NAME and marker and any(marker.evaluate({"extra": extra}) for extra in wanted):
            wanted |= {canonicalize_name(extra) for extra in requirement.extras}
    return wanted


@functools.cache
def content_hash() -> str:
    """Returns a hash of the package's files and of its version; it changes with every edit."""
    digest = hashlib.sha256(a2perf.__version__.encode())
    for name, path in (*_files(), *_carried()):
        digest.update(name.encode() + b"\0" + hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


def write_wheel(folder: Path) -> Path:
    """Writes the wheel into a folder; the same package gives the same bytes.

    Returns:
        Its path.
    """
    name = f"a2perf-{a2perf.__version__}"
    info = f"{name}.dist-info"
    texts = {f"{info}/METADATA": _metadata(), f"{info}/WHEEL": _WHEEL, f"{info}/entry_points.txt": _entry_points()}
    path = folder / f"{name}-py3-none-any.whl"
    records = []
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for member, data in _members(texts):
            archive.writestr(zipfile.ZipInfo(member, _FIXED_TIME), data, zipfile.ZIP_DEFLATED)
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            records.append(f"{member},sha256={digest},{len(data)}\n")
        records.append(f"{info}/RECORD,,\n")
        archive.writestr(zipfile.ZipInfo(f"{info}/RECORD", _FIXED_TIME), "".join(records), zipfile.ZIP_DEFLATED)
    return path


def _members(texts: dict[str, str]) -> Iterator[tuple[str, bytes]]:
    for name, path in (*_files(), *_carried()):
        yield f"a2perf/{name}", path.read_bytes()
    for name, text in texts.items():
        yield name, text.encode()


def _files() -> Iterator[tuple[str, Path]]:
    for root, folders, names in os.walk(_PACKAGE):
        folders[:] = sorted(name for name in folders if name != "__pycache__")
        for name in sorted(names):
            path = Path(root) / name
            yield path.relative_to(_PACKAGE).as_posix(), path


def _carried() -> Iterator[tuple[str, Path]]:
    """Yields what the domains read from packages that a participant's environment lacks."""
    for domain in domains().values():
        for place, finder in domain.carries.items():
            module = importlib.util.find_spec(finder.partition(":")[0])
            if module is None or not str(module.origin).startswith(str(_PACKAGE)):
                continue  # a plug-in's files are not in this package
            try:
                found = load_attribute(finder)()
            except MissingDependency:
                continue  # the evaluator lacks it too, and will say so itself
            yield f"domains/{domain.name}/{place}", found


def _metadata() -> str:
    """Returns the metadata with name and version alone: an installer must see nothing that is missing."""
    return f"Metadata-Version: 2.1\nName: a2perf\nVersion: {a2perf.__version__}\n"


def _entry_points() -> str:
    groups: dict[str, list[str]] = {}
    for entry in importlib.metadata.distribution("a2perf").entry_points:
        if entry.group != "console_scripts":  # the commands are the evaluator's
            groups.setdefault(entry.group, []).append(f"{entry.name} = {entry.value}")
    return "".join(f"[{group}]\n" + "\n".join(sorted(lines)) + "\n" for group, lines in sorted(groups.items()))
