"""Everything is declared in pyproject.toml; this file adds what setuptools has no declaration for.

Gymnasium 1.x no longer loads plug-ins from entry points, so ``a2perf_gymnasium.pth`` beside the package does what the
``gymnasium.envs`` entry point did before (see ``a2perf/_gymnasium_plugin.py``). ``a2perf init`` copies the templates,
``a2perf demo`` runs the examples; both lie beside the package, and a wheel carries them inside ``a2perf/``.
"""

import os
import shutil

from setuptools import setup
from setuptools.command.build_py import build_py
from setuptools.command.editable_wheel import editable_wheel

PTH = "a2perf_gymnasium.pth"
FOLDERS = ("templates", "examples")


class BuildComplete(build_py):
    """Puts the start-up line beside the package in a wheel, and both folders inside it."""

    def run(self):
        super().run()
        if self.editable_mode:
            return
        self.copy_file(PTH, os.path.join(self.build_lib, PTH))
        ignored = shutil.ignore_patterns("__pycache__", "*.pyc")
        for name in FOLDERS:
            shutil.copytree(name, os.path.join(self.build_lib, "a2perf", name), dirs_exist_ok=True, ignore=ignored)


class EditableWithPth(editable_wheel):
    """Puts the start-up line into the site folder of an editable install."""

    def _install_namespaces(self, installation_dir, pth_prefix):
        super()._install_namespaces(installation_dir, pth_prefix)
        shutil.copyfile(PTH, os.path.join(installation_dir, PTH))


setup(cmdclass={"build_py": BuildComplete, "editable_wheel": EditableWithPth})
