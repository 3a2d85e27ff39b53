"""A model server that answers from a script: for tests, documentation and trial runs without a model.

It speaks the OpenAI interface: chat completions with tools, streams and log-probabilities, completions, embeddings and
the list of models. Equal requests get equal answers. A script can also make it fail: errors, garbage, streams that
never end.
"""

from packages.agents.examples.scripted_model.script import Script, ScriptRule, read_script
from packages.agents.examples.scripted_model.server import RunningServer, running_server

__all__ = ["RunningServer", "Script", "ScriptRule", "read_script", "running_server"]
