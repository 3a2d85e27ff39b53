"""Installs each extra after the others in one environment, then runs one step in each domain.

    python scripts/install_extras.py FOLDER

FOLDER is a virtual environment, which keeps what it has. An extra that downgrades a package must not break a domain.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
STEP = """
import a2perf
from a2perf.domains.availability import needed_command
from a2perf.domains.registry import domains
engines = set()
for domain in domains().values():
    for one in domain.environments:
        if (domain.name, one.ranking) in engines or needed_command(domain, one):
            continue
        engines.add((domain.name, one.ranking))
        import gymnasium
        env = gymnasium.make(one.id, disable_env_checker=True, **one.example)
        _, info = env.reset(seed=0)
        env.action_space.seed(0)
        mask = info.get("action_mask")
        env.step(env.action_space.sample() if mask is None else env.action_space.sample(mask))
        env.close()
missing = set(domains()) - {name for name, _ in engines}
assert not missing, missing
print(len(engines), "kinds of environments step")
"""


def main(folder: Path) -> None:
    """Installs and steps; the first failure ends it."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    uv = Path(sys.executable).with_name("uv")
    environment = {**os.environ, "VIRTUAL_ENV": str(folder.resolve())}
    # domains first, because every later extra is judged by them
    for extra in sorted(extras, key=lambda name: name != "all"):
        started = time.monotonic()
        install = [str(uv), "pip", "install", "--quiet", "--editable", f".[{extra}]"]
        subprocess.run(install, cwd=ROOT, env=environment, check=True)
        done = subprocess.run(
            [str(folder / "bin" / "python"), "-c", STEP], cwd=ROOT, capture_output=True, text=True, check=False
        )
        if done.returncode:
            sys.exit(f"after the extra {extra}: exit status {done.returncode}\n{done.stdout}{done.stderr}")
        print(f"{extra}: {done.stdout.strip()}, {time.monotonic() - started:.0f} s", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
