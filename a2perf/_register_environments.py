"""Registers the environments with Gymnasium when ``a2perf`` is imported, without importing Gymnasium.

If Gymnasium is already imported, the ids are registered immediately. Otherwise a finder is put in front of the import
system; it removes itself at the first import of Gymnasium. Standard library only.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:  # not from `typing`, which would slow down every import of a2perf
    from collections.abc import Sequence
    from importlib.abc import Loader
    from importlib.machinery import ModuleSpec
    from types import ModuleType


class _RegisteringLoader:
    """Loads Gymnasium with its original loader, then registers the ids."""

    def __init__(self, loader: Loader) -> None:
        self._loader = loader

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self._loader.exec_module(module)
        _register()


class _GymnasiumFinder:
    """Waits for the first import of Gymnasium."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != "gymnasium":
            return None
        sys.meta_path.remove(self)
        for finder in sys.meta_path:
            spec = finder.find_spec(fullname, path, target)
            if spec is not None:
                if spec.loader is not None:
                    spec.loader = _RegisteringLoader(spec.loader)  # type: ignore[assignment]  # duck-typed, to stay small
                return spec
        return None


def register_with_gymnasium() -> None:
    """Registers the environments now if Gymnasium is imported, else as soon as it is."""
    if "gymnasium" in sys.modules:
        _register()
    else:
        sys.meta_path.insert(0, _GymnasiumFinder())


def _register() -> None:
    try:
        from a2perf.domains.registry import register_environments

        register_environments()
    except Exception as error:  # `import gymnasium` must not fail because of a2perf
        print(f"a2perf could not register its environments: {error}", file=sys.stderr)
