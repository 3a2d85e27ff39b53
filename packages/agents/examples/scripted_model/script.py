"""Scripts of the scripted model server: rules from the last message of a request to an answer."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from a2perf.errors import ConfigError

FAILURES = ("garbage", "endless", "cut", "silence", "not_json")
"""Ways in which an answer can be broken; see ``ScriptRule.broken``."""


class ScriptRule(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    r"""Answers requests with a last message that matches.

    Attributes:
        when: regular expression that is searched in the last message; empty matches every message.
        answer: text of the answer; ``\1`` stands for the first group of ``when``.
        tool: name of a tool to call instead of answering with text.
        arguments: JSON text of its arguments; groups as in ``answer``.
        times: how often the rule applies; None for always. Then the next matching rule applies.
        status: HTTP status; other than 200 is an error with ``answer`` as its message.
        code: code of the error.
        retry_after_s: value of the header Retry-After of an error.
        delay_s: pause before the answer, in seconds.
        usage: whether the answer reports its tokens.
        broken: ``"garbage"`` (not the format), ``"endless"`` (a stream without an end), ``"cut"`` (the connection ends
            within the answer), ``"silence"`` (no answer), ``"not_json"`` (text in place of a document), or empty.
    """

    when: str = ""
    answer: str = ""
    tool: str = ""
    arguments: str = "{}"
    times: int | None = None
    status: int = 200
    code: str = ""
    retry_after_s: float | None = None
    delay_s: float = 0.0
    usage: bool = True
    broken: str = ""


class Script(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """What a scripted model server answers.

    Attributes:
        rules: the first one that matches and is not used up answers.
        models: names of its models.
        key: key that requests have to carry; empty accepts any.
        context_tokens: size of the context; a longer prompt is an error.
        dimensions: length of embeddings.
        most_at_once: calls that are answered at the same time; further ones get HTTP 429. None for no bound.
    """

    rules: list[ScriptRule] = msgspec.field(default_factory=list)
    models: list[str] = msgspec.field(default_factory=lambda: ["scripted"])
    key: str = ""
    context_tokens: int = 32_768
    dimensions: int = 8
    most_at_once: int | None = None


def read_script(path: Path) -> Script:
    """Reads a script in JSON.

    Raises:
        ConfigError: it cannot be read, or is not a script.
    """
    try:
        script = msgspec.json.decode(path.read_bytes(), type=Script)
    except OSError as error:
        raise ConfigError(f"the script {path} cannot be read: {error.strerror}", hint="give a JSON file") from error
    except msgspec.DecodeError as error:
        raise ConfigError(
            f"{path} is not a script: {error}", hint='write {"rules": [{"when": "REGEX", "answer": "TEXT"}]}'
        ) from error
    for number, rule in enumerate(script.rules, 1):
        if rule.broken and rule.broken not in FAILURES:
            raise ConfigError(
                f"{path}: rule {number} has broken = {rule.broken!r}", hint=f"use one of {', '.join(FAILURES)}"
            )
        try:
            re.compile(rule.when)
        except re.error as error:
            raise ConfigError(f"{path}: `when` of rule {number} is not a regular expression: {error}") from error
    return script


Responder = Callable[[dict[str, Any]], ScriptRule]
"""Returns the answer to a request; an alternative to rules, from Python."""


class ScriptedAnswers:
    """Chooses answers.

    Args:
        script: the rules.
        responder: chooses instead of the rules.
    """

    def __init__(self, script: Script, responder: Responder | None = None) -> None:
        self.script = script
        self._responder = responder
        self._used = [0] * len(script.rules)

    def answer(self, document: dict[str, Any]) -> ScriptRule:
        """Returns the rule for a request, with the groups of the match filled in."""
        if self._responder is not None:
            return self._responder(document)
        text = last_message(document)
        for index, rule in enumerate(self.script.rules):
            found = re.search(rule.when, text)
            if found is None or (rule.times is not None and self._used[index] >= rule.times):
                continue
            self._used[index] += 1
            return msgspec.structs.replace(
                rule, answer=_filled(found, rule.answer), arguments=_filled(found, rule.arguments)
            )
        return ScriptRule(answer=f"no rule matches {text[:80]!r}")


def _filled(found: re.Match[str], text: str) -> str:
    return re.sub(r"\\(\d)", lambda group: found[int(group[1])] or "", text)


def last_message(document: dict[str, Any]) -> str:
    """Returns the text of the last message of a request, or its prompt."""
    messages = document.get("messages")
    if isinstance(messages, list) and messages and isinstance(messages[-1], dict):
        content = messages[-1].get("content")
        if isinstance(content, list):
            return " ".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
        return str(content or "")
    return str(document.get("prompt", document.get("input", "")))
