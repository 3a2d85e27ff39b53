"""Serves a scripted model: ``python -m packages.agents.examples.scripted_model SCRIPT.json --port 8131``."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from a2perf.errors import UserError
from packages.agents.examples.scripted_model.script import read_script
from packages.agents.examples.scripted_model.server import ScriptedModel, listening_socket, server_of

parser = argparse.ArgumentParser(description="Serves a model that answers from a script, until it is interrupted.")
parser.add_argument("script", type=Path, metavar="SCRIPT", help="rules in JSON")
parser.add_argument("--port", type=int, default=8000, help="port on the loopback; 0 for any")
given = parser.parse_args()
try:
    model = ScriptedModel(read_script(given.script))
    listener = listening_socket(given.port)
except (UserError, OSError) as error:
    sys.exit(f"scripted model: {error}")
print(f"http://127.0.0.1:{listener.getsockname()[1]}/v1", flush=True)
server_of(model).run(sockets=[listener])
