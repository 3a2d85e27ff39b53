"""Makes a submission's folder importable, both as plain modules and as a package.

``import train`` and ``from . import layers`` both work in the same file, and no module is loaded twice. A top-level
file is one module with its plain name and the folder as its package. The plain name lets worker processes of the
submission unpickle its functions. Byte code is never written into the folder, because that would change the submission.
Standard library only.
"""

from __future__ import annotations

import importlib
import importlib.util
import keyword
import re
import sys
from collections.abc import Sequence
from importlib.machinery import (
    EXTENSION_SUFFIXES,
    SOURCE_SUFFIXES,
    ExtensionFileLoader,
    FileFinder,
    ModuleSpec,
    SourceFileLoader,
)
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from importlib.abc import Loader

    from typing_extensions import Buffer
else:
    Loader = object  # importlib.abc would import a dozen modules

_RELATIVE_IMPORT = re.compile(rb"^[ \t]*from[ \t]*\.", re.MULTILINE)
_CONTRACT_MODULES = ("train", "inference")


def _exists_elsewhere(name: str, folder: Path) -> bool:
    if name in sys.modules or (folder / f"{name}.py").exists() or (folder / name).is_dir():
        return True
    try:
        return importlib.util.find_spec(name) is not None
    except (ImportError, ValueError):
        return False


class _SourceLoader(SourceFileLoader):
    """Reads existing byte code and never writes any."""

    def set_data(self, path: str, data: Buffer, *, _mode: int = 0o666) -> None:
        return None


class _SharedLoader(_SourceLoader):
    """Loads a top-level file as a plain module that belongs to the folder's package."""

    def __init__(self, name: str, path: str, package: str) -> None:
        super().__init__(name, path)
        self._package = package
        self._loaded: ModuleType | None = None

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        if self._package not in sys.modules and _RELATIVE_IMPORT.search(self.get_data(self.path)):
            # As in any package, __init__ runs first; it may import this very file.
            importlib.import_module(self._package)
            self._loaded = sys.modules.get(spec.name)
        return self._loaded

    def exec_module(self, module: ModuleType) -> None:
        if module is self._loaded:
            return
        module.__package__ = self._package
        # Before its code runs: an import of the package's module in a cycle has to find this one, not load it again.
        sys.modules[f"{self._package}.{module.__name__}"] = module
        super().exec_module(module)
        if (parent := sys.modules.get(self._package)) is not None:
            parent.__dict__.setdefault(module.__name__, module)


class _SharedSpec(ModuleSpec):
    """Reports the package of the module: Python warns if ``__package__`` and the spec's parent differ."""

    package = ""

    @property
    def parent(self) -> str:
        return self.package


class _AliasLoader(Loader):
    """Loads ``package.x`` as the module ``x``."""

    def __init__(self, plain: str) -> None:
        self._plain = plain
        self._spec: ModuleSpec | None = None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        module = importlib.import_module(self._plain)
        self._spec = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self._spec  # the import system has replaced it with the spec of the alias


class SubmissionFinder:
    """Finds the folder's package and its top-level files; other finders handle everything else."""

    def __init__(self, folder: Path, package: str) -> None:
        self.folder = folder
        self.package = package

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """See ``importlib.abc.MetaPathFinder``."""
        if fullname == self.package:
            start = self.folder / "__init__.py"
            loader = _SourceLoader(fullname, str(start)) if start.is_file() else None
            spec = ModuleSpec(fullname, loader, origin=str(start), is_package=True)
            spec.has_location = loader is not None
            spec.submodule_search_locations = [str(self.folder)]
            return spec
        parent, _, name = fullname.rpartition(".")
        if "." in parent or parent not in ("", self.package):
            return None
        file = self.folder / f"{name}.py"
        if not file.is_file() or (self.folder / name / "__init__.py").is_file() or name == "__init__":
            return None
        if parent:
            return ModuleSpec(fullname, _AliasLoader(name), origin=str(file))
        shared = _SharedSpec(name, _SharedLoader(name, str(file), self.package), origin=str(file))
        shared.package = self.package
        shared.has_location = True
        return shared


def install(folder: Path) -> str:
    """Makes ``folder`` importable in this process; a second call for the same folder has no effect.

    Returns:
        The name of the folder as a package.
    """
    for finder in sys.meta_path:
        if isinstance(finder, SubmissionFinder) and finder.folder == folder:
            return finder.package
    package = re.sub(r"\W", "_", folder.resolve().name, flags=re.ASCII) or "submission"
    if package[0].isdigit() or keyword.iskeyword(package):
        package = f"_{package}"
    if package in _CONTRACT_MODULES or package in sys.stdlib_module_names or _exists_elsewhere(package, folder):
        package = f"{package}_submission"
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
    inside = f"{folder}/"

    def hook(path: str) -> FileFinder:
        if path != str(folder) and not path.startswith(inside):
            raise ImportError(path)
        return FileFinder(path, (ExtensionFileLoader, EXTENSION_SUFFIXES), (_SourceLoader, SOURCE_SUFFIXES))

    sys.path_hooks.insert(0, hook)
    # A finder of the folder that is already cached would bypass the hook and write byte code.
    sys.path_importer_cache.clear()
    # After built-in and frozen modules, before the path finder: this gives the folder the precedence of sys.path[0].
    finders = [getattr(item, "__name__", "") for item in sys.meta_path]
    position = finders.index("PathFinder") if "PathFinder" in finders else len(finders)
    sys.meta_path.insert(position, SubmissionFinder(folder, package))
    importlib.invalidate_caches()
    return package
