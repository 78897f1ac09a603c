"""A payment service on 127.0.0.1 that can be made to fail, and its book."""

import threading
import time
from collections import Counter
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, cast

TAKES = 0.03  # seconds that a payment takes


@dataclass
class Book:
    """All payments made. The book knows nothing about the queue.

    Attributes:
        lines: the id and the dollars of each payment.
        asked_again: requests for payments that were already in the book.
        refused: requests while the service was down.
    """

    lines: list[tuple[str, int]] = field(default_factory=list[tuple[str, int]])
    asked_again: int = 0
    refused: int = 0

    @property
    def twice(self) -> int:
        """The number of duplicate payments."""
        return len(self.lines) - len({payment for payment, _ in self.lines})

    @property
    def dollars(self) -> int:
        """The sum of all payments."""
        return sum(dollars for _, dollars in self.lines)


class Payments:
    """The service: PUT /payments/ID with the dollars as the body.

    Args:
        on_paid: called with the id and the payer's pid when the payment is made and not yet answered.

    Attributes:
        paid_by: the number of payments by the payer's pid.
    """

    def __init__(self, on_paid: Callable[[str, int], None]) -> None:
        self.book = Book()
        self.down = False
        self.paid_by: Counter[int] = Counter()
        self._on_paid = on_paid
        self._known: set[str] = set()
        self._lock = threading.Lock()
        self._server = _Server(("127.0.0.1", 0), _Handler)
        self._server.payments = self

    @property
    def address(self) -> str:
        """Host and port."""
        return f"127.0.0.1:{self._server.server_address[1]}"

    def pay(self, payment: str, dollars: int, payer: int) -> HTTPStatus:
        """Make a payment, unless it was made before."""
        time.sleep(TAKES)
        with self._lock:
            if self.down:
                self.book.refused += 1
                return HTTPStatus.SERVICE_UNAVAILABLE
            if payment in self._known:
                self.book.asked_again += 1
                return HTTPStatus.OK
            self._known.add(payment)
            self.book.lines.append((payment, dollars))
            self.paid_by[payer] += 1
        self._on_paid(payment, payer)
        return HTTPStatus.CREATED

    @contextmanager
    def open(self) -> Generator[None]:
        """Serve, and stop on leaving."""
        with self._server:
            threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
            try:
                yield
            finally:
                self._server.shutdown()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 128
    payments: Payments

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore a closed connection: the killed worker closes its own."""


class _Handler(BaseHTTPRequestHandler):
    def do_PUT(self) -> None:
        payer = self.headers["User-Agent"].rpartition("/")[2]
        dollars = self.rfile.read(int(self.headers["Content-Length"]))
        payments = cast("_Server", self.server).payments
        status = payments.pay(self.path.rpartition("/")[2], int(dollars), int(payer))
        self.send_response(status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - http.server's name
        """Log nothing."""
