"""A hub on this machine: the requests of huggingface_hub for creating a repository and committing to it."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

TOKEN = "hf_token-of-the-test"


@dataclass
class LocalHub:
    """What the hub holds and was asked.

    Attributes:
        address: for ``HF_ENDPOINT``.
        repositories: files by name of the repository, ``"models/me/x"``.
        commits: message of each commit by name of the repository.
        created: body of each request that created a repository.
        requests: method and path of every request.
        answers: status and message that a request gets instead of its work, by a part of its path.
    """

    address: str = ""
    repositories: dict[str, dict[str, bytes]] = field(default_factory=dict)
    commits: list[tuple[str, str]] = field(default_factory=list)
    created: list[dict[str, Any]] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)
    answers: dict[str, tuple[int, str]] = field(default_factory=dict)


@contextmanager
def local_hub() -> Iterator[LocalHub]:
    """Runs a hub on a free port of this machine."""
    hub = LocalHub()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            hub.requests.append(f"POST {self.path}")
            forced = next((answer for part, answer in hub.answers.items() if part in self.path), None)
            if forced is not None:
                return self.answer({"error": forced[1]}, forced[0])
            if self.headers.get("Authorization") != f"Bearer {TOKEN}":
                return self.answer({"error": "Invalid username or password."}, 401)
            return self.answer(*self.work(body))

        def do_GET(self) -> None:
            hub.requests.append(f"GET {self.path}")
            kind, _, name = self.path.removeprefix("/api/").partition("/")
            found = f"{kind}/{name}" in hub.repositories
            self.answer(
                {"id": name, "sha": "0" * 40} if found else {"error": "Repository not found"}, 200 if found else 404
            )

        def work(self, body: bytes) -> tuple[dict[str, Any], int]:
            if self.path == "/api/repos/create":
                given = json.loads(body)
                hub.created.append(given)
                name = "/".join(part for part in (given.get("organization"), given["name"]) if part)
                place = f"{given.get('type', 'model')}s/{name}"
                if place in hub.repositories:
                    return {"error": "You already created this repo", "url": f"{hub.address}/{name}"}, 409
                hub.repositories[place] = {}
                return {"url": f"{hub.address}/{name}", "id": name, "name": name}, 200
            if self.path == "/api/validate-yaml":
                return {"errors": [], "warnings": []}, 200
            place, _, action = self.path.removeprefix("/api/").partition("?")[0].rpartition("/")[0].rpartition("/")
            if place not in hub.repositories:
                return {"error": "Repository not found"}, 404
            if action == "preupload":
                files = [
                    {"path": file["path"], "uploadMode": "regular", "shouldIgnore": False}
                    for file in json.loads(body)["files"]
                ]
                return {"files": files}, 200
            assert action == "commit", self.path
            for line in map(json.loads, body.splitlines()):
                if line["key"] == "file":
                    assert line["value"]["encoding"] == "base64"
                    hub.repositories[place][line["value"]["path"]] = base64.b64decode(line["value"]["content"])
                elif line["key"] == "header":
                    hub.commits.append((place, line["value"]["summary"]))
            name = place.partition("/")[2]
            address = f"{hub.address}/{name}/commit/{'a' * 40}"
            return {"commitUrl": address, "commitOid": "a" * 40}, 200

        def answer(self, content: dict[str, Any], status: int) -> None:
            data = json.dumps(content).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            if status == 404:
                self.send_header("X-Error-Code", "RepoNotFound")
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *values: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    hub.address = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()
        thread.join(300)
