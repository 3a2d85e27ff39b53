"""Thin shim: everything is declared in pyproject.toml, but for the templates, which live beside the package.

``a2perf init`` copies them, so a wheel carries them as ``a2perf/templates``.
"""

import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py


class BuildWithTemplates(build_py):
    """Copies ``templates/`` into the built package; an editable install reads it where it is."""

    def run(self) -> None:
        super().run()
        if not self.editable_mode:
            source, target = Path(__file__).parent / "templates", Path(self.build_lib) / "a2perf" / "templates"
            shutil.copytree(source, target, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__", "*.pyc"))


setup(cmdclass={"build_py": BuildWithTemplates})
