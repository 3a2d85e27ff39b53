"""Translates the command lines of Scilab-RL's entry point into performance and smoke tests of a2perf.

``python src/main.py +performance=FetchReach/sac_her-test --multirun`` is
``a2perf perftest run FetchReach/sac_her-test``; ``+performance=smoke_test algorithm=sac,ppo env=Pendulum-v1`` is
``a2perf smoketest --algorithms sac ppo --env-ids Pendulum-v1``.
"""

import sys
from pathlib import Path

from a2perf.cli import main as a2perf
from a2perf.errors import UserError

KEPT = {"wandb": ("0", "1"), "render": ("none",)}
"""Accepted keys without an effect: runs are always recorded in the store, and nothing is drawn."""
SMOKE = {"render": ("none", "display", "record"), "render_freq": (), "n_epochs": ("1",)}
"""The same for smoke tests, which always train briefly and record a video."""

CONF = Path(__file__).resolve().parent.parent / "conf" / "performance"


def translate(arguments: list[str]) -> list[str]:
    """Returns the arguments of ``a2perf`` for the arguments of the old entry point."""
    given = dict(word.lstrip("+").split("=", 1) for word in arguments if "=" in word and not word.startswith("--"))
    rest = [word for word in arguments if word.startswith("-") and word not in ("--multirun", "-m")]
    name = given.pop("performance", None)
    if name is None or rest:
        raise UserError(
            f"runs only performance tests and smoke tests{', not ' + ' '.join(rest) if rest else ''}",
            hint="python src/main.py +performance=FetchReach/sac_her-test --multirun",
        )
    for key, values in {**KEPT, **(SMOKE if name == "smoke_test" else {})}.items():
        if key in given and (not values or given[key] in values):
            del given[key]
    n_jobs = given.pop("hydra.sweeper.n_jobs", None)
    if name == "smoke_test":
        algorithms = given.pop("algorithm", "sac").split(",")
        environments = given.pop("env", "FetchReach-v2").split(",")
    if given:
        raise UserError(
            f"{', '.join(given)} cannot be overridden here", hint="edit the file of the test, or a copy of it"
        )
    if name == "smoke_test":
        jobs = ["--n-jobs", n_jobs] if n_jobs else []
        return ["smoketest", "--algorithms", *algorithms, "--env-ids", *environments, *jobs]
    return ["perftest", "run", *name.split(","), "--conf", str(CONF), *(["--n-jobs", n_jobs] if n_jobs else [])]


if __name__ == "__main__":
    try:
        arguments = translate(sys.argv[1:])
    except UserError as error:
        print(f"src/main.py: {error}", file=sys.stderr)
        sys.exit(2)
    a2perf(arguments)
