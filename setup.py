"""Thin shim: everything is declared in pyproject.toml, but for two folders that live beside the package.

``a2perf init`` copies the templates and ``a2perf demo`` runs the examples, so a wheel carries both inside ``a2perf/``.
"""

import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py


class BuildWithFolders(build_py):
    """Copies both folders into the built package; an editable install reads them where they are."""

    def run(self) -> None:
        super().run()
        if self.editable_mode:
            return
        for name in ("templates", "examples"):
            shutil.copytree(
                Path(__file__).parent / name,
                Path(self.build_lib) / "a2perf" / name,
                dirs_exist_ok=True,
                ignore=shutil.ignore_patterns("__pycache__", "*.pyc"),
            )


setup(cmdclass={"build_py": BuildWithFolders})
