"""``a2perf serve``: environments for clients in other processes."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import click

from a2perf.errors import ConfigError
from a2perf.submission.options import normalised


@click.command(context_settings=normalised())
@click.option("--protocol", type=click.Choice(["openenv", "mcp"]), required=True, help="What clients speak.")
@click.option("--domain", "domains", multiple=True, metavar="NAME", help="Serve the tasks of a domain. Repeatable.")
@click.option("--task", "tasks", multiple=True, metavar="NAME", help="Serve a task. Repeatable.")
@click.option("--env-id", "env_ids", multiple=True, metavar="ID", help="Serve an environment by its id. Repeatable.")
@click.option("--env-kwargs", metavar="JSON", default="{}", help="Arguments of every served environment.")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address; others than loopback need a token.")
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="Default: a free one, which is printed.")
@click.option("--stdio", is_flag=True, help="With mcp: serve one client over standard input and output.")
@click.option("--token-file", type=click.Path(path_type=Path), metavar="FILE", help="File with the clients' token.")
@click.option("--token-env", metavar="NAME", help="Environment variable with the clients' token.")
@click.option("--client-kwargs", metavar="NAMES", default="", help="Environment arguments that clients may give.")
@click.option("--client-options", metavar="NAMES", default="", help="Options of reset that clients may give.")
@click.option("--max-sessions", type=click.IntRange(1), default=256, show_default=True, help="Open sessions.")
@click.option("--max-connections", type=click.IntRange(1), default=1024, show_default=True, help="Open connections.")
@click.option(
    "--max-memory-bytes",
    type=click.IntRange(1),
    help="Of all processes, above which no session is opened. Default: half of the machine's memory.",
)
@click.option(
    "--max-message-bytes", type=click.IntRange(1024), default=1 << 20, show_default=True, help="Of a request."
)
@click.option("--session-seconds", type=click.FloatRange(1), default=86400, show_default=True, help="Age of a session.")
@click.option(
    "--idle-seconds", type=click.FloatRange(1), default=900, show_default=True, help="Idle time of a session."
)
@click.option("--step-seconds", type=click.FloatRange(1), default=120, show_default=True, help="Time of one operation.")
@click.option(
    "--request-seconds",
    type=click.FloatRange(0.1),
    default=20,
    show_default=True,
    help="Time for the head, and then the body, of a request, and until a client takes a part of an answer.",
)
@click.option(
    "--ping-seconds",
    type=click.FloatRange(0.1),
    default=20,
    show_default=True,
    help="Time between pings of a WebSocket, and for their answers.",
)
@click.option("--workers", type=click.IntRange(1), help="Processes per domain. Default: the number of processors.")
def serve(
    protocol: str,
    domains: tuple[str, ...],
    tasks: tuple[str, ...],
    env_ids: tuple[str, ...],
    env_kwargs: str,
    host: str,
    port: int,
    stdio: bool,
    token_file: Path | None,
    token_env: str | None,
    client_kwargs: str,
    client_options: str,
    workers: int | None,
    **limits: Any,
) -> int:
    """Serve environments to clients in other processes.

    \b
    Examples:
      a2perf serve --protocol openenv --domain web_navigation --port 8000
      a2perf serve --protocol openenv --task dog_pace --task ariane_twin
      a2perf serve --protocol mcp --stdio --task difficulty_level_1_num_websites_1

    Without --domain, --task and --env-id, every task is served. SIGTERM and Ctrl-C end all sessions.
    """  # noqa: D301
    from a2perf_serve.settings import ServerSettings, read_token, served_tasks

    settings = ServerSettings(
        protocol,
        served_tasks(domains, tasks, env_ids, _json_object(env_kwargs)),
        host,
        port,
        token=read_token(token_file, token_env),
        client_kwargs=_names(client_kwargs),
        client_options=_names(client_options),
        workers=workers or len(os.sched_getaffinity(0)),
        **limits,
    )
    if stdio:
        if protocol != "mcp":
            raise ConfigError(
                f"--stdio does not fit --protocol {protocol}", hint="give --protocol mcp, or leave it out"
            )
        from a2perf_serve.mcp_tools import run_stdio

        run_stdio(settings)
        return 0
    from a2perf_serve.server import run_server

    run_server(settings, lambda address: click.echo(f"serving at {address}"))
    return 0


def _names(text: str) -> frozenset[str]:
    return frozenset(name.strip() for name in text.split(",") if name.strip())


def _json_object(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"--env-kwargs is not JSON: {error}", hint="for example '{\"seed\": 5}'") from error
    if not isinstance(value, dict):
        raise ConfigError(f"--env-kwargs is {text!r}", hint="give a JSON object, for example '{\"seed\": 5}'")
    return value
