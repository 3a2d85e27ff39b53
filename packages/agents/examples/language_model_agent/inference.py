"""An agent for websites that asks a language model for each action.

It talks to the model at ``OPENAI_BASE_URL`` with the standard library; the package ``openai`` reads the same variables.
Each step is one question: the grammar of actions, the instruction, the page. Nothing is remembered between steps.
"""

from __future__ import annotations

import http.client
import json
import os
import urllib.parse

RULES = """You fill in forms on websites. You get an instruction and the current page, one element per line with its
number. Answer with one action, and nothing else:
fill NUMBER "TEXT"      into a textbox
select NUMBER "OPTION"  in a select
check NUMBER            or uncheck NUMBER, a checkbox
click NUMBER            a radio button, a button or a link
An element marked `visited` is done. When every value of the instruction is on the page, click the button marked
`primary`."""


class Model:
    """A chat model behind the evaluator's relay; keeps one connection.

    Args:
        name: of the model.
        most: tokens of an answer.
    """

    def __init__(self, name: str, most: int = 64) -> None:
        self.name, self.most = name, most
        address = urllib.parse.urlsplit(os.environ["OPENAI_BASE_URL"])
        self._path = f"{address.path}/chat/completions"
        self._headers = {
            "Authorization": f"Bearer {os.environ.get('OPENAI_API_KEY', '')}",
            "Content-Type": "application/json",
        }
        self._connection = http.client.HTTPConnection(address.hostname or "127.0.0.1", address.port)

    def answer(self, messages: list[dict[str, str]]) -> str:
        """Returns the model's answer to a conversation.

        Raises:
            RuntimeError: the relay or the model refuses, for example because a budget is used up.
        """
        request = {"model": self.name, "messages": messages, "max_tokens": self.most, "temperature": 0}
        self._connection.request("POST", self._path, json.dumps(request), self._headers)
        response = self._connection.getresponse()
        text = response.read().decode()
        if response.status != 200:
            raise RuntimeError(f"the model answered with status {response.status}: {text[:500]}")
        return json.loads(text)["choices"][0]["message"]["content"] or ""


def load_policy(env, model="", **load_kwargs):
    """Returns the model; its name comes from ``--participant-args model=...`` or from the evaluator."""
    return Model(model or os.environ["A2PERF_MODEL"])


def preprocess_observation(observation):
    """Returns instruction and page as one text."""
    return f"{observation['instruction']}\n{observation['page']}"


def infer_once(policy, observation):
    """Returns the action: the first line of the model's answer."""
    messages = [{"role": "system", "content": RULES}, {"role": "user", "content": observation}]
    lines = policy.answer(messages).strip().splitlines()
    return lines[0] if lines else "nothing"
