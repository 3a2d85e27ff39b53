"""Paths of Chromium and its driver on this machine, and whether Chromium's sandbox works here."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import shutil
from pathlib import Path

from a2perf.domains.web_navigation import CHROMEDRIVER, CHROMIUM
from a2perf.errors import MissingDependency, install_hint
from a2perf.system import require_posix


def find_programs() -> tuple[str, str]:
    """Returns the paths of Chromium and ChromeDriver; looks for Selenium too, and starts or imports none of them.

    Raises:
        MissingDependency: one of them is not installed; ``hint`` has the command that installs it.
    """
    chromium = next(filter(None, map(shutil.which, CHROMIUM.names)), None)
    chromedriver = next(filter(None, map(shutil.which, CHROMEDRIVER.names)), None)
    missing = [name for name, path in (("chromium", chromium), ("chromedriver", chromedriver)) if path is None]
    model = "backend='model' needs no browser"
    if chromium is None or chromedriver is None:
        raise MissingDependency(
            f"backend='chromium' needs {' and '.join(missing)}, and PATH has no such program",
            hint=f"apt-get install chromium chromium-driver (as root, on Debian); or {model}",
        )
    if importlib.util.find_spec("selenium") is None:
        raise MissingDependency(
            "backend='chromium' needs the Python package selenium", hint=f"{install_hint('web-navigation')}; or {model}"
        )
    return chromium, chromedriver


def sandbox_is_refused() -> bool:
    """Whether Chromium cannot have its own sandbox: root's is refused by Chromium, and a process under a filter of
    system calls (a confined participant, a container) is refused the namespaces that it is made of.
    """
    require_posix("pages in Chromium")
    if os.geteuid() == 0:
        return True
    with contextlib.suppress(OSError):
        return "\nSeccomp:\t2" in Path("/proc/self/status").read_text()
    return False
