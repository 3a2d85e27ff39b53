"""``a2perf run``, ``a2perf-launch`` and the classic ``a2perf FOLDER``: one run of one submission."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from a2perf.errors import ConfigError
from a2perf.launch import RunCommand, get_launcher
from a2perf.submission.options import normalised, parse_participant_args

_PASSED_ON = (
    "participant_args",
    "domain",
    "task",
    "seed",
    "sandbox",
    "python_env",
    "participant_python",
    "metric_values_dir",
    "datasets_path",
    "verbosity",
)


@click.command(context_settings=normalised())
@click.option(
    "--submission", "--participant-module-path", required=True, metavar="DIR", help="The submission's folder."
)
@click.option(
    "--gin-config", "--submission-gin-config-path", required=True, metavar="FILE",
    help="Looked up here, in the submission's folder, then among the packaged files of --domain.",
)  # fmt: skip
@click.option("--root-dir", metavar="DIR", help="Folder of the run; `runs/<submission>` by default.")
@click.option("--gin-bindings", "--extra-gin-bindings", multiple=True, metavar="BINDING", help="Overrides, repeatable.")
@click.option(
    "--participant-args", default="", metavar="K=V,...", help="Passed to train() and load_policy() as strings."
)
@click.option("--domain", metavar="NAME", help="Name of a domain.")
@click.option("--task", metavar="NAME", help="Name of a task; sets the environment.")
@click.option("--seed", type=int, help="Root seed of the run.")
@click.option("--sandbox", metavar="LEVEL", help="How the participant process is confined: none or process.")
@click.option(
    "--python-env", metavar="KIND",
    help="Packages of the participant process: shared (a2perf's own) or isolated (made of its requirements.txt).",
)  # fmt: skip
@click.option(
    "--python-env-find-links", multiple=True, metavar="DIR", help="Folder of wheels for an isolated environment."
)
@click.option("--participant-python", metavar="FILE", help="Interpreter of the participant process.")
@click.option("--metric-values-dir", metavar="DIR", help="Where the classic result files go; ROOT/metrics by default.")
@click.option(
    "--run-offline-metrics-only", type=bool, is_flag=False, flag_value=True, default=None,
    help="Recompute the metrics of a recorded run and run nothing.",
)  # fmt: skip
@click.option("--datasets-path", metavar="DIR", help="Folder of datasets.")
@click.option("--launcher", default="local", show_default=True, help="Where the run executes.")
@click.option("--force", is_flag=True, help="Put an existing run aside and start anew.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
@click.option("--verbosity", metavar="LEVEL", help="Log level of the evaluator.")
def run(**options: Any) -> int:
    """Run a submission under a gin configuration.

    Exit status: 0 success, 1 the participant failed, 2 usage or configuration, 3 infrastructure, 130 interrupted.
    """
    folder = Path(options["submission"]).expanduser()
    if not folder.is_dir():
        kind = "is a file" if folder.exists() else "does not exist"
        raise ConfigError(
            f"the submission folder {options['submission']} {kind}",
            mend="give the folder that holds train.py and inference.py (a subcommand? `a2perf --help` lists them)",
        )
    parse_participant_args(options["participant_args"])
    flags = [
        "--participant-module-path", str(folder),
        "--submission-gin-config-path", options["gin_config"],
        "--root-dir", options["root_dir"] or str(Path("runs") / folder.resolve().name),
    ]  # fmt: skip
    for name in _PASSED_ON:
        if options[name] not in (None, ""):
            flags += [f"--{name.replace('_', '-')}", str(options[name])]
    for folder_of_wheels in options["python_env_find_links"]:
        flags += ["--python-env-find-links", folder_of_wheels]
    for binding in options["gin_bindings"]:
        flags += ["--extra-gin-bindings", binding]
    if options["run_offline_metrics_only"] is not None:
        flags.append(f"--run-offline-metrics-only={options['run_offline_metrics_only']}")
    for name, flag in (("force", "--force"), ("as_json", "--json")):
        if options[name]:
            flags.append(flag)
    return get_launcher(options["launcher"]).run(RunCommand.evaluator(flags))
