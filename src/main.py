"""The command lines of Scilab-RL's entry point for performance and smoke tests, carried out by a2perf.

``python src/main.py +performance=FetchReach/sac_her-test --multirun`` is
``a2perf perftest run FetchReach/sac_her-test``; ``+performance=smoke_test algorithm=sac,ppo env=Pendulum-v1`` is
``a2perf smoketest --algorithms sac ppo --env-ids Pendulum-v1``.
"""

import sys
from pathlib import Path

from a2perf.cli import main as a2perf
from a2perf.errors import UserError

KEPT = {"wandb": ("0", "1"), "render": ("none",)}
"""Keys of the old entry point that change nothing here: runs are recorded in the store, and nothing is drawn."""
SMOKE = {"render": ("none", "display", "record"), "render_freq": (), "n_epochs": ("1",)}
"""Further such keys of smoke tests, which train briefly and record a video anyway."""

CONF = Path(__file__).resolve().parent.parent / "conf" / "performance"


def words(arguments: list[str]) -> list[str]:
    """Translates the words of a command line."""
    given = dict(word.lstrip("+").split("=", 1) for word in arguments if "=" in word and not word.startswith("--"))
    rest = [word for word in arguments if word.startswith("-") and word not in ("--multirun", "-m")]
    name = given.pop("performance", None)
    if name is None or rest:
        raise UserError(
            f"src/main.py runs tests only{', not ' + ' '.join(rest) if rest else ''}",
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
            f"{', '.join(given)} cannot be overridden here", hint="write it into the test's file, or copy the file"
        )
    if name == "smoke_test":
        jobs = ["--n-jobs", n_jobs] if n_jobs else []
        return ["smoketest", "--algorithms", *algorithms, "--env-ids", *environments, *jobs]
    return ["perftest", "run", *name.split(","), "--conf", str(CONF), *(["--n-jobs", n_jobs] if n_jobs else [])]


if __name__ == "__main__":
    try:
        translated = words(sys.argv[1:])
    except UserError as error:
        print(f"src/main.py: {error}", file=sys.stderr)
        sys.exit(2)
    a2perf(translated)
