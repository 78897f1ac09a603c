"""Reports whether a process is alive and ready: by HTTP, by a file, and to systemd.

HTTP is for Kubernetes and load balancers, the file for containers without a port, systemd for machines
without containers.
"""

from __future__ import annotations

import logging
import socket
import socketserver
import threading
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from rq_dlq.errors import ConfigurationError
from rq_dlq.telemetry.systemd import Systemd

if TYPE_CHECKING:
    from rq_dlq.doctor.check import Check
    from rq_dlq.doctor.vitals import Vitals

logger = logging.getLogger("rq_dlq.health")
BEAT = 1.0  # the most seconds between two beats


class Answer(NamedTuple):
    """The answer to a GET."""

    status: int
    body: bytes
    content_type: str = "text/plain; charset=utf-8"


Pages: TypeAlias = Mapping[str, Callable[[], Answer]]
"""The handlers of GET requests, by path."""
Address: TypeAlias = tuple[str, int]
"""A host and a port."""


@contextmanager
def announced(
    vitals: Vitals,
    *,
    address: Address | None = None,
    heartbeat_file: Path | None = None,
    pages: Pages | None = None,
) -> Generator[int | None]:
    """Announce the vitals of a process during the block, also to systemd if that started it.

    Args:
        vitals: the vitals of a `Worker` or a `Maintenance`.
        address: where to answer GET /livez and /readyz.
        heartbeat_file: a file to touch every second while the process is alive, removed at the end.
        pages: additional pages.

    Returns:
        The port, if there is an address.

    Raises:
        ConfigurationError: the address is in use, or the file cannot be written.
    """
    own: Pages = {
        "/livez": lambda: answer_of(vitals.live()),
        "/readyz": lambda: answer_of(vitals.ready()),
    }
    heart = _Heart(vitals, heartbeat_file, Systemd())
    with heart.beating():
        if address is None:
            yield None
            return
        with served(address, {**own, **(pages or {})}) as port:
            yield port


def answer_of(checks: Iterable[Check]) -> Answer:
    """One line for each check; 503 if one fails."""
    found = list(checks)
    lines = "".join(f"{check.state:4} {check.name}: {check.found}\n" for check in found)
    return Answer(503 if any(check.state == "fail" for check in found) else 200, lines.encode())


@contextmanager
def served(address: Address, pages: Pages) -> Generator[int]:
    """Answer GET requests in threads; yields the port, which the system chooses for port 0.

    Raises:
        ConfigurationError: the address is in use, or does not belong to this machine.
    """

    class PagesHandler(_HealthHandler):
        answers = pages

    host, port = address
    try:
        server = _server(address, PagesHandler)
    except OSError as error:
        message = f"cannot listen on {host}:{port}: {error.strerror or error}; choose another"
        raise ConfigurationError(message) from None
    with server:
        thread = threading.Thread(target=server.serve_forever, args=(0.1,), name="rq-dlq health", daemon=True)
        thread.start()
        port = server.server_address[1]
        logger.info("http://%s:%d answers %s", host, port, ", ".join(pages))
        try:
            yield port
        finally:
            server.shutdown()


def _server(address: Address, handler: type[_HealthHandler]) -> _HealthServer:
    family, *_ = socket.getaddrinfo(*address, type=socket.SOCK_STREAM)[0]

    class FamilyServer(_HealthServer):
        address_family = family

    return FamilyServer(address, handler)


class _HealthServer(socketserver.ThreadingTCPServer):
    """Not an HTTPServer: that looks up its own name in the DNS."""

    allow_reuse_address = True
    daemon_threads = True
    block_on_close = False

    def handle_error(self, request: object, client_address: object) -> None:
        """Do not report a client that disconnected."""
        del request
        logger.debug("the connection of %s broke", client_address)


class _HealthHandler(BaseHTTPRequestHandler):
    answers: Pages
    timeout = 5.0  # seconds for a request
    server_version = "rq-dlq"
    sys_version = ""

    def do_GET(self) -> None:
        """Answer with a page; a HEAD without its body."""
        page = self.answers.get(self.path.partition("?")[0])
        try:
            answer = page() if page else Answer(404, f"the pages are {', '.join(self.answers)}\n".encode())
        except Exception:
            logger.exception("%s cannot be answered", self.path)
            answer = Answer(500, b"it failed: see the log\n")
        self.send_response(answer.status)
        self.send_header("Content-Type", answer.content_type)
        self.send_header("Content-Length", str(len(answer.body)))
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(answer.body)

    do_HEAD = do_GET  # noqa: N815 - the name in http.server

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name in http.server
        """Log at the level DEBUG only, since probes arrive every few seconds."""
        logger.debug(format, *args)


class _Heart:
    """A thread that beats while the process is alive: it touches a file and notifies systemd."""

    def __init__(self, vitals: Vitals, file: Path | None, systemd: Systemd) -> None:
        self._vitals = vitals
        self._file = file
        self._systemd = systemd
        self._said: dict[str, str] = {}
        self._ended = threading.Event()

    @contextmanager
    def beating(self) -> Generator[None]:
        """Beat during the block, if there is a file or systemd."""
        if self._file is None and not self._systemd.listens:
            yield
            return
        if self._file is not None:
            try:
                self._file.touch()
            except OSError as error:
                message = f"cannot write the heartbeat file {self._file}: {error.strerror or error}"
                raise ConfigurationError(message) from None
        thread = threading.Thread(target=self._beat, name="rq-dlq heartbeat", daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._ended.set()
            thread.join()
            self._systemd.say("STOPPING=1")
            if self._file is not None:
                self._file.unlink(missing_ok=True)

    def _beat(self) -> None:
        pause = min(BEAT, (self._systemd.watchdog or BEAT) / 2)
        began = False
        while not self._ended.wait(pause if began else 0):
            began, alive = True, not _failed(self._vitals.live())
            if alive and self._file is not None:
                self._touch(self._file)
            said = self._state()
            news = [f"{name}={value}" for name, value in said.items() if self._said.get(name) != value]
            if self._systemd.say(*news, *["WATCHDOG=1"] * bool(alive and self._systemd.watchdog)):
                self._said = said

    def _state(self) -> dict[str, str]:
        """The state, as systemd reads it."""
        faults = _failed(self._vitals.ready())
        status = "; ".join(f"{check.name}: {check.found}" for check in faults) or "working"
        said = {"STATUS": " ".join(status.split())}
        if not faults or "READY" in self._said:
            said["READY"] = "1"
        if self._vitals.stage == "stopping":
            said["STOPPING"] = "1"
        return said

    def _touch(self, file: Path) -> None:
        try:
            file.touch()
        except OSError as error:
            logger.warning("cannot write the heartbeat file %s: %s", file, error)


def _failed(checks: Iterable[Check]) -> list[Check]:
    return [check for check in checks if check.state == "fail"]
