"""Everything is declared in pyproject.toml; this file only adds the start-up line that makes ids known to Gymnasium.

Gymnasium 1.x no longer loads plug-ins from entry points, so ``a2perf_gymnasium.pth`` beside the package does what the
``gymnasium.envs`` entry point did before (see ``a2perf/_gymnasium_plugin.py``).
"""

import os
import shutil

from setuptools import setup
from setuptools.command.build_py import build_py
from setuptools.command.editable_wheel import editable_wheel

PTH = "a2perf_gymnasium.pth"


class BuildWithPth(build_py):
    """Puts the start-up line beside the package in a wheel."""

    def run(self):
        super().run()
        if not self.editable_mode:
            self.copy_file(PTH, os.path.join(self.build_lib, PTH))


class EditableWithPth(editable_wheel):
    """Puts the start-up line into the site folder of an editable install."""

    def _install_namespaces(self, installation_dir, pth_prefix):
        super()._install_namespaces(installation_dir, pth_prefix)
        shutil.copyfile(PTH, os.path.join(installation_dir, PTH))


setup(cmdclass={"build_py": BuildWithPth, "editable_wheel": EditableWithPth})
