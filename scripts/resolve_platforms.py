"""Resolves the package and each extra for other systems, processors and Pythons, from wheels alone, and prints a table.

It ends with status 1 if a combination has no solution, and names the dependency without a wheel. Arguments: extras.
"""

from __future__ import annotations

import itertools
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

PLATFORMS = {
    "Linux x86-64": "x86_64-unknown-linux-gnu",
    "Linux ARM64": "aarch64-unknown-linux-gnu",
    "macOS ARM64": "aarch64-apple-darwin",
    "macOS x86-64": "x86_64-apple-darwin",
    "Windows x86-64": "x86_64-pc-windows-msvc",
}
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
AT_ONCE = 4
PROJECT = Path(__file__).parents[1] / "pyproject.toml"


def problem(platform: str, python: str, extra: str) -> str:
    """Returns why a combination has no solution; empty if it has one."""
    uv = [sys.executable, "-m", "uv", "pip", "compile", "--quiet", "--no-header", "--only-binary", ":all:"]
    given = ["--python-platform", PLATFORMS[platform], "--python-version", python, "--extra", extra, str(PROJECT)]
    ended = subprocess.run([*uv, *given], capture_output=True, text=True, check=False)
    return " ".join(ended.stderr.split()) if ended.returncode else ""


def main() -> None:
    """Prints a row for each extra and platform, with the Pythons that it resolves for."""
    extras = sys.argv[1:] or ["all", "slurm", "ray", "mujoco"]
    cases = list(itertools.product(extras, PLATFORMS, PYTHONS))
    with ThreadPoolExecutor(AT_ONCE) as pool:
        problems = dict(zip(cases, pool.map(lambda case: problem(case[1], case[2], case[0]), cases), strict=True))
    for extra, platform in itertools.product(extras, PLATFORMS):
        shown = " ".join(f"{python if not problems[extra, platform, python] else '-':4}" for python in PYTHONS)
        print(f"{extra:8} {platform:15} {shown}", flush=True)
    for case, text in problems.items():
        if text:
            print(f"{' '.join(case)}: {text}", file=sys.stderr)
    sys.exit(any(problems.values()))


if __name__ == "__main__":
    main()
