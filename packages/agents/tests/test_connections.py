"""Connections to a model server: when they are used again, and how they pass a proxy."""

from __future__ import annotations

import asyncio
import datetime
import ssl
from collections.abc import Awaitable, Callable
from pathlib import Path

import openai
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from a2perf.errors import ConfigError
from a2perf_agents.calls import joined
from a2perf_agents.relay.access import ModelAccess
from a2perf_agents.relay.connections import (
    Connections,
    Lost,
    ServerResponse,
    Unreachable,
    Untrusted,
)
from a2perf_agents.relay.upstream import Upstream
from packages.agents.examples.scripted_model import Script, ScriptRule, running_server
from packages.agents.tests.conftest import KEY, Relays

HEAD = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n"
Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class Server:
    """Answers requests, each with an end that comes late; closes a connection after a number of them."""

    def __init__(self, most: int = 1000) -> None:
        self.most, self.connections = most, 0
        self.heads: list[bytes] = []

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        for _ in range(self.most):
            try:
                self.heads.append(await reader.readuntil(b"\r\n\r\n"))
            except asyncio.IncompleteReadError:
                break
            writer.write(HEAD)
            await asyncio.sleep(0.02)
            writer.write(b"0\r\n\r\n")
        writer.close()


async def port_of(handler: Handler, context: ssl.SSLContext | None = None) -> int:
    server = await asyncio.start_server(handler, "127.0.0.1", 0, ssl=context)
    port: int = server.sockets[0].getsockname()[1]
    return port


async def first_piece(response: ServerResponse) -> bytes:
    async for data in response.pieces():
        return data
    return b""


async def ask(connections: Connections, *, whole: bool = True) -> bytes:
    async with connections.request("GET", "models") as response:
        if whole:
            return await response.read()
        return await first_piece(response)


async def arrivals() -> None:
    """Lets the loop take what the other end sends, in many rounds because each may be late."""
    for _ in range(20):
        await asyncio.sleep(0.01)


def test_a_connection_is_kept_after_documents_and_after_streams_that_were_left_at_their_last_piece() -> None:
    server = Server()

    async def run() -> None:
        connections = Connections(f"http://127.0.0.1:{await port_of(server.handle)}/v1", {"x-key": "1"})
        for whole in (True, True, False):
            assert await ask(connections, whole=whole) == b"hello"
        await arrivals()  # the end of the stream
        assert await ask(connections) == b"hello"
        await connections.close()

    asyncio.run(run())
    assert server.connections == 1
    assert len(server.heads) == 4
    assert server.heads[0].startswith(b"GET /v1/models HTTP/1.1\r\n")


def test_a_connection_that_the_server_closed_is_replaced_and_calls_at_once_get_their_own() -> None:
    server = Server(most=1)

    async def run() -> None:
        connections = Connections(f"http://127.0.0.1:{await port_of(server.handle)}/v1", {})
        for _ in range(3):
            assert await ask(connections) == b"hello"
            await arrivals()  # the end of the connection
        assert await asyncio.gather(*(ask(connections) for _ in range(5))) == [b"hello"] * 5
        await connections.close()

    asyncio.run(run())
    assert server.connections == 8


@pytest.mark.parametrize(
    "answer", [b"", b"\x00\xff not HTTP\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf", b"x" * 100_000]
)
def test_an_answer_that_is_missing_cut_or_not_http_is_lost(answer: bytes) -> None:
    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        writer.close()

    async def run() -> None:
        connections = Connections(f"http://127.0.0.1:{await port_of(handle)}/v1", {})
        with pytest.raises(Lost):
            await ask(connections)

    asyncio.run(run())


def certificate(folder: Path, name: str) -> Path:
    """Writes a key and a certificate that it signed itself; returns the file."""
    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.datetime.now(datetime.UTC)
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    signed = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    folder.mkdir(exist_ok=True)
    path = folder / "server.pem"
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    path.write_bytes(private + signed.public_bytes(serialization.Encoding.PEM))
    return path


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(65536):
        writer.write(data)


def test_a_proxy_of_the_environment_carries_encrypted_calls_and_the_certificate_is_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, server = certificate(tmp_path, "models.example"), Server()
    asked: list[bytes] = []
    theirs = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    theirs.load_cert_chain(path)

    async def run() -> None:
        target = await port_of(server.handle, theirs)

        async def proxy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            asked.append(await reader.readuntil(b"\r\n\r\n"))
            if b"Basic bWU6d29yZA==" not in asked[-1]:  # me:word
                writer.write(b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n")
                return
            writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            there, back = await asyncio.open_connection("127.0.0.1", target)
            await asyncio.gather(_copy(reader, back), _copy(there, writer))

        port = await port_of(proxy)
        monkeypatch.delenv("no_proxy", raising=False)
        monkeypatch.delenv("NO_PROXY", raising=False)
        monkeypatch.setenv("https_proxy", f"http://me:word@127.0.0.1:{port}")
        trusting = ssl.create_default_context(cafile=str(path))
        assert await ask(Connections("https://models.example/v1", {}, trusting)) == b"hello"
        for endpoint, context in (("https://other.example", trusting), ("https://models.example", None)):
            with pytest.raises(Untrusted, match="certificate of the model server is not valid"):
                await ask(Connections(endpoint, {}, context))
        monkeypatch.setenv("https_proxy", f"http://127.0.0.1:{port}")
        with pytest.raises(Unreachable, match="ProxyError"):
            await ask(Connections("https://models.example/v1", {}, trusting))
        monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{port}")
        async with Connections("http://models.example/v1", {}).request("GET", "models") as response:
            assert response.status == 407

    asyncio.run(run())
    assert server.heads[0].lower().startswith(b"get /v1/models http/1.1\r\nhost: models.example\r\n")
    assert asked[0].startswith(b"CONNECT models.example:443 HTTP/1.1\r\n")
    assert asked[-1].startswith(b"GET http://models.example/v1/models HTTP/1.1\r\n")


def test_a_server_with_another_certificate_gets_neither_a_request_nor_the_key(
    relay: Relays, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours, theirs = certificate(tmp_path / "ours", "localhost"), certificate(tmp_path / "theirs", "localhost")
    monkeypatch.setenv("SSL_CERT_FILE", str(ours))
    script = Script(rules=[ScriptRule(answer="fine")], key=KEY)
    with running_server(script, certificate=ours) as server:
        through = relay(server.endpoint, key=KEY)
        assert through.ask("go").choices[0].message.content == "fine"
        assert server.model.headers[0]["authorization"] == f"Bearer {KEY}"
    port = int(server.endpoint.rpartition(":")[2].removesuffix("/v1"))
    with running_server(script, certificate=theirs, port=port) as impostor:
        with pytest.raises(openai.APIStatusError, match="certificate of the model server is not valid") as caught:
            through.ask("go")
        assert (caught.value.status_code, caught.value.code) == (502, "untrusted_server")
        access = ModelAccess(endpoint=impostor.endpoint, key=KEY, models=("scripted",))
        with pytest.raises(ConfigError, match="nothing was sent to it") as refused:
            asyncio.run(_checked(access))
        assert "SSL_CERT_FILE" in str(refused.value)
        assert impostor.model.headers == []
    last = joined(through.entries)[-1]
    assert last.answer is not None
    assert (last.answer.tries, last.charged.tokens) == (1, 0)


async def _checked(access: ModelAccess) -> None:
    await Upstream(access).check()
