"""A network that fails: it stands between clients and a server, and loses what a rule says.

What a client sends at once and the replies to it are an exchange. Each is whole: a reply is dropped after the
server has done the work, and a request is cut off before the server has seen it.

What the server says to a connection that listens to channels is no exchange: the rule is asked of `PUSHED`
instead. A hole goes on there, until the client closes the connection.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import socket
import struct
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Self, TypeAlias

import hiredis

Fault = Literal["drop", "reset", "hole", "delay"]
"""drop: the server does it, and the client is cut off instead of told; reset: the client is cut off before;
hole: the server does it, and nothing comes back; delay: it is told late."""
Commands: TypeAlias = Sequence[Sequence[bytes]]
Rule: TypeAlias = Callable[[Commands], "Fault | bytes | None"]
"""What becomes of an exchange; bytes are what the client is told in the server's place."""

GREETING = {b"HELLO", b"AUTH", b"SELECT", b"CLIENT", b"CLUSTER", b"COMMAND", b"PING", b"READONLY"}
LATE = 0.02  # seconds
AT_ONCE = struct.pack("ii", 1, 0)  # SO_LINGER: to close is a reset
NOT_YET = object()
LISTENS = {b"SUBSCRIBE", b"UNSUBSCRIBE"}
PUSHED: Commands = ((b"MESSAGE",),)


def unharmed(commands: Commands) -> None:
    """A rule: the network is well."""
    del commands


class Chance:
    """A rule: faults at random, by their shares; what clients say to connect is left alone.

    Attributes:
        seen: exchanges, by what became of them.
    """

    def __init__(self, seed: int, shares: Mapping[Fault, float]) -> None:
        self.seen: Counter[str] = Counter()
        self._random = random.Random(seed)
        self._faults = list(shares)
        self._shares = [*shares.values()]

    def __call__(self, commands: Commands) -> Fault | None:
        if commands[0][0].upper() in GREETING:
            return None
        (fault,) = self._random.choices([*self._faults, None], [*self._shares, 1 - sum(self._shares)])
        self.seen[fault or "passed"] += 1
        return fault


class Proxy:
    """Listens on a socket and on a port of 127.0.0.1, in a thread of its own, inside a `with` block.

    Args:
        server: the unix socket of the server.
        directory: where its own socket is.
        port: 0: any that is free.
    """

    def __init__(self, server: str, directory: Path | str, rule: Rule = unharmed, port: int = 0) -> None:
        self.server, self.rule, self.port = server, rule, port
        self.socket = str(Path(directory) / "proxy.sock")
        self.passages: set[Passage] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="proxy", daemon=True)

    @property
    def url(self) -> str:
        """Of the port."""
        return f"redis://127.0.0.1:{self.port}/0"

    def __enter__(self) -> Self:
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._listen(), self._loop).result()
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _listen(self) -> None:
        tcp = await self._loop.create_server(lambda: Passage(self), "127.0.0.1", self.port, backlog=1_000)
        self.port = tcp.sockets[0].getsockname()[1]
        unix = await self._loop.create_unix_server(lambda: Passage(self), self.socket, backlog=1_000)
        self._listening = (tcp, unix)

    async def _end(self) -> None:
        for listening in self._listening:
            listening.close()
        for passage in list(self.passages):
            passage.cut_off()
        await asyncio.sleep(0)


class Passage(asyncio.Protocol):
    """A client's connection, and the one to the server behind it; one exchange at a time goes through."""

    def __init__(self, proxy: Proxy) -> None:
        self._proxy = proxy
        self._client: Any = None
        self._server: Any = None
        self._request = self._reply = b""
        self._awaited = 0  # replies
        self._fate: Fault | None = None
        self._listens = self._deaf = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._client = transport
        self._proxy.passages.add(self)
        self._connecting = asyncio.ensure_future(self._connect())

    async def _connect(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            self._server, _ = await loop.create_unix_connection(lambda: Beyond(self), self._proxy.server)
        except OSError:
            self.cut_off()
        else:
            self._next()

    def data_received(self, data: bytes) -> None:
        self._request += data
        self._next()

    def _next(self) -> None:
        """Begin an exchange, when the request is whole and the one before is over."""
        commands = None if self._awaited or self._server is None else parsed(self._request)
        if not commands:
            return
        request, self._request = self._request, b""
        self._listens = commands[0][0].upper() in LISTENS
        if self._listens:
            self._server.write(request)
            return
        fate = self._proxy.rule(commands)
        if isinstance(fate, bytes):
            self._client.write(fate)
        elif fate == "reset":
            self.cut_off()
        else:
            self._fate, self._awaited = fate, len(commands)
            self._parser = hiredis.Reader(notEnoughData=NOT_YET)
            self._server.write(request)

    def replied(self, data: bytes) -> None:
        """The server said this."""
        if self._listens:
            self._pushed(data)
            return
        self._reply += data
        self._parser.feed(data)
        left = self._awaited - sum(1 for _ in iter(self._parser.gets, NOT_YET))
        if left:
            self._awaited = left
        elif self._fate == "drop":
            self.cut_off()
        elif self._fate == "delay":
            asyncio.get_running_loop().call_later(LATE, self._tell)
        elif self._fate != "hole":  # then it stays so until the client goes
            self._tell()

    def _pushed(self, data: bytes) -> None:
        fate = self._proxy.rule(PUSHED)
        if fate in {"drop", "reset"}:
            self.cut_off()
        elif fate == "hole" or self._deaf:
            self._deaf = True
        else:
            self._client.write(data)

    def _tell(self) -> None:
        reply, self._reply, self._awaited = self._reply, b"", 0
        self._client.write(reply)
        self._next()

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        self.cut_off()

    def cut_off(self) -> None:
        """Close both connections at once."""
        self._proxy.passages.discard(self)
        for transport in (self._client, self._server):
            if transport is not None:
                with contextlib.suppress(OSError):
                    transport.get_extra_info("socket").setsockopt(
                        socket.SOL_SOCKET, socket.SO_LINGER, AT_ONCE
                    )
                transport.abort()


class Beyond(asyncio.Protocol):
    """The connection to the server."""

    def __init__(self, passage: Passage) -> None:
        self._passage = passage

    def data_received(self, data: bytes) -> None:
        self._passage.replied(data)

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        self._passage.cut_off()


def parsed(request: bytes) -> list[list[bytes]] | None:
    """The commands of a request, lists of strings in Redis' protocol; None: the last is in pieces."""
    commands: list[list[bytes]] = []
    at, left = 0, 0
    while at < len(request) or left:
        end = request.find(b"\r\n", at)
        if end < 0:
            return None
        number = int(request[at + 1 : end])
        at = end + 2
        if not left:
            commands.append([])
            left = number
            continue
        commands[-1].append(request[at : at + number])
        at += number + 2
        left -= 1
    return commands if at <= len(request) else None
