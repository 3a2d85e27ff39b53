"""The HTTP server of a scripted model."""

from __future__ import annotations

import asyncio
import hashlib
import socket
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from packages.agents.examples.scripted_model.script import Responder, Script, ScriptedAnswers, ScriptRule, last_message

_GARBAGE = b"\x00\xff this is not an answer {{{"


class ScriptedModel:
    """The application.

    Args:
        script: what it answers.
        responder: chooses the answers instead of the rules.

    Attributes:
        requests: the requests for answers so far, as parsed JSON.
        headers: the headers of the same requests.
    """

    def __init__(self, script: Script, responder: Responder | None = None) -> None:
        self._script = script
        self._answers = ScriptedAnswers(script, responder)
        self._at_once = 0
        self.requests: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.app = Starlette(
            routes=[
                Route("/v1/models", self._models),
                Route("/v1/chat/completions", self._chat, methods=["POST"]),
                Route("/v1/completions", self._completions, methods=["POST"]),
                Route("/v1/embeddings", self._embeddings, methods=["POST"]),
            ]
        )

    async def _models(self, request: Request) -> Response:
        if (refusal := self._refused(request)) is not None:
            return refusal
        return _json({"object": "list", "data": [{"id": name, "object": "model"} for name in self._script.models]})

    async def _chat(self, request: Request) -> Response:
        return await self._answered(request, chat=True)

    async def _completions(self, request: Request) -> Response:
        return await self._answered(request, chat=False)

    async def _embeddings(self, request: Request) -> Response:
        if (refusal := self._refused(request)) is not None:
            return refusal
        document = await self._document(request)
        given = document.get("input", "")
        texts = given if isinstance(given, list) else [given]
        data = [
            {"object": "embedding", "index": index, "embedding": self._embedding(str(text))}
            for index, text in enumerate(texts)
        ]
        usage = {"prompt_tokens": sum(_tokens(str(text)) for text in texts), "completion_tokens": 0}
        return _json({"object": "list", "model": document.get("model"), "data": data, "usage": usage})

    def _embedding(self, text: str) -> list[float]:
        digest = hashlib.sha256(text.encode()).digest()
        return [digest[index % 32] / 255 for index in range(self._script.dimensions)]

    async def _document(self, request: Request) -> dict[str, Any]:
        document: dict[str, Any] = msgspec.json.decode(await request.body())
        self.requests.append(document)
        self.headers.append(dict(request.headers))
        return document

    def _refused(self, request: Request) -> Response | None:
        if self._script.key and request.headers.get("authorization") != f"Bearer {self._script.key}":
            given = request.headers.get("authorization", "nothing")
            return _error(401, f"Incorrect API key provided: {given}", "invalid_api_key")
        return None

    async def _answered(self, request: Request, *, chat: bool) -> Response:
        if (refusal := self._refused(request)) is not None:
            return refusal
        if self._script.most_at_once is not None and self._at_once >= self._script.most_at_once:
            return _error(429, "too many calls at the same time", "rate_limit_exceeded")
        self._at_once += 1
        try:
            return await self._answer(request, chat=chat)
        finally:
            self._at_once -= 1

    async def _answer(self, request: Request, *, chat: bool) -> Response:
        document = await self._document(request)
        model = document.get("model")
        if model not in self._script.models:
            return _error(404, f"The model `{model}` does not exist", "model_not_found")
        prompt = _prompt_tokens(document)
        if prompt > self._script.context_tokens:
            return _error(
                400,
                f"the prompt has {prompt} tokens; the maximum context length is {self._script.context_tokens} tokens",
                "context_length_exceeded",
            )
        rule = self._answers.answer(document)
        if rule.delay_s:
            await asyncio.sleep(rule.delay_s)
        if rule.status != 200:
            return _error(rule.status, rule.answer, rule.code, rule.retry_after_s)
        if rule.broken == "silence":
            await asyncio.sleep(3600)
        if rule.broken == "not_json":
            return Response(rule.answer or "<html>busy</html>", media_type="text/html")
        if document.get("stream"):
            return StreamingResponse(_stream(document, rule, prompt, chat=chat), media_type="text/event-stream")
        if rule.broken == "garbage":
            return Response(_GARBAGE, media_type="application/json")
        if rule.broken == "cut":
            return StreamingResponse(_cut(), media_type="application/json", headers={"content-length": "1000"})
        return _json(_document(document, rule, prompt, chat=chat))


def _document(document: dict[str, Any], rule: ScriptRule, prompt: int, *, chat: bool) -> dict[str, Any]:
    words = _words(document, rule)
    reason = _reason(rule, document, words)
    choices = []
    for index in range(document.get("n") or 1):
        choice: dict[str, Any] = {"index": index, "finish_reason": reason, "logprobs": None}
        if not chat:
            choice["text"] = "".join(words)
        elif rule.tool:
            choice["message"] = {"role": "assistant", "content": None, "tool_calls": [_tool_call(rule)]}
        else:
            choice["message"] = {"role": "assistant", "content": "".join(words)}
        if document.get("logprobs"):
            choice["logprobs"] = {"content": [_logprob(word) for word in words]}
        choices.append(choice)
    answer = {**_head(document, rule, chat=chat), "choices": choices}
    if rule.usage:
        answer["usage"] = _usage(prompt, len(words) * len(choices))
    return answer


async def _stream(document: dict[str, Any], rule: ScriptRule, prompt: int, *, chat: bool) -> AsyncIterator[bytes]:
    head = _head(document, rule, chat=chat, piece=True)
    words = _words(document, rule)

    def event(delta: dict[str, Any], reason: str | None = None, word: str | None = None) -> bytes:
        choice: dict[str, Any] = {"index": 0, "finish_reason": reason, "logprobs": None}
        choice |= {"delta": delta} if chat else {"text": delta.get("content", "")}
        if document.get("logprobs") and word is not None:
            choice["logprobs"] = {"content": [_logprob(word)]}
        return b"data: " + msgspec.json.encode({**head, "choices": [choice]}) + b"\n\n"

    yield event({"role": "assistant", "content": ""})
    if rule.broken == "garbage":
        yield b"data: " + _GARBAGE + b"\n\n"
        return
    if rule.tool:
        call = _tool_call(rule)
        arguments = call["function"].pop("arguments")
        yield event({"tool_calls": [{"index": 0, **call}]})
        for start in range(0, len(arguments), 8):
            yield event({"tool_calls": [{"index": 0, "function": {"arguments": arguments[start : start + 8]}}]})
    else:
        for word in words:
            yield event({"content": word}, word=word)
    while rule.broken == "endless":
        await asyncio.sleep(0.01)
        yield event({"content": " and"})
    if rule.broken == "cut":
        return
    yield event({}, _reason(rule, document, words))
    options = document.get("stream_options") or {}
    if rule.usage and options.get("include_usage"):
        yield b"data: " + msgspec.json.encode({**head, "choices": [], "usage": _usage(prompt, len(words))}) + b"\n\n"
    yield b"data: [DONE]\n\n"


async def _cut() -> AsyncIterator[bytes]:
    yield b'{"id": "cut'


def _head(document: dict[str, Any], rule: ScriptRule, *, chat: bool, piece: bool = False) -> dict[str, Any]:
    digest = hashlib.sha256(msgspec.json.encode(document, order="sorted") + rule.answer.encode()).hexdigest()
    kind = ("chat.completion.chunk" if piece else "chat.completion") if chat else "text_completion"
    return {"id": f"scripted-{digest[:16]}", "object": kind, "created": 0, "model": document.get("model")}


def _words(document: dict[str, Any], rule: ScriptRule) -> list[str]:
    """Returns the tokens of an answer, at most as many as the request allows."""
    text = rule.arguments if rule.tool else rule.answer
    words = text.replace(" ", "\0 ").split("\0") if text else []
    most = document.get("max_completion_tokens") or document.get("max_tokens")
    return words if rule.tool else words[:most]


def _reason(rule: ScriptRule, document: dict[str, Any], words: list[str]) -> str:
    if rule.tool:
        return "tool_calls"
    return "stop" if "".join(words) == rule.answer else "length"


def _tool_call(rule: ScriptRule) -> dict[str, Any]:
    function = {"name": rule.tool, "arguments": rule.arguments}
    return {"id": "call_0", "type": "function", "function": function}


def _logprob(word: str) -> dict[str, Any]:
    return {"token": word, "logprob": -0.25, "bytes": list(word.encode()), "top_logprobs": []}


def _usage(prompt: int, answer: int) -> dict[str, int]:
    return {"prompt_tokens": prompt, "completion_tokens": answer, "total_tokens": prompt + answer}


def _prompt_tokens(document: dict[str, Any]) -> int:
    messages = document.get("messages")
    if not isinstance(messages, list):
        return _tokens(last_message(document))
    return sum(_tokens(last_message({"messages": [message]})) for message in messages)


def _tokens(text: str) -> int:
    return len(text.split())


def _json(document: object) -> Response:
    return Response(msgspec.json.encode(document), media_type="application/json")


def _error(status: int, message: str, code: str, retry_after_s: float | None = None) -> Response:
    headers = {} if retry_after_s is None else {"retry-after": f"{retry_after_s:g}"}
    error = {"message": message, "type": "scripted_error", "param": None, "code": code or None}
    return Response(msgspec.json.encode({"error": error}), status, headers, "application/json")


@dataclass(frozen=True)
class RunningServer:
    """A scripted model server in a thread of this process.

    Attributes:
        endpoint: its base address, ``"http://127.0.0.1:PORT/v1"`` or ``"https://localhost:PORT/v1"``.
        model: the application, with the requests that it received.
    """

    endpoint: str
    model: ScriptedModel


def server_of(model: ScriptedModel, certificate: Path | None = None) -> uvicorn.Server:
    """Returns the HTTP server of an application, not yet running; see ``running_server``."""
    config = uvicorn.Config(
        model.app, ws="none", lifespan="off", log_level="error", access_log=False,
        ssl_certfile=None if certificate is None else str(certificate),
    )  # fmt: skip
    return uvicorn.Server(config)


def listening_socket(port: int = 0) -> socket.socket:
    """Returns a socket that listens on the loopback.

    Raises:
        OSError: the port is in use.
    """
    # With its protocol number: asyncio sets TCP_NODELAY only then.
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", port))
    listener.listen(128)
    return listener


@contextmanager
def running_server(
    script: Script, responder: Responder | None = None, *, certificate: Path | None = None, port: int = 0
) -> Iterator[RunningServer]:
    """Runs a scripted model server while the context is open.

    Args:
        script: what it answers.
        responder: chooses the answers instead of the rules.
        certificate: PEM file with a key and a certificate of ``localhost``; the server then speaks HTTPS.
        port: its port on the loopback; 0 for any.
    """
    model = ScriptedModel(script, responder)
    server = server_of(model, certificate)
    listener = listening_socket(port)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    try:
        base = "http://127.0.0.1" if certificate is None else "https://localhost"
        yield RunningServer(f"{base}:{listener.getsockname()[1]}/v1", model)
    finally:
        server.should_exit = server.force_exit = True
        thread.join(10)
        listener.close()
