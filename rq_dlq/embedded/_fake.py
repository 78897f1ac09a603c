"""fakeredis on a Unix socket: `python -m rq_dlq.embedded._fake SOCKET`.

A socket file is private to its user; a TCP port is open to every user of the machine.
"""

from __future__ import annotations

import contextlib
import itertools
import signal
import socket
import sys
from pathlib import Path
from typing import Any

from fakeredis import TcpFakeServer
from fakeredis._clients._tcp_server import TCPFakeRequestHandler
from redis.exceptions import ResponseError


class KeepAliveHandler(TCPFakeRequestHandler):
    """Keeps the connection after an error. fakeredis' own handler closes it, even after NOSCRIPT."""

    def setup(self) -> None:
        """Return errors as replies."""
        super().setup()
        read = self.current_client.read_response

        def read_response() -> Any:
            try:
                return read()
            except ResponseError as error:
                return error

        self.current_client.read_response = read_response  # type: ignore[assignment]


class UnixFakeServer(TcpFakeServer):
    """Numbers its clients: fakeredis identifies clients by address, and a Unix socket has none."""

    address_family = socket.AF_UNIX
    _numbers = itertools.count()

    def __init__(self, path: str) -> None:
        super().__init__(path)  # type: ignore[arg-type]
        self.RequestHandlerClass = KeepAliveHandler

    def get_request(self) -> tuple[Any, Any]:
        """Accept a connection and number it."""
        connection, _ = super().get_request()
        return connection, ("unix", next(self._numbers))


def serve(path: str) -> None:
    """Answer until SIGTERM."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # even if the client that started this process ignores it
    with contextlib.suppress(FileNotFoundError):
        Path(path).unlink()
    UnixFakeServer(path).serve_forever()


if __name__ == "__main__":
    serve(sys.argv[1])
