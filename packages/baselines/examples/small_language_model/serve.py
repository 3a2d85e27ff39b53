"""Serves the model with the OpenAI interface, on this machine only: ``python serve.py --port 8080``.

Chat completions, also as a stream, and the list of models. A token is a byte, and ``usage`` counts tokens.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import hashlib
import socket
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import msgspec
import uvicorn
from network import WEIGHTS, Network
from prompt import decoded, prompt_of
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from a2perf.errors import ConfigError

NAME = "small"


def application(network: Network) -> Starlette:
    """Returns the application that serves a network."""
    lock = threading.Lock()  # NumPy's threads would otherwise compete

    def answered(prompt: list[int], most: int) -> tuple[str, int]:
        with lock:
            written = network.answer(prompt, most)
        return decoded(written), len(written)

    async def models(_: Request) -> Response:
        return _json({"object": "list", "data": [{"id": NAME, "object": "model"}]})

    async def chat(request: Request) -> Response:
        try:
            document: dict[str, Any] = msgspec.json.decode(await request.body(), type=dict[str, Any])
            most = int(document.get("max_completion_tokens") or document.get("max_tokens") or 128)
            prompt = prompt_of(document.get("messages") or [])
            if document.get("model") != NAME:
                return _error(404, f"the model is {NAME!r}, not {document.get('model')!r}", "model_not_found")
            if len(prompt) + most > network.shape.context:
                text = f"{len(prompt)} tokens and {most} for the answer; the context has {network.shape.context}"
                return _error(400, text, "context_length_exceeded")
            text, count = await run_in_threadpool(answered, prompt, most)
        except (msgspec.DecodeError, ConfigError, TypeError, ValueError, AttributeError) as error:
            return _error(400, str(error), "invalid_request")
        usage = {"prompt_tokens": len(prompt), "completion_tokens": count, "total_tokens": len(prompt) + count}
        digest = hashlib.sha256(bytes(prompt)).hexdigest()[:16]
        head = {"id": f"chatcmpl-{digest}", "created": 0, "model": NAME}
        reason = "length" if count == most else "stop"
        if document.get("stream"):
            shown = (document.get("stream_options") or {}).get("include_usage")
            return StreamingResponse(
                _events(head, text, reason, usage if shown else None), media_type="text/event-stream"
            )
        choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": reason}
        return _json({**head, "object": "chat.completion", "choices": [choice], "usage": usage})

    routes = [Route("/v1/models", models), Route("/v1/chat/completions", chat, methods=["POST"])]
    return Starlette(routes=routes)


async def _events(head: dict[str, Any], text: str, reason: str, usage: dict[str, int] | None) -> AsyncIterator[bytes]:
    head = {**head, "object": "chat.completion.chunk"}
    parts = [({"role": "assistant", "content": ""}, None), *(({"content": mark}, None) for mark in text), ({}, reason)]
    for delta, ended in parts:
        choice = {"index": 0, "delta": delta, "finish_reason": ended}
        yield b"data: " + msgspec.json.encode({**head, "choices": [choice]}) + b"\n\n"
    if usage is not None:
        yield b"data: " + msgspec.json.encode({**head, "choices": [], "usage": usage}) + b"\n\n"
    yield b"data: [DONE]\n\n"


def _json(document: object) -> Response:
    return Response(msgspec.json.encode(document), media_type="application/json")


def _error(status: int, message: str, code: str) -> Response:
    document = {"error": {"message": message, "type": "invalid_request_error", "code": code}}
    return Response(msgspec.json.encode(document), status, media_type="application/json")


@contextlib.contextmanager
def running(network: Network, port: int = 0) -> Iterator[str]:
    """Serves a network in a thread; yields the address for ``--model-endpoint``."""
    listener = socket.create_server(("127.0.0.1", port))
    server = uvicorn.Server(uvicorn.Config(application(network), log_level="warning", lifespan="off", ws="none"))
    thread = threading.Thread(target=functools.partial(server.run, sockets=[listener]), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/v1"
    finally:
        server.should_exit = True
        thread.join(10)
        listener.close()


def main() -> None:
    """Serves until it is interrupted."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--port", type=int, default=8080, help="0 takes a free one")
    parser.add_argument("--weights", type=Path, default=WEIGHTS)
    given = parser.parse_args()
    with running(Network.load(given.weights), given.port) as endpoint, contextlib.suppress(KeyboardInterrupt):
        print(f"{NAME} at {endpoint}", flush=True)
        threading.Event().wait()


if __name__ == "__main__":
    main()
