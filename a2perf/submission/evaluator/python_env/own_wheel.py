"""Packs the running a2perf into a wheel, and lists the requirements of its code in a participant's process.

The wheel contains the files of the imported package, and of distributions of this repository that participants import.
It needs no build tool and no network. It is installed without the dependencies of a2perf, because most of them are used
only by the evaluator.
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

from a2perf._version import __version__
from a2perf.domains.registry import Domain, domains, load_attribute
from a2perf.errors import ConfigError, MissingDependency
from a2perf.plugins import entry_points
from a2perf.submission.evaluator.python_env.requirements import OWN_NAME

WORKER_PACKAGES = ("absl-py", "gin-config", "gymnasium", "msgpack", "numpy", "pillow")
"""Packages that the participant process imports, besides the extra of the domain. pillow measures text on web pages."""

GROUP = "a2perf.participant_packages"
"""Entry points of distributions of this repository: packages that participants import, carried beside a2perf."""

_PACKAGE = Path(__file__).parents[3]
_FIXED_TIME = (1980, 1, 1, 0, 0, 0)
_WHEEL = "Wheel-Version: 1.0\nGenerator: a2perf\nRoot-Is-Purelib: true\nTag: py3-none-any\n"


def base_requirements(extras: Iterable[str]) -> list[str]:
    """Returns the requirements of a2perf's code in a participant's process, including those of some extras.

    Raises:
        ConfigError: a2perf has no such extra.
    """
    known = {canonicalize_name(name) for name in importlib.metadata.metadata("a2perf").get_all("Provides-Extra") or []}
    wanted: set[str] = {canonicalize_name(extra) for extra in extras}
    if unknown := wanted - known:
        raise ConfigError(
            f"a2perf has no extra {sorted(unknown)[0]!r}", hint=f"choose one of: {', '.join(sorted(known))}"
        )
    every = [Requirement(text) for text in importlib.metadata.requires("a2perf") or []]
    found = [requirement for requirement in every if _is_wanted(requirement, wanted)]
    extras_of = {one: f"[{','.join(sorted(one.extras))}]" if one.extras else "" for one in found}
    return sorted({f"{canonicalize_name(one.name)}{extras_of[one]}{one.specifier}" for one in found})


def requirements_of_domain(domain: Domain) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Returns the requirements of a domain in a participant's environment.

    Returns:
        Extras of a2perf, and further requirements: for a domain of another package that package, in the version
        installed here.
    """
    for entry in entry_points("a2perf.domains"):
        if entry.name == domain.name and entry.dist is not None and canonicalize_name(entry.dist.name) != OWN_NAME:
            extra = f"[{domain.extra}]" if domain.extra else ""
            return (), (f"{canonicalize_name(entry.dist.name)}{extra}=={entry.dist.version}",)
    return ((domain.extra,) if domain.extra else ()), ()


def _is_wanted(requirement: Requirement, extras: set[str]) -> bool:
    marker = requirement.marker
    if marker is None or marker.evaluate({"extra": ""}):
        return canonicalize_name(requirement.name) in WORKER_PACKAGES
    return any(marker.evaluate({"extra": extra}) for extra in extras)


@functools.cache
def content_hash() -> str:
    """Returns a hash over the package's version and files; it changes with every edit."""
    digest = hashlib.sha256(__version__.encode())
    for name, path in (*_files(), *_carried()):
        digest.update(name.encode() + b"\0" + hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


def write_wheel(folder: Path) -> Path:
    """Writes the wheel into a folder; the same package gives the same bytes."""
    name = f"a2perf-{__version__}"
    info = f"{name}.dist-info"
    # Without requirements: an installer must not try to install those of the evaluator.
    metadata = f"Metadata-Version: 2.1\nName: a2perf\nVersion: {__version__}\n"
    texts = {"METADATA": metadata, "WHEEL": _WHEEL, "entry_points.txt": _entry_points()}
    members = [(name, file.read_bytes()) for name, file in (*_files(), *_carried())]
    members += [(f"{info}/{name}", text.encode()) for name, text in texts.items()]
    path = folder / f"{name}-py3-none-any.whl"
    records = []
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for member, data in members:
            archive.writestr(zipfile.ZipInfo(member, _FIXED_TIME), data, zipfile.ZIP_DEFLATED)
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            records.append(f"{member},sha256={digest},{len(data)}\n")
        records.append(f"{info}/RECORD,,\n")
        archive.writestr(zipfile.ZipInfo(f"{info}/RECORD", _FIXED_TIME), "".join(records), zipfile.ZIP_DEFLATED)
    return path


def _files() -> Iterator[tuple[str, Path]]:
    for package in (_PACKAGE, *_further_packages()):
        for root, folders, names in os.walk(package):
            folders[:] = sorted(name for name in folders if name != "__pycache__")
            for name in sorted(names):
                path = Path(root) / name
                yield path.relative_to(package.parent).as_posix(), path


def _further_packages() -> Iterator[Path]:
    for name in sorted(entry_points(GROUP).names):
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.origin is not None:
            yield Path(spec.origin).parent


def _carried() -> Iterator[tuple[str, Path]]:
    """Yields files that domains read from packages that are not in a participant's environment."""
    for domain in domains().values():
        for place, finder in domain.carries.items():
            module = importlib.util.find_spec(finder.partition(":")[0])
            if module is None or not str(module.origin).startswith(str(_PACKAGE)):
                continue  # a domain of another package; its files are in its own wheel
            try:
                found = load_attribute(finder)()
            except MissingDependency:
                continue  # the evaluator does not have it either and reports that itself
            yield f"a2perf/domains/{domain.name}/{place}", found


def _entry_points() -> str:
    groups: dict[str, list[str]] = {}
    further = {entry.dist for entry in entry_points(GROUP) if entry.dist is not None}
    distributions = (importlib.metadata.distribution("a2perf"), *further)
    for entry in (entry for distribution in distributions for entry in distribution.entry_points):
        if entry.group != "console_scripts":  # a participant does not need the commands
            groups.setdefault(entry.group, []).append(f"{entry.name} = {entry.value}")
    return "".join(f"[{group}]\n" + "\n".join(sorted(lines)) + "\n" for group, lines in sorted(groups.items()))
