"""pyproject.toml declares everything except one build step: a wheel carries templates and examples inside ``a2perf/``.

``a2perf init`` copies the templates, and ``a2perf demo`` runs the examples. In a checkout both are beside the package.
"""

import os
import shutil

from setuptools import setup
from setuptools.command.build_py import build_py

FOLDERS = ("templates", "examples")


class BuildComplete(build_py):
    """Puts both folders inside the package of a wheel."""

    def run(self):
        super().run()
        if self.editable_mode:
            return
        ignored = shutil.ignore_patterns("__pycache__", "*.pyc")
        for name in FOLDERS:
            shutil.copytree(name, os.path.join(self.build_lib, "a2perf", name), dirs_exist_ok=True, ignore=ignored)


setup(cmdclass={"build_py": BuildComplete})
