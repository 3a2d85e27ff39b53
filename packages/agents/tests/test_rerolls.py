"""A participant that provokes an error of the model server to get another run with the same seeds."""

from __future__ import annotations

from pathlib import Path

import pytest

from packages.agents.examples.scripted_model import Script, ScriptRule, running_server
from tests.attacks.test_rerolls import experiment

PROVOKE_THE_MODEL_SERVER = """
def spoil(policy):
    import urllib.request
    key = {"Authorization": "Bearer " + os.environ["OPENAI_API_KEY"], "Content-Type": "application/json"}
    asked = {"model": "scripted", "messages": [{"role": "user", "content": "a prompt that the server cannot bear"}]}
    url = os.environ["OPENAI_BASE_URL"] + "/chat/completions"
    urllib.request.urlopen(urllib.request.Request(url, __import__("json").dumps(asked).encode(), key))
"""


@pytest.mark.group("bwrap")
def test_a_participant_that_provokes_an_error_of_the_model_server_is_not_started_again(
    tmp_path: Path, record_property
) -> None:
    made = experiment(tmp_path, "inference", PROVOKE_THE_MODEL_SERVER, "bubblewrap")
    with running_server(Script(rules=[ScriptRule(broken="not_json")])) as server:
        (tmp_path / "model.toml").write_text(f'endpoint = "{server.endpoint}"\nmodels = ["scripted"]\n')
        options = ("--model", str(tmp_path / "model.toml"))
        done = made.run(*options)
        assert done.returncode == 3, done.stderr
        assert done.stderr.count("not retried automatically") == 2
        for found in made.manifests():
            assert (found["state"], found["failure"]["kind"], len(found["attempts"])) == (
                "interrupted",
                "infrastructure",
                1,
            )
        assert made.jobs(*options) == (3, 0)
        assert made.jobs("--retry", "infrastructure", *options) == (3, 2)
    assert made.attic() == []
    record_property(
        "attack", ("reroll: provoke an error of the model server", "bubblewrap", "once, then infrastructure")
    )
